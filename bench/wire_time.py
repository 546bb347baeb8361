"""How long a Modbus RTU transaction takes on a wire, and so how many there can be. Pure.

The gap is 3.5 characters at every rate. (The specification allows a fixed 1.75 ms above 19,200 baud instead; devices
that need it are rare, and it would hide what a client can do.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BITS_PER_CHARACTER = 10
"""8N1."""
GAP_CHARACTERS = 3.5
REQUEST_BYTES = 8
"""A read with function 03 or 04."""
REPLY_OVERHEAD_BYTES = 5
"""Of its reply: unit, function, byte count, CRC."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of wire. burst_s: an adapter hands received bytes over at multiples of this time [s]; 0: at once."""

    name: str
    baudrate: int
    turnaround_s: float
    burst_s: float = 0.0

    @property
    def character_s(self) -> float:
        """Time of one character [s]."""
        return BITS_PER_CHARACTER / self.baudrate

    @property
    def gap_s(self) -> float:
        """Silence between frames [s]."""
        return GAP_CHARACTERS * self.character_s


MAIN = Profile("115200, 1 ms", 115_200, 0.001)
PROFILES = (
    MAIN,
    Profile("115200, 0 ms", 115_200, 0.0),
    Profile("1 Mbaud, 1 ms", 1_000_000, 0.001),
    Profile("115200, 1 ms, 16 ms bursts", 115_200, 0.001, 0.016),
)


def read_period_s(profile: Profile, registers: int) -> float:
    """Least time from one read to the next [s]: all bytes, two gaps, the turnaround; rounded up to whole bursts."""
    wire_bytes = REQUEST_BYTES + REPLY_OVERHEAD_BYTES + 2 * registers
    period_s = wire_bytes * profile.character_s + 2 * profile.gap_s + profile.turnaround_s
    return math.ceil(period_s / profile.burst_s) * profile.burst_s if profile.burst_s else period_s


def limit_hz(profile: Profile, registers: int) -> float:
    """Most reads per second with both gaps kept."""
    return 1.0 / read_period_s(profile, registers)
