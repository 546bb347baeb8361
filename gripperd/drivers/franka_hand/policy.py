"""What the states of a hand mean for the contract, and what it can be asked for. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gripperd.contract import Activation, Code, GraspState, MotionState, Readings
from gripperd.contract.requests import Activate, Command, Grip, Move, Open
from gripperd.drivers.base import Observation, Refusal
from gripperd.drivers.franka_hand.wire import State
from gripperd.drivers.values import invalid_relative

MOVED_M = 0.0002
"""A smaller change of the width between two states can be noise [m]. [?]"""


PLAUSIBLE_M = 0.002
"""A width may be this far outside of 0 to max_width, by the hand's own tolerance [m]. Ours."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One state, and what was known when it arrived. moved: the width is another than some 0.1 s before.

    pending: a motion was sent and has no answer; homing: it is a homing.
    """

    state: State
    moved: bool
    pending: bool
    homing: bool


def seen_of(observation: Observation) -> Seen:
    """The driver's own view of an observation."""
    assert isinstance(observation.raw, Seen)
    return observation.raw


def activation_of(seen: Seen) -> Activation:
    """A hand that is not homed has a max_width of 0. [U] franka_ros#276"""
    if seen.homing:
        return Activation.ACTIVATING
    max_m = seen.state.max_width_m
    return Activation.ACTIVE if math.isfinite(max_m) and max_m > 0 else Activation.INACTIVE


def observe(seen: Seen, empty_width_m: float) -> Observation:
    """A state in the contract's terms. Before homing the zero of the width is not known, so there is none."""
    activation = activation_of(seen)
    active = activation is Activation.ACTIVE
    return Observation(
        width_m=_plausible_width_m(seen.state) if active else None,
        grasp=_grasp(seen.state, empty_width_m) if active else GraspState.UNKNOWN,
        motion=_motion(seen),
        activation=activation,
        fault=None,
        readings=Readings(temperature_c=float(seen.state.temperature_c)),
        raw=seen,
    )


def _plausible_width_m(state: State) -> float | None:
    """None for what no hand can have: the datagram is then of something else, or in another unit."""
    width_m = state.width_m
    if not -PLAUSIBLE_M <= width_m <= state.max_width_m + PLAUSIBLE_M:  # never true for NaN
        return None
    return max(0.0, width_m)


def _grasp(state: State, empty_width_m: float) -> GraspState:
    """The hand calls a grasp with nothing a success, since a fully closed hand is inside the band."""
    if not state.is_grasped:
        return GraspState.NOT_HOLDING
    return GraspState.HOLDING if state.width_m > empty_width_m else GraspState.UNKNOWN


def _motion(seen: Seen) -> MotionState:
    if not seen.pending:
        return MotionState.STOPPED
    return MotionState.MOVING if seen.moved else MotionState.UNKNOWN


def invalid_value(command: Command) -> Refusal | None:
    """What is never permitted, whatever the hand's state."""
    if not isinstance(command, (Move, Grip, Open, Activate)):
        text = f"a Franka Hand has no {command.verb}; it can be opened, stopped and homed (activate)"
        return Refusal(Code.NOT_SUPPORTED, text)
    if (refusal := invalid_relative(command)) is not None:
        return refusal
    for name, width_m in _widths(command):
        if not math.isfinite(width_m) or width_m < 0:
            return Refusal(Code.INVALID_ARGUMENT, f"{name} is {width_m}: give 0 to the opening of the homed hand [m]")
    return None


def not_ready(command: Command, latest: Observation) -> Refusal | None:
    """Why the hand cannot carry the command out now."""
    if isinstance(command, Activate):
        return None
    if latest.activation is not Activation.ACTIVE:
        how = "is being homed: wait for the outcome" if latest.activation is Activation.ACTIVATING else "is not homed"
        return Refusal(Code.NOT_ACTIVE, f"the hand {how}: activate first; that moves the jaws")
    max_m = seen_of(latest).state.max_width_m
    for name, width_m in _widths(command):
        if width_m > max_m:
            return Refusal(Code.UNREACHABLE_WIDTH, f"{name} is {width_m}: permitted is 0 to {max_m} m")
    return None


def _widths(command: Command) -> list[tuple[str, float]]:
    if isinstance(command, Move):
        return [("opening_width_m", command.opening_width_m)]
    if isinstance(command, Grip) and command.expected_object_width_valid:
        return [("expected_object_width_m", command.expected_object_width_m)]
    return []
