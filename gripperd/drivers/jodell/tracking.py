"""Follows one command through the status words of a Jodell gripper. Pure.

The trouble it deals with: no register echoes the target, and for some milliseconds after a command was acknowledged
the status still describes the one before. Such a status can show the old rest, or after a retarget in motion the
old motion and even the old arrival. So a status proves that a command was taken up only if nothing else can
explain it:

1. The device was known to be at rest, and now it moves, has moved, or reports another contact. (A lost object makes
   the drive go on by itself: with the drop flag this proves nothing.)
2. The device moved before; after the command it was seen at rest, and now it moves. Or it moves the other way. Or it
   has reached the new target, which is not the old one. (While yet another command waited to be taken up, all of
   this may be that one's, and proves nothing.)
3. The command was acknowledged longer ago than `take_up_limit_s`, and the device moves.

Without proof until then the command ends: where it would have led the jaws, or `unconfirmed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from gripperd.contract import Outcome
from gripperd.drivers.base import TAKEN_UP, UNCHANGED, Observation, Verdict, ended
from gripperd.drivers.jodell.registers import Status, fault_of, width_m
from gripperd.drivers.jodell.table import (
    FAULT_BLOCKS,
    FAULT_ENDS,
    OBJ_CLOSING_CONTACT,
    OBJ_MOVING,
    OBJ_OPENING_CONTACT,
    OBJ_REACHED,
    POSITION_CLOSED,
    POSITION_TOLERANCE,
    STA_ACTIVATING,
    STA_ACTIVE,
)

NOT_SHOWN = ended(Outcome.UNCONFIRMED, "the device showed no sign that it took the command up")
MOVED_COUNTS = 5
"""A smaller change of the position can be noise of the encoder, taken as two counts either way [counts]."""


def status_of(observation: Observation) -> Status:
    """The driver's own decoding of an observation."""
    assert isinstance(observation.raw, Status)
    return observation.raw


@dataclass(frozen=True, slots=True)
class Context:
    """What was known when the command was sent.

    before: the last status; rest: it showed the device at rest after the command before had ended.
    pending: the command before had not shown itself yet.
    old_target: where the command before was sent [counts]; None if that is not known.
    """

    before: Status | None
    rest: bool
    pending: bool
    old_target: int | None
    take_up_limit_s: float


@dataclass(slots=True)
class _Sent:
    """When the command was out, and whether the device acknowledged it."""

    at_s: float | None = None
    acknowledged: bool = False

    def settled(self, began_s: float, limit_s: float) -> bool:
        """Whether a round that began then is past the time in which the status may be an old one."""
        return self.at_s is not None and began_s >= self.at_s + limit_s


@dataclass(slots=True)
class CommandTracker(ABC):
    """What all trackers share."""

    context: Context
    _sent: _Sent = field(default_factory=_Sent)
    _taken_up: bool = False

    def sent(self, now_s: float, acknowledged: bool) -> None:
        """The last bytes are out. Monotonic [s]."""
        self._sent = _Sent(now_s, acknowledged)

    def observe(self, observation: Observation, began_s: float) -> Verdict:
        """Judge one round."""
        verdict = self._judge(status_of(observation), self._sent.settled(began_s, self.context.take_up_limit_s))
        self._taken_up = self._taken_up or verdict is TAKEN_UP
        return verdict

    @abstractmethod
    def _judge(self, status: Status, settled: bool) -> Verdict:
        """What a status tells. settled: it is too late to be an old one."""

    def _new_faults(self, status: Status) -> Verdict | None:
        before = self.context.before
        new = status.faults & FAULT_ENDS & ~(before.faults if before else 0)
        fault = fault_of(new)
        return ended(Outcome.FAULT, fault.text) if fault else None


