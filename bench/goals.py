"""What is to be reached, as a table, and its check. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on one figure. at_least: the figure must not be below the limit, else not above it."""

    text: str
    limit: float
    at_least: bool = False
    unit: str = ""
    scale: float = 1.0

    def met(self, value: float) -> bool:
        """A figure that was not measured (NaN) meets nothing."""
        if math.isnan(value):
            return False
        return value >= self.limit if self.at_least else value <= self.limit

    def show(self, value: float) -> str:
        """A value of this figure for people."""
        return "not measured" if math.isnan(value) else f"{value * self.scale:.5g} {self.unit}".strip()


GOALS: Mapping[str, Goal] = {
    "wire.rate_ratio": Goal("transactions/s of ours / of the bare loop that keeps the gap", 0.97, at_least=True),
    "wire.gaps_violated": Goal("requests of ours earlier than 3.5 characters", 0),
    "stop.p50_ratio": Goal("stop to first byte, p50, ours / bare loop, polling at full speed", 1.2),
    "stop.p99_ratio": Goal("the same, p99", 1.5),
    "stop.own_share_max_s": Goal(
        "own share of a stop, greatest while no process waited for a CPU", 0.002, False, "ms", 1e3
    ),
    "stop.silent_p50_s": Goal("stop to first byte, p50, silent slave, time-out 100 ms", 0.010, False, "ms", 1e3),
    "stop.subscribers_ratio": Goal("stop to first byte, p99, 50 subscribers / none", 1.5),
    "stop.hand_p50_s": Goal("stop to the abort at a hand whose move is blocked, p50", 0.0015, False, "ms", 1e3),
    "stop.hand_p99_s": Goal("the same, p99", 0.005, False, "ms", 1e3),
    "fanout.share": Goal("least share of the states, 100 subscribers and one over MQTT", 0.99, at_least=True),
    "fanout.age_p99_s": Goal("age at the subscriber, p99", 0.010, False, "ms", 1e3),
    "fanout.cpu_ratio": Goal("CPU of gripperd / of the bare broadcaster", 1.5),
    "fanout.share_500": Goal("least share of the states, 500 subscribers", 0.99, at_least=True),
    "fanout.share_deaf": Goal("the same beside one that never reads", 0.99, at_least=True),
    "fanout.age_deaf_ratio": Goal("age p99 with one that never reads / without", 1.25),
    "fanout.growth_deaf_bytes": Goal("memory that one that never reads costs, at most", 1e6, False, "MB", 1e-6),
    "fanout.encoded": Goal("times that a state is encoded, whoever gets it", 1.0),
    "late.provoked": Goal("late replies provoked", 10_000, at_least=True),
    "late.accepted": Goal("published values that were another request's", 0),
}
"""Command and figure -> its goal."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal against what was measured."""

    goal: Goal
    value: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.goal.met(self.value)


def check(command: str, measured: Mapping[str, float]) -> list[Verdict]:
    """All goals of one command. A figure that is missing is not met; one without a goal is a mistake here."""
    goals = {name: goal for name, goal in GOALS.items() if name.startswith(f"{command}.")}
    unknown = sorted(set(measured) - set(goals))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such goal of {command}; there are {', '.join(sorted(goals))}")
    return [Verdict(goal, measured.get(name, math.nan)) for name, goal in goals.items()]
