"""What a driver is: the one place that knows a device, seen from the supervisor that knows none.

Rules of a driver
1. It is a folder: a table of facts with their sources, pure policy that uses them, and one thin class that owns no
   task. It talks to a bus through jobs, or to a wire of its own.
2. Observations are what the device said in one answer. What it did not say is UNKNOWN or None.
3. It never moves the jaws unasked: attaching is reading.
4. Callbacks (`began`, `ended`) run synchronously in the wire's owner task: `began` right before the bytes leave
   (False withdraws them), `ended` when the exchange is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from gripperd.contract import Activation, Code, Fault, GraspState, GripperInfo, MotionState, Outcome, Readings
from gripperd.contract.requests import Command


class GripperConfig(BaseModel):
    """Keys of every [[gripper]]; a driver adds its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    driver: str
    poll_rate_hz: float = Field(50.0, gt=0, le=1000)
    """Acquisition rounds per second at rest [Hz]."""
    moving_poll_rate_hz: float = Field(100.0, gt=0, le=1000)
    """Acquisition rounds per second while a command runs [Hz]."""
    link_down_after_s: float = Field(0.5, gt=0)
    """Without any valid answer for this long the link is down [s]."""
    stop_confirm_limit_s: float = Field(1.0, gt=0)
    """A stop that the device has not acknowledged by then is answered `not_confirmed` [s]."""
    take_up_limit_s: float = Field(0.15, gt=0)
    """How long after its acknowledgement a command may stay invisible in the device's status [s]."""
    empty_width_m: float = Field(0.001, ge=0)
    """A grip that ends this near to the closed end held nothing, where the device cannot tell [m]."""
    expected_width_tolerance_m: float = Field(0.002, ge=0)
    """How far a gripped object may be from its expected width [m]."""
    default_speed: float = Field(0.5, gt=0, le=1)
    """Device-relative speed of commands that name none."""
    default_effort: float = Field(0.5, gt=0, le=1)
    """Device-relative effort of grips that name none."""
    activate_on_start: bool = False
    """Activate when the device is found inactive. It moves the jaws."""
    motion_limit_s: float = Field(10.0, gt=0)
    """A motion without an end after this time is `timed_out` [s]."""
    activation_limit_s: float = Field(15.0, gt=0)
    """An activation without an end after this time is `timed_out` [s]."""
    stop_lifetime_s: float = Field(30.0, gt=0)
    """A stop that could not be delivered is forgotten after this time [s]: later it would be one nobody asked for."""
    write_attempts: int = Field(3, ge=1, le=10)
    """How often a write is sent until it is acknowledged. It is absolute, so that a second copy does no harm."""
    queue_commands: int = Field(1024, gt=0)
    """Commands that may wait for dispatch."""
    stop_at_exit: bool = False
    """Stop the jaws when the daemon ends. False: they go on with what they do."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one answer of the device said. raw: the driver's own decoding, for its trackers. identity: version or serial
    number, as far as it was read since the link came up: with another one it is another device.
    """

    width_m: float | None
    grasp: GraspState
    motion: MotionState
    activation: Activation
    fault: Fault | None
    readings: Readings | None
    raw: object
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a command cannot be accepted."""

    code: Code
    message: str


class Progress(Enum):
    """What a status tells about the command that was sent before it."""

    UNCHANGED = "unchanged"
    TAKEN_UP = "taken up"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Progress, and for ENDED the outcome."""

    progress: Progress
    outcome: Outcome | None = None
    message: str = ""


UNCHANGED = Verdict(Progress.UNCHANGED)
TAKEN_UP = Verdict(Progress.TAKEN_UP)


def ended(outcome: Outcome, message: str = "") -> Verdict:
    """The command has ended."""
    return Verdict(Progress.ENDED, outcome, message)


class Tracker(Protocol):
    """Follows one command through the device's status. Pure."""

    def sent(self, now_s: float, acknowledged: bool) -> None:
        """The last bytes of the command are out, and were acknowledged or not. Monotonic [s]."""

    def observe(self, observation: Observation, began_s: float) -> Verdict:
        """A round that began at began_s [s] said this."""


