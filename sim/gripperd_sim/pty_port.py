"""A simulated line on a pseudo terminal: the client opens the symlink as it would a serial adapter.

Owns the pty, the symlink and the timing of bytes on the wire; it knows frames only as the framer cuts them, and
devices only through the line. asyncio; runs in one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import termios
import time
import tty
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from gripperd_sim.faults import Outgoing
from gripperd_sim.pacing import character_s, delivery_schedule, frame_gap_s, next_tick_s
from gripperd_sim.rtu import Framer
from gripperd_sim.timeline import Timeline

READ_BYTES = 4096

_SPEED_NAMES = (4_800, 9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600, 1_000_000)
_BAUDRATES = {getattr(termios, f"B{rate}"): rate for rate in _SPEED_NAMES}


class PortError(Exception):
    """The port cannot be offered like this; the text says why and what to do."""


class Wire(Protocol):
    """What a port needs of a line."""

    @property
    def baudrate(self) -> int:
        """What it is paced at."""

    @property
    def min_frame_gap_s(self) -> float:
        """Silence that ends a request, at least."""

    def receive(self, frame: bytes, now_s: float, host_baudrate: int | None = None) -> list[Outgoing]:
        """What comes back."""

    def hang_up(self) -> None:
        """The port is gone."""


class PtyPort:
    """One line on one pty. paced: bytes take their time on the wire; check_baudrate: the client's rate must fit."""

    def __init__(self, wire: Wire, link: Path, *, paced: bool = True, check_baudrate: bool = False) -> None:
        self._wire = wire
        self.link = link
        self._paced = paced
        self._check_baudrate = check_baudrate
        self._loop = asyncio.get_running_loop()
        self._timeline = Timeline()
        self._framer = Framer()
        self._master: int | None = None
        self._slave: int | None = None
        self.name = ""
        self.on_change: Callable[[str, str], None] | None = None
        """Called with what happened (plugged, unplugged) and the name of the pty."""
        self._heard_until_s = 0.0
        self._sent_until_s = 0.0
        self._burst_s = 0.0
        self._ticks_from_s = 0.0
        self._held = b""

    @property
    def plugged(self) -> bool:
        """Whether there is a pty now."""
        return self._master is not None

    @property
    def heard_bytes(self) -> int:
        """Bytes the client has sent since it was plugged in."""
        return self._framer.heard_bytes

    @property
    def burst_s(self) -> float:
        """Time between the ticks at which the adapter hands over what it received; 0: at once."""
        return self._burst_s

    def set_bursts(self, burst_s: float) -> None:
        """Hand bytes over at ticks only, as the latency timer of an adapter does, or at once again (0)."""
        self._hand_over(0.0)
        self._burst_s, self._ticks_from_s = burst_s, time.monotonic()

    # --- plug, unplug

    def plug(self) -> None:
        """Make a pty with a name other than the last one and point the symlink at it."""
        if self.plugged:
            raise PortError(f"{self.link} is plugged in already, as {self.name}; unplug it first")
        if os.path.lexists(self.link) and not self.link.is_symlink():
            raise PortError(f"{self.link} exists and is not a symlink: remove it, or give another --link")
        self._master, self._slave, self.name = _open_pty(other_than=self.name)
        os.set_blocking(self._master, False)
        try:
            _point(self.link, self.name)
        except OSError as error:
            self._close_pty()
            raise PortError(f"cannot make the symlink {self.link}: {error.strerror}; give a writable --link") from error
        self._framer = Framer()
        self._sent_until_s = 0.0
        # Nothing but a replug that is to come can be waiting here, and this one forestalls it.
        self._timeline.clear()
        self._loop.add_reader(self._master, self._on_readable, self._master)
        self._tell("plugged")

    def unplug(self) -> None:
        """Take the pty away: the client sees a hang-up. What was under way on the wire is lost."""
        if self._master is None:
            raise PortError(f"{self.link} is unplugged already; plug it in first")
        self._loop.remove_reader(self._master)
        self._timeline.clear()
        self._close_pty()
        with contextlib.suppress(OSError):
            if str(self.link.readlink()) == self.name:
                self.link.unlink()
        self._held = b""
        self._wire.hang_up()
        self._tell("unplugged")

    def replug(self, off_s: float) -> None:
        """Unplug now and plug in again off_s later."""
        self.unplug()
        self._timeline.at(time.monotonic() + off_s, lambda _due_s: self.plug())

    def close(self) -> None:
        """Unplug and give everything back."""
        if self.plugged:
            self.unplug()
        self._timeline.close()

    def _close_pty(self) -> None:
        # The slave is kept open beside the client's, so that the pty outlives a client that closes and comes back;
        # closing the master hangs up both.
        for fd in (self._master, self._slave):
            if fd is not None:
                os.close(fd)
        self._master = self._slave = None

    def _tell(self, change: str) -> None:
        if self.on_change is not None:
            self.on_change(change, self.name)

    # --- bytes

    def _on_readable(self, master: int) -> None:
        try:
            data = os.read(master, READ_BYTES)
        except OSError:
            return
        self._forget_exclusive_use()
        now_s = time.monotonic()
        one_s = self._character_s()
        begin_s = max(now_s, self._heard_until_s)
        self._heard_until_s = begin_s + len(data) * one_s
        name = self.name
        for framed in self._framer.feed(data, now_s):
            if not self._is_still(name):
                return
            if self._paced:
                heard_s = begin_s + framed.end * one_s + frame_gap_s(one_s, self._wire.min_frame_gap_s)
                self._timeline.at(heard_s, partial(self._handle, framed.data))
            else:
                self._handle(framed.data, now_s)

    def _forget_exclusive_use(self) -> None:
        """A real port forgets its client's TIOCEXCL with the last close. This one is never closed by all, and a client
        that was killed would shut its successor out, so the mark is taken off while the client lives.
        """
        if self._slave is not None:
            fcntl.ioctl(self._slave, termios.TIOCNXCL)

    def _character_s(self) -> float:
        return character_s(self._wire.baudrate) if self._paced else 0.0

    def _handle(self, frame: bytes, due_s: float) -> None:
        host = self._host_baudrate() if self._check_baudrate else None
        name = self.name
        # The devices see the time as it is, not as planned: a reply must never be older than it claims.
        sent = self._wire.receive(frame, time.monotonic(), host)
        if self._is_still(name):
            for out in sent:
                self._timeline.at(due_s + out.delay_s, partial(self._transmit, out))

    def _is_still(self, name: str) -> bool:
        """Whether this pty is in use yet: a scenario may take it away when a request is heard."""
        return self.plugged and self.name == name

    def _transmit(self, out: Outgoing, start_s: float) -> None:
        if out.on_wire:
            self._deliver(out.data, start_s)
            return
        begin_s = max(start_s, self._sent_until_s + out.silence_s)
        schedule = delivery_schedule(begin_s, out.data, self._character_s())
        self._sent_until_s = schedule[-1][0]
        for due_s, chunk in [(self._sent_until_s, out.data)] if out.together else schedule:
            self._timeline.at(due_s, partial(self._deliver, chunk))

    def _deliver(self, chunk: bytes, due_s: float) -> None:
        if self._burst_s and not self._held:
            self._timeline.at(next_tick_s(due_s, self._burst_s, self._ticks_from_s), self._hand_over)
        self._held += chunk
        if not self._burst_s:
            self._hand_over(due_s)

    def _hand_over(self, _due_s: float) -> None:
        # A full buffer means that nobody reads: a UART drops bytes then, and so does this.
        chunk, self._held = self._held, b""
        if self._master is not None and chunk:
            with contextlib.suppress(BlockingIOError):
                os.write(self._master, chunk)

    def _host_baudrate(self) -> int | None:
        if self._slave is None:
            return None
        speed = termios.tcgetattr(self._slave)[5]
        return _BAUDRATES.get(speed, -1)


def _open_pty(other_than: str) -> tuple[int, int, str]:
    """A raw pty: master, slave, name. The kernel gives the lowest free number: go on until the name is a new one."""
    unwanted: list[int] = []
    try:
        while True:
            master, slave = os.openpty()
            name = os.ttyname(slave)
            if name != other_than:
                tty.setraw(slave)
                return master, slave, name
            unwanted += (master, slave)
    finally:
        for fd in unwanted:
            os.close(fd)


def _point(link: Path, name: str) -> None:
    """Make or replace the symlink in one step."""
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    fresh.replace(link)
