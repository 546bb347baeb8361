"""One supervised gripper over the simulator's own line and fault library, in virtual time, played step by step."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from gripperd.contract import Activation, CommandOutcome, CommandReply, Event, Fault, GripperState, Link
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd.drivers.jodell.driver import JodellConfig, JodellDriver
from gripperd.drivers.jodell.table import RG75
from gripperd.gripper import Gripper
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.modbus.line import PortError
from gripperd.store import Store
from gripperd_sim.line import Line
from gripperd_sim.operations import Operations
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rg75.operations import Rg75Bench
from tests.support.sim_line import CHARACTER_S
from tests.support.virtual_time import START_S, VirtualClock
from tests.torture.scenario import Setting, Step, Value

NAME, UNIT = "left", 9
RECOVERY_LIMIT_S = 2.0
"""How soon after the faults end valid states must follow [s]: contract, section 2."""
OUTCOME_LIMIT_S = 40.0
FASTEST = 255
MAKE_LATE = ("delay", "merge", "repeat")
LATE_PARAMS: dict[str, dict[str, Value]] = {"delay": {"delay_s": 0.1}, "repeat": {"delay_s": 0.1}}
MAKE_WRONG = ("wrong_function", "wrong_count")
WRONG_PARAMS: dict[str, dict[str, Value]] = {"wrong_count": {"registers": 1}}
"""Kinds of faults by what they do to a reply, and what they need to be disarmed."""
SHARE_OF_ONE, SHARE_OF_TWO = 0.95, 0.45
"""How late a reply is at most, as a share of `late_reply_limit_s`: by one fault, and by each of two."""
COMMANDS: dict[str, type[Command]] = {
    "move": Move,
    "grip": Grip,
    "open": Open,
    "activate": Activate,
    "deactivate": Deactivate,
    "clear_fault": ClearFault,
    "release": Release,
}


class SimulatedPort:
    """gripperd's Line and the simulator's Plug: the two ends of one adapter. burst_s: it hands over bytes at ticks."""

    on_change: Callable[[str, str], None] | None = None

    def __init__(self, line: Line[Rg75]) -> None:
        self.name = "sim"
        self.plugged = True
        self.burst_s = 0.0
        self._line = line
        self._received: Callable[[bytes], None] | None = None
        self._lost: Callable[[str], None] | None = None

    def character_s(self) -> float:
        """[s]"""
        return CHARACTER_S

    def describe(self) -> str:
        """For messages."""
        return "sim"

    def slow_remedy(self) -> str:
        """As a real port would."""
        return "latency_timer"

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Raises PortError while unplugged."""
        if not self.plugged:
            raise PortError("sim does not exist: plug the adapter in")
        self._received, self._lost = received, lost

    def write(self, data: bytes) -> None:
        """The request arrives at wire speed, and what comes back too."""
        if self._received is None:
            raise PortError("sim is not open")
        asyncio.get_running_loop().call_later(len(data) * CHARACTER_S, self._hear, data)

    def close(self) -> None:
        """Bytes that are still under way are lost."""
        self._received = self._lost = None

    def plug(self) -> None:
        """Plug in; nothing where it is."""
        self.plugged = True

    def unplug(self) -> None:
        """Pull it; nothing where it is out."""
        self.plugged = False
        lost = self._lost
        self.close()
        if lost is not None:
            lost("sim hung up")

    def replug(self, off_s: float) -> None:
        """Pull it, and plug it in off_s later."""
        self.unplug()
        asyncio.get_running_loop().call_later(off_s, self.plug)

    def set_bursts(self, burst_s: float) -> None:
        """Hand over bytes at ticks only, or at once (0)."""
        self.burst_s = burst_s

    def _hear(self, frame: bytes) -> None:
        loop = asyncio.get_running_loop()
        for out in self._line.receive(frame, loop.time()):
            wire_s = 0.0 if out.on_wire else len(out.data) * CHARACTER_S
            due_s = loop.time() + out.delay_s + wire_s
            if self.burst_s:
                due_s = math.ceil(due_s / self.burst_s) * self.burst_s
            loop.call_at(due_s, self._deliver, out.data)

    def _deliver(self, data: bytes) -> None:
        if self._received is not None:
            self._received(data)


@dataclass
class Played:
    """What was asked for, and when [s]. accepted_s: by the speed byte of a motion command."""

    replies: list[asyncio.Future[CommandReply]] = field(default_factory=list)
    accepted_s: dict[int, float] = field(default_factory=dict)
    stops_s: list[float] = field(default_factory=list)
    activations: int = 0


