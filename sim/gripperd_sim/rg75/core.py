"""What the RG75 makes of control words and of what its jaws meet: activation, motion, grip, loss, release, stop.

Pure. It owns the state that the status byte shows; it knows neither frames nor registers' storage, and it is told the
time. Each undocumented choice is a field of Rg75Options; sources are named there and in registers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gripperd_sim.history import History, Kind
from gripperd_sim.jaw import Drive, Jaw, JawEvent, JawEventKind
from gripperd_sim.rg75.faults import Faults
from gripperd_sim.rg75.options import Rg75Options
from gripperd_sim.rg75.registers import Action, Command, Fault, Status, Target
from gripperd_sim.rg75.scale import FULL, Scale

GSTA_RESET, GSTA_ACTIVATING, GSTA_ACTIVE = 0, 1, 3
GOBJ_MOVING, GOBJ_CONTACT_OPENING, GOBJ_CONTACT_CLOSING, GOBJ_REACHED = 0, 1, 2, 3


class Activity(Enum):
    """What the drive is doing."""

    REST = "rest"
    HOMING_OPEN = "homing_open"
    HOMING_CLOSE = "homing_close"
    GOTO = "goto"
    GRIP = "grip"
    AFTER_LOSS = "after_loss"
    RELEASE = "release"


HOMING = (Activity.HOMING_OPEN, Activity.HOMING_CLOSE)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a control word: reset, activate, go, stop, release, queued, none or ignored, and why."""

    action: str
    reason: str = ""