class AckKind(Enum):
    """How the device answered to bytes that command it."""

    ACKNOWLEDGED = "acknowledged"
    UNPROVEN = "acknowledged, but perhaps another command"
    SILENT = "not acknowledged"
    REFUSED = "refused by the device"
    LINK = "not sent"
    WITHDRAWN = "withdrawn"
    NOTHING_TO_DO = "nothing to do"


@dataclass(frozen=True, slots=True)
class Ack:
    """The end of one step's exchange."""

    kind: AckKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One write of a command. pause_s: wait before it [s]. payload: the driver's own."""

    payload: object
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How a command is carried out.

    steps: none where the device has nothing to do. tracker: follows it. message: goes into the reply.
    judged: without steps the command is `reached`; judged, the tracker tells its outcome by the next status.
    continues: the device carries out exactly this already; nothing is written, the running tracker goes on.
    """

    steps: Sequence[Step]
    tracker: Tracker
    message: str = ""
    continues: bool = False
    judged: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """What is known when a command is planned.

    latest: the last valid observation since the link is up. fresh: it is from the last round.
    settled: no command was pending or executing then. pending: a command is out that the device has not shown yet, so
    that whatever it shows next may be that one's.
    """

    latest: Observation | None
    fresh: bool
    settled: bool
    pending: bool


class StopKind(Enum):
    """What a stop has to do: a device that cannot move gets none, one that is not known is asked first."""

    NOTHING = "nothing to stop"
    ASK_FIRST = "status not known"
    WRITE = "write"


class Wire(Protocol):
    """A wire that one driver has for itself, such as a TCP connection."""

    @property
    def name(self) -> str:
        """For logs."""

    async def run(self) -> None:
        """Own it until cancelled."""

    def statistics(self) -> Mapping[str, int | float]:
        """Counters since the daemon started."""


class Driver(Protocol):
    """One device on one wire. heard_s: when it was asked what it answered to last, monotonic [s]; -inf: never.
    restart_s: how fast it can restart [s], so that what it said longer ago need not be true of it any more; inf where
    no word could be taken for another after a restart.
    """

    heard_s: float
    restart_s: float

    @property
    def wire(self) -> Wire | None:
        """The wire that is this driver's alone, which the daemon runs; None where it shares a bus."""

    @property
    def config(self) -> GripperConfig:
        """Its configuration."""

    def info(self) -> GripperInfo:
        """What the device can do."""

    def invalid(self, command: Command) -> Refusal | None:
        """Which of its values is never permitted; None: all are."""

    def refusal(self, command: Command, latest: Observation) -> Refusal | None:
        """Why this command cannot be accepted now; None: it can. Never called for stop."""

    def plan(self, command: Command, before: Before) -> Plan:
        """How to carry out a command that was not refused. Called when it is about to be dispatched."""

    def send(self, step: Step, tag: object, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Queue one write behind all stops and before all polls."""

    def stop(self, began: Callable[[], bool], ended: Callable[[Ack], None]) -> None:
        """Queue the stop that fits the device's activation before everything else. No queue, lock or encoding."""

    def look(self, ended: Callable[[bool], None]) -> None:
        """Have the device's activation read before everything else, so that stop_kind tells of now. ended: whether it
        answered. Does nothing where one is under way.
        """

    def stop_misread(self) -> bool:
        """Whether the device took the last stop for a command to move. It must be cancelled at once."""

    def track_stop(self, before: Before) -> Tracker:
        """Follow the stop that was just sent."""

    def poll(self, began: Callable[[], bool], ended: Callable[[Observation | None, str], None]) -> None:
        """Queue one acquisition round behind everything else. ended gets None and the reason if it failed."""

    def lost(self) -> None:
        """The link is down: forget what is known of the device."""

    def spacing_s(self, limit_s: float) -> float:
        """How long to wait [s] before the next round, so that late replies can still be told from prompt ones, and the
        device is never left unasked for long.

        limit_s: without a round before that time the link is called down; inf if it is down.
        """

    def stop_kind(self) -> StopKind:
        """What a stop would have to do now."""
