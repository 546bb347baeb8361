"""Percentiles, spreads over repeats, ratios within repeats. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the least value with at least this share (0 to 1) of all values at or below it. NaN for none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """What the repeats gave. median of them, least and greatest."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value per repeat; repeats without a value (NaN) do not count."""
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return cls(math.nan, math.nan, math.nan)
        return cls(statistics.median(known), min(known), max(known))

    def text(self, factor: float = 1.0, digits: int = 2) -> str:
        """median [least-greatest], each multiplied by factor."""
        if math.isnan(self.median):
            return "-"
        numbers = (self.median, self.least, self.greatest)
        median, least, greatest = (f"{number * factor:.{digits}f}" for number in numbers)
        return f"{median} [{least}-{greatest}]"


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """One per repeat; NaN where the denominator is 0."""
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} repeats against {len(denominators)}: compare within one run only")
    return [a / b if b else math.nan for a, b in zip(numerators, denominators, strict=True)]
