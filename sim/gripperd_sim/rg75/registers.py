"""The RG75's registers: addresses, bits, ranges and factory values, and the memory behind them.

Pure; facts only. What a written word makes the gripper do is decided in core.py. [M], [C], S1.. are the sources named
in the project's hardware notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag

from gripperd_sim.rg75.options import Rg75Options

ACTION = 0x03E8  # [M] S4, S7, S8: preset number << 8 | action bits
POSITION = 0x03E9  # [M] S4, S7, S8: position << 8
FORCE_SPEED = 0x03EA  # [M] S4, S7, S8: force << 8 | speed
PRESETS = 0x03EB  # [M] S7: preset n at PRESETS + 2(n-1): speed << 8 | position, then force
PRESET_COUNT = 8
BRAKE = 0x03FC  # [M] S7: 1 = force open
CONTROL_SOURCE = 0x03FD  # [M] S7
SOURCE_IO = 0x55  # [M] S7: digital inputs command the gripper, not the serial line
STOP_OR_IO = 0x03FF  # [C] S1: stop, and IO output logic: conflict
CONTROL = range(0x03E8, 0x0400)

STATUS = range(0x07D0, 0x07D4)  # [M] S4, S7, S8

IDENTITY = range(0x1388, 0x138F)
VERSION_1388 = 0x1388  # [C] S1
VERSION_138C = 0x138C  # [C] S1
UNIT = 0x138D  # [C] S1, S3, S13
BAUD_CODE = 0x138E  # [C] S1, S3; taken at power-up
DROP_THRESHOLD = 0x1399  # [C] S3, seen on EPG40 only

BAUDRATES = (115_200, 57_600, 38_400, 19_200, 9_600, 4_800)  # by code; [C] S1, S3
DEFAULT_UNIT = 9  # [M] S8
MAX_UNIT = 247  # [M] S8

# [C] S15, SDK: preset 1 opens, 2 closes, both at full speed; force 255 [I].
FACTORY_PRESETS = {PRESETS: 0xFF00, PRESETS + 1: 0x00FF, PRESETS + 2: 0xFFFF, PRESETS + 3: 0x00FF}


class Action(IntFlag):
    """Low byte of 0x03E8 [M] S7, S8."""

    ACT = 0x01
    MODE = 0x02
    STOP = 0x04
    GTO = 0x08
    ATR = 0x10
    ARD = 0x20


class Status(IntFlag):
    """Low byte of 0x07D0 [M] S4, S7, S8; gSTA sits at bits 5:4, gOBJ at bits 7:6."""

    ACT = 0x01
    DROP = 0x02
    MODE = 0x04
    GTO = 0x08


class Fault(IntFlag):
    """Low byte of 0x07D1 [M] S4, S5."""

    NEEDS_ACTIVATION = 0x01
    COMMAND = 0x02
    COMMUNICATION = 0x04
    OVER_CURRENT = 0x08
    VOLTAGE = 0x10
    ENABLE = 0x20
    OVER_TEMPERATURE = 0x40
    SELF = 0x80


MIN_VOLTAGE_V = 20  # [M] S4: below is a fault
MAX_VOLTAGE_V = 30  # [M] S4: above is a fault
MAX_TEMPERATURE_C = 85  # [M] S4: at and above is a fault


@dataclass(frozen=True, slots=True)
class Target:
    """Where a go-to leads: device bytes."""

    position: int
    force: int
    speed: int


@dataclass(frozen=True, slots=True)
class Command:
    """The control registers as they were when 0x03E8 was written. target is None for a preset that does not exist."""

    word: int
    target: Target | None

    @property
    def action(self) -> Action:
        """The action bits."""
        return Action(self.word & 0x3F)


class Registers:
    """The memory. Status registers are not in it: the core makes them when they are read."""

    def __init__(self, options: Rg75Options, unit: int, baud_code: int) -> None:
        self._options = options
        self._memory: dict[int, int] = dict.fromkeys((*CONTROL, *IDENTITY, DROP_THRESHOLD), 0)
        self._memory |= FACTORY_PRESETS
        self._memory |= {VERSION_1388: options.version_1388, VERSION_138C: options.version_138c}
        self._memory |= {UNIT: unit, BAUD_CODE: baud_code}

    def power_up(self) -> None:
        """What a power cycle does to the memory: control registers 0; presets stay or go back to factory values."""
        for address in CONTROL:
            is_preset = PRESETS <= address < PRESETS + 2 * PRESET_COUNT
            if not is_preset or not self._options.presets_survive:
                self._memory[address] = FACTORY_PRESETS.get(address, 0)

    def __getitem__(self, address: int) -> int:
        return self._memory[address]

    def read(self, address: int, count: int, status: Mapping[int, int]) -> tuple[int, ...] | None:
        """The registers, with the status words as given; None when one of them does not exist."""
        words = [self._read_one(a, status) for a in range(address, address + count)]
        return tuple(word for word in words if word is not None) if None not in words else None

    def _read_one(self, address: int, status: Mapping[int, int]) -> int | None:
        if address in status:
            return status[address]
        if address in CONTROL and self._options.control_readback != "values":
            return 0 if self._options.control_readback == "zero" else None
        return self._memory.get(address)

    def may_write(self, address: int, count: int) -> bool:
        """Whether all these registers can be written."""
        return all(a in CONTROL or a in (UNIT, BAUD_CODE, DROP_THRESHOLD) for a in range(address, address + count))

    def accepts(self, address: int, values: tuple[int, ...]) -> bool:
        """Whether the values are legal there."""
        for offset, value in enumerate(values):
            if address + offset == UNIT and not 1 <= value <= MAX_UNIT:
                return False
            if address + offset == BAUD_CODE and value >= len(BAUDRATES):
                return False
        return True

    def write(self, address: int, values: tuple[int, ...]) -> None:
        """Store; the caller has asked may_write() and accepts()."""
        self._memory |= {address + offset: value for offset, value in enumerate(values)}

    def command(self) -> Command:
        """The command the control registers hold now."""
        word = self._memory[ACTION]
        if not word & Action.MODE:
            force_speed = self._memory[FORCE_SPEED]
            return Command(word, Target(self._memory[POSITION] >> 8, force_speed >> 8, force_speed & 0xFF))
        number = word >> 8
        if not 1 <= number <= PRESET_COUNT:
            return Command(word, None)
        first = PRESETS + 2 * (number - 1)
        speed_position = self._memory[first]
        force = self._memory[first + 1] & 0xFF
        return Command(word, Target(speed_position & 0xFF, force, speed_position >> 8))
