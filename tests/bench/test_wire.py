"""What `wire` makes of a client's tally and a slave's record."""

import pytest

from bench.children import Stamps
from bench.clients.meter import Meter, Tally, Task
from bench.wire import figures, plan
from bench.wire_time import MAIN

GAP_S = 3.5 * 10 / 115_200


def stamps(arrival_s: list[float], delivered_s: list[float], handing_s: list[float] | None = None) -> Stamps:
    return Stamps(
        function=[4] * len(arrival_s),
        arrival_s=arrival_s,
        planned_s=delivered_s,
        handing_s=delivered_s if handing_s is None else handing_s,
        delivered_s=delivered_s,
        lateness_s=[0.0, 1e-6, 5e-6],
        late_replies=0,
        collisions=0,
        bad_frames=0,
    )


def test_rate_share_and_cpu() -> None:
    tally = Tally(transactions=583, errors=1, began_s=10.0, ended_s=12.0, cpu_s=0.583)
    found = figures(tally, stamps([10.0], [10.003]), MAIN)
    assert found.rate_hz == pytest.approx(291.5)
    assert found.share == pytest.approx(1.0, abs=1e-4)
    assert found.cpu_s == pytest.approx(0.001)
    assert found.errors == 1
    assert found.slave_late_max_s == 5e-6


def test_gaps_are_counted_within_the_window_only() -> None:
    tally = Tally(transactions=3, began_s=10.0, ended_s=11.0)
    arrival_s = [9.0, 9.1, 10.0, 10.0033, 10.0065, 11.1]
    delivered_s = [9.099, 9.9, 10.003, 10.006, 10.009, 11.2]
    found = figures(tally, stamps(arrival_s, delivered_s), MAIN)
    assert found.requests == 3
    assert found.gaps_violated == 1
    assert found.least_gap_s == pytest.approx(0.0003)
    assert found.median_gap_s == pytest.approx(0.0005)


def test_a_gap_after_a_hand_over_of_unknown_end_is_not_judged() -> None:
    tally = Tally(transactions=1, began_s=10.0, ended_s=11.0)
    found = figures(tally, stamps([10.0, 10.0031], [10.003, 10.006], [10.002, 10.006]), MAIN)
    assert (found.requests, found.gaps_violated) == (0, 0)


def test_a_meter_counts_after_the_warm_up_only() -> None:
    meter = Meter(Task("", 115_200, warm_s=0.0, measure_s=0.0))
    assert meter.count(True)
    assert meter.tally.transactions == 0
    assert not meter.count(False)
    assert (meter.tally.transactions, meter.tally.errors) == (0, 1)
    assert meter.tally.ended_s >= meter.tally.began_s > 0.0


def test_every_plan_compares_ours_with_the_reference_everywhere() -> None:
    for quick in (True, False):
        names = {(profile.name, name) for profile, name in plan(quick).cells}
        for profile, _ in plan(quick).cells:
            if profile.name != "no pacing":
                assert {(profile.name, "ours"), (profile.name, "bare-gap")} <= names
