"""Percentiles, spreads, ratios."""

import math

import pytest

from bench.figures import Spread, percentile, ratios


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([1.0, 9.0], 0.99) == 9.0


def test_no_values_have_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_spread_has_median_least_and_greatest() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([1.0, 2.0]).median == 1.5
    assert Spread.of([math.nan, 4.0]) == Spread(4.0, 4.0, 4.0)


def test_a_spread_as_text() -> None:
    assert Spread(0.002, 0.001, 0.0035).text(1e3) == "2.00 [1.00-3.50]"
    assert Spread(2.0, 1.0, 3.0).text(digits=0) == "2 [1-3]"
    assert Spread.of([]).text() == "-"


def test_ratios_are_taken_within_repeats() -> None:
    assert ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert math.isnan(ratios([1.0], [0.0])[0])
    with pytest.raises(ValueError, match="2 repeats against 1"):
        ratios([1.0, 2.0], [1.0])
