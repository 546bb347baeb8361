"""Several grippers on one simulated line, in virtual time, with everything that they tell recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gripperd.contract import CommandOutcome, CommandReply, Event, Fault, GripperState, Link
from gripperd.contract.requests import Activate
from gripperd.contract.service import Peer
from gripperd.drivers.jodell.driver import JodellConfig, JodellDriver
from gripperd.drivers.jodell.table import RG75
from gripperd.gripper import Gripper
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.service import GripperService
from gripperd.store import Store
from gripperd_sim.rg75 import Rg75
from tests.support.sim_line import SimLine
from tests.support.virtual_time import START_S, VirtualClock


class Crew:
    """`async with Crew(range(9, 17)) as crew:` names each gripper after its unit: "g9", "g10", ..."""

    def __init__(self, units: Sequence[int], **config: float) -> None:
        self.units = tuple(units)
        self.names = {unit: f"g{unit}" for unit in self.units}
        self.devices = {unit: Rg75(now_s=START_S, unit=unit) for unit in self.units}
        self.line = SimLine(dict(self.devices))
        self.clock = VirtualClock()
        self.states: dict[str, list[GripperState]] = {name: [] for name in self.names.values()}
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.bus = Bus("bus", self.line, BusLimits(), self.clock)
        self.store = Store("boot")
        configs = [
            JodellConfig.model_validate({"name": name, "driver": "rg75", "bus": "bus", "unit": unit, **self._config})
            for unit, name in self.names.items()
        ]
        self.grippers = {
            each.name: Gripper(JodellDriver(each, RG75, self.bus), self.store, self.clock) for each in configs
        }
        self.service = GripperService(self.grippers, self.store, self.clock, "host", dict)
        self.session = self.service.join(Peer("test"))
        self.store.subscribe(list(self.grippers), [Event.STATE], self._listen)
        runs = [self.bus.run(), *(gripper.run() for gripper in self.grippers.values())]
        self._tasks = [asyncio.create_task(run) for run in runs]
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
        if isinstance(item, GripperState):
            self.states[gripper].append(item)

    def now_s(self) -> float:
        """Virtual time [s]."""
        return self.clock.monotonic()

    async def activate(self) -> None:
        """All of them."""
        await asyncio.sleep(0.5)
        replies: list[CommandReply] = await asyncio.gather(
            *(gripper.command(Activate()) for gripper in self.grippers.values())
        )
        assert all(reply.ok for reply in replies), replies
        await asyncio.sleep(3.0)
