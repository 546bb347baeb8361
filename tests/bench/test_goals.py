"""What is to be reached, and when it is."""

import math

import pytest

from bench.__main__ import COMMANDS
from bench.goals import GOALS, Goal, check

LIMITS = {
    "wire.rate_ratio": 0.97,
    "wire.gaps_violated": 0,
    "stop.p50_ratio": 1.2,
    "stop.p99_ratio": 1.5,
    "stop.own_share_max_s": 0.002,
    "stop.silent_p50_s": 0.010,
    "stop.subscribers_ratio": 1.5,
    "stop.hand_p50_s": 0.0015,
    "stop.hand_p99_s": 0.005,
    "fanout.share": 0.99,
    "fanout.age_p99_s": 0.010,
    "fanout.cpu_ratio": 1.5,
    "fanout.share_500": 0.99,
    "fanout.share_deaf": 0.99,
    "fanout.age_deaf_ratio": 1.25,
    "fanout.growth_deaf_bytes": 1e6,
    "fanout.encoded": 1.0,
    "late.provoked": 10_000,
    "late.accepted": 0,
}


def test_the_limits() -> None:
    assert {name: goal.limit for name, goal in GOALS.items()} == LIMITS
    shares = {"fanout.share", "fanout.share_500", "fanout.share_deaf"}
    assert {name for name, goal in GOALS.items() if goal.at_least} == {"wire.rate_ratio", "late.provoked", *shares}


def test_every_goal_belongs_to_a_command() -> None:
    assert {name.split(".")[0] for name in GOALS} == set(COMMANDS)


def test_a_limit_itself_is_within() -> None:
    assert Goal("", 1.2).met(1.2)
    assert not Goal("", 1.2).met(1.2001)
    assert Goal("", 0.97, at_least=True).met(0.97)
    assert not Goal("", 0.97, at_least=True).met(0.9699)


def test_what_was_not_measured_is_not_met() -> None:
    verdicts = check("wire", {"wire.rate_ratio": 1.0})
    assert [verdict.met for verdict in verdicts] == [True, False]
    assert not Goal("", 1.0, at_least=True).met(math.nan)
    assert Goal("", 1.0).show(math.nan) == "not measured"


def test_a_figure_without_a_goal_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"wire\.rates: no such goal of wire"):
        check("wire", {"wire.rates": 1.0})


def test_values_are_shown_in_their_unit() -> None:
    assert GOALS["stop.silent_p50_s"].show(0.00062) == "0.62 ms"
    assert GOALS["wire.gaps_violated"].show(0.0) == "0"
