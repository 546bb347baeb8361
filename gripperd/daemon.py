"""Composition root: makes every part, starts and stops them in order. Nobody else knows all parts.

Order: socket, then wires, then grippers, then MQTT; backwards at the end. A part that fails takes the daemon down
with its reason: a supervisor that restarts it finds the devices as they were, since adopting writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import structlog

from gripperd import __version__
from gripperd.activation import inherited_socket
from gripperd.clock import Clock, SystemClock
from gripperd.config import BusConfig, Config
from gripperd.drivers.base import Wire
from gripperd.drivers.registry import driver_specs
from gripperd.drivers.spec import Surroundings
from gripperd.gripper import Gripper
from gripperd.loop_watch import LoopWatch
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.modbus.line import Line, SerialLine, SerialSettings
from gripperd.notify import Notifier, Watchdog
from gripperd.service import GripperService, Statistics
from gripperd.store import Store
from gripperd.transports.mqtt import MqttPublisher
from gripperd.transports.unix_socket import UnixSocketServer

log = structlog.get_logger("gripperd")

EXIT_STOP_LIMIT_S = 1.5
"""How long the stops of `stop_at_exit` may take at the end [s]; more than a stop's own confirmation limit."""

LineFactory = Callable[[BusConfig], Line]


def serial_line(config: BusConfig) -> Line:
    """A real port."""
    return SerialLine(SerialSettings(config.port, config.baudrate, config.parity))


class Daemon:
    """All parts of one daemon. make_line: tests put other wires in. notifier, inherited: of the service manager."""

    def __init__(
        self,
        config: Config,
        clock: Clock | None = None,
        make_line: LineFactory = serial_line,
        notifier: Notifier | None = None,
        inherited: socket.socket | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.watch = LoopWatch(self.clock, config.daemon.stall_limit_s)
        self.store = Store(secrets.token_hex(8), [gripper.name for gripper in config.gripper])
        self.buses = {bus.name: Bus(bus.name, make_line(bus), _limits(bus), self.clock) for bus in config.bus}
        specs, surroundings = driver_specs(), Surroundings(self.buses, self.clock)
        self.grippers: Mapping[str, Gripper] = {
            each.name: Gripper(specs[each.driver].make(each, surroundings), self.store, self.clock)
            for each in config.gripper
        }
        own = {name: gripper.driver.wire for name, gripper in self.grippers.items()}
        self.wires: Mapping[str, Wire] = {name: wire for name, wire in own.items() if wire is not None}
        host = socket.gethostname()
        self.service = GripperService(self.grippers, self.store, self.clock, host, self.statistics)
        self.socket = UnixSocketServer(config.daemon, self.service, self.clock, inherited)
        self.notifier = notifier or Notifier()
        self.watchdog = Watchdog(
            self.notifier, self.clock, lambda: {name: self.store.latest(name).seq for name in self.grippers}
        )
        mqtt = config.mqtt
        self.publishers: Sequence[MqttPublisher] = (
            [MqttPublisher(mqtt, mqtt.host_id or host, name, self.service, self.clock) for name in self.grippers]
            if mqtt is not None
            else []
        )

    def statistics(self) -> Statistics:
        """Counters of all parts."""
        return {
            "loop": {"daemon": asdict(self.watch.counters)},
            "bus": {name: bus.counters.as_dict() for name, bus in self.buses.items()},
            "wire": {name: wire.statistics() for name, wire in self.wires.items()},
            "socket": {"server": dict(self.socket.counters), "fan_out": dict(self.socket.fan_out.counters)},
            "session": {"clients": asdict(self.service.session_counters)},
            "mqtt": {name: dict(each.counters) for name, each in zip(self.grippers, self.publishers, strict=False)},
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises SocketError if the socket cannot be opened."""
        await self.socket.start()
        try:
            async with asyncio.TaskGroup() as wires:
                owners = [wires.create_task(bus.run(), name=f"bus {bus.name}") for bus in self.buses.values()]
                owners += [wires.create_task(wire.run(), name=f"wire {wire.name}") for wire in self.wires.values()]
                async with asyncio.TaskGroup() as users:
                    tasks = [users.create_task(gripper.run()) for gripper in self.grippers.values()]
                    tasks += [users.create_task(publisher.run()) for publisher in self.publishers]
                    tasks.append(users.create_task(self.watch.run(), name="loop watch"))
                    tasks.append(users.create_task(self.watchdog.run(), name="watchdog"))
                    path = self.config.daemon.socket
                    if self.notifier.managed:
                        await self.socket.answers()
                    log.info("ready", version=__version__, socket=path, grippers=list(self.grippers))
                    self.notifier.ready(f"{len(self.grippers)} grippers on {path}")
                    await stop.wait()
                    log.info("stopping")
                    self.notifier.stopping()
                    await self._stop_at_exit()
                    for task in tasks:
                        task.cancel()
                for task in owners:
                    task.cancel()
        finally:
            await self.socket.close()

    async def _stop_at_exit(self) -> None:
        stops = [gripper.stop() for gripper in self.grippers.values() if gripper.driver.config.stop_at_exit]
        if stops:
            await asyncio.wait(stops, timeout=EXIT_STOP_LIMIT_S)


def _limits(bus: BusConfig) -> BusLimits:
    return BusLimits(
        response_timeout_s=bus.response_timeout_s,
        turnaround_s=bus.turnaround_s,
        resync_quiet_s=bus.resync_quiet_s,
        resync_limit_s=bus.resync_limit_s,
        late_reply_limit_s=bus.late_reply_limit_s,
        reopen_delay_s=bus.reopen_delay_s,
    )


async def run_until_signalled(config: Config) -> None:
    """Run a daemon until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as clean_up:
        for number in (signal.SIGTERM, signal.SIGINT):
            clean_up.callback(loop.remove_signal_handler, number)
        await Daemon(config, notifier=Notifier.from_environment(), inherited=inherited_socket()).run(stop)
