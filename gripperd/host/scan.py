"""`gripperd scan`: which units answer on which ports, and what they are. It reads status registers and writes nothing.

Rules
1. Only functions 03 and 04 are sent. A wrong guess about a device must not cost anything: the word that enables a
   Jodell resets a Robotiq, and the other way round.
2. A port that somebody holds is named with its holder, and left alone.
3. A line has one rate: the first rate at which somebody answers is the line's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from serial.tools import list_ports

from gripperd.clock import Clock
from gripperd.drivers.jodell.table import STATUS
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import Line
from gripperd.modbus.transaction import read_registers

BAUDRATES = (115_200, 57_600, 38_400, 19_200, 9_600)
"""Tried in this order: the first is the RG75's default."""
UNITS = range(1, 17)
"""Tried by default; the RG75's default is 9."""
REGISTERS = 3
TIMEOUT_S = 0.06
"""How long a unit may take [s], beside its time on the wire. A device answers within some milliseconds."""
OPEN_LIMIT_S = 3.0
"""Longest time that opening a port may take [s]."""


class PortUnusableError(Exception):
    """The port cannot be used; the text says why and what to do."""


MakeLine = Callable[[str, int], Line]


class Kind(Enum):
    """What answers. The value is a sentence for people."""

    JODELL = "Jodell RG/EPG register map: driver rg75"
    ROBOTIQ = "Robotiq byte order: no driver of gripperd; never configure it as rg75, whose words would reset it"
    NOT_ENABLED = (
        "a Jodell or a Robotiq that is not enabled: both read as zeros, so look at the device before you configure rg75"
    )
    OTHER = "something else that has registers there"


@dataclass(frozen=True, slots=True)
class Found:
    """A unit that answers. registers: as read, or () where it answered with an exception."""

    port: str
    baudrate: int
    unit: int
    registers: tuple[int, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Adapter:
    """A serial port of this machine. name: the stable one where there is one."""

    name: str
    text: str


def identify(registers: Sequence[int]) -> Kind:
    """By the status word: a Jodell has its bits in the low byte, a Robotiq in the high one. [I]"""
    if len(registers) < REGISTERS:
        return Kind.OTHER
    high, low = divmod(registers[0], 256)
    if low and not high:
        return Kind.JODELL
    if high and not low:
        return Kind.ROBOTIQ
    return Kind.NOT_ENABLED if registers[0] == 0 else Kind.OTHER


def adapters() -> list[Adapter]:
    """USB serial adapters that are plugged in."""
    found = [port for port in list_ports.comports(include_links=True) if port.vid is not None]
    stable = {port.hwid: port.device for port in found if "/dev/serial/by-id/" in port.device}
    return [
        Adapter(stable.get(port.hwid, port.device), f"{port.description} [{port.vid:04x}:{port.pid:04x}]")
        for port in found
        if port.device.startswith("/dev/tty")
    ]


async def scan_port(
    port: str,
    baudrates: Sequence[int],
    units: Sequence[int],
    make_line: MakeLine,
    clock: Clock,
    progress: Callable[[str], None],
) -> AsyncIterator[Found]:
    """Units that answer, as they are found. Raises PortError if the port cannot be opened."""
    for baudrate in baudrates:
        line = make_line(port, baudrate)
        limits = BusLimits(response_timeout_s=TIMEOUT_S, late_reply_limit_s=10 * TIMEOUT_S)
        bus = Bus(port, line, limits, clock)
        owner = asyncio.create_task(bus.run(), name=f"scan {port}")
        answered = False
        try:
            for unit in units:
                progress(f"{port} at {baudrate}: unit {unit}")
                found = await _look(bus, port, baudrate, unit)
                if found is not None:
                    answered = True
                    yield found
        finally:
            owner.cancel()
            await asyncio.gather(owner, return_exceptions=True)
        if answered:
            return


async def _look(bus: Bus, port: str, baudrate: int, unit: int) -> Found | None:
    for function in (3, 4):
        result = await _read(bus, unit, function)
        if result.ending is Ending.REPLY:
            return Found(port, baudrate, unit, result.registers, identify(result.registers))
        if result.ending is Ending.EXCEPTION and function == 4:
            return Found(port, baudrate, unit, (), Kind.OTHER)
        if result.ending is Ending.PORT:
            raise PortUnusableError(bus.trouble)
    return None


async def _read(bus: Bus, unit: int, function: int) -> Result:
    over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    request = read_registers(unit, function, STATUS, REGISTERS)
    bus.submit(Lane.POLL, Job(lambda: [request], over.set_result, tag=request))
    return await over


def configuration(found: Sequence[Found]) -> str:
    """What to paste into gripperd.toml: what gripperd can drive, and as comments what it perhaps can."""
    lines: list[str] = []
    usable = [each for each in found if each.kind in (Kind.JODELL, Kind.NOT_ENABLED)]
    for number, (port, baudrate) in enumerate(dict.fromkeys((each.port, each.baudrate) for each in usable)):
        lines += ["[[bus]]", f'name = "tool{number}"', f'port = "{port}"', f"baudrate = {baudrate}", ""]
        for each in usable:
            if (each.port, each.baudrate) == (port, baudrate):
                gripper = ["[[gripper]]", f'name = "tool{number}_{each.unit}"', 'driver = "rg75"']
                gripper += [f'bus = "tool{number}"', f"unit = {each.unit}"]
                if each.kind is Kind.NOT_ENABLED:
                    gripper = ["# only if it is a Jodell: look at the device", *(f"# {line}" for line in gripper)]
                lines += [*gripper, ""]
    return "\n".join(lines)
