"""Registers to values and back, for the Jodell map. Pure, no policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gripperd.contract import Fault
from gripperd.drivers.jodell.table import FAULT_TEXTS, GO, POSITION_CLOSED


@dataclass(frozen=True, slots=True)
class Status:
    """The status block as read. Fields beyond the registers that were read are None.

    position [counts], 0 open to 255 closed; force and speed 0 to 255; temperature [°C]; voltage [V].
    """

    enabled: bool
    dropped: bool
    preset_mode: bool
    moving: bool
    activation: int
    contact: int
    position: int
    faults: int
    force: int | None = None
    speed: int | None = None
    temperature_c: int | None = None
    voltage_v: int | None = None


def decode_status(registers: Sequence[int]) -> Status:
    """From two to four registers that start at 0x07D0."""
    word, position = registers[0], registers[1]
    return Status(
        enabled=bool(word & 0x01),
        dropped=bool(word & 0x02),
        preset_mode=bool(word & 0x04),
        moving=bool(word & 0x08),
        activation=(word >> 4) & 0x03,
        contact=(word >> 6) & 0x03,
        position=position >> 8,
        faults=position & 0xFF,
        force=registers[2] >> 8 if len(registers) > 2 else None,
        speed=registers[2] & 0xFF if len(registers) > 2 else None,
        temperature_c=_signed(registers[3] >> 8) if len(registers) > 3 else None,
        voltage_v=registers[3] & 0xFF if len(registers) > 3 else None,
    )


def _signed(byte: int) -> int:
    return byte - 256 if byte >= 128 else byte


def encode_go(position: int, force: int, speed: int) -> tuple[int, int, int]:
    """The three control words of a go-to, for one atomic write. Each argument 0 to 255."""
    return GO, position << 8, force << 8 | speed


def width_m(position: int, stroke_m: float) -> float:
    """Clear width [m] at a position [counts]. Linear [I]."""
    return stroke_m * (POSITION_CLOSED - position) / POSITION_CLOSED


def position_of(width: float, stroke_m: float) -> int:
    """Nearest position [counts] to a clear width [m] within the stroke."""
    return POSITION_CLOSED - round(POSITION_CLOSED * width / stroke_m)


def byte_of(relative: float) -> int:
    """Force or speed byte of a device-relative value in (0, 1]."""
    return round(255 * relative)


def fault_of(faults: int) -> Fault | None:
    """The fault byte as the contract tells it."""
    if not faults:
        return None
    return Fault(code=faults, text="; ".join(text for bit, text in FAULT_TEXTS.items() if faults & bit))