@dataclass(slots=True)
class MotionTracker(CommandTracker):
    """Move and open. target: where the jaws are sent [counts]."""

    target: int = 0
    _seen_rest: bool = False
    _last_position: int | None = None
    _idle_since_settled: int = 0

    def _judge(self, status: Status, settled: bool) -> Verdict:
        if self._sent.at_s is None and not self._taken_up:
            return UNCHANGED  # an attempt is still under way
        if (fault := self._new_faults(status)) is not None:
            return fault
        if status.activation != STA_ACTIVE:
            return ended(Outcome.FAULT, "the device is no longer active: it was restarted or disabled")
        if status.moving:
            proven = self._taken_up or self._motion_is_new(status, settled)
            verdict = TAKEN_UP if proven else NOT_SHOWN if settled else UNCHANGED
        elif self._taken_up:
            verdict = self._rest_after_motion(status, settled)
        else:
            verdict = self._rest_before_motion(status, settled)
            self._seen_rest = True
        self._last_position = status.position
        return verdict

    def _motion_is_new(self, status: Status, settled: bool) -> bool:
        before = self.context.before
        if self.context.rest and before is not None:
            return not (before.contact in (OBJ_OPENING_CONTACT, OBJ_CLOSING_CONTACT) and status.dropped)
        if settled and self._sent.acknowledged:
            return True
        return not self.context.pending and (self._seen_rest or self._turned_round(status))

    def _turned_round(self, status: Status) -> bool:
        old = self.context.old_target
        if old is None or self._last_position is None:
            return False
        travel = status.position - self._last_position
        return abs(travel) >= MOVED_COUNTS and (travel > 0) != (old > self._last_position)

    def _rest_after_motion(self, status: Status, settled: bool) -> Verdict:
        if status.contact != OBJ_MOVING:
            return self.end(status)
        self._idle_since_settled += settled
        if self._idle_since_settled > 1:
            return self.end(status)  # at rest, and in two rounds the device gives no reason
        return UNCHANGED

    def _rest_before_motion(self, status: Status, settled: bool) -> Verdict:
        if self._rest_is_new(status):
            return self.end(status)
        if not settled:
            return UNCHANGED
        if self.led_here(status):
            return self.end(status)
        return NOT_SHOWN

    def _rest_is_new(self, status: Status) -> bool:
        context, before = self.context, self.context.before
        if status.contact == OBJ_MOVING or context.pending:
            return False
        if context.rest and before is not None:
            moved = abs(status.position - before.position) >= MOVED_COUNTS and self.led_here(status)  # or it jitters
            return (moved or status.contact != before.contact) and not status.dropped
        other = context.old_target is not None and abs(self.target - context.old_target) > 2 * POSITION_TOLERANCE
        return other and status.contact == OBJ_REACHED and self.at_target(status)

    def at_target(self, status: Status) -> bool:
        """Whether the jaws are where they were sent."""
        return abs(status.position - self.target) <= POSITION_TOLERANCE

    def led_here(self, status: Status) -> bool:
        """Whether a rest like this is what the command would lead to, so that no motion has to be seen."""
        blocked_closing = status.contact == OBJ_CLOSING_CONTACT and self.target > status.position
        blocked_opening = status.contact == OBJ_OPENING_CONTACT and self.target < status.position
        return self.at_target(status) or blocked_closing or blocked_opening

    def end(self, status: Status) -> Verdict:
        """The outcome of a rest."""
        if self.at_target(status):
            return ended(Outcome.REACHED)
        if status.contact in (OBJ_OPENING_CONTACT, OBJ_CLOSING_CONTACT):
            return ended(Outcome.CONTACT, "the jaws stopped on contact before the target")
        return ended(Outcome.STALLED, "the jaws are at rest short of the target, and the device gives no reason")


@dataclass(slots=True)
class GripTracker(MotionTracker):
    """Grip: closes to the end. Widths [m]."""

    target: int = POSITION_CLOSED
    stroke_m: float = 0.0
    empty_width_m: float = 0.0
    expected_width_m: float | None = None
    tolerance_m: float = 0.0

    def led_here(self, status: Status) -> bool:
        """Closed on an object, or on nothing."""
        return status.contact == OBJ_CLOSING_CONTACT or (status.contact == OBJ_REACHED and self.at_target(status))

    def end(self, status: Status) -> Verdict:
        """The outcome of a rest."""
        width = width_m(status.position, self.stroke_m)
        if status.contact == OBJ_REACHED:
            return ended(Outcome.CLOSED_EMPTY, "the device reports no grip; very thin objects may not register")
        if status.contact != OBJ_CLOSING_CONTACT:
            return ended(Outcome.STALLED, "the jaws are at rest, and the device reports no closing contact")
        if width <= self.empty_width_m:
            return ended(Outcome.CLOSED_EMPTY, "contact at the closed end: the fingers may touch each other")
        expected = self.expected_width_m
        if expected is not None and abs(width - expected) > self.tolerance_m:
            text = f"{width:.4f} m instead of {expected:.4f} m, tolerance {self.tolerance_m:.4f} m"
            return ended(Outcome.WIDTH_MISMATCH, text)
        return ended(Outcome.CONTACT)


