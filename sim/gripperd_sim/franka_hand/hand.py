"""The hand: motions, answers and states. Pure: it is told the time, and puts what it answers into `answers`.

One motion at a time, whatever connection asked for it. Its answer comes when it has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.options import HandOptions
from gripperd_sim.franka_hand.wire import ABORTED, FAIL, GRASP, HOMING, MOVE, STOP, SUCCESS, UNSUCCESSFUL, Request
from gripperd_sim.history import History, Kind
from gripperd_sim.jaw import GraspObject, Jaw, JawEvent, JawEventKind, WorldError

ROOM_M = 0.001
"""A part that lies ready is put in when the jaws are this much wider [m]."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes for a connection."""

    connection: int
    command: int
    status: int
    data: bytes


@dataclass(eq=False, slots=True)
class Motion:
    """What is pending. ended: with this status, to be answered at due_s. stuck_s: since when it is blocked."""

    connection: int
    request: Request
    began_s: float
    ended: int | None = None
    due_s: float = math.inf
    stuck_s: float | None = None
    opens_next: bool = False
    waiting: list[tuple[int, Request]] = field(default_factory=list)
    """Requests that are answered when this motion has ended: stops that it ignored, motions that came meanwhile."""


class FrankaHand:
    """One hand with its world."""

    def __init__(self, options: HandOptions | None = None, now_s: float = 0.0, seed: int = 0) -> None:
        self.options = options or HandOptions()
        self.jaw = Jaw(self.options.max_width_m, None, now_s)
        self.history = History()
        self.answers: list[Answer] = []
        self.powered = True
        self.homed = self.options.homed
        self.grasped = False
        self.temperature_c = self.options.temperature_c
        self.motion: Motion | None = None
        self._random = Random(seed)
        self._supply: GraspObject | None = None
        self._booted_s = now_s
        self._last_id = 0
        self._power_on_s: float | None = None

    # --- requests

    def request(self, connection: int, request: Request, now_s: float) -> None:
        """A message of a client, Connect excepted."""
        self.advance(now_s)
        self.history.add(
            now_s,
            Kind.REQUEST,
            connection=connection,
            command=request.name,
            number=request.number,
            values=tuple(request.values),  # type: ignore[arg-type]  # numbers, as the history takes them
            hex=request.data.hex(),
        )
        if not self.powered:
            return
        if request.command == STOP:
            self._stop(connection, request)
        elif request.command not in (HOMING, GRASP, MOVE):
            self._answer(connection, request, FAIL)
        elif self.motion is not None and self.options.busy == "ignore":
            self.motion.waiting.append((connection, request))
        else:
            self._abort()
            self._start(connection, request)

    def closed(self, connection: int, now_s: float) -> None:
        """A connection is gone; what it started goes on."""
        self.advance(now_s)
        motion = self.motion
        if self.options.close_stops and motion is not None and motion.connection == connection and motion.ended is None:
            self._abort()

    def _stop(self, connection: int, request: Request) -> None:
        motion = self.motion
        if motion is not None and self._random.random() < self.options.stop_ignored:
            motion.waiting.append((connection, request))
            return
        if self.options.stop_answered_first:
            self._answer(connection, request, SUCCESS)
        self._abort()
        self.jaw.relax()
        self._let_go()
        if not self.options.stop_answered_first:
            self._answer(connection, request, SUCCESS)

    def _start(self, connection: int, request: Request) -> None:
        motion = self.motion = Motion(connection, request, self.jaw.now_s)
        refused = self._refuses(request)
        if refused:
            self._end(motion, FAIL, refused)
            return
        if request.command == HOMING:
            self._home(motion)
            return
        grasped, width_m = self.grasped, request.values[0]
        self._let_go()
        if request.command == GRASP:
            speed_m_s, force_n = request.values[3], request.values[4]
            target_m = 0.0 if width_m < self.jaw.width_m else self.options.max_width_m
        else:
            speed_m_s, force_n, target_m = request.values[1], self.options.move_force_n, width_m
        if grasped:
            self.jaw.relax()
        self._drive(request.name, target_m, speed_m_s, min(force_n, self.options.max_force_n))

    def _refuses(self, request: Request) -> str:
        """Why a motion fails at once."""
        if request.command == HOMING:
            return ""
        values = request.values
        if not values or not all(map(math.isfinite, values)):
            return "not a number"
        if not self.homed:
            return "not homed"
        if not 0 <= values[0] <= self.options.max_width_m:
            return "width out of range"
        if not all(value > 0 for value in (values[1:] if request.command == MOVE else values[3:])):
            return "speed or force not above 0"
        if request.command == GRASP and self.grasped and self.options.second_grasp == "fail":
            return "grasping already"
        return "a stop is needed first" if self.grasped and self.options.reopen_needs_stop else ""

    def _drive(self, cause: str, target_m: float, speed_m_s: float, force_n: float) -> None:
        speed_m_s = min(speed_m_s, self.options.max_speed_m_s)
        self.history.add(
            self.jaw.now_s,
            Kind.MOTION_START,
            cause=cause,
            from_m=self.jaw.width_m,
            target_m=target_m,
            speed_m_s=speed_m_s,
            force_n=force_n,
        )
        self.jaw.drive_to(target_m, speed_m_s, force_n)

    def _home(self, motion: Motion) -> None:
        self._let_go()
        self._withdraw()
        self.homed = False
        motion.opens_next = True
        self._drive("homing", 0.0, self._homing_speed_m_s(), self.options.move_force_n)

    def _homing_speed_m_s(self) -> float:
        return 2 * self.options.max_width_m / self.options.homing_s

    def _abort(self) -> None:
        """What is pending ends here. One that has ended and waits for its answer's time keeps what it grasped."""
        motion, self.motion = self.motion, None
        if motion is None:
            return
        if motion.ended is None:
            # Also where the next motion is refused: nothing moves without a motion that is pending. [?]
            self.jaw.stop()
            self._motion_ended("aborted")
        self._answer(motion.connection, motion.request, ABORTED)
        self._answer_waiting(motion)

    def _end(self, motion: Motion, status: int, outcome: str) -> None:
        motion.ended = status
        motion.due_s = max(self.jaw.now_s, motion.began_s + self.options.command_latency_s)
        self._motion_ended(outcome)

    def _answer_waiting(self, motion: Motion) -> None:
        for connection, request in motion.waiting:
            self._answer(connection, request, SUCCESS if request.command == STOP else FAIL)

    def _answer(self, connection: int, request: Request, status: int) -> None:
        self.answers.append(
            Answer(connection, request.command, status, wire.answer(request.command, request.number, status))
        )
        self.history.add(
            self.jaw.now_s,
            Kind.REPLY,
            connection=connection,
            command=request.name,
            number=request.number,
            status=wire.STATUS_NAMES[status],
        )

    def _motion_ended(self, outcome: str) -> None:
        self.history.add(self.jaw.now_s, Kind.MOTION_END, outcome=outcome, width_m=self.jaw.width_m)

    def _let_go(self) -> None:
        self.grasped = False

    # --- time

    def next_event_s(self) -> float | None:
        """When something will happen by itself; None: never as things are."""
        times = [self.jaw.next_event_s(), self._power_on_s]
        if self.motion is not None:
            times.append(self.motion.due_s if self.motion.ended is not None else self._freed_s(self.motion))
        known = [time_s for time_s in times if time_s is not None and math.isfinite(time_s)]
        return min(known, default=None)

    def _freed_s(self, motion: Motion) -> float:
        return math.inf if motion.stuck_s is None else motion.stuck_s + self.options.stuck_move_s

    def advance(self, now_s: float) -> None:
        """Let time pass."""
        while (next_s := self.next_event_s()) is not None and next_s <= now_s:
            for event in self.jaw.advance(max(next_s, self.jaw.now_s)):
                self._jaw_event(event)
            self._due(next_s)
        for event in self.jaw.advance(now_s):
            self._jaw_event(event)

    def _due(self, now_s: float) -> None:
        if self._power_on_s is not None and self._power_on_s <= now_s:
            self._power_on_s = None
            self.powered = True
            self._booted_s, self._last_id = now_s, 0
            self.history.add(now_s, Kind.POWER, on=True)
        motion = self.motion
        if motion is None:
            return
        if motion.ended is None and self._freed_s(motion) <= now_s:
            self.jaw.stop()
            self._end(motion, UNSUCCESSFUL, "gave up")
        if motion.ended is not None and motion.due_s <= now_s:
            self.motion = None
            self._answer(motion.connection, motion.request, motion.ended)
            self._answer_waiting(motion)
            self._serve_supply()

    def _jaw_event(self, event: JawEvent) -> None:
        if event.kind in (JawEventKind.CONTACT_LOST, JawEventKind.SLIPPED):
            self._lost(event)
            return
        motion = self.motion
        if motion is None or motion.ended is not None:
            return
        if motion.request.command == HOMING:
            self._homing_event(motion)
        elif motion.request.command == GRASP:
            self._grasp_event(motion)
        elif event.kind is JawEventKind.ARRIVED:
            self._end(motion, SUCCESS, "reached")
        elif motion.stuck_s is None:
            motion.stuck_s = event.t_s

    def _lost(self, event: JawEvent) -> None:
        if self.motion is not None:
            self.motion.stuck_s = None
        if self.grasped:
            self.history.add(event.t_s, Kind.OBJECT, change="lost", width_m=self.jaw.width_m)
            self._let_go()

    def _homing_event(self, motion: Motion) -> None:
        if motion.opens_next:
            motion.opens_next = False
            self._drive("homing", self.options.max_width_m, self._homing_speed_m_s(), self.options.move_force_n)
            return
        self.jaw.stop()
        self.homed = True
        self._end(motion, SUCCESS, "homed")

    def _grasp_event(self, motion: Motion) -> None:
        """Strict inequalities; outside of the band the fingers let go. [S], [U] libfranka#13"""
        width_m, inner_m, outer_m = motion.request.values[:3]
        if width_m - inner_m < self.jaw.width_m < width_m + outer_m:
            self.grasped = True
            self._end(motion, SUCCESS, "grasped")
            return
        self.jaw.relax()
        self._drive(
            "relax", self.jaw.width_m + self.options.relax_m, self.options.max_speed_m_s, self.options.move_force_n
        )
        self._end(motion, UNSUCCESSFUL, "outside of the band")

    # --- states

    def datagram(self, now_s: float, message_id: int | None = None) -> bytes:
        """The state now. message_id: by default the milliseconds since power-up, never the same twice."""
        self.advance(now_s)
        if message_id is None:
            message_id = self._last_id = max(self._last_id + 1, round((now_s - self._booted_s) * 1000))
        max_m = self.options.max_width_m if self.homed else 0.0
        return wire.state(message_id, self.jaw.width_m, max_m, self.grasped, self.temperature_c)

    # --- the world

    def power_cycle(self, now_s: float, off_s: float) -> None:
        """Power goes now and comes back off_s later. Homing and all that is pending are lost."""
        if not 0 <= off_s < math.inf:
            raise WorldError(f"off_s = {off_s}: give 0 or more seconds")
        self.advance(now_s)
        if self.motion is not None and self.motion.ended is None:
            self._motion_ended("power lost")
        self.powered = self.homed = False
        self._let_go()
        self.motion = None
        self.answers.clear()
        self.jaw.stop()
        self.history.add(now_s, Kind.POWER, on=False)
        self._power_on_s = now_s + off_s
        self.advance(now_s)

    def put_object(self, part: GraspObject, now_s: float) -> None:
        """Put a part between the jaws."""
        self.advance(now_s)
        self.jaw.put_object(part)
        self.history.add(now_s, Kind.OBJECT, change="put", width_m=part.width_m)
        self.advance(now_s)

    def supply_object(self, part: GraspObject, now_s: float) -> None:
        """Have a part put in whenever the homed hand rests wide enough and holds none."""
        self.advance(now_s)
        self._supply = part
        self._serve_supply()

    def take_object(self, now_s: float) -> None:
        """Take the part away, held or not, and supply no more."""
        self.advance(now_s)
        supplied, self._supply = self._supply, None
        if self.jaw.object is None and supplied is not None:
            return
        part = self.jaw.take_object()
        self.history.add(now_s, Kind.OBJECT, change="taken", width_m=part.width_m)
        self.advance(now_s)

    def obstruct(self, width_m: float, now_s: float) -> None:
        """Something hard at this width stops the jaws from either side."""
        self.advance(now_s)
        self.jaw.obstruct(width_m)
        self.history.add(now_s, Kind.WORLD, change="obstruct", width_m=width_m)
        self.advance(now_s)

    def clear_obstruction(self, now_s: float) -> None:
        """Take it away."""
        self.advance(now_s)
        self.jaw.clear_obstruction()
        self.history.add(now_s, Kind.WORLD, change="clear_obstruction")
        self.advance(now_s)

    def _serve_supply(self) -> None:
        part = self._supply
        if part is None or not self.homed or self.motion is not None or self.jaw.object is not None:
            return
        if self.jaw.width_m > part.width_m + ROOM_M:
            self.jaw.put_object(part)
            self.history.add(self.jaw.now_s, Kind.OBJECT, change="supplied", width_m=part.width_m)

    def _withdraw(self) -> None:
        if self._supply is not None and self.jaw.object is not None:
            self.jaw.take_object()

    def state(self, now_s: float) -> dict[str, object]:
        """The truth about the hand and its world at now_s, for people and tests."""
        self.advance(now_s)
        jaw, motion = self.jaw, self.motion
        return {
            "t_s": jaw.now_s,
            "powered": self.powered,
            "homed": self.homed,
            "width_m": jaw.width_m,
            "speed_m_s": jaw.speed_m_s,
            "force_n": jaw.force_n,
            "is_grasped": self.grasped,
            "object_width_m": jaw.object.width_m if jaw.object else None,
            "obstruction_m": jaw.obstruction_m,
            "pending": motion.request.name if motion is not None else None,
            "stuck": motion is not None and motion.stuck_s is not None,
            "last_event": self.history.last_seq,
        }
