"""What a plot shows, from literal messages."""

from __future__ import annotations

import math

from gripperd.contract import CommandOutcome, CommandPhase, GraspState, GripperState, MotionState, Outcome, Verb
from gripperd.ctl.plotting import stretches
from gripperd.ctl.series import Span, series_of

S = 1_000_000_000


def state(seq: int, width_m: float | None, command: int = 0, phase: CommandPhase = CommandPhase.NONE) -> GripperState:
    return GripperState(
        gripper="left",
        boot_id="b",
        seq=seq,
        opening_width_valid=width_m is not None,
        opening_width_m=width_m or 0.0,
        command_seq=command,
        command_phase=phase,
    )


def outcome(command: int, verb: Verb, ended: Outcome) -> CommandOutcome:
    return CommandOutcome(gripper="left", command_seq=command, verb=verb, outcome=ended)


def story() -> list[tuple[int, GripperState | CommandOutcome]]:
    return [
        (100 * S, state(1, 0.05, 3, CommandPhase.DONE)),
        (101 * S, state(2, None)),
        (102 * S, state(3, 0.05, 4, CommandPhase.PENDING)),
        (103 * S, state(4, 0.04, 4, CommandPhase.EXECUTING)),
        (104 * S, outcome(4, Verb.MOVE, Outcome.REACHED)),
        (105 * S, state(5, 0.03, 4, CommandPhase.DONE)),
        (106 * S, outcome(5, Verb.STOP, Outcome.STOPPED)),
        (107 * S, state(6, 0.03, 6, CommandPhase.EXECUTING)),
        (108 * S, state(7, 0.02, 6, CommandPhase.EXECUTING)),
    ]


def test_widths_are_in_millimetres_and_invalid_ones_are_gaps() -> None:
    [left] = series_of(story())
    assert left.gripper == "left"
    assert left.time_s == [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0]
    assert math.isnan(left.width_mm[1])
    assert [round(each, 6) for index, each in enumerate(left.width_mm) if index != 1] == [50, 50, 40, 30, 30, 20]


def test_a_command_lasts_from_its_first_state_to_its_outcome_or_to_the_end() -> None:
    [left] = series_of(story())
    assert left.spans == [
        Span(4, 2.0, 4.0, "move", "reached"),
        Span(5, 6.0, 6.0, "stop", "stopped"),
        Span(6, 7.0, 8.0),
    ], "command 3 was over before the recording began"


def test_a_part_is_shown_with_the_commands_that_touch_it() -> None:
    [left] = series_of(story(), 3.0, 5.0)
    assert left.time_s == [3.0, 5.0]
    assert [span.command_seq for span in left.spans] == [4]
    assert series_of(story(), 20.0, 30.0) == []
    assert series_of([]) == []


def test_equal_values_are_one_stretch_until_the_next_begins() -> None:
    times, values = (
        [0.0, 1.0, 2.0, 3.0],
        [GraspState.UNKNOWN, GraspState.UNKNOWN, GraspState.HOLDING, MotionState.MOVING],
    )
    assert list(stretches(times, values)) == [
        (0.0, 2.0, GraspState.UNKNOWN),
        (2.0, 3.0, GraspState.HOLDING),
        (3.0, 3.0, MotionState.MOVING),
    ]
    assert list(stretches([], [])) == []
