"""The hand: motions, answers and states. Pure: it is told the time, and puts what it answers into `answers`.

One motion at a time, whatever connection asked for it. Its answer comes when it has ended.
"""

from __future__ import annotations

import math
from random import Random

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.motion import Answer, Motion, in_band, refusal
from gripperd_sim.franka_hand.options import HandOptions
from gripperd_sim.franka_hand.wire import ABORTED, FAIL, GRASP, HOMING, MOVE, STOP, SUCCESS, UNSUCCESSFUL, Request
from gripperd_sim.franka_hand.world import World
from gripperd_sim.history import Kind
from gripperd_sim.jaw import Drive, Jaw, JawEvent, JawEventKind, WorldError


class FrankaHand(World):
    """One hand with its world.

    In virtual time: handle() takes the bytes of a client and gives what is answered at once; advance() to
    next_event_s() and take_answers() give the rest; datagram() is the state. Time never runs backwards.
    """

    def __init__(
        self, options: HandOptions | None = None, now_s: float = 0.0, seed: int = 0, width_m: float | None = None
    ) -> None:
        self.options = options or HandOptions()
        super().__init__(Jaw(self.options.max_width_m, width_m, now_s), self.options.temperature_c)
        self.answers: list[Answer] = []
        self.udp_ports: dict[int, int] = {}
        """Connection -> where its client wants states; a connection whose version does not fit has none."""
        self._streams: dict[int, wire.Stream] = {}
        self.powered = True
        self.homed = self.options.homed
        self.grasped = False
        self.motion: Motion | None = None
        self._unasked = ""
        self.reseed(seed)
        self._booted_s = now_s - self.options.uptime_s
        self._last_id = 0
        self._power_on_s: float | None = None

    # --- requests

    def reseed(self, seed: int) -> None:
        """Begin the chances anew."""
        self._random = Random(seed)

    def handle(self, connection: int, data: bytes, now_s: float) -> list[Answer]:
        """Bytes of a client, in any pieces; what is answered at once. Raises BrokenStreamError."""
        stream = self._streams.setdefault(connection, wire.Stream())
        for request in stream.feed(data):
            self.receive(connection, request, now_s)
        return self.take_answers()

    def take_answers(self) -> list[Answer]:
        """What was answered since the last call."""
        answers, self.answers = self.answers, []
        return answers

    def receive(self, connection: int, request: Request, now_s: float) -> None:
        """A message of a client. Without power nobody is there to hear it."""
        self.advance(now_s)
        if not self.powered:
            self.history.add(now_s, Kind.SILENCE, reason="no power", connection=connection, hex=request.data.hex())
            return
        self.history.add(
            now_s,
            Kind.REQUEST,
            connection=connection,
            command=request.name,
            number=request.number,
            values=request.values,
            hex=request.data.hex(),
        )
        if request.command == wire.CONNECT:
            self._connect(connection, request)
        else:
            self.request(connection, request, now_s)

    def _connect(self, connection: int, request: Request) -> None:
        version, udp_port = (int(value) for value in request.values) if request.values else (0, 0)
        fits = version == self.options.protocol_version
        if fits:
            self.udp_ports[connection] = udp_port
        status = SUCCESS if fits else wire.VERSION_MISMATCH
        data = wire.connect_answer(request.number, status, self.options.protocol_version)
        self._add_answer(connection, request, status, data, "success" if fits else "incompatible_version")

    def request(self, connection: int, request: Request, now_s: float) -> None:
        """A message of a client that is connected."""
        self.advance(now_s)
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
        """A connection is gone; what it started goes on, unless close_stops."""
        self.advance(now_s)
        self._streams.pop(connection, None)
        self.udp_ports.pop(connection, None)
        motion = self.motion
        if self.options.close_stops and motion is not None and motion.connection == connection and motion.ended is None:
            self._abort()

    def _stop(self, connection: int, request: Request) -> None:
        motion = self.motion
        if motion is not None and self._random.random() < self.options.stop_ignored:
            motion.waiting.append((connection, request))
            return
        if self.options.stop_failed and self._random.random() < self.options.stop_failed:
            self._answer(connection, request, FAIL)
            return
        if self.options.stop_answered_first:
            self._answer(connection, request, SUCCESS)
        self._abort()
        self._end_unasked("aborted")
        self.jaw.relax()
        self._let_go()
        if not self.options.stop_answered_first:
            self._answer(connection, request, SUCCESS)

    def _start(self, connection: int, request: Request) -> None:
        motion = self.motion = Motion(connection, request, self.jaw.now_s)
        refused = refusal(self.options, request, homed=self.homed, grasped=self.grasped)
        if refused is not None:
            self._end(motion, refused.status, refused.reason)
            return
        if request.command == HOMING:
            self._home(motion)
            return
        grasped, width_m = self.grasped, request.values[0]
        self._let_go()
        if request.command == GRASP:
            speed_m_s, force_n = request.values[3], request.values[4]
            motion.closing = width_m < self.jaw.width_m
            target_m = 0.0 if motion.closing else self.options.max_width_m
        else:
            speed_m_s, force_n, target_m = request.values[1], self.options.move_force_n, width_m
        if grasped:
            self.jaw.relax()
        self._drive(request.name, target_m, speed_m_s, min(force_n, self.options.max_force_n))

    def _drive(self, cause: str, target_m: float, speed_m_s: float, force_n: float) -> None:
        speed_m_s = min(speed_m_s, self.options.max_speed_m_s)
        self._end_unasked("aborted")
        self._driven = Drive(target_m, speed_m_s, force_n)
        self._note_drive(cause)
        self._unasked = cause if cause == "relax" else ""
        self.jaw.drive_to(target_m, speed_m_s, force_n)

    def _note_drive(self, cause: str) -> None:
        drive = self._driven
        self.history.add(
            self.jaw.now_s,
            Kind.MOTION_START,
            cause=cause,
            from_m=self.jaw.width_m,
            target_m=drive.target_m,
            speed_m_s=drive.speed_m_s,
            force_n=drive.force_n,
        )

    def _end_unasked(self, outcome: str) -> None:
        """A motion that no request is waiting for ends: the relaxing after a grasp, the closing after a loss."""
        if self._unasked:
            self._unasked = ""
            self._motion_ended(outcome)

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
        data = wire.answer(request.command, request.number, status)
        self._add_answer(connection, request, status, data, wire.STATUS_NAMES[status])

    def _add_answer(self, connection: int, request: Request, status: int, data: bytes, told: str) -> None:
        self.answers.append(Answer(connection, request.command, status, data))
        self.history.add(
            self.jaw.now_s,
            Kind.REPLY,
            connection=connection,
            command=request.name,
            number=request.number,
            status=told,
            hex=data.hex(),
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
            self._end(motion, FAIL if self.options.stuck_move_status == "fail" else UNSUCCESSFUL, "gave up")
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
        self._end_unasked("contact" if event.kind is JawEventKind.CONTACT else "reached")
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
            if self.options.drive_after_loss:
                self._note_drive("after_loss")
                self._unasked = "after_loss"
            else:
                self.jaw.stop()

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
        if in_band(motion.request, self.jaw.width_m):
            self.grasped = True
            self._end(motion, SUCCESS, "grasped")
            return
        self._end(motion, UNSUCCESSFUL, "outside of the band")
        self.jaw.relax()
        # Away from what was met: an opening grasp, as of a ring from inside, relaxes inward.
        away_m = self.options.relax_m if motion.closing else -self.options.relax_m
        self._drive("relax", self.jaw.width_m + away_m, self.options.max_speed_m_s, self.options.move_force_n)

    # --- states

    def datagram(self, now_s: float, message_id: int | None = None) -> bytes:
        """The state now. message_id: by default the milliseconds since power-up, never the same twice."""
        self.advance(now_s)
        if message_id is None:
            message_id = self._last_id = max(self._last_id + 1, round((now_s - self._booted_s) * 1000))
        max_m = self.options.max_width_m if self.homed else 0.0
        return wire.state(message_id, self.jaw.width_m, max_m, self.grasped, self.temperature_c)

    # --- the world

    @property
    def at_rest(self) -> bool:
        """Whether the hand is homed and nothing is pending."""
        return self.homed and self.motion is None

    def power_cycle(self, now_s: float, off_s: float) -> None:
        """Power goes now and comes back off_s later. Homing and all that is pending are lost."""
        if not 0 <= off_s < math.inf:
            raise WorldError(f"off_s = {off_s}: give 0 or more seconds")
        self.advance(now_s)
        if self.motion is not None and self.motion.ended is None:
            self._motion_ended("power lost")
        self._end_unasked("power lost")
        self.powered = self.homed = False
        self._let_go()
        self.motion = None
        self.answers.clear()
        self.jaw.stop()
        self.history.add(now_s, Kind.POWER, on=False)
        self._power_on_s = now_s + off_s
        self.advance(now_s)

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