class World:
    """`async with World(setting) as world:`; or enter and leave it by hand, on a loop that is run in between."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.played = Played()
        self.steps: list[Step] = []
        options = Rg75Options(takeup_s=setting.takeup_s, activation_s=0.3, max_speed_m_s=0.3, release_speed_m_s=0.1)
        self.device = Rg75(options, now_s=START_S, unit=UNIT)
        self.sim = Line([self.device], setting.seed)
        self.faults = self.sim.station().faults
        self.port = SimulatedPort(self.sim)
        self.clock = VirtualClock()
        self.operations = Operations(Rg75Bench(self.sim, self.port, self.now_s).table())
        self.states: list[GripperState] = []
        self.outcomes: list[CommandOutcome] = []
        self._merged = False
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        setting = self.setting
        limits = BusLimits(late_reply_limit_s=setting.late_reply_limit_s)
        config = JodellConfig(
            name=NAME,
            driver="rg75",
            bus="bus",
            unit=UNIT,
            poll_rate_hz=setting.poll_rate_hz,
            moving_poll_rate_hz=setting.moving_poll_rate_hz,
            motion_limit_s=20.0,
        )
        self.bus = Bus("bus", self.port, limits, self.clock)
        self.store = Store("boot")
        self.gripper = Gripper(JodellDriver(config, RG75, self.bus), self.store, self.clock)
        self.store.subscribe([NAME], list(Event), self._listen)
        self._tasks = [asyncio.create_task(self.bus.run()), asyncio.create_task(self.gripper.run())]
        await self._until(lambda: self.gripper.link is Link.UP)
        await self.step(Step(0.0, "activate"))
        await self._until(lambda: bool(self.outcomes))
        self.steps.clear()  # every example begins with the activation
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def now_s(self) -> float:
        """Virtual time [s]."""
        return self.clock.monotonic()

    async def step(self, step: Step) -> None:
        """Play one step. What the simulated world does not permit just now does not happen."""
        step = self._within_the_promise(step)
        self.steps.append(step)
        await asyncio.sleep(step.after_s)
        self._fail_if_ended()
        played, verb = self.played, step.do
        if verb == "stop":
            played.stops_s.append(self.now_s())
            played.replies.append(self.gripper.stop())
        elif verb == "cancel":
            if played.replies:
                played.replies[-1].cancel()
        elif verb in COMMANDS:
            self._command(verb, step)
        elif self._permitted(step):
            self.operations.call(verb, step.params)

    def _within_the_promise(self, step: Step) -> Step:
        """No reply is later than `late_reply_limit_s`. Nor is one late that has the shape of another request's: what is
        late and wrong at once cannot be told from what is right.
        """
        if step.do in MAKE_LATE:
            for kind in MAKE_WRONG:
                self.operations.call(kind, {"count": 0, **WRONG_PARAMS.get(kind, {})})
        elif step.do in MAKE_WRONG:
            for kind in MAKE_LATE:
                self.operations.call(kind, {"count": 0, **LATE_PARAMS.get(kind, {})})
        limit_s = self.setting.late_reply_limit_s
        if step.do == "merge":  # what is held back may be delayed on top of it
            self.operations.call("delay", {"count": 0, **LATE_PARAMS["delay"]})
            self._merged = True
            return Step(step.after_s, step.do, {"within_s": SHARE_OF_TWO * limit_s, **step.params})
        if step.do == "delay":
            latest_s = (SHARE_OF_TWO if self._merged else SHARE_OF_ONE) * limit_s
            return Step(step.after_s, step.do, {**step.params, "delay_s": min(float(step.params["delay_s"]), latest_s)})
        return step

    def _fail_if_ended(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def _command(self, verb: str, step: Step) -> None:
        params = dict(step.params)
        if verb in ("move", "grip", "open"):
            speed = FASTEST - len(self.steps)  # a speed of its own, so that each write tells whose it is
            assert speed > 0
            params["relative_speed"] = speed / 255
            self.played.accepted_s[speed] = self.now_s()
        self.played.activations += verb == "activate"
        command = COMMANDS[verb].model_validate(params)
        self.played.replies.append(self.gripper.command(command))

    def _permitted(self, step: Step) -> bool:
        truth = self.device.state(self.now_s())
        width_m, part_m = truth["width_m"], truth["object_width_m"]
        assert isinstance(width_m, float)
        if step.do == "put_object":
            return part_m is None and width_m > float(step.params["width_m"]) + 0.001
        return part_m is not None if step.do == "take_object" else True

    async def recover(self) -> None:
        """The faults end: the line is healthy soon, every command gets its outcome, and a stop gets through."""
        self._end_faults()
        while not self._is_powered():  # noqa: ASYNC110 (time is virtual)
            await asyncio.sleep(0.05)
        ended_s = self.now_s()
        await self._until(self._is_healthy)
        took_s = self.now_s() - ended_s
        assert took_s < RECOVERY_LIMIT_S, f"healthy {took_s:.2f} s after the faults ended"
        await asyncio.sleep(self.setting.late_reply_limit_s + 0.1)  # so that the last acknowledgement is proven
        await self.step(Step(0.0, "stop"))
        self.steps.pop()  # every example ends so
        stop = await self.played.replies[-1]
        assert stop.ok, stop
        replies = await asyncio.gather(*self.played.replies, return_exceptions=True)
        seqs = [each.command_seq for each in replies if isinstance(each, CommandReply) and each.command_seq]
        await self._until(lambda: all(self.gripper.ledger.outcome(seq) for seq in seqs))
        await asyncio.sleep(0.1)
        self._fail_if_ended()

    def _end_faults(self) -> None:
        self.faults.clear()
        self.port.set_bursts(0.0)
        self.port.plug()

    def _is_powered(self) -> bool:
        self.device.advance(self.now_s())
        return self.device.powered

    def _is_healthy(self) -> bool:
        state = self.store.latest(NAME)
        return state.link is Link.UP and state.activation is not Activation.UNKNOWN

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(OUTCOME_LIMIT_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        self._news.set()
        if isinstance(item, GripperState):
            self.states.append(item)
        elif isinstance(item, CommandOutcome):
            self.outcomes.append(item)
