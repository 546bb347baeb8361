"""The limit: one asyncio loop, one descriptor, nothing above it. What any asyncio client could reach.

It answers no question of truth: no late reply is told apart, nothing is resynchronised. With a gap it waits for it by
a timer descriptor and spins the last microseconds; what to send is chosen after the gap.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import termios
import time
import tty
from collections.abc import Callable

from bench.clients.meter import Meter, Task
from bench.rtu import is_whole, read_request, reply_bytes
from bench.timer import Timer, spin_until

SPIN_S = 60e-6
"""Spun before the end of the gap [s]: what a wake-up by a timer descriptor takes at the median."""


class BareLine:
    """One transaction after the other. next_frame: called after the gap; None: nothing to send until `kick`.

    done: the reply, or None after timeout_s [s] or for a wrong CRC. gap_s: silence before each request [s]; None: none.
    """

    def __init__(
        self,
        port: str,
        gap_s: float | None,
        timeout_s: float,
        next_frame: Callable[[], bytes | None],
        done: Callable[[bytes | None], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = open_port(port)
        self._gap_s, self._timeout_s = gap_s, timeout_s
        self._next_frame, self._done = next_frame, done
        self._timer = Timer()
        self._buffer = b""
        self._expected = 0
        self._quiet_from_s = time.monotonic()
        self._idle = True
        self._loop.add_reader(self._fd, self._read)
        self._loop.add_reader(self._timer.descriptor, self._expired)

    def kick(self) -> None:
        """There may be something to send."""
        if self._idle:
            self._idle = False
            self._prepare()

    def close(self) -> None:
        """Give the descriptors back."""
        self._loop.remove_reader(self._fd)
        self._loop.remove_reader(self._timer.descriptor)
        self._timer.close()
        os.close(self._fd)

    def _prepare(self) -> None:
        """Have the next request sent after the gap."""
        self._expected = 0
        if self._gap_s is None:
            self._loop.call_soon(self._send)  # not at once: other descriptors of the loop get their turn first
        else:
            self._timer.at(self._quiet_from_s + self._gap_s - SPIN_S)

    def _expired(self) -> None:
        self._timer.clear()
        if self._expected:
            self._finish(None)
        else:
            self._loop.call_soon(self._send)  # what the loop has to read is read first, so that a stop is chosen

    def _send(self) -> None:
        if self._gap_s is not None:
            spin_until(self._quiet_from_s + self._gap_s)
        frame = self._next_frame()
        if frame is None:
            self._idle = True
            return
        self._buffer = b""
        self._expected = reply_bytes(frame)
        os.write(self._fd, frame)
        self._timer.at(time.monotonic() + self._timeout_s)

    def _read(self) -> None:
        self._buffer += os.read(self._fd, 4096)
        if self._expected and len(self._buffer) >= self._expected:
            frame = self._buffer[: self._expected]
            self._finish(frame if is_whole(frame) else None)

    def _finish(self, reply: bytes | None) -> None:
        self._quiet_from_s = time.monotonic()
        self._done(reply)
        self._prepare()


def open_port(port: str) -> int:
    """Raw, non-blocking, for one process only."""
    descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    tty.setraw(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    termios.tcflush(descriptor, termios.TCIOFLUSH)
    return descriptor


async def _run(task: Task, meter: Meter, gap_s: float | None) -> None:
    over = asyncio.get_running_loop().create_future()
    request = read_request()

    def done(reply: bytes | None) -> None:
        if not meter.count(reply is not None) and not over.done():
            over.set_result(None)

    line = BareLine(task.port, gap_s, task.timeout_s, lambda: None if over.done() else request, done)
    line.kick()
    await over
    line.close()


def with_gap(task: Task, meter: Meter) -> None:
    """The reference."""
    asyncio.run(_run(task, meter, 3.5 * task.character_s))


def without_gap(task: Task, meter: Meter) -> None:
    """Sends as soon as it has read."""
    asyncio.run(_run(task, meter, None))
