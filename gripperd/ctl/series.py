"""What a plot shows, made from recorded messages. Pure: no file, no drawing.

Rules
1. A width that is not valid is a gap (NaN), never the last value.
2. Every command is a span from the first state that names it to its outcome, or to the end of the recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gripperd.contract import CommandOutcome, GraspState, GripperState, MotionState

Event = GripperState | CommandOutcome


@dataclass(slots=True)
class Span:
    """One command. Times in [s] since the beginning. outcome: "" where none was recorded."""

    command_seq: int
    begin_s: float
    end_s: float
    verb: str = ""
    outcome: str = ""


@dataclass(slots=True)
class Series:
    """One gripper over time. width_mm: NaN where it is not valid. link: whether the device answered in that round."""

    gripper: str
    time_s: list[float] = field(default_factory=list)
    width_mm: list[float] = field(default_factory=list)
    motion: list[MotionState] = field(default_factory=list)
    grasp: list[GraspState] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


def series_of(messages: Iterable[tuple[int, Event]], from_s: float = 0.0, to_s: float = math.inf) -> list[Series]:
    """From (log time [ns], message) in the order of time. from_s, to_s: what to show, since the first message [s]."""
    made: dict[str, Series] = {}
    spans: dict[tuple[str, int], Span] = {}
    begin_ns: int | None = None
    for log_ns, message in messages:
        begin_ns = log_ns if begin_ns is None else begin_ns
        now_s = (log_ns - begin_ns) / 1e9
        series = made.setdefault(message.gripper, Series(message.gripper))
        if isinstance(message, CommandOutcome):
            span = spans.get((message.gripper, message.command_seq))
            if span is None:  # it ended before any state named it
                span = spans[message.gripper, message.command_seq] = Span(message.command_seq, now_s, now_s)
                series.spans.append(span)
            span.end_s, span.verb, span.outcome = max(span.begin_s, now_s), message.verb.value, message.outcome.value
            continue
        if from_s <= now_s <= to_s:
            series.time_s.append(now_s)
            series.width_mm.append(message.opening_width_m * 1e3 if message.opening_width_valid else math.nan)
            series.motion.append(message.motion_state)
            series.grasp.append(message.grasp_state)
        _follow(message, now_s, series, spans)
    for series in made.values():
        series.spans = [span for span in series.spans if span.end_s >= from_s and span.begin_s <= to_s]
    return [series for _, series in sorted(made.items()) if series.time_s]


def _follow(state: GripperState, now_s: float, series: Series, spans: dict[tuple[str, int], Span]) -> None:
    """A state names a command: it began at the latest now, and goes on if it has no outcome."""
    if state.command_seq == 0:
        return
    span = spans.get((state.gripper, state.command_seq))
    if span is None:
        if state.command_phase == "done":
            return  # it was over before the recording began
        span = spans[state.gripper, state.command_seq] = Span(state.command_seq, now_s, now_s)
        series.spans.append(span)
    if not span.outcome and state.command_phase != "done":
        span.end_s = now_s
