"""What a hand has to do, what it answers, and which requests it refuses. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gripperd_sim.franka_hand.options import HandOptions
from gripperd_sim.franka_hand.wire import FAIL, GRASP, HOMING, MOVE, UNSUCCESSFUL, Request


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes for a connection."""

    connection: int
    command: int
    status: int
    data: bytes


@dataclass(eq=False, slots=True)
class Motion:
    """What is pending. ended: with this status, to be answered at due_s. stuck_s: since when it is blocked.

    opens_next: the first half of homing. closing: the way that a grasp goes.
    """

    connection: int
    request: Request
    began_s: float
    ended: int | None = None
    due_s: float = math.inf
    stuck_s: float | None = None
    opens_next: bool = False
    closing: bool = True
    waiting: list[tuple[int, Request]] = field(default_factory=list)
    """Requests that are answered when this motion has ended: stops that it ignored, motions that came meanwhile."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A motion that does not begin."""

    status: int
    reason: str


def refusal(options: HandOptions, request: Request, *, homed: bool, grasped: bool) -> Refusal | None:
    """Why a motion does not begin, and with which status it is answered; None where it does."""
    if request.command == HOMING:
        return None
    reason = _wrong(options, request) or ("not homed" if options.needs_homing and not homed else "")
    if reason:
        return Refusal(FAIL, reason)
    if not grasped:
        return None
    if request.command == GRASP and options.second_grasp != "grasp":
        return Refusal(FAIL if options.second_grasp == "fail" else UNSUCCESSFUL, "grasping already")
    return Refusal(FAIL, "a stop is needed first") if options.reopen_needs_stop else None


def _wrong(options: HandOptions, request: Request) -> str:
    """What is wrong with the numbers of a request. Statuses [I]: libfranka's callers check the width themselves."""
    values = request.values
    if not values or not all(map(math.isfinite, values)):
        return "not a number"
    if not 0 <= values[0] <= options.max_width_m:
        return "width out of range"
    if not all(value > 0 for value in (values[1:] if request.command == MOVE else values[3:])):
        return "speed or force not above 0"
    return ""


def in_band(request: Request, width_m: float) -> bool:
    """Whether a grasp that came to rest at this width [m] is one: strict inequalities [S]."""
    goal_m, inner_m, outer_m = request.values[:3]
    return goal_m - inner_m < width_m < goal_m + outer_m
