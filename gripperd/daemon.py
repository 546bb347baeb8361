"""Composition root: makes every part, starts and stops them in order. Nobody else knows all parts.

Order: socket, then wires, then grippers, then MQTT; backwards at the end. A part that fails takes the daemon down
with its reason: a supervisor that restarts it finds the devices as they were, since adopting writes nothing. Before it
goes, grippers with `stop_at_exit` are stopped, as far as their wires still have an owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import asdict

import structlog

from gripperd import __version__
from gripperd.activation import inherited_socket
from gripperd.changes import changes
from gripperd.clock import Clock, SystemClock
from gripperd.config import Config, ConfigError, MqttConfig
from gripperd.crew import Crew, LineFactory, serial_line
from gripperd.logs import configure_logging
from gripperd.loop_watch import LoopWatch
from gripperd.notify import Notifier, Watchdog
from gripperd.service import GripperService, Statistics
from gripperd.store import Store
from gripperd.transports.mqtt import MqttPublisher
from gripperd.transports.unix_socket import UnixSocketServer

log = structlog.get_logger("gripperd")

NOTHING = Config()
"""What runs before the first configuration."""

LoadConfig = Callable[[], Config]
"""Reads the configuration again. Raises ConfigError."""


class Daemon:
    """All parts of one daemon.

    make_line: tests put other wires in. notifier, inherited: of the service manager.
    """

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
        self.store = Store(secrets.token_hex(8))
        self.crew = Crew(self.store, self.clock, make_line)
        self.host = socket.gethostname()
        self.service = GripperService(self.crew.grippers, self.store, self.clock, self.host, self.statistics)
        self.socket = UnixSocketServer(config.daemon, self.service, self.clock, inherited)
        self.notifier = notifier or Notifier()
        self.watchdog = Watchdog(self.notifier, self.clock, self._rounds)
        self.reload_asked = asyncio.Event()
        self.counters = {"reloads": 0, "reloads_refused": 0}
        self.crew.add(config, self.crew.make(config, changes(NOTHING, config).begun, self._publisher))

    def statistics(self) -> Statistics:
        """Counters of all parts."""
        crew = self.crew
        return {
            "loop": {"daemon": asdict(self.watch.counters)},
            "configuration": {"daemon": dict(self.counters)},
            "bus": {name: bus.counters.as_dict() for name, bus in crew.buses.items()},
            "wire": {name: wire.statistics() for name, wire in crew.wires.items()},
            "socket": {"server": dict(self.socket.counters), "fan_out": dict(self.socket.fan_out.counters)},
            "session": {"clients": asdict(self.service.session_counters)},
            "mqtt": {name: dict(publisher.counters) for name, publisher in crew.publishers.items()},
        }

    async def run(self, stop: asyncio.Event, load: LoadConfig | None = None) -> None:
        """Run until `stop` is set. load: for `reload_asked`. Raises SocketError if the socket cannot be opened."""
        await self.socket.start()
        try:
            async with asyncio.TaskGroup() as owners:
                try:
                    await self._run_users(owners, stop, load)
                except BaseException:
                    await self.crew.stop_at_exit(self.crew.grippers)
                    raise
                finally:
                    self.crew.cancel_owners()
        finally:
            await self.socket.close()

    async def _run_users(self, owners: asyncio.TaskGroup, stop: asyncio.Event, load: LoadConfig | None) -> None:
        async with asyncio.TaskGroup() as users:
            self.crew.start(owners, users)
            own = [
                users.create_task(self.watch.run(), name="loop watch"),
                users.create_task(self.watchdog.run(), name="watchdog"),
            ]
            await self._tell_ready()
            while await self._asked(stop):
                await self._reload(load, lambda: self.crew.start(owners, users))
            log.info("stopping")
            self.notifier.stopping()
            await self.crew.stop_at_exit(self.crew.grippers)
            self.crew.cancel_users()
            for task in own:
                task.cancel()

    async def _tell_ready(self) -> None:
        if self.notifier.managed:
            await self.socket.answers()
        log.info("ready", version=__version__, socket=self.socket.path, grippers=list(self.crew.grippers))
        self.notifier.ready(self._status())

    def _status(self) -> str:
        count = len(self.crew.grippers)
        return f"{count} gripper{'s' if count > 1 else ''} on {self.socket.path}"

    async def _asked(self, stop: asyncio.Event) -> bool:
        """Wait. True: for a reload; False: to end."""
        waits: list[asyncio.Task[bool]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(self.reload_asked.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return not stop.is_set()

    async def _reload(self, load: LoadConfig | None, start: Callable[[], None]) -> None:
        """Read the configuration again. It is checked as a whole, and its parts are made, before anything ends."""
        self.reload_asked.clear()
        if load is None:
            return
        self.notifier.reloading(self.clock.monotonic())
        try:
            new = await asyncio.to_thread(load)
            todo = changes(self.config, new)
            if todo.restart:
                raise ConfigError("reload", [f"{key} has changed: that takes a restart" for key in todo.restart])
            apply_rule = await self.socket.new_rule(new.daemon)
            made = self.crew.make(new, todo.begun, self._publisher)
        except Exception as error:  # whatever is wrong with the new one, the old one goes on
            self.counters["reloads_refused"] += 1
            problems = error.problems if isinstance(error, ConfigError) else [str(error) or repr(error)]
            log.error("reload_refused", problems=problems, note="the configuration before stays in use")
            self.notifier.ready(f"reload refused: {problems[0]}; {self._status()}")
            return
        configure_logging(new.daemon)
        apply_rule()
        await self.crew.end(todo.ended)
        self.crew.add(new, made)
        self.service.forget(frozenset(self.config.names) - frozenset(new.names))
        self.config = new
        start()
        self.counters["reloads"] += 1
        log.info("reloaded", ended=todo.ended.names, begun=todo.begun.names)
        self.notifier.ready(self._status())

    def _publisher(self, mqtt: MqttConfig, name: str) -> MqttPublisher:
        return MqttPublisher(mqtt, mqtt.host_id or self.host, name, self.service, self.clock)

    def _rounds(self) -> dict[str, int]:
        return {name: self.store.latest(name).seq for name in self.crew.grippers}


async def run_until_signalled(config: Config, load: LoadConfig) -> None:
    """Run a daemon until SIGTERM or SIGINT. SIGHUP: read the configuration again."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    daemon = Daemon(config, notifier=Notifier.from_environment(), inherited=inherited_socket())
    handlers = {signal.SIGTERM: stop.set, signal.SIGINT: stop.set, signal.SIGHUP: daemon.reload_asked.set}
    with contextlib.ExitStack() as clean_up:
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
            clean_up.callback(loop.remove_signal_handler, number)
        await daemon.run(stop, load)
