"""Stops joined with the slave's stamps."""

import math

import pytest

from bench.rtu import READ_INPUT, WRITE_MULTIPLE
from bench.stop_join import Ask, join, summarize

READ, WRITE = READ_INPUT, WRITE_MULTIPLE


def test_a_stop_on_an_idle_line_is_all_its_own() -> None:
    (stop,) = join([Ask(2.0, 2.004, 0.0)], [READ, WRITE], [1.0, 2.001], [1.003, 2.0039], 0.1)
    assert stop.first_byte_s == pytest.approx(0.001)
    assert stop.own_s == pytest.approx(0.001)
    assert stop.acknowledged_s == pytest.approx(0.004)
    assert not stop.in_flight


def test_the_rest_of_the_transaction_in_flight_is_not_its_own() -> None:
    (stop,) = join([Ask(1.001, 1.010, 0.0)], [READ, WRITE], [1.0, 1.0035], [1.003, 1.007], 0.1)
    assert stop.first_byte_s == pytest.approx(0.0025)
    assert stop.own_s == pytest.approx(0.0005)
    assert stop.in_flight
    assert not stop.crossed


def test_a_poll_that_left_at_the_same_moment_crossed_with_it() -> None:
    (stop,) = join([Ask(1.0, 1.010, 0.0)], [READ, WRITE], [1.0001, 1.0035], [1.003, 1.007], 0.1)
    assert stop.crossed
    assert stop.own_s == pytest.approx(0.0005)


def test_a_poll_that_was_sent_later_is_its_own_share() -> None:
    (stop,) = join([Ask(1.0, 1.010, 0.0)], [READ, WRITE], [1.0003, 1.0035], [1.003, 1.007], 0.1)
    assert not stop.in_flight
    assert stop.own_s == pytest.approx(0.0035)


def test_the_stop_itself_does_not_count_as_in_flight() -> None:
    (stop,) = join([Ask(1.0, 1.010, 0.0)], [WRITE], [1.0001], [1.003], 0.1)
    assert not stop.in_flight
    assert stop.own_s == pytest.approx(0.0001)


def test_an_unanswered_poll_leaves_the_own_share_unknown() -> None:
    (stop,) = join([Ask(1.05, 1.110, 0.0)], [READ, WRITE], [1.0, 1.1], [0.0, 1.105], 0.1)
    assert stop.in_flight
    assert math.isnan(stop.own_s)
    assert stop.first_byte_s == pytest.approx(0.05)


def test_an_acknowledgement_without_a_stop_on_the_wire_is_a_lie() -> None:
    with pytest.raises(ValueError, match="never seen by the slave"):
        join([Ask(1.0, 1.01, 0.0)], [READ], [0.9], [0.95], 0.1)
    with pytest.raises(ValueError, match="never seen by the slave"):
        join([Ask(1.0, 1.01, 0.0)], [WRITE], [1.02], [1.03], 0.1)


def test_a_summary_tells_quiet_stops_apart() -> None:
    asks = [Ask(1.0, 1.004, 0.0), Ask(2.0, 2.010, 0.004)]
    stops = join(asks, [WRITE, WRITE], [1.001, 2.005], [1.003, 2.008], 0.1)
    summary = summarize(stops)
    assert (summary.stops, summary.own_over, summary.quiet_stops, summary.quiet_own_over) == (2, 1, 1, 0)
    assert summary.own_max_s == pytest.approx(0.005)
    assert summary.quiet_own_max_s == pytest.approx(0.001)
    assert summary.first_p50_s == pytest.approx(0.001)
