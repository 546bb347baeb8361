"""The parts that come and go with the configuration: buses, wires, grippers, publishers; one task each.

Rules
1. New parts are made before old ones end: a configuration that cannot be carried out disturbs nobody.
2. Old parts end before new ones run, since a wire has one owner. Order of the end: publishers, grippers, wires, buses.
3. A gripper that ends does what `stop_at_exit` says, tells that its link is down, and gives every command its outcome.
4. One that comes back under its name goes on with the numbers of rounds, commands and activations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from gripperd.changes import Parts
from gripperd.clock import Clock
from gripperd.config import BusConfig, Config, MqttConfig
from gripperd.drivers.base import Wire
from gripperd.drivers.registry import driver_specs
from gripperd.drivers.spec import Surroundings
from gripperd.gripper import Gripper
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.modbus.line import Line, SerialLine, SerialSettings
from gripperd.store import Store
from gripperd.transports.mqtt import MqttPublisher

EXIT_STOP_LIMIT_S = 1.5
"""How long the stops of `stop_at_exit` may take at the end [s]; more than a stop's own confirmation limit."""
RETIRED = "removed from the configuration, or changed in it"

LineFactory = Callable[[BusConfig], Line]
PublisherFactory = Callable[[MqttConfig, str], MqttPublisher]


def serial_line(config: BusConfig) -> Line:
    """A real port."""
    return SerialLine(SerialSettings(config.port, config.baudrate, config.parity))


@dataclass(slots=True)
class Recruits:
    """Parts that were made and do not run yet."""

    buses: dict[str, Bus] = field(default_factory=dict)
    grippers: dict[str, Gripper] = field(default_factory=dict)
    publishers: dict[str, MqttPublisher] = field(default_factory=dict)


class Crew:
    """All of them. The mappings are the same objects for the daemon's life: others may keep them."""

    def __init__(self, store: Store, clock: Clock, make_line: LineFactory) -> None:
        self.buses: dict[str, Bus] = {}
        self.wires: dict[str, Wire] = {}
        self.grippers: dict[str, Gripper] = {}
        self.publishers: dict[str, MqttPublisher] = {}
        self._store = store
        self._clock = clock
        self._make_line = make_line
        self._past: dict[str, Gripper] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def make(self, config: Config, parts: Parts, make_publisher: PublisherFactory) -> Recruits:
        """Make what begins, and disturb nothing. Whatever a driver raises goes to the caller."""
        made = Recruits()
        for bus in config.bus:
            if bus.name in parts.buses:
                made.buses[bus.name] = Bus(bus.name, self._make_line(bus), _limits(bus), self._clock)
        specs, surroundings = driver_specs(), Surroundings({**self.buses, **made.buses}, self._clock)
        for each in config.gripper:
            if each.name in parts.grippers:
                before = self.grippers.get(each.name) or self._past.get(each.name)
                driver = specs[each.driver].make(each, surroundings)
                made.grippers[each.name] = Gripper(driver, self._store, self._clock, before)
        if config.mqtt is not None:
            made.publishers = {
                each.name: make_publisher(config.mqtt, each.name)
                for each in config.gripper
                if each.name in parts.publishers
            }
        return made

    def add(self, config: Config, made: Recruits) -> None:
        """Take them in, in the configuration's order."""
        self.buses.update(made.buses)
        self.publishers.update(made.publishers)
        self.grippers.update(made.grippers)
        own = {name: gripper.driver.wire for name, gripper in made.grippers.items()}
        self.wires.update({name: wire for name, wire in own.items() if wire is not None})
        for name in made.grippers:
            self._past.pop(name, None)
        for each in config.gripper:
            self.grippers[each.name] = self.grippers.pop(each.name)

    def start(self, owners: asyncio.TaskGroup, users: asyncio.TaskGroup) -> None:
        """Run what does not run yet. owners: tasks of the wires; users: of those who use them."""
        self._run(owners, "bus", self.buses.items())
        self._run(owners, "wire", self.wires.items())
        self._run(users, "gripper", self.grippers.items())
        self._run(users, "mqtt", self.publishers.items())

    async def end(self, parts: Parts) -> None:
        """End these, in order."""
        await self._cancel("mqtt", parts.publishers)
        for name in parts.publishers:
            del self.publishers[name]
        await self.stop_at_exit(parts.grippers)
        for name in parts.grippers:
            self.grippers[name].retire(RETIRED)
        await self._cancel("gripper", parts.grippers)
        for name in parts.grippers:
            self._past[name] = self.grippers.pop(name)
        wires = [name for name in parts.grippers if name in self.wires]
        await self._cancel("wire", wires)
        for name in wires:
            del self.wires[name]
        await self._cancel("bus", parts.buses)
        for name in parts.buses:
            del self.buses[name]

    def cancel_users(self) -> None:
        """At the daemon's end: those who use the wires go first."""
        self._cancel_kinds("gripper", "mqtt")

    def cancel_owners(self) -> None:
        """And then the wires."""
        self._cancel_kinds("bus", "wire")

    async def stop_at_exit(self, names: Iterable[str]) -> None:
        """Stop those that are configured to; the others go on with what they do."""
        grippers = [self.grippers[name] for name in names]
        stops = [gripper.stop() for gripper in grippers if gripper.driver.config.stop_at_exit]
        if stops:
            await asyncio.wait(stops, timeout=EXIT_STOP_LIMIT_S)

    def _run(self, group: asyncio.TaskGroup, kind: str, parts: Collection[tuple[str, Any]]) -> None:
        for name, part in parts:
            if (kind, name) not in self._tasks:
                running: Coroutine[Any, Any, None] = part.run()
                self._tasks[kind, name] = group.create_task(running, name=f"{kind} {name}")

    async def _cancel(self, kind: str, names: Collection[str]) -> None:
        tasks = [self._tasks.pop((kind, name)) for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel_kinds(self, *kinds: str) -> None:
        for (kind, _), task in self._tasks.items():
            if kind in kinds:
                task.cancel()


def _limits(bus: BusConfig) -> BusLimits:
    return BusLimits(
        response_timeout_s=bus.response_timeout_s,
        turnaround_s=bus.turnaround_s,
        resync_quiet_s=bus.resync_quiet_s,
        resync_limit_s=bus.resync_limit_s,
        late_reply_limit_s=bus.late_reply_limit_s,
        reopen_delay_s=bus.reopen_delay_s,
    )
