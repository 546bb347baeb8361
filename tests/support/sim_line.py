"""A line in memory: simulated units behind it, byte times and turnaround in virtual time, faults by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gripperd.modbus.line import PortError

CHARACTER_S = 10 / 115_200
TURNAROUND_S = 0.001


class Unit(Protocol):
    """A simulated device."""

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        """The reply to a request, or silence."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request that reached the line. t_s: when its first byte did."""

    t_s: float
    frame: bytes


Fault = Callable[[bytes, bytes | None], list[tuple[float, bytes]]]
"""(request, reply) -> what is delivered instead: (extra delay [s], bytes)."""


@dataclass(eq=False, slots=True)
class SimLine:
    """gripperd.modbus.line.Line over simulated units. plugged: whether the port can be opened."""

    units: Mapping[int, Unit]
    plugged: bool = True
    fault: Fault | None = None
    seen: list[Seen] = field(default_factory=list)
    delivered_s: list[float] = field(default_factory=list)
    opened: int = 0
    _received: Callable[[bytes], None] | None = None
    _lost: Callable[[str], None] | None = None

    def character_s(self) -> float:
        """[s]"""
        return CHARACTER_S

    def describe(self) -> str:
        """As a real port would."""
        return "sim at 115200 8N1"

    def slow_remedy(self) -> str:
        """As a real port would."""
        return "latency_timer"

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Raises PortError while unplugged."""
        if not self.plugged:
            raise PortError("sim does not exist: plug the adapter in")
        self.opened += 1
        self._received, self._lost = received, lost

    def write(self, data: bytes) -> None:
        """The request arrives at wire speed; the reply comes after the turnaround, at wire speed."""
        if self._received is None:
            raise PortError("sim is not open")
        loop = asyncio.get_running_loop()
        self.seen.append(Seen(loop.time(), data))
        loop.call_later(len(data) * CHARACTER_S + TURNAROUND_S, self._answer, data)

    def close(self) -> None:
        """Bytes that are still under way are lost."""
        self._received = self._lost = None

    def unplug(self) -> None:
        """The adapter is pulled."""
        self.plugged = False
        lost, self._received, self._lost = self._lost, None, None
        if lost is not None:
            lost("sim hung up")

    def inject(self, data: bytes) -> None:
        """Bytes that nobody asked for."""
        if self._received is not None:
            self.delivered_s.append(asyncio.get_running_loop().time())
            self._received(data)

    def _answer(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        unit = self.units.get(request[0])
        reply = unit.handle(request, loop.time()) if unit is not None else None
        deliveries = [(0.0, reply)] if reply is not None else []
        if self.fault is not None:
            deliveries = list(self.fault(request, reply))
        for delay_s, data in deliveries:
            loop.call_later(delay_s + len(data) * CHARACTER_S, self.inject, data)
