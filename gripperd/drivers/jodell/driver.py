"""The RG75 driver: turns commands into jobs on a Modbus bus, and answers into observations.

It owns no task. It remembers the last status and where the jaws were sent, since no register tells that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from gripperd.contract import Activation, Code, GripperInfo
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd.drivers.base import (
    Ack,
    AckKind,
    Before,
    GripperConfig,
    Observation,
    Plan,
    Refusal,
    Step,
    StopKind,
    Tracker,
)
from gripperd.drivers.jodell import policy
from gripperd.drivers.jodell.identity import Identity
from gripperd.drivers.jodell.reading import StatusReads
from gripperd.drivers.jodell.registers import Status, byte_of, decode_status, encode_go, position_of
from gripperd.drivers.jodell.table import (
    CONTROL,
    ENABLE,
    POSITION_CLOSED,
    POSITION_OPEN,
    POSITION_REGISTERS,
    RELEASE_OPENING,
    RESET,
    RESET_PAUSE_S,
    RESTART_S,
    STA_ACTIVATING,
    STA_ACTIVE,
    Model,
)
from gripperd.drivers.jodell.tracking import (
    ActivationTracker,
    Context,
    GripTracker,
    MotionTracker,
    ReleaseTracker,
    ResetTracker,
    StopTracker,
    status_of,
)
from gripperd.modbus.bus import Bus, Ending, Job, Lane, Result
from gripperd.modbus.transaction import Request, write_registers


class JodellConfig(GripperConfig):
    """Keys of an RG75 beside the common ones."""

    bus: str
    unit: int = Field(9, ge=1, le=247)
    """Modbus unit; the factory sets 9. [M] S8"""
    stroke_m: float = Field(0.075, gt=0, le=1)
    """Clear width when fully open, with the fingertips that are fitted [m]."""
    min_force_n: float = Field(40.0, ge=0)
    """Force per finger at effort 0 [N]."""
    max_force_n: float = Field(300.0, gt=0)
    """Force per finger at effort 1 [N]."""


@dataclass(frozen=True, slots=True)
class _Write:
    """Payload of a step. expected_width_m: criterion of a grip; equal words with another one are another command."""

    words: tuple[int, ...]
    expected_width_m: float | None = None


class JodellDriver:
    """One Jodell gripper with the RG/EPG map, as one unit on a bus."""

    def __init__(self, config: JodellConfig, model: Model, bus: Bus) -> None:
        self.config = config
        self._model = model
        self._bus = bus
        unit = config.unit
        self._reads = StatusReads(bus, unit)
        self._identity = Identity(bus, unit)
        self._stops: dict[int, tuple[Request, ...]] = {
            word: (write_registers(unit, CONTROL, (word,)),) for word in (RESET, ENABLE)
        }
        self.heard_s = -math.inf
        self.restart_s = RESTART_S
        self._status: Status | None = None
        self._registers: tuple[int, ...] = ()
        self._sent: _Write | None = None
        self._target: int | None = None
        self._word: int | None = None
        self._stopped_last = False
        self._word_sent_s = 0.0
        self._poll = Job(self._poll_requests, self._poll_done)
        self._poll_began: Callable[[], bool] = lambda: False
        self._poll_ended: Callable[[Observation | None, str], None] = lambda observation, text: None
        self._stop = Job(self._stop_requests, self._stop_done, tag=object())
        self._stop_began: Callable[[], bool] = lambda: False
        self._stop_ended: Callable[[Ack], None] = lambda ack: None
        self._stop_resets = False
        self._look = Job(self._look_requests, self._look_done, hurried=True)
        self._look_ended: Callable[[bool], None] = lambda seen: None
        self._tag_sent: object = None
        self._stop_unanswered = False

    @property
    def wire(self) -> None:
        """It shares a bus."""

    def info(self) -> GripperInfo:
        """What an RG75 can do, with this configuration."""
        config = self.config
        return GripperInfo(
            grip_effort_configurable=True,
            move_speed_configurable=True,
            grip_speed_configurable=True,
            open_speed_configurable=True,
            opening_width_range_valid=True,
            min_opening_width_m=0.0,
            max_opening_width_m=config.stroke_m,
            gripping_force_range_valid=True,
            min_gripping_force_n=config.min_force_n,
            max_gripping_force_n=config.max_force_n,
            grip_with_expected_width_supported=True,
            name=config.name,
            driver=config.driver,
            model=self._model.name,
            device_version=self._identity.version,
            release_supported=True,
            grasp_state_supported=True,
            motion_state_supported=True,
            expected_width_tolerance_m=config.expected_width_tolerance_m,
            poll_rate_hz=config.poll_rate_hz,
        )

    def invalid(self, command: Command) -> Refusal | None:
        """Values that are never permitted."""
        return policy.invalid_value(command, self.config.stroke_m)

    def refusal(self, command: Command, latest: Observation) -> Refusal | None:
        """Why the command cannot be accepted now."""
        if isinstance(command, Release) and latest.activation is not Activation.ACTIVE:
            return Refusal(Code.NOT_ACTIVE, f"the device is {latest.activation}: there is nothing to release")
        if isinstance(command, (Move, Grip, Open, Release)) and self._being_disabled():
            return Refusal(Code.NOT_ACTIVE, "the drive was just told to disable itself: activate it first")
        return policy.not_ready(command, latest)

    def plan(self, command: Command, before: Before) -> Plan:
        """Words and tracker for a command. The tracker's context is what is known now."""
        if isinstance(command, (Move, Grip, Open)):
            return self._plan_motion(command, before)
        context = self._context(before)
        if isinstance(command, Activate):
            return self._plan_activation(context, before)
        if isinstance(command, (Deactivate, ClearFault)):
            text = "the drive is disabled and its faults are cleared; the jaws do not move; activate before a motion"
            return Plan((Step(_Write((RESET,))),), ResetTracker(context), text)
        assert isinstance(command, Release)
        text = "the jaws open slowly to their mechanical limit; activate before the next motion"
        return Plan((Step(_Write((RELEASE_OPENING,))),), ReleaseTracker(context), text)

    def _plan_activation(self, context: Context, before: Before) -> Plan:
        tracker = ActivationTracker(context)
        steps = (Step(_Write((RESET,))), Step(_Write((ENABLE,)), pause_s=RESET_PAUSE_S))
        if before.latest is not None and before.latest.activation is Activation.ACTIVE and not self._being_disabled():
            return Plan((), tracker, "active already: the jaws do not move")
        if before.latest is not None and before.latest.activation is Activation.ACTIVATING and self._word == ENABLE:
            return Plan(steps, tracker, "the activation runs already", continues=True)
        return Plan(steps, tracker, "the jaws sweep their whole stroke: open and close once")

    def _plan_motion(self, command: Move | Grip | Open, before: Before) -> Plan:
        config = self.config
        speed = byte_of(command.relative_speed or config.default_speed)
        force = byte_of(config.default_effort)
        context = self._context(before)
        tracker: Tracker
        expected: float | None = None
        if isinstance(command, Grip):
            force = byte_of(command.relative_effort or config.default_effort)
            target = POSITION_CLOSED
            expected = command.expected_object_width_m if command.expected_object_width_valid else None
            tracker = GripTracker(
                context,
                stroke_m=config.stroke_m,
                empty_width_m=config.empty_width_m,
                expected_width_m=expected,
                tolerance_m=config.expected_width_tolerance_m,
            )
        else:
            target = POSITION_OPEN
            if isinstance(command, Move):
                target = position_of(command.opening_width_m, config.stroke_m)
            tracker = MotionTracker(context, target=target)
        write = _Write(encode_go(target, force, speed), expected)
        return Plan((Step(write),), tracker, continues=write == self._sent and not before.settled)

    def _context(self, before: Before) -> Context:
        status = status_of(before.latest) if before.latest is not None else None
        rest = before.fresh and before.settled and status is not None and not status.moving
        return Context(status, rest, before.pending, self._target, self.config.take_up_limit_s)

    def send(self, step: Step, tag: object, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Queue one atomic write."""
        write = step.payload
        assert isinstance(write, _Write)
        words = write.words
        request = (write_registers(self.config.unit, CONTROL, words),)
        stops = _stop_frames(self.config.unit, ENABLE, words)

        def prepare() -> Sequence[Request]:
            if not began():
                return ()
            self._bus.counters.retries += tag is self._tag_sent
            self._tag_sent = tag
            self._sent = write
            self._word, self._word_sent_s = words[0], math.inf
            self._stopped_last = False
            self._target = words[1] >> 8 if len(words) > 1 else None
            self._stops[ENABLE] = stops
            self._stop.tag = object()  # acknowledgements of stops before this command prove nothing after it
            return request

        def done(result: Result) -> None:
            if result.request is not None:
                self._word_sent_s = result.sent_s
                if not (result.ending is Ending.REPLY and result.proven):
                    self._sent = self._target = None  # nobody knows what the device has now
            ended(_ack(result))

        self._bus.submit(Lane.COMMAND, Job(prepare, done, tag=tag))

    def _being_disabled(self) -> bool:
        """The last word disables the drive. A status that still says active may be from before it: a motion word now,
        or the word that stops, would enable the device again and start its sweep.
        """
        return self._word in (RESET, RELEASE_OPENING)

    def stop(self, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Queue the stop. One job serves all stops: its frames are ready since the driver was made."""
        self._stop_began, self._stop_ended = began, ended
        self._bus.submit(Lane.STOP, self._stop)

    def stop_kind(self) -> StopKind:
        """Contract section 8.1: a stop never moves, so an inactive gripper gets none."""
        if self._status is None:
            return StopKind.ASK_FIRST
        if not self._status.enabled and self._word not in (ENABLE, RELEASE_OPENING) and not self.stop_misread():
            return StopKind.NOTHING
        return StopKind.WRITE

    def _stop_requests(self) -> Sequence[Request]:
        """The word that stops an active device would enable an inactive one, and start its sweep."""
        status = self._status
        if status is None:
            return ()  # the link was lost while it waited: the status is read first
        active = policy.activation_of(status) is Activation.ACTIVE
        self._stop_resets = not active or self._being_disabled()
        if not self._stop_began():
            return ()
        self._word, self._word_sent_s = RESET if self._stop_resets else None, math.inf
        self._stopped_last = not self._stop_resets
        self._bus.counters.retries += self._stop_unanswered
        self._sent = None
        return self._stops[RESET if self._stop_resets else ENABLE]

    def _stop_done(self, result: Result) -> None:
        if result.request is not None:
            self._word_sent_s = result.sent_s
            self._stop_unanswered = result.ending is not Ending.REPLY
        self._stop_ended(_ack(result))

    def stop_misread(self) -> bool:
        """The last word was the stop of an active device, and the device activates, or is inactive and will: it was
        restarted meanwhile, and takes the stop for an enable.
        """
        status = self._status
        if status is None or not self._stopped_last:
            return False
        just_sent = 0.0 <= self.heard_s - self._word_sent_s < self.config.take_up_limit_s
        return status.activation == STA_ACTIVATING or (just_sent and status.activation != STA_ACTIVE)

    def track_stop(self, before: Before) -> Tracker:
        """Follow the stop that was just sent."""
        context = self._context(before)
        status = context.before
        executing = before.fresh and not (before.settled or before.pending) and status is not None and status.moving
        return StopTracker(context, executing=executing, resets=self._stop_resets)

    def poll(self, began: Callable[[], bool], ended: Callable[[Observation | None, str], None]) -> None:
        """Queue one round: one read of the status block."""
        self._poll_began, self._poll_ended = began, ended
        self._bus.submit(Lane.POLL, self._poll)

    def _poll_requests(self) -> Sequence[Request]:
        return self._reads.now() if self._poll_began() else ()

    def _poll_done(self, result: Result) -> None:
        self._reads.learn(result)
        if result.ending is not Ending.REPLY:
            self._poll_ended(None, result.text)
            return
        self._heard(result)
        if self._status is None or len(result.registers) < POSITION_REGISTERS:
            self._poll_ended(None, "it answered with the status word only, as was asked after many losses")
        else:
            self._identity.round_was_good()
            stroke_m, empty_width_m = self.config.stroke_m, self.config.empty_width_m
            self._poll_ended(policy.observe(self._status, stroke_m, empty_width_m, self._identity.version), "")

    def _heard(self, result: Result) -> None:
        """The device answered to a read. A status word alone is of use only together with the block before it."""
        self.heard_s = result.sent_s
        if len(result.registers) >= POSITION_REGISTERS:
            self._registers = result.registers
        elif self._status is None:
            return
        status = self._status = decode_status((result.registers[0], *self._registers[1:]))
        if status.activation == STA_ACTIVE and result.sent_s > self._word_sent_s + self.config.take_up_limit_s:
            self._word = None  # the activation is over, or the disabling was never taken up

    def look(self, ended: Callable[[bool], None]) -> None:
        """Have the status word read before everything else."""
        self._look_ended = ended
        self._bus.submit(Lane.STOP, self._look)

    def _look_requests(self) -> Sequence[Request]:
        return self._reads.brief() if self._status is not None else ()

    def _look_done(self, result: Result) -> None:
        seen = result.ending is Ending.REPLY
        if seen:
            self._heard(result)
        self._look_ended(seen)

    def lost(self) -> None:
        """The link is down: the device may be another one when it is back."""
        self._status = None
        self._sent = None
        self._target = None
        self._word = None
        self._reads.forget()
        self._identity.forget()
        self._stop_unanswered = False

    def spacing_s(self, limit_s: float) -> float:
        """How long to wait [s] before the next round, where many replies are owed."""
        return self._reads.spacing_s(limit_s)


def _stop_frames(unit: int, word: int, command: tuple[int, ...]) -> tuple[Request, ...]:
    """The stop, in several shapes where a target is known: the longer ones write that too, unchanged."""
    return tuple(write_registers(unit, CONTROL, (word, *command[1:count])) for count in range(1, len(command) + 1))


def _ack(result: Result) -> Ack:
    if result.ending is Ending.REPLY and result.proven:
        return Ack(AckKind.ACKNOWLEDGED)
    if result.ending is Ending.REPLY:
        return Ack(AckKind.UNPROVEN, "its acknowledgement may belong to an earlier command that is still unanswered")
    if result.ending is Ending.EXCEPTION:
        return Ack(AckKind.REFUSED, result.text)
    if result.ending in (Ending.PORT, Ending.FULL):
        return Ack(AckKind.LINK, result.text)
    if result.ending is Ending.WITHDRAWN:
        return Ack(AckKind.WITHDRAWN)
    return Ack(AckKind.SILENT, result.text)