class Core:
    """The gripper behind the registers. step() must be called at every next_event_s()."""

    def __init__(self, options: Rg75Options, jaw: Jaw, history: History) -> None:
        self.options = options
        self.jaw = jaw
        self.scale = Scale(options, jaw.stroke_m)
        self.history = history
        self.faults = Faults(options)
        self.commands_taken = 0
        self.zero_shift_counts = 0
        self.power_up()

    def power_up(self) -> None:
        """Forget everything but the jaws, which are where they were [M] S10, S11."""
        self.jaw.stop()
        self.activity = Activity.REST
        self.enabled = False
        self.gsta = GSTA_RESET
        self.gobj = GOBJ_MOVING
        self.moving = False
        self.preset_mode = False
        self.dropped = False
        self.faults.power_up()
        self.zero_shift_counts = 0
        self._held_after_stop = False
        self._queued: Target | None = None
        self._last: Command | None = None
        self._goto: Target | None = None
        self._least_end_s = 0.0
        self._deferred: JawEvent | None = None

    # --- what the status registers show

    @property
    def active(self) -> bool:
        """Whether homing is done."""
        return self.gsta == GSTA_ACTIVE

    @property
    def status(self) -> int:
        """The status byte."""
        bits = Status.ACT if self.enabled else Status(0)
        bits |= Status.DROP if self.dropped else Status(0)
        bits |= Status.MODE if self.preset_mode else Status(0)
        bits |= Status.GTO if self.moving else Status(0)
        return int(bits) | self.gsta << 4 | self.gobj << 6

    @property
    def position(self) -> int:
        """Reported position count."""
        count = self.scale.position(self.jaw.width_m) + self.zero_shift_counts
        return min(max(count, self.options.open_end_count), self.options.closed_end_count)

    def status_words(self) -> tuple[int, int, int, int]:
        """Registers 0x07D0 to 0x07D3."""
        faults, jaw = self.faults, self.jaw
        force, speed = self.scale.force_byte(jaw.force_n), self.scale.speed_byte(jaw.speed_m_s)
        supply = (faults.temperature_c & 0xFF) << 8 | faults.voltage_v
        return (self.status, self.position << 8 | faults.byte, force << 8 | speed, supply)

    # --- time

    def next_event_s(self) -> float | None:
        """When something happens by itself."""
        times = [self.jaw.next_event_s(), self._least_end_s if self._deferred else None]
        known = [t for t in times if t is not None]
        return min(known) if known else None

    def step(self, t_s: float) -> None:
        """Go on to t_s, which is no later than next_event_s()."""
        for event in self.jaw.advance(t_s):
            self._on_jaw(event)
        if self._deferred is not None and self._least_end_s <= t_s:
            event, self._deferred = self._deferred, None
            self._end_goto(event)

    def _on_jaw(self, event: JawEvent) -> None:
        if event.kind is JawEventKind.SLIPPED:
            self.history.add(event.t_s, Kind.OBJECT, change="slipped", width_m=None)
            self._lost_after_stop()
        elif event.kind is JawEventKind.CONTACT_LOST:
            self._deferred = None
            if self.activity is Activity.GRIP:
                self._lose_object(event.t_s)
        elif self.activity in HOMING:
            self._end_homing_leg(event)
        elif self.activity is Activity.RELEASE:
            self._end_release(event)
        elif event.t_s < self._least_end_s:
            self._deferred = event
        else:
            self._end_goto(event)

    # --- a control word

    def take_up(self, command: Command, t_s: float) -> Taken:
        """Act on a control word, now."""
        before, self._last = self._last, command
        action = command.action
        if not action & Action.ACT:
            self._reset(t_s)
            return Taken("reset")
        if not self.options.fault_02_latched:
            self.faults.clear(Fault.COMMAND)
        if action & Action.ATR and not (before is not None and before.action & Action.ATR):
            self._release(t_s, opening=bool(action & Action.ARD))
            return Taken("release")
        if not self.enabled:
            self._activate(t_s)
            return self._go_later(command, "activate") if action & Action.GTO else Taken("activate")
        if command == before and not self.options.unchanged_word_triggers:
            return Taken("ignored", "word and parameters are unchanged")
        return self._while_enabled(command, t_s)

    def _while_enabled(self, command: Command, t_s: float) -> Taken:
        action = command.action
        if self.activity is Activity.RELEASE:
            return Taken("ignored", "automatic release is running")
        stopping = not action & Action.GTO or (self.options.rstop_supported and action & Action.STOP)
        if not self.active:
            return self._stop_while_inactive(t_s) if stopping else self._go_later(command, "queued")
        self.preset_mode = bool(action & Action.MODE)
        if stopping:
            self.stop(t_s)
            return Taken("stop")
        return self._go(command, t_s)

    def _stop_while_inactive(self, t_s: float) -> Taken:
        self._queued = None
        if self.activity not in HOMING or not self.options.stop_aborts_homing:
            return Taken("none", "not active: nothing to stop")
        self._abandon("aborted", t_s)
        return Taken("stop")

    def _go_later(self, command: Command, action: str) -> Taken:
        """A go-to that comes before homing is done."""
        homing = self.activity in HOMING
        if homing and self.options.goto_before_homing == "queued" and command.target is not None:
            self._queued = command.target
            return Taken(action, "go-to waits for homing")
        self.faults.raise_(Fault.COMMAND)
        return Taken("activate" if action == "activate" else "ignored", "go-to before homing is done")

    def _go(self, command: Command, t_s: float) -> Taken:
        target = command.target
        if target is None:
            self.faults.raise_(Fault.COMMAND)
            return Taken("ignored", f"preset {command.word >> 8} does not exist")
        if self.faults.blocking:
            return Taken("ignored", f"fault {self.faults.byte:#04x} blocks motion until it is cleared")
        if self.options.regrip_same_force_ignored and self._same_grip(target):
            return Taken("ignored", "in contact already, with no less force")
        self._start_goto(target, t_s, "goto")
        return Taken("go")

    def _same_grip(self, target: Target) -> bool:
        if self.activity is not Activity.GRIP or self._goto is None:
            return False
        closing = self.scale.width_m(target.position) < self.jaw.width_m
        same_way = closing == (self.gobj == GOBJ_CONTACT_CLOSING)
        return same_way and target.force <= self._goto.force

    # --- go-to, grip, loss

    def _start_goto(self, target: Target, t_s: float, cause: str) -> None:
        if self.moving:
            self._log_end("superseded", t_s)
        self._goto = target
        self.activity = Activity.GOTO
        self.moving, self.gobj, self.dropped = True, GOBJ_MOVING, False
        self._held_after_stop = False
        self._deferred = None
        self._least_end_s = t_s + self.options.min_moving_s
        width_m = self.scale.width_m(min(max(target.position - self.zero_shift_counts, 0), FULL))
        self._drive(cause, width_m, self.scale.speed_m_s(target.speed), self.scale.force_n(target.force), t_s)

    def _end_goto(self, event: JawEvent) -> None:
        contact = event.kind is JawEventKind.CONTACT
        self.moving = False
        self.gobj = GOBJ_REACHED
        if contact:
            self.gobj = GOBJ_CONTACT_CLOSING if event.closing else GOBJ_CONTACT_OPENING
        self.activity = Activity.GRIP if contact else Activity.REST
        self._log_end("contact" if contact else "reached", self.jaw.now_s)

    def _lose_object(self, t_s: float) -> None:
        self.history.add(t_s, Kind.OBJECT, change="lost", width_m=self.jaw.width_m)
        self.dropped, self.gobj = True, GOBJ_REACHED
        if self.options.drive_after_loss:
            self.activity = Activity.AFTER_LOSS
            self.moving = self.options.loss_shows_moving
            self._least_end_s = t_s
            self._log_start("after_loss", t_s)
        else:
            self.jaw.stop()
            self.activity = Activity.REST

    def note_object_gone(self) -> None:
        """Somebody took the object while no drive pressed on it."""
        self._lost_after_stop()

    def _lost_after_stop(self) -> None:
        if self._held_after_stop and self.options.loss_seen_after_stop:
            self.dropped, self.gobj = True, GOBJ_REACHED
        self._held_after_stop = False

    def stop(self, t_s: float) -> None:
        """Stop and stay enabled [M] S7: the jaws are held by self-lock."""
        was_moving = self.moving or self.activity is Activity.AFTER_LOSS
        self._halt()
        if self.options.stop_object_bits == "zero":
            self.gobj = GOBJ_MOVING
        self._held_after_stop = self.jaw.holding
        if was_moving:
            self._log_end("stopped", t_s)

    def _halt(self) -> None:
        gripping = self.activity is Activity.GRIP
        if gripping and not self.options.stop_keeps_force:
            self.jaw.relax()
        else:
            self.jaw.stop()
        self.activity = Activity.REST
        self.moving = False
        self._deferred = None

    def open_brake(self, t_s: float) -> None:
        """Brake register 1: the jaws are free [M] S5, S7; what they pressed on is let go."""
        if self.activity in HOMING:
            self._abandon("aborted", t_s)
        else:
            self.stop(t_s)
        self.jaw.relax()
        self._held_after_stop = False

    # --- activation, reset

    def _reset(self, t_s: float) -> None:
        was_moving = self.moving
        was_enabled = self.enabled
        self.jaw.stop()
        self.activity = Activity.REST
        self.enabled, self.moving, self.dropped, self.preset_mode = False, False, False, False
        self.gsta, self.gobj = GSTA_RESET, GOBJ_MOVING
        self._queued, self._deferred = None, None
        self._held_after_stop = False
        self.faults.reset()
        if was_moving:
            self._log_end("reset", t_s)
        if was_enabled:
            self.history.add(t_s, Kind.ACTIVATION, stage="inactive")

    def _activate(self, t_s: float) -> None:
        self.enabled = True
        if self.faults.blocking:
            return
        self.gsta, self.gobj = GSTA_ACTIVATING, self.options.homing_object_bits
        self.activity = Activity.HOMING_OPEN
        self.history.add(t_s, Kind.ACTIVATION, stage="homing")
        path_m = 2 * self.jaw.stroke_m - self.jaw.width_m
        self._homing_speed_m_s = path_m / self.options.activation_s
        self._drive("homing", self.jaw.stroke_m, self._homing_speed_m_s, self.options.homing_force_n, t_s)

    def _end_homing_leg(self, event: JawEvent) -> None:
        if event.kind is JawEventKind.CONTACT:
            self.faults.raise_(Fault.ENABLE)
            self.zero_shift_counts = self.options.jam_shifts_zero_counts
            self._abandon("jammed", event.t_s)
        elif self.activity is Activity.HOMING_OPEN:
            self.activity = Activity.HOMING_CLOSE
            self._drive("homing", 0.0, self._homing_speed_m_s, self.options.homing_force_n, event.t_s)
        else:
            self._finish_homing(event.t_s)

    def _finish_homing(self, t_s: float) -> None:
        self.activity = Activity.REST
        self.gsta, self.gobj = GSTA_ACTIVE, GOBJ_MOVING
        self.faults.homed()
        self._log_end("homed", t_s)
        self.history.add(t_s, Kind.ACTIVATION, stage="active")
        if self._queued is not None:
            target, self._queued = self._queued, None
            self._start_goto(target, t_s, "queued")

    def _abandon(self, stage: str, t_s: float) -> None:
        """Homing ends without success; gSTA stays short of 3."""
        self.jaw.stop()
        self.activity = Activity.REST
        self._queued = None
        if stage == "aborted":
            self.gsta = GSTA_RESET
        self._log_end(stage, t_s)
        self.history.add(t_s, Kind.ACTIVATION, stage=stage)

    # --- automatic release

    def _release(self, t_s: float, *, opening: bool) -> None:
        if self.moving:
            self._log_end("superseded", t_s)
        self.enabled = True
        self.gsta, self.gobj = self.options.release_status_bits, GOBJ_MOVING
        self.moving = self.options.release_shows_moving
        self.dropped, self._queued, self._deferred = False, None, None
        self.activity = Activity.RELEASE
        end_m = self.jaw.stroke_m if opening else 0.0
        self._drive("release", end_m, self.options.release_speed_m_s, self.options.min_force_n, t_s)

    def _end_release(self, event: JawEvent) -> None:
        self.jaw.stop()
        self.activity = Activity.REST
        self.gsta, self.moving = GSTA_RESET, False
        self.faults.raise_(Fault(self.options.release_fault_bits))
        self._log_end("released", event.t_s)
        self.history.add(event.t_s, Kind.ACTIVATION, stage="released")

    # --- faults

    def halt_on_fault(self, t_s: float) -> None:
        """A fault that blocks is there: what runs ends, but for the release, which overrides everything [M] S7."""
        if self.activity in HOMING:
            self._abandon("faulted", t_s)
        elif self.activity not in (Activity.REST, Activity.RELEASE):
            self.stop(t_s)

    # --- log

    def _drive(self, cause: str, target_m: float, speed_m_s: float, force_n: float, t_s: float) -> None:
        self._ordered = Drive(target_m, speed_m_s, force_n)
        self._log_start(cause, t_s)
        self.jaw.drive_to(target_m, speed_m_s, force_n)

    def _log_start(self, cause: str, t_s: float) -> None:
        drive = self._ordered
        self.history.add(
            t_s,
            Kind.MOTION_START,
            cause=cause,
            from_m=self.jaw.width_m,
            target_m=drive.target_m,
            speed_m_s=drive.speed_m_s,
            force_n=drive.force_n,
            command=self.commands_taken,
        )

    def _log_end(self, outcome: str, t_s: float) -> None:
        self.history.add(t_s, Kind.MOTION_END, outcome=outcome, width_m=self.jaw.width_m, command=self.commands_taken)
