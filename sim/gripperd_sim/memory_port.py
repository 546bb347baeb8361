"""A port without a pty, for tests in virtual time: what a master would read after a request, and when.

Pure; the clock is given. Bytes take no time on the wire; adapter bursts, hang-ups and replugging are as on a real port.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gripperd_sim.faults import Outgoing
from gripperd_sim.pacing import next_tick_s


class MemoryPortError(Exception):
    """The port is in the other state already."""


class Hearing(Protocol):
    """What is needed of a line."""

    def receive(self, frame: bytes, now_s: float) -> list[Outgoing]:
        """What comes back."""

    def hang_up(self) -> None:
        """The port is gone."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Bytes that a master can read from at_s on."""

    at_s: float
    data: bytes


class MemoryPort:
    """One line at a port. It is plugged in at first; what is under way when it is unplugged is the caller's to drop."""

    def __init__(self, line: Hearing, clock: Callable[[], float]) -> None:
        self._line = line
        self._clock = clock
        self._plugged = True
        self._back_s: float | None = None
        self._number = 0
        self._burst_s = 0.0
        self._ticks_from_s = 0.0
        self.on_change: Callable[[str, str], None] | None = None

    @property
    def name(self) -> str:
        """Another one after every plug."""
        return f"memory{self._number}"

    @property
    def plugged(self) -> bool:
        """Whether it is plugged in now."""
        self._come_back()
        return self._plugged

    @property
    def burst_s(self) -> float:
        """Time between the ticks at which it hands over bytes; 0: at once."""
        return self._burst_s

    def set_bursts(self, burst_s: float) -> None:
        """Hand bytes over at ticks only, or at once again (0)."""
        self._burst_s, self._ticks_from_s = burst_s, self._clock()

    def plug(self) -> None:
        """Plug in."""
        if self.plugged:
            raise MemoryPortError(f"{self.name} is plugged in already; unplug it first")
        self._plugged, self._back_s = True, None
        self._number += 1
        self._tell("plugged")

    def unplug(self) -> None:
        """Unplug."""
        if not self.plugged:
            raise MemoryPortError(f"{self.name} is unplugged already; plug it in first")
        self._plugged = False
        self._line.hang_up()
        self._tell("unplugged")

    def replug(self, off_s: float) -> None:
        """Unplug now; it is plugged in again when off_s is over."""
        self.unplug()
        self._back_s = self._clock() + off_s

    def exchange(self, frame: bytes) -> list[Arrival]:
        """Send a request now. Nothing comes back while it is unplugged."""
        if not self.plugged:
            return []
        now_s, name = self._clock(), self.name
        sent = self._line.receive(frame, now_s)
        if not self._is_still(name):
            return []
        return sorted((self._arrival(now_s + out.delay_s, out.data) for out in sent), key=lambda arrival: arrival.at_s)

    def _is_still(self, name: str) -> bool:
        """Whether it was plugged in all the time: a scenario may take it away when a request is heard."""
        return self.plugged and self.name == name

    def _arrival(self, at_s: float, data: bytes) -> Arrival:
        return Arrival(next_tick_s(at_s, self._burst_s, self._ticks_from_s) if self._burst_s else at_s, data)

    def _come_back(self) -> None:
        if self._back_s is not None and self._clock() >= self._back_s:
            self._back_s = None
            self.plug()

    def _tell(self, change: str) -> None:
        if self.on_change is not None:
            self.on_change(change, self.name)
