"""The Franka Hand driver: commands to messages, states and answers to observations.

An acquisition round is the wait for the next datagram; its stamp is that one's arrival. The hand answers a motion when
it has ended, so "acknowledged" means here that the bytes were handed to the connection. A stop is acknowledged when the
hand answered it and no motion is pending any more.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from gripperd.clock import Clock
from gripperd.contract import Activation, Code, GraspState, GripperInfo
from gripperd.contract.requests import Activate, Command, Grip, Move, Open
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
    Wire,
)
from gripperd.drivers.franka_hand import policy
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.connection import ConnectError, Dialer, HandConnection, HandLimits
from gripperd.drivers.franka_hand.policy import MOVED_M, Seen, seen_of
from gripperd.drivers.franka_hand.stops import StopExchanges
from gripperd.drivers.franka_hand.table import (
    MAX_FORCE_N,
    MAX_SPEED_M_S,
    MAX_STATE_RATE_HZ,
    MIN_FORCE_N,
    MODEL,
    TCP_PORT,
)
from gripperd.drivers.franka_hand.tracking import (
    CommandTracker,
    GripTracker,
    HomingTracker,
    MoveTracker,
    StopTracker,
)
from gripperd.drivers.franka_hand.wire import GraspRequest, HomingRequest, MoveRequest, Payload, State

COMPARED_S = 0.05
"""A width is compared with one that is at least this old [s]: two datagrams can be 12 ms apart."""
REOPEN_MAX_S = 0.5
"""Longest pause between two tries to connect [s], unless a longer one is configured."""
EPSILON_INNER_M = 0.005
"""Lower half of the grasp's band around a width of 0 [m]: any value above 0 takes everything down to closed jaws."""


class HandConfig(GripperConfig):
    """Keys of a Franka Hand beside the common ones."""

    address: str = Field(min_length=1, max_length=253)
    """Of the robot's control: IPv4 address or host name."""
    port: int = Field(TCP_PORT, gt=0, lt=65_536)
    """Of the hand; only simulators have another."""
    link_down_after_s: float = Field(1.0, gt=0)
    motion_limit_s: float = Field(15.0, gt=0)
    activation_limit_s: float = Field(30.0, gt=0)
    state_timeout_s: float = Field(0.15, gt=0, le=5)
    """Without a datagram for this long the state is not known [s]. A healthy hand leaves 0.1 s at most."""
    stall_after_s: float = Field(2.0, gt=1.0, le=60)
    """A move whose width has not changed for this long is `stalled`, and stopped [s]; any command takes a hand 1 s."""
    stop_answer_s: float = Field(0.25, gt=0, le=10)
    """A stop that the hand has not confirmed by then is sent again [s]."""
    connect_timeout_s: float = Field(1.0, gt=0, le=30)
    """Longest time to connect, and to be answered [s]."""
    reopen_delay_s: float = Field(0.2, gt=0, le=60)
    """Pause between two tries to connect [s]; doubled each time, up to 0.5 s."""
    max_speed_m_s: float = Field(MAX_SPEED_M_S, gt=0, le=1)
    """Change of the width at relative_speed 1 [m/s]."""
    min_force_n: float = Field(MIN_FORCE_N, ge=0)
    """Force at relative_effort 0 [N]."""
    max_force_n: float = Field(MAX_FORCE_N, gt=0)
    """Force at relative_effort 1 [N]."""
    open_margin_m: float = Field(0.0005, ge=0, le=0.02)
    """`open` goes to max_width less this [m]: hands have refused widths at the very end."""
    grip_band_m: float = Field(0.0, ge=0, le=1)
    """Widest object that a grip accepts [m]; 0: the hand's max_width."""
    activate_homes_again: bool = False
    """`activate` homes also a hand that is homed, for example after a change of fingers. It moves the jaws."""


@dataclass(frozen=True, slots=True)
class _Motion:
    """Payload of a step that moves; a stop has none."""

    request: Payload
    tracker: CommandTracker


