"""What holds for a simulated hand whatever is asked of it, in simulated time."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.wire import GRASP, HOMING, MOVE, PAYLOADS, STOP
from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject, WorldError

WIDTHS = st.floats(-0.01, 0.09) | st.sampled_from((0.0, 0.03, 0.08, float("nan")))
SPEEDS = st.sampled_from((0.0, 0.01, 0.1, 5.0))
BANDS = st.sampled_from((0.0, 0.005, 0.08))
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.just(HOMING), st.just(())),
    st.tuples(st.just("ask"), st.just(STOP), st.just(())),
    st.tuples(st.just("ask"), st.just(MOVE), st.tuples(WIDTHS, SPEEDS)),
    st.tuples(st.just("ask"), st.just(GRASP), st.tuples(WIDTHS, BANDS, BANDS, SPEEDS, st.sampled_from((0.0, 30.0)))),
    st.tuples(st.just("world"), st.sampled_from(("put", "take", "slip", "obstruct", "clear")), WIDTHS),
    st.tuples(st.just("close"), st.integers(1, 2), st.none()),
    st.tuples(st.just("wait"), st.floats(0.0, 3.0), st.none()),
)
OPTIONS = st.fixed_dictionaries(
    {
        "homed": st.booleans(),
        "busy": st.sampled_from(("abort", "ignore")),
        "second_grasp": st.sampled_from(("fail", "unsuccessful", "grasp")),
        "stop_ignored": st.sampled_from((0.0, 0.5, 1.0)),
        "stop_failed": st.sampled_from((0.0, 0.5)),
        "reopen_needs_stop": st.booleans(),
        "needs_homing": st.booleans(),
        "close_stops": st.booleans(),
        "stuck_move_s": st.sampled_from((0.0, 5.0)),
        "command_latency_s": st.sampled_from((0.0, 1.0)),
    }
)


@dataclass
class Play:
    """A hand with steps done to it; fine: time passes in slices of 7 ms, else from event to event."""

    options: dict[str, Any]
    fine: bool
    t_s: float = 0.0
    asked: int = 0
    told: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hand = FrankaHand(HandOptions(**self.options), 0.0, seed=1)

    def do(self, kind: str, what: Any, value: Any) -> None:
        if kind == "ask":
            self.asked += 1
            body = struct.pack(PAYLOADS[what], *value)
            message = struct.pack("<HII", what, self.asked, 10 + len(body)) + body
            self._collect(self.hand.handle(1 + self.asked % 2, message, self.t_s))
        elif kind == "close":
            self.hand.closed(what, self.t_s)
        elif kind == "wait":
            self.wait(what)
        else:
            self._world(what, value)
        self._look()

    def _world(self, what: str, width_m: float) -> None:
        try:
            match what:
                case "put":
                    self.hand.put_object(GraspObject(width_m), self.t_s)
                case "take":
                    self.hand.take_object(self.t_s)
                case "slip":
                    self.hand.slip(self.t_s)
                case "obstruct":
                    self.hand.obstruct(width_m, self.t_s)
                case _:
                    self.hand.clear_obstruction(self.t_s)
        except WorldError:
            pass  # what cannot be there is not there

    def wait(self, duration_s: float) -> None:
        end_s = self.t_s + duration_s
        while self.t_s < end_s:
            event_s = self.hand.next_event_s()
            next_s = self.t_s + 0.007 if self.fine else (end_s if event_s is None else max(event_s, self.t_s + 1e-9))
            self.t_s = min(end_s, next_s)
            self.hand.advance(self.t_s)
            self._collect(self.hand.take_answers())
            self._look()

    def _collect(self, answers: list[Any]) -> None:
        self.told += [(struct.unpack_from("<I", each.data, 2)[0], each.status) for each in answers]

    def _look(self) -> None:
        _, width_m, max_m, grasped, _ = struct.unpack("<IddBH", self.hand.datagram(self.t_s))
        assert 0.0 <= width_m <= 0.08
        assert max_m == (0.08 if self.hand.homed else 0.0)
        pending = self.hand.motion is not None and self.hand.motion.ended is None
        assert not (grasped and pending), "no motion runs while it is grasped"
        began = self.hand.history.of(Kind.MOTION_START)
        unasked = bool(began) and began[-1].fields["cause"] in ("relax", "after_loss")
        assert pending or unasked or self.hand.jaw.speed_m_s == 0, "nothing moves that nobody asked for"

    def story(self) -> list[tuple[Any, ...]]:
        kinds = (Kind.MOTION_START, Kind.MOTION_END, Kind.REPLY, Kind.OBJECT)
        named = ("cause", "outcome", "number", "status", "change")
        return [(e.kind, *(e.fields.get(name) for name in named)) for e in self.hand.history.of(*kinds)]


@given(OPTIONS, st.lists(STEPS, max_size=12))
@settings(max_examples=150, deadline=None)
def test_every_request_is_answered_once_and_the_story_does_not_depend_on_how_time_is_cut(
    options: dict[str, Any], steps: list[tuple[str, Any, Any]]
) -> None:
    plays = [Play(options, fine) for fine in (False, True)]
    for play in plays:
        for step in steps:
            play.do(*step)
        play.wait(20.0)
        assert play.hand.motion is None, "the slowest takes 8 s, and one that is stuck 5 s more"
        assert sorted(number for number, _ in play.told) == list(range(1, play.asked + 1))
        times = [event.t_s for event in play.hand.history]
        assert all(b >= a for a, b in pairwise(times))
    coarse, fine = plays
    assert coarse.story() == fine.story()
    assert coarse.hand.jaw.width_m == pytest.approx(fine.hand.jaw.width_m, abs=1e-9)
    running = ""
    for event in coarse.hand.history.of(Kind.MOTION_START, Kind.MOTION_END):
        cause = event.fields.get("cause", "")
        assert not running or not cause or running == cause == "homing", "a motion ends before the next one begins"
        running = cause
    assert not running, "every motion has an end"
