"""Facts of the Jodell RG/EPG register map. Nothing here decides anything.

Sources (keys as in docs/rg75.md): S1 vendor SDK; S4, S7, S8 manual transcriptions; S5, S6, S9 public drivers; S11
vendor add-on document; S19 specification. [M] read in a manual, [C] seen in code, [I] inferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CONTROL: Final = 0x03E8
"""Action byte (low), preset (high); 0x03E9 target position (high); 0x03EA force (high), speed (low). [M] S8 S4 S7"""
STATUS: Final = 0x07D0
"""Status (low); position (high) and faults (low); force (high) and speed (low); temperature and voltage. [M] S7 S8"""
STATUS_REGISTERS: Final = 4
IDENTITY: Final = 0x1388
IDENTITY_REGISTERS: Final = 5
"""Software version: in the first register, or in the last (0x138C) where the first is 0. [M] S7, [C] S1"""
POSITION_REGISTERS: Final = 2
"""Fewest registers that hold status, position and faults."""

RESET: Final = 0x0000
"""rACT = 0: drive disabled, all faults cleared, the brake holds the fingers. [M] S7 S8, S5"""
ENABLE: Final = 0x0001
"""rACT 0 -> 1: activation, the jaws sweep. With rACT = 1 already: rGTO = 0, stop and stay enabled. [M] S7"""
GO: Final = 0x0009
"""rACT and rGTO: go to the target. [M] S7"""
RELEASE_OPENING: Final = 0x0031
"""rACT, rATR, rARD = 1: slow automatic release in the opening direction; overrides all but rACT. [M] S7"""

POSITION_OPEN: Final = 0
POSITION_CLOSED: Final = 255
"""0 is open, 255 closed. [M] S4 S7 S8; [C] S9 S10"""
POSITION_TOLERANCE: Final = 3
"""Counts by which an end or a target may be missed and still count as reached. [M] example reply FE, [C] S5"""

STA_ACTIVATING: Final = 1
STA_ACTIVE: Final = 3
"""gSTA: 0 reset or inspecting, 1 activating, 3 activated. Activation is complete at 3 only. [M] S7 S8 S4"""

OBJ_MOVING: Final = 0
OBJ_OPENING_CONTACT: Final = 1
OBJ_CLOSING_CONTACT: Final = 2
OBJ_REACHED: Final = 3
"""gOBJ. 3 is "reached, no object or dropped". [M] S4 S7 S8"""

FAULT_TEXTS: Final = {
    0x01: "needs activation",
    0x02: "control command error",
    0x04: "communication fault: no traffic for 1 s",
    0x08: "over-current",
    0x10: "supply voltage below 20 V or above 30 V",
    0x20: "activation obstructed",
    0x40: "over-temperature, 85 °C or more",
    0x80: "internal fault",
}
"""Fault bits of 0x07D1 low. [M] S4, S5; S7 lists them one bit lower, its example reply contradicts that."""
FAULT_BLOCKS: Final = 0x08 | 0x10 | 0x20 | 0x40 | 0x80
"""Faults with which no motion is accepted. 01 is told by the activation, 02 speaks of an earlier command, 04 of an
idle line: a manual's example shows it beside a good position. [M] S6"""
FAULT_ENDS: Final = FAULT_BLOCKS | 0x02
"""Faults that end a running command when they appear."""
FAULT_NEEDS_ACTIVATION: Final = 0x01

RESTART_S: Final = 0.2
"""A device that was off and answers again took at least this long [s]. [I]"""
RESET_PAUSE_S: Final = 0.1
"""Between reset and enable [s]. [C] S1 S5 S10"""


@dataclass(frozen=True, slots=True)
class Model:
    """What differs between grippers of one register map. Forces per finger [N], stroke total [m]."""

    name: str
    stroke_m: float
    min_force_n: float
    max_force_n: float


RG75: Final = Model("Jodell RG75-300", stroke_m=0.075, min_force_n=40.0, max_force_n=300.0)
"""[M] S5, S19. Linear in counts [I]; one source measured 76.7 mm, so stroke_m is also a configuration key."""
