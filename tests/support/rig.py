"""One supervised gripper over a simulated RG75, in virtual time, with all that it told recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from gripperd.contract import CommandOutcome, CommandReply, Event, Fault, GripperState, Link
from gripperd.contract.requests import Activate, Command
from gripperd.drivers.jodell.driver import JodellConfig, JodellDriver
from gripperd.drivers.jodell.table import RG75
from gripperd.gripper import Gripper
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.store import Store
from gripperd_sim.history import Event as SimEvent
from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject
from gripperd_sim.rg75 import Rg75, Rg75Options
from tests.support.sim_line import SimLine
from tests.support.virtual_time import START_S, VirtualClock, within

NAME = "left"
UNIT = 9


REFUSAL = bytes.fromhex("0990038dc3")
"""Unit 9 refuses a write with exception 3."""

GO_ACK = bytes.fromhex("091003e800030130")
"""Unit 9 acknowledges the three words of a motion."""


@dataclass
class Gate:
    """Stands before a device. opens: whether a request reaches it; otherwise `instead` is answered."""

    device: Rg75
    opens: Callable[[bytes, float], bool]
    instead: bytes | None = None

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        """The device's answer, or the other one."""
        return self.device.handle(frame, now_s) if self.opens(frame, now_s) else self.instead


class Rig:
    """`async with Rig() as rig:` runs a bus and a gripper until the end of the block."""

    def __init__(
        self,
        options: Rg75Options | None = None,
        limits: BusLimits | None = None,
        plugged: bool = True,
        **config: Any,
    ) -> None:
        self.device = Rg75(options, now_s=START_S, unit=UNIT)
        self.line = SimLine({UNIT: self.device}, plugged=plugged)
        self.clock = VirtualClock()
        self.config = JodellConfig(name=NAME, driver="rg75", bus="bus", unit=UNIT, **config)
        self.limits = limits or BusLimits()
        self.states: list[GripperState] = []
        self.outcomes: list[CommandOutcome] = []
        self.events: list[tuple[Event, object]] = []
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.bus = Bus("bus", self.line, self.limits, self.clock)
        self.store = Store("boot")
        self.driver = JodellDriver(self.config, RG75, self.bus)
        self.gripper = Gripper(self.driver, self.store, self.clock)
        self.store.subscribe([NAME], list(Event), self._listen)
        self._tasks = [asyncio.create_task(self.bus.run()), asyncio.create_task(self.gripper.run())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def _listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        assert gripper == NAME
        self.events.append((event, item))
        self._news.set()
        if isinstance(item, GripperState):
            self.states.append(item)
        elif isinstance(item, CommandOutcome):
            self.outcomes.append(item)

    @property
    def state(self) -> GripperState:
        """The latest round."""
        return self.store.latest(NAME)

    def now_s(self) -> float:
        """Virtual time [s]."""
        return self.clock.monotonic()

    async def until(self, condition: Callable[[], bool], limit_s: float = 30.0) -> None:
        """Wait until condition() holds, looking after everything that is published."""
        async with asyncio.timeout(limit_s):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def reply(self, command: Command) -> CommandReply:
        """Give a command."""
        return await within(30.0, self.gripper.command(command))

    async def outcome(self, command: Command | CommandReply) -> CommandOutcome:
        """Give a command if it is one, and wait for its outcome."""
        reply = command if isinstance(command, CommandReply) else await self.reply(command)
        assert reply.command_seq, reply
        await self.until(lambda: self.gripper.ledger.outcome(reply.command_seq) is not None)
        outcome = self.gripper.ledger.outcome(reply.command_seq)
        assert outcome is not None
        return outcome

    async def stop(self) -> CommandReply:
        """Stop."""
        return await within(30.0, self.gripper.stop())

    async def activate(self) -> None:
        """Wait for the link, and activate."""
        await self.until(lambda: self.state.link is Link.UP)
        outcome = await self.outcome(Activate())
        assert outcome.outcome == "reached", outcome

    def width_m(self) -> float:
        """True clear width now [m]."""
        width: object = self.device.state(self.now_s())["width_m"]
        assert isinstance(width, float)
        return width

    def put(self, width_m: float) -> None:
        """Put an object between the jaws."""
        self.device.put_object(GraspObject(width_m), self.now_s())

    def take(self) -> None:
        """Take it out."""
        self.device.take_object(self.now_s())

    def writes(self) -> list[SimEvent]:
        """Every write that the device carried out, in order."""
        return self.device.history.of(Kind.WRITE)

    def sweeps(self) -> list[SimEvent]:
        """Every activation that began: the jaws sweep."""
        return [event for event in self.device.history.of(Kind.ACTIVATION) if event.fields["stage"] == "homing"]

    def gate(self, opens: Callable[[bytes, float], bool], instead: bytes | None = None) -> None:
        """From now on only requests for which opens(frame, now_s) holds reach the device."""
        self.line.units = {UNIT: Gate(self.device, opens, instead)}

    def ungate(self) -> None:
        """All requests reach the device again."""
        self.line.units = {UNIT: self.device}
