"""One serial line with its devices: who hears a frame, and what comes back on the wire.

Pure. It knows devices by a small protocol only, and no port; the time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Generic, Protocol, TypeVar

from gripperd_sim.history import History
from gripperd_sim.line_faults import LineFaults, Outgoing


class LineError(ValueError):
    """No such device, or two that cannot share a line; the text says what is there."""


class LineDevice(Protocol):
    """What a line needs of a device."""

    history: History
    baudrate: int

    @property
    def unit(self) -> int:
        """Slave id it answers to now."""

    @property
    def reply_delay_s(self) -> float:
        """Turnaround before a reply."""

    @property
    def min_frame_gap_s(self) -> float:
        """Silence by which it sees the end of a request, at least."""

    def advance(self, now_s: float) -> None:
        """Let time pass."""

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        """Reply or silence."""


DeviceT = TypeVar("DeviceT", bound=LineDevice)


@dataclass(slots=True)
class Station(Generic[DeviceT]):
    """A device and the faults of its stub of the line."""

    device: DeviceT
    faults: LineFaults = field(default_factory=LineFaults)


class Line(Generic[DeviceT]):
    """The devices on a line; the first is meant where no unit is named."""

    def __init__(self, devices: Sequence[DeviceT]) -> None:
        units = [device.unit for device in devices]
        if not devices or len(set(units)) < len(units):
            raise LineError(f"units {units}: give at least one, and each once")
        self.stations = [Station(device) for device in devices]

    @property
    def units(self) -> list[int]:
        """The slave ids on the line now."""
        return [station.device.unit for station in self.stations]

    @property
    def baudrate(self) -> int:
        """Baud rate of the first device; what the line is paced at."""
        return self.stations[0].device.baudrate

    @property
    def min_frame_gap_s(self) -> float:
        """Greatest least gap of the devices."""
        return max(station.device.min_frame_gap_s for station in self.stations)

    def station(self, unit: int | None = None) -> Station[DeviceT]:
        """The station with this unit; the first one for None."""
        for station in self.stations:
            if unit is None or station.device.unit == unit:
                return station
        raise LineError(f"no unit {unit} on this line; there are {', '.join(map(str, self.units))}")

    def advance(self, now_s: float) -> None:
        """Let time pass for all."""
        for station in self.stations:
            station.device.advance(now_s)

    def receive(self, frame: bytes, now_s: float, host_baudrate: int | None = None) -> list[Outgoing]:
        """What the devices transmit after a frame; delays are from now_s on and include the turnaround.

        host_baudrate: the rate the frame was sent at, where that is to be checked; a device at another one hears noise.
        """
        sent: list[Outgoing] = []
        for station in self.stations:
            device = station.device
            in_tune = host_baudrate in (None, device.baudrate)
            reply = device.handle(frame, now_s) if in_tune and station.faults.hears(now_s) else None
            if reply is not None:
                delay_s = device.reply_delay_s
                sent += (Outgoing(delay_s + out.delay_s, out.data) for out in station.faults.outgoing(frame, reply))
        return sent if len(sent) < 2 else [_collide(sent)]


def _collide(sent: Sequence[Outgoing]) -> Outgoing:
    """Two devices with one id talk at once: a 0 wins over a 1 on the wire."""
    data = b""
    for group in zip_longest(*(out.data for out in sent), fillvalue=0xFF):
        byte = 0xFF
        for part in group:
            byte &= part
        data += bytes((byte,))
    return Outgoing(min(out.delay_s for out in sent), data)
