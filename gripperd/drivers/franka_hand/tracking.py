"""Follows a command through the hand's answer and its states. Pure.

The hand answers when a motion has ended, not when it was accepted. The outcome is told with the first state behind that
answer, so that width, grasp and outcome belong together; a state that contradicts the answer is given
`SETTLING_STATES` to catch up, since nobody knows how fresh the width in a datagram is [?].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from gripperd.contract import Outcome
from gripperd.drivers.base import TAKEN_UP, UNCHANGED, Observation, Verdict, ended
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.policy import MOVED_M, Seen, seen_of
from gripperd.drivers.franka_hand.wire import Status

SETTLING_STATES = 3
"""States that may still contradict the answer: 0.3 s at most."""
TOLERANCE_M = 0.001
"""A width this near to the target is the target [m]. [?]"""
STILL_S = 0.05
"""A standstill takes at least this long [s]: two datagrams can be 12 ms apart, and tell the same measurement."""
UNSENT_LIMIT_S = 5.0
"""A command of two steps whose second one was never sent is given up after this time [s]."""


@dataclass(eq=False)
class CommandTracker(ABC):
    """What all share. call: set when it is sent."""

    planned_s: float
    call: Call | None = field(default=None, init=False)
    _width_m: float | None = field(default=None, init=False)
    _still_since_s: float = field(default=0.0, init=False)
    _contradicted: int = field(default=0, init=False)
    _unsent: bool = field(default=False, init=False)

    def sent(self, now_s: float, acknowledged: bool) -> None:
        """See Tracker. What became of it tells the call; without one nothing was sent."""
        self._unsent = not acknowledged

    def observe(self, observation: Observation, began_s: float) -> Verdict:
        """See Tracker."""
        call = self.call
        if call is None:
            late = self._unsent or began_s > self.planned_s + UNSENT_LIMIT_S
            return ended(Outcome.UNCONFIRMED, "it could not be sent") if late else UNCHANGED
        if call.lost:
            return ended(Outcome.LINK_LOST, f"the connection ended before the hand answered: {call.lost}")
        if call.status is None:
            return self._pending(call, seen_of(observation), began_s)
        if call.status is Status.ABORTED:
            return ended(Outcome.FAULT, "the hand aborted it (kAborted): another client or Desk commands the hand, too")
        if call.status is Status.FAIL:
            return ended(Outcome.FAULT, "the hand could not carry it out (kFail)")
        verdict = self._answered(seen_of(observation), call.status is Status.SUCCESS)
        if verdict is None:
            self._contradicted += 1
            return UNCHANGED
        return verdict

    @property
    def _settled(self) -> bool:
        """Whether a state that contradicts the answer had its time."""
        return self._contradicted >= SETTLING_STATES

    def _pending(self, call: Call, seen: Seen, began_s: float) -> Verdict:
        width_m = seen.state.width_m
        if self._width_m is None:
            self._width_m, self._still_since_s = width_m, began_s
            return UNCHANGED
        if abs(width_m - self._width_m) <= MOVED_M:
            return self._still(call, seen, began_s - self._still_since_s)
        self._width_m, self._still_since_s = width_m, began_s
        return TAKEN_UP

    def _still(self, call: Call, seen: Seen, still_s: float) -> Verdict:
        """The width has not changed for still_s [s], and no answer came."""
        return UNCHANGED

    @abstractmethod
    def _answered(self, seen: Seen, success: bool) -> Verdict | None:
        """The hand answered that it was carried out; None: look at the next state."""


@dataclass(eq=False)
class MoveTracker(CommandTracker):
    """To target_m [m]. A move against an object is answered after minutes [U], so it is called stalled and abandoned
    when the width has not changed for stall_after_s [s]; a command takes a second even where nothing moves.
    """

    target_m: float
    stall_after_s: float

    def _still(self, call: Call, seen: Seen, still_s: float) -> Verdict:
        if still_s < self.stall_after_s or self._is_there(seen):
            return UNCHANGED
        call.abandoned = True
        text = f"the width has not changed for {still_s:.1f} s, and the hand does not answer: it was told to stop"
        return ended(Outcome.STALLED, text)

    def _is_there(self, seen: Seen) -> bool:
        return abs(seen.state.width_m - self.target_m) <= TOLERANCE_M

    def _answered(self, seen: Seen, success: bool) -> Verdict | None:
        if self._is_there(seen):
            return ended(Outcome.REACHED)
        if not success:
            return ended(Outcome.STALLED, "the hand ended the motion short of its target (kUnsuccessful)")
        text = f"the hand reports success, and its width is {seen.state.width_m:.4f} m"
        return ended(Outcome.STALLED, text) if self._settled else None


@dataclass(eq=False)
class GripTracker(CommandTracker):
    """A grasp with a band that takes every width; the width is judged here. All [m]. held: the hand held something when
    the grip was asked for, so nothing was sent.
    """

    empty_width_m: float
    expected_width_m: float | None
    tolerance_m: float
    held: bool = field(default=False, init=False)

    def observe(self, observation: Observation, began_s: float) -> Verdict:
        """See Tracker."""
        if not self.held:
            return super().observe(observation, began_s)
        seen = seen_of(observation)
        return self._judge(seen) if seen.state.is_grasped else ended(Outcome.CLOSED_EMPTY, "it was lost just now")

    def _answered(self, seen: Seen, success: bool) -> Verdict | None:
        if success and not seen.state.is_grasped and not self._settled:
            return None
        if not success:
            return ended(Outcome.CLOSED_EMPTY, "the hand reports no grasp (kUnsuccessful)")
        return self._judge(seen)

    def _judge(self, seen: Seen) -> Verdict:
        """The hand calls it a success."""
        width_m, expected_m = seen.state.width_m, self.expected_width_m
        if width_m <= self.empty_width_m:
            return ended(Outcome.CLOSED_EMPTY, "the fingers met; the hand calls that a success, too")
        if expected_m is not None and abs(width_m - expected_m) > self.tolerance_m:
            text = f"{width_m:.4f} m instead of {expected_m:.4f} m; the object is still held"
            return ended(Outcome.WIDTH_MISMATCH, text)
        return ended(Outcome.CONTACT, "" if seen.state.is_grasped else "and lost again at once")


@dataclass(eq=False)
class HomingTracker(CommandTracker):
    """Until the hand knows its max_width."""

    def _answered(self, seen: Seen, success: bool) -> Verdict | None:
        if not success:
            return ended(Outcome.FAULT, "the hand could not home itself (kUnsuccessful)")
        if seen.state.max_width_m > 0:
            return ended(Outcome.REACHED)
        text = "the hand reports that it homed itself, and its max_width is 0"
        return ended(Outcome.FAULT, text) if self._settled else None


class StopTracker:
    """Standstill: the width has not changed for `STILL_S`, in states behind the acknowledgement."""

    def __init__(self) -> None:
        self._acknowledged_s: float | None = None
        self._still: tuple[float, float] | None = None

    def sent(self, now_s: float, acknowledged: bool) -> None:
        """See Tracker."""
        self._acknowledged_s = now_s if acknowledged else None

    def observe(self, observation: Observation, began_s: float) -> Verdict:
        """See Tracker."""
        seen = seen_of(observation)
        if self._acknowledged_s is None or began_s < self._acknowledged_s or seen.pending:
            return UNCHANGED
        width_m = seen.state.width_m
        if self._still is None or abs(width_m - self._still[1]) > MOVED_M:
            self._still = began_s, width_m
            return TAKEN_UP
        return ended(Outcome.STOPPED) if began_s - self._still[0] >= STILL_S else TAKEN_UP