class FrankaHandDriver:
    """One Franka Hand."""

    def __init__(self, config: HandConfig, dialer: Dialer, clock: Clock) -> None:
        self.config = config
        self.heard_s = -math.inf
        self.restart_s = math.inf
        self._clock = clock
        limits = HandLimits(config.connect_timeout_s, config.reopen_delay_s, max(config.reopen_delay_s, REOPEN_MAX_S))
        self._hand = HandConnection(dialer, limits, clock, heard=self._heard, changed=self._changed)
        self._motions: list[Call] = []
        self._stops = StopExchanges(self._hand, self._motions, config.stop_answer_s)
        self._seen: Seen | None = None
        self._widths: deque[tuple[float, float]] = deque()
        self._gripped: GraspRequest | None = None
        self._poll_began: Callable[[], bool] = lambda: False
        self._poll_ended: Callable[[Observation | None, str], None] | None = None
        self._poll_alarm: asyncio.TimerHandle | None = None

    @property
    def wire(self) -> Wire:
        """The connection is this driver's alone."""
        return self._hand

    def info(self) -> GripperInfo:
        """What the hand can do. The range is known once it is homed."""
        config = self.config
        max_m = self._seen.state.max_width_m if self._seen is not None else 0.0
        return GripperInfo(
            grip_effort_configurable=True,
            move_speed_configurable=True,
            grip_speed_configurable=True,
            open_speed_configurable=True,
            opening_width_range_valid=max_m > 0,
            min_opening_width_m=0.0,
            max_opening_width_m=max_m,
            gripping_force_range_valid=True,
            min_gripping_force_n=config.min_force_n,
            max_gripping_force_n=config.max_force_n,
            grip_with_expected_width_supported=True,
            name=config.name,
            driver=config.driver,
            model=MODEL,
            release_supported=False,
            grasp_state_supported=True,
            motion_state_supported=True,
            expected_width_tolerance_m=config.expected_width_tolerance_m,
            poll_rate_hz=min(config.poll_rate_hz, MAX_STATE_RATE_HZ),
        )

    # --- commands

    def invalid(self, command: Command) -> Refusal | None:
        """Values that are never permitted, and verbs that a hand does not have."""
        return policy.invalid_value(command)

    def refusal(self, command: Command, latest: Observation) -> Refusal | None:
        """Why the command cannot be accepted now."""
        refusal = policy.not_ready(command, latest)
        if refusal is None and isinstance(command, Grip) and latest.grasp is GraspState.HOLDING and not self._motions:
            seen = seen_of(latest)
            if self._gripped is not None and self._grasp(command, seen.state) != self._gripped:
                text = (
                    "the hand holds an object, and refuses a second grasp with other values: open, move or stop first; "
                    "each lets the object go"
                )
                return Refusal(Code.NOT_SUPPORTED, text)
        return refusal

    def plan(self, command: Command, before: Before) -> Plan:
        """Messages and tracker for a command that was not refused."""
        assert before.latest is not None
        seen, now_s = seen_of(before.latest), self._clock.monotonic()
        if isinstance(command, Activate):
            return self._plan_homing(before.latest, now_s)
        if isinstance(command, Grip):
            return self._plan_grip(command, before.latest, now_s)
        assert isinstance(command, (Move, Open))
        width_m = seen.state.max_width_m - self.config.open_margin_m
        if isinstance(command, Move):
            width_m = command.opening_width_m
        request = MoveRequest(max(0.0, width_m), self._speed_m_s(command.relative_speed))
        tracker = MoveTracker(now_s, request.width_m, self.config.stall_after_s)
        return self._plan(request, tracker, stop_first=bool(self._motions) or seen.state.is_grasped)

    def _plan_homing(self, latest: Observation, now_s: float) -> Plan:
        tracker = HomingTracker(now_s)
        text = "homing: the jaws close and open fully, for some seconds; what they hold is let go"
        if latest.activation is Activation.ACTIVE and not self.config.activate_homes_again:
            return Plan((), tracker, "homed already: the jaws do not move")
        return self._plan(HomingRequest(), tracker, bool(self._motions), text)

    def _plan_grip(self, command: Grip, latest: Observation, now_s: float) -> Plan:
        config, seen = self.config, seen_of(latest)
        expected = command.expected_object_width_m if command.expected_object_width_valid else None
        request = self._grasp(command, seen.state)
        tracker = GripTracker(now_s, config.empty_width_m, expected, config.expected_width_tolerance_m)
        if latest.grasp is GraspState.HOLDING and not self._motions:
            tracker.held = True
            return Plan((), tracker, "the hand holds already: nothing was sent", judged=True)
        return self._plan(request, tracker, stop_first=bool(self._motions) or seen.state.is_grasped)

    def _plan(self, request: Payload, tracker: CommandTracker, stop_first: bool, message: str = "") -> Plan:
        """A hand ignores what comes while a motion is pending, and opens only after a stop once it holds something.
        [U] fairo#1398, gello_software#4, libfranka#93
        """
        runs = any(call.payload == request and not call.abandoned for call in self._motions)
        motion = Step(_Motion(request, tracker))
        message = message or "handed to the hand, which answers when the motion has ended"
        return Plan((Step(None), motion) if stop_first else (motion,), tracker, message, continues=runs)

    def _speed_m_s(self, relative_speed: float) -> float:
        return (relative_speed or self.config.default_speed) * self.config.max_speed_m_s

    def _grasp(self, command: Grip, state: State) -> GraspRequest:
        """The widest band: outside of it the hand lets go. A width of 0 closes, wherever the jaws are.
        [U] libfranka#13, panda-py#50
        """
        config = self.config
        effort = command.relative_effort or config.default_effort
        force_n = config.min_force_n + effort * (config.max_force_n - config.min_force_n)
        band_m = config.grip_band_m or state.max_width_m
        return GraspRequest(0.0, EPSILON_INNER_M, band_m, self._speed_m_s(command.relative_speed), force_n)

    def send(self, step: Step, tag: object, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Send a motion, or the stop before it."""
        if not self._hand.ready:
            ended(Ack(AckKind.LINK, self._hand.trouble))
            return
        if not began():
            ended(Ack(AckKind.WITHDRAWN))
            return
        if step.payload is None:
            self._stops.send(ended)
            return
        assert isinstance(step.payload, _Motion)
        request = step.payload.request
        try:
            call = self._hand.call(request, self._motion_answered)
        except ConnectError as error:
            ended(Ack(AckKind.SILENT, str(error)))
            return
        self._motions.append(call)
        self._gripped = request if isinstance(request, GraspRequest) else None
        step.payload.tracker.call = call
        ended(Ack(AckKind.ACKNOWLEDGED))

    def _motion_answered(self, call: Call) -> None:
        self._motions.remove(call)
        self._stops.look()

    # --- stop

    def stop(self, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Send a stop now, on the same connection, whatever is pending."""
        if began():
            self._stops.send(ended)
        else:
            ended(Ack(AckKind.WITHDRAWN))

    def stop_kind(self) -> StopKind:
        """A hand that was never homed cannot move. No word of it could be taken for anything but a stop."""
        if not self._hand.ready:
            return StopKind.ASK_FIRST
        if self._seen is not None and self._seen.state.max_width_m <= 0 and not self._motions:
            return StopKind.NOTHING
        return StopKind.WRITE

    def look(self, ended: Callable[[bool], None]) -> None:
        """A stop does no harm to a hand in any state, so there is nothing to look at."""
        ended(self._hand.ready)

    def stop_misread(self) -> bool:
        """Never: the protocol has a message of its own for a stop."""
        return False

    def track_stop(self, before: Before) -> Tracker:
        """Follow the stop that was just sent."""
        return StopTracker()

    # --- states

    def poll(self, began: Callable[[], bool], ended: Callable[[Observation | None, str], None]) -> None:
        """Wait for the next datagram."""
        self._poll_began, self._poll_ended = began, ended
        if not self._hand.ready:
            self._end_poll(None, self._hand.trouble)
            return
        self._poll_alarm = asyncio.get_running_loop().call_later(self.config.state_timeout_s, self._poll_failed)

    def _poll_failed(self) -> None:
        limit_s, hand = self.config.state_timeout_s, self._hand
        silent = f"no state datagram of {self.config.address} within {limit_s} s" if self._seen else hand.trouble
        self._end_poll(None, silent)

    def _end_poll(self, observation: Observation | None, text: str) -> None:
        ended, self._poll_ended = self._poll_ended, None
        if self._poll_alarm is not None:
            self._poll_alarm.cancel()
        if ended is not None:
            ended(observation, text)

    def _heard(self, state: State) -> None:
        now_s = self.heard_s = self._clock.monotonic()
        while len(self._widths) > 1 and self._widths[1][0] <= now_s - COMPARED_S:
            self._widths.popleft()
        moved = bool(self._widths) and abs(state.width_m - self._widths[0][1]) > MOVED_M
        self._widths.append((now_s, state.width_m))
        homing = any(isinstance(call.payload, HomingRequest) for call in self._motions)
        self._seen = Seen(state, moved, bool(self._motions), homing)
        if self._poll_ended is not None and self._poll_began():
            self._end_poll(policy.observe(self._seen, self.config.empty_width_m), "")
        if any(call.abandoned for call in self._motions):
            self._stops.relieve()

    def _changed(self) -> None:
        """The connection came or went."""
        self._widths.clear()
        if not self._hand.ready:
            self._seen = self._gripped = None
            self._end_poll(None, self._hand.trouble)

    def lost(self) -> None:
        """The link is down: what is silent may be half open, so the connection is made anew."""
        silent_s = self.config.link_down_after_s
        self._seen = self._gripped = None
        if self._hand.ready:
            self._hand.restart(f"no state datagram for {silent_s} s: the connection is made anew")

    def spacing_s(self, limit_s: float) -> float:
        """Rounds need no pause between them: a datagram is never late for another one."""
        return 0.0
