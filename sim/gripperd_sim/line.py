"""One serial line with its devices: who hears a frame, and what comes back on the wire.

Pure. It knows devices by a small protocol only, and no port; the time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Generic, Protocol, TypeVar

from gripperd_sim.faults import FaultyDevice, LineFaults, Outgoing


class LineError(ValueError):
    """No such device, or two that cannot share a line; the text says what is there."""


class LineDevice(FaultyDevice, Protocol):
    """What a line needs of a device, beside what its faults need."""

    baudrate: int

    @property
    def reply_delay_s(self) -> float:
        """Turnaround before a reply."""

    @property
    def min_frame_gap_s(self) -> float:
        """Silence by which it sees the end of a request, at least."""


DeviceT = TypeVar("DeviceT", bound=LineDevice)


@dataclass(slots=True)
class Station(Generic[DeviceT]):
    """A device and the faults of its stub of the line."""

    device: DeviceT
    faults: LineFaults


class Line(Generic[DeviceT]):
    """The devices on a line; the first is meant where no unit is named."""

    def __init__(self, devices: Sequence[DeviceT], seed: int = 0) -> None:
        units = [device.unit for device in devices]
        if not devices or len(set(units)) < len(units):
            raise LineError(f"units {units}: give at least one, and each once")
        self.stations = [Station(device, LineFaults(device, seed)) for device in devices]
        self.before_request: Callable[[float], None] | None = None
        """Called with the time before anybody hears a frame; for a scenario."""

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

    def reseed(self, seed: int) -> None:
        """Begin the random numbers of all line faults anew."""
        for station in self.stations:
            station.faults.reseed(seed)

    def hang_up(self) -> None:
        """The port is gone, and what adapters held back."""
        for station in self.stations:
            station.faults.hang_up()

    def advance(self, now_s: float) -> None:
        """Let time pass for all."""
        for station in self.stations:
            station.device.advance(now_s)

    def receive(self, frame: bytes, now_s: float, host_baudrate: int | None = None) -> list[Outgoing]:
        """What the devices transmit after a frame; delays are from now_s on and include the turnaround.

        host_baudrate: the rate the frame was sent at, where that is to be checked; a device at another one hears noise.
        """
        if self.before_request is not None:
            self.before_request(now_s)
        echoes = [station.faults.echo(frame, now_s) for station in self.stations]
        answers = []
        for station in self.stations:
            device = station.device
            if host_baudrate in (None, device.baudrate):
                delay_s = device.reply_delay_s
                sent = station.faults.answer(frame, now_s)
                answers.append([replace(out, delay_s=delay_s + out.delay_s) for out in sent])
        talking = [answer for answer in answers if answer]
        heard = talking[0] if len(talking) == 1 else _collide(talking)
        # One adapter gives one echo, however many devices have it armed.
        return [*next(filter(None, echoes), []), *heard]


def _collide(answers: Sequence[Sequence[Outgoing]]) -> list[Outgoing]:
    """Devices with one id talk at once: a 0 wins over a 1 on the wire."""
    if not answers:
        return []
    data = b""
    for group in zip_longest(*(b"".join(out.data for out in answer) for answer in answers), fillvalue=0xFF):
        byte = 0xFF
        for part in group:
            byte &= part
        data += bytes((byte,))
    return [Outgoing(min(answer[0].delay_s for answer in answers), data)]
