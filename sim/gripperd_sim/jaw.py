"""Two opposed jaws: width, speed, force, and what may be between them. SI units, any parallel gripper.

Pure. Motion is piecewise linear and held in closed form, so a trajectory does not depend on how time is sliced.
Contact is decided by force alone: the drive stops when what it presses against pushes back with the force limit.
It knows no registers, and it reads no clock: advance() is told the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

TOUCH_M = 1e-9
"""Widths nearer than this are the same width [m]."""

FORCE_NOISE_N = 1e-6
"""Rounding noise of a force computed from a width [N]."""

RIGID_N_PER_M = 1.0e6
"""Stiffness of a part when nothing else is said [N/m]: 0.3 mm under 300 N."""


class WorldError(ValueError):
    """What was asked for cannot be in this world; the text says what could."""


@dataclass(frozen=True, slots=True)
class GraspObject:
    """A part between the jaws.

    width_m: clear width it takes; internal: the jaws are inside it and touch it when they open to width_m.
    hold_force_n: least force that keeps it; held with less, it slips out after slip_after_s.
    """

    width_m: float
    stiffness_n_per_m: float = RIGID_N_PER_M
    internal: bool = False
    hold_force_n: float = 0.0
    slip_after_s: float = 0.2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.width_m) and self.width_m > 0):
            raise WorldError(f"object width {self.width_m} m: give a finite width above 0")
        if not self.stiffness_n_per_m > 0:
            raise WorldError(
                f"object stiffness {self.stiffness_n_per_m} N/m: give one above 0, such as {RIGID_N_PER_M}"
            )
        if not self.hold_force_n >= 0 or not self.slip_after_s >= 0:
            raise WorldError(f"hold force {self.hold_force_n} N, slip time {self.slip_after_s} s: give 0 or more")


class JawEventKind(StrEnum):
    """What the jaws did by themselves."""

    ARRIVED = "arrived"
    CONTACT = "contact"
    CONTACT_LOST = "contact_lost"
    SLIPPED = "slipped"


@dataclass(frozen=True, slots=True)
class JawEvent:
    """Something that happened at t_s. closing tells the direction of the drive (False where there is none)."""

    kind: JawEventKind
    t_s: float
    closing: bool


@dataclass(frozen=True, slots=True)
class Drive:
    """What the motor is told: go to target_m at speed_m_s, and press with force_n at most."""

    target_m: float
    speed_m_s: float
    force_n: float


@dataclass(frozen=True, slots=True)
class _Segment:
    start_s: float
    start_m: float
    velocity_m_s: float
    end_s: float
    end_m: float

    def width_m(self, t_s: float) -> float:
        if t_s >= self.end_s:
            return self.end_m
        return self.start_m + self.velocity_m_s * (t_s - self.start_s)


class Jaw:
    """The jaws. Self-locking: without a drive they stay where they are and keep pressing."""

    def __init__(self, stroke_m: float, width_m: float | None = None, now_s: float = 0.0) -> None:
        if not (math.isfinite(stroke_m) and stroke_m > 0):
            raise WorldError(f"stroke {stroke_m} m: give a finite one above 0")
        self.stroke_m = stroke_m
        self.now_s = now_s
        self._rest_m = self._inside("width_m", stroke_m if width_m is None else width_m)
        self.object: GraspObject | None = None
        self._block_m: float | None = None
        self._block_side = 0
        self._drive: Drive | None = None
        self._segment: _Segment | None = None
        self._in_contact = False
        self._hard_force_n = 0.0
        self._slip_at_s: float | None = None
        self._due: list[JawEvent] = []

    # --- what can be seen

    @property
    def width_m(self) -> float:
        """Clear width between the jaws now."""
        return self._rest_m if self._segment is None else self._segment.width_m(self.now_s)

    @property
    def speed_m_s(self) -> float:
        """Speed now; negative while closing, 0 at rest."""
        return 0.0 if self._segment is None else self._segment.velocity_m_s

    @property
    def force_n(self) -> float:
        """Force with which a jaw presses now."""
        return max(self._spring_force_n(self.width_m), self._hard_force_n)

    @property
    def in_contact(self) -> bool:
        """Whether the drive is on and was stopped by contact."""
        return self._in_contact

    @property
    def holding(self) -> bool:
        """Whether an object is pressed between jaws at rest."""
        return self._segment is None and self._spring_force_n(self._rest_m) > 0

    @property
    def obstruction_m(self) -> float | None:
        """Width at which something hard is in the way."""
        return self._block_m

    def _spring_force_n(self, width_m: float) -> float:
        part = self.object
        if part is None:
            return 0.0
        overlap_m = width_m - part.width_m if part.internal else part.width_m - width_m
        return part.stiffness_n_per_m * overlap_m if overlap_m > TOUCH_M else 0.0

    # --- the drive

    def drive_to(self, target_m: float, speed_m_s: float, force_n: float) -> None:
        """Switch the drive on, now. Ends with ARRIVED or CONTACT; the drive stays on in contact."""
        if not speed_m_s > 0 or not force_n > 0:
            raise WorldError(f"speed {speed_m_s} m/s, force {force_n} N: give both above 0")
        self._settle()
        self._drive = Drive(min(max(target_m, 0.0), self.stroke_m), speed_m_s, force_n)
        self._in_contact = False
        self._due.clear()
        self._plan()

    def stop(self) -> None:
        """Switch the drive off, now. The jaws stay where they are and keep their force."""
        self._settle()
        self._drive = None
        self._in_contact = False
        self._due.clear()
        self._plan()

    def relax(self) -> None:
        """Drive off and lock open: the jaws give way until nothing pushes on them."""
        self.stop()
        if self.object is not None and self.holding:
            self._rest_m = min(max(self.object.width_m, 0.0), self.stroke_m)
        self._hard_force_n = 0.0
        self._slip_at_s = None

    # --- the world

    def put_object(self, part: GraspObject) -> None:
        """Put a part between the jaws (or around them), now."""
        if self.object is not None:
            raise WorldError(f"an object of {self.object.width_m} m is there already: take it away first")
        width_m = self.width_m
        if not part.internal and part.width_m > width_m + TOUCH_M:
            raise WorldError(f"an object of {part.width_m} m does not fit: the jaws are {width_m:.6f} m apart")
        if part.internal and part.width_m < width_m - TOUCH_M:
            raise WorldError(f"a hole of {part.width_m} m does not fit over jaws that are {width_m:.6f} m apart")
        self._settle()
        self.object = part
        self._plan()

    def take_object(self) -> GraspObject:
        """Take the part away, now, whether it is held or not."""
        if self.object is None:
            raise WorldError("no object is there: put one first")
        self._settle()
        part, self.object = self.object, None
        self._plan()
        return part

    def make_slippery(self, hold_force_n: float, slip_after_s: float) -> None:
        """From now on the part slips out slip_after_s after it is held with less than hold_force_n (math.inf: any)."""
        if self.object is None:
            raise WorldError("no object is there that could slip: put one first")
        slippery = replace(self.object, hold_force_n=hold_force_n, slip_after_s=slip_after_s)
        self._settle()
        self.object = slippery
        self._slip_at_s = None
        self._plan()

    def obstruct(self, width_m: float) -> None:
        """Something hard at width_m stops the jaws from either side; at their own width it jams them."""
        width_m = self._inside("width_m", width_m)
        self._settle()
        self._block_m = width_m
        self._block_side = self._side_of(self._block_m)
        self._plan()

    def clear_obstruction(self) -> None:
        """Take the hard thing away."""
        if self._block_m is None:
            raise WorldError("nothing obstructs the jaws")
        self._settle()
        self._block_m = None
        self._hard_force_n = 0.0
        self._plan()

    def move_fingers(self, width_m: float) -> None:
        """A hand puts the jaws to width_m, now; a drive that is on goes on from there."""
        width_m = self._inside("width_m", width_m)
        part = self.object
        if part is not None and (part.width_m < width_m if part.internal else part.width_m > width_m):
            raise WorldError(f"the object of {part.width_m} m is in the way of {width_m} m: take it away first")
        self._settle()
        self._rest_m = width_m
        self._hard_force_n = 0.0
        if self._block_m is not None:
            self._block_side = self._side_of(self._block_m)
        self._plan()

    def _inside(self, name: str, width_m: float) -> float:
        if not 0.0 <= width_m <= self.stroke_m:
            raise WorldError(f"{name} = {width_m}: give a width from 0 to {self.stroke_m} m")
        return width_m

    def _side_of(self, block_m: float) -> int:
        """+1 jaws wider than the block, -1 narrower, 0 exactly there."""
        gap_m = self._rest_m - block_m
        return 0 if abs(gap_m) <= TOUCH_M else (1 if gap_m > 0 else -1)

    # --- time

    def next_event_s(self) -> float | None:
        """When the jaws will next do something by themselves; None: never as things are."""
        if self._due:
            return self.now_s
        times = [t for t in (self._segment.end_s if self._segment else None, self._slip_at_s) if t is not None]
        return max(min(times), self.now_s) if times else None

    def advance(self, t_s: float) -> list[JawEvent]:
        """Go on to t_s (absolute) and return what happened up to and at it, in order."""
        events: list[JawEvent] = []
        while (next_s := self.next_event_s()) is not None and next_s <= t_s:
            self.now_s = next_s
            events += self._fire()
        self.now_s = max(self.now_s, t_s)
        return events

    def _fire(self) -> list[JawEvent]:
        if not self._due and self._slip_at_s is not None and self._slip_at_s <= self.now_s:
            self._slip_at_s = None
            self.object = None
            self._emit(JawEventKind.SLIPPED)
            self._plan()
        elif not self._due:
            self._settle()
            self._plan()
        events, self._due = self._due, []
        return events

    def _settle(self) -> None:
        """Make the present width the resting one, so that the motion can be planned anew from here."""
        self._rest_m = self.width_m
        self._segment = None

    def _emit(self, kind: JawEventKind) -> None:
        closing = self._drive is not None and self._drive.target_m < self._rest_m
        self._due.append(JawEvent(kind, self.now_s, closing))

    def _plan(self) -> None:
        """Say how things go on from the resting width. Called after every change of drive, world or segment."""
        drive = self._drive
        if drive is not None:
            direction = self._direction(drive)
            stop_m = self._contact_m(direction, drive.force_n)
            if direction and stop_m is not None and (stop_m - self._rest_m) * direction <= TOUCH_M:
                self._press(drive, stop_m)
            else:
                self._leave_contact()
                if direction == 0:
                    self._emit(JawEventKind.ARRIVED)
                    self._drive = None
                else:
                    self._segment = self._travel(drive, direction, stop_m)
        self._plan_slip()

    def _direction(self, drive: Drive) -> int:
        gap_m = drive.target_m - self._rest_m
        return 0 if abs(gap_m) <= TOUCH_M else (1 if gap_m > 0 else -1)

    def _contact_m(self, direction: int, force_n: float) -> float | None:
        """Nearest width at which what is in the way pushes back with force_n; None: nothing is in the way."""
        stops = []
        part = self.object
        if part is not None and part.internal == (direction > 0):
            stops.append(part.width_m + direction * force_n / part.stiffness_n_per_m)
        if self._block_m is not None and self._block_side in (0, -direction):
            stops.append(self._block_m)
        return min(stops, key=lambda m: m * direction) if stops else None

    def _press(self, drive: Drive, stop_m: float) -> None:
        if stop_m == self._block_m:
            self._hard_force_n = drive.force_n
        if not self._in_contact:
            self._in_contact = True
            self._emit(JawEventKind.CONTACT)

    def _leave_contact(self) -> None:
        self._hard_force_n = 0.0
        if self._in_contact:
            self._in_contact = False
            self._emit(JawEventKind.CONTACT_LOST)

    def _travel(self, drive: Drive, direction: int, stop_m: float | None) -> _Segment:
        # At a tie the target wins: jaws that meet where they were sent have arrived.
        blocked = stop_m is not None and (drive.target_m - stop_m) * direction > TOUCH_M
        end_m = stop_m if blocked and stop_m is not None else drive.target_m
        end_s = self.now_s + abs(end_m - self._rest_m) / drive.speed_m_s
        return _Segment(self.now_s, self._rest_m, direction * drive.speed_m_s, end_s, end_m)

    def _plan_slip(self) -> None:
        part = self.object
        if part is None or not self.holding or self.force_n >= part.hold_force_n - FORCE_NOISE_N:
            self._slip_at_s = None
        elif self._slip_at_s is None:
            self._slip_at_s = self.now_s + part.slip_after_s
