"""Between the RG75's bytes and SI units.

Pure. The command maps are linear [I]; what the device reports of force and speed is taken as a share of the greatest
one ("per unit" [M] S4), so that the least force does not read as none.
"""

from __future__ import annotations

from dataclasses import dataclass

from gripperd_sim.rg75.options import Rg75Options

FULL = 255


@dataclass(frozen=True, slots=True)
class Scale:
    """The maps of one device; stroke_m is the jaw's."""

    options: Rg75Options
    stroke_m: float

    def width_m(self, position: int) -> float:
        """Width at a position count: 0 open, 255 closed."""
        return self.stroke_m * (FULL - position) / FULL

    def position(self, width_m: float) -> int:
        """Nearest position count, not limited to what the device reports."""
        return round(FULL * (1.0 - width_m / self.stroke_m))

    def force_n(self, force: int) -> float:
        """Force limit for a commanded byte."""
        low_n, high_n = self.options.min_force_n, self.options.max_force_n
        return low_n + (high_n - low_n) * force / FULL

    def speed_m_s(self, speed: int) -> float:
        """Speed for a commanded byte."""
        low_m_s, high_m_s = self.options.min_speed_m_s, self.options.max_speed_m_s
        return low_m_s + (high_m_s - low_m_s) * speed / FULL

    def force_byte(self, force_n: float) -> int:
        """Reported byte for a present force."""
        return min(FULL, round(FULL * force_n / self.options.max_force_n))

    def speed_byte(self, speed_m_s: float) -> int:
        """Reported byte for a present speed, whichever its direction."""
        return min(FULL, round(FULL * abs(speed_m_s) / self.options.max_speed_m_s))