@dataclass(slots=True)
class ActivationTracker(CommandTracker):
    """Activation: complete only when gSTA is 3, after the device was seen to have begun anew."""

    _seen_reset: bool = False

    def _judge(self, status: Status, settled: bool) -> Verdict:
        self._seen_reset = self._seen_reset or not status.enabled
        if self._sent.at_s is None:
            return UNCHANGED  # the reset is out, the enable is not
        if not self._seen_reset and not settled:
            return UNCHANGED  # still what was before the reset
        faults = fault_of(status.faults & FAULT_BLOCKS)
        if faults and (self._taken_up or settled):
            return ended(Outcome.FAULT, faults.text)
        if status.activation == STA_ACTIVE:
            return ended(Outcome.REACHED)
        if status.activation == STA_ACTIVATING or status.enabled:
            return TAKEN_UP
        if self._taken_up:
            return ended(Outcome.FAULT, "the device left its activation: it was restarted or disabled")
        if settled:
            return ended(Outcome.UNCONFIRMED, "the device showed no sign that it took the activation up")
        return UNCHANGED


@dataclass(slots=True)
class ResetTracker(CommandTracker):
    """Deactivate and clear_fault: both write rACT = 0."""

    def _judge(self, status: Status, settled: bool) -> Verdict:
        before = self.context.before
        seen = before is not None and before.enabled and not status.enabled
        cleared = not status.enabled and not status.faults & FAULT_BLOCKS
        if self._sent.at_s is not None and cleared and (seen or settled):
            return ended(Outcome.REACHED)
        if settled:
            return ended(Outcome.UNCONFIRMED, "the device still shows what the reset should have ended")
        return UNCHANGED


@dataclass(slots=True)
class ReleaseTracker(CommandTracker):
    """Automatic release: gSTA reads 0 while it runs, and a fault tells its end. [M] S7"""

    def _judge(self, status: Status, settled: bool) -> Verdict:
        before = self.context.before
        if status.activation != STA_ACTIVE and not self._taken_up:
            return TAKEN_UP
        if self._taken_up and status.enabled and status.faults & ~(before.faults if before else 0):
            return ended(Outcome.REACHED, "released; activate before the next motion")
        if self._taken_up and not status.enabled:
            return ended(Outcome.FAULT, "the device is disabled: it was restarted")
        if settled and not self._taken_up:
            return ended(Outcome.UNCONFIRMED, "the device showed no sign of a release")
        return UNCHANGED


@dataclass(slots=True)
class StopTracker(CommandTracker):
    """Stop. The outcome tells standstill.

    executing: the command before was seen in motion. resets: the stop was rACT = 0, since the device was activating.
    """

    executing: bool = False
    resets: bool = False

    def _judge(self, status: Status, settled: bool) -> Verdict:
        if self._sent.at_s is None:
            return UNCHANGED
        if self.resets:
            return ended(Outcome.STOPPED) if not status.enabled else UNCHANGED
        if not status.moving and (settled or self._shows_the_stop(status)):
            return ended(Outcome.STOPPED)
        return UNCHANGED

    def _shows_the_stop(self, status: Status) -> bool:
        """At rest with gOBJ 0 is neither an arrival nor a contact: the stop did it."""
        before = self.context.before
        changed = self.context.rest and before is not None and before.contact != OBJ_MOVING
        return status.contact == OBJ_MOVING and status.activation == STA_ACTIVE and (self.executing or changed)
