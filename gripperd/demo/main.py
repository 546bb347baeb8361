"""`gripperd demo`: starts everything, runs the script, shows it, ends everything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiomqtt
from rich.console import Group
from rich.panel import Panel
from rich.table import Table

from gripperd.client import Client
from gripperd.contract import ConnectionLostError, GripperdError
from gripperd.demo.broker import DemoBroker, demo_broker
from gripperd.demo.children import DemoError, child, tail
from gripperd.demo.script import SCRIPT
from gripperd.demo.world import World
from gripperd.watch import Board, Rate, live_renderable

GRIPPERS: Mapping[str, str] = {"rg75": "tool0"}
"""Demo gripper -> name of its simulated port."""
MQTT_LIMIT_S = 5.0
"""Longest wait for the first state over MQTT [s]."""
STEP_PAUSE_S = 0.7
"""Between two steps on a terminal [s], so that a person can follow."""

_CONFIG = """[daemon]
socket = "{folder}/gripperd.sock"
[mqtt]
host = "{host}"
port = {port}
host_id = "demo"
state_rate_hz = 50.0
[[bus]]
name = "tool0"
port = "{folder}/tool0"
[[gripper]]
name = "rg75"
driver = "rg75"
bus = "tool0"
"""


@dataclass(eq=False, slots=True)
class Demo:
    """What is running, and what came of it."""

    folder: Path
    broker: DemoBroker
    client: Client
    board: Board
    mqtt_rate: Rate = field(default_factory=Rate)
    mqtt_states: int = 0
    results: list[tuple[str, str, str]] = field(default_factory=list)
    statistics: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def render(self) -> Group:
        """The live view."""
        table = Table(expand=True)
        for heading in ("step", "outcome", "as expected"):
            table.add_column(heading)
        for title, told, expected in self.results[-len(SCRIPT) :]:
            table.add_row(title, told, "[green]yes[/]" if told == expected else f"[red]no: {expected}[/]")
        bus = self.statistics.get("bus", {}).get("tool0", {})
        told = ", ".join(
            f"{name} {bus[name]:g}" for name in ("transactions", "timeouts", "crc_errors", "resyncs") if name in bus
        )
        line = (
            f"line tool0: {told}, round trip {bus.get('round_trip_p50_s', 0) * 1e3:.1f} ms\n"
            f"MQTT ({self.broker.name}, {self.broker.host}:{self.broker.port}): "
            f"{self.mqtt_rate.hz(time.monotonic()):.0f} states/s\n"
            f"look yourself: gripperctl --socket {self.folder}/gripperd.sock watch    Ctrl-C ends the demo"
        )
        return Group(self.board.table(), table, Panel(line, title="gripperd demo"))

    async def follow_states(self, name: str) -> None:
        """Until cancelled."""
        async for state in self.client.gripper(name).states():
            self.board.take(state)

    async def follow_mqtt(self, first: asyncio.Event) -> None:
        """Until cancelled."""
        version = aiomqtt.ProtocolVersion.V5
        async with aiomqtt.Client(self.broker.host, self.broker.port, protocol=version) as client:
            await client.subscribe("gripperd/demo/+/state")
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                assert json.loads(message.payload)["seq"] > 0
                self.mqtt_states += 1
                self.mqtt_rate.count(time.monotonic())
                first.set()

    async def follow_statistics(self) -> None:
        """Until cancelled."""
        while True:
            self.statistics = await self.client.statistics()
            await asyncio.sleep(0.5)

    async def run_script(self, name: str, tell: bool) -> bool:
        """Every step; True if all came as expected."""
        gripper, world = self.client.gripper(name), World(self.folder / "sim.sock")
        good = True
        for step in SCRIPT:
            try:
                told = await step.run(gripper, world)
            except (GripperdError, TimeoutError) as error:
                told = f"failed: {error}"
            self.results.append((step.title, told, step.expected))
            good = good and told == step.expected
            if not tell:
                await asyncio.sleep(STEP_PAUSE_S)
            else:
                verdict = "as expected" if told == step.expected else f"EXPECTED {step.expected}"
                print(f"  {step.title:24} {told:20} {verdict}", flush=True)
        return good


@contextlib.asynccontextmanager
async def _running(folder: Path, names: Sequence[str], tell: bool) -> AsyncIterator[Demo]:
    """Simulator, broker and daemon for the time of the block."""

    def say(text: str) -> None:
        if tell:
            print(text, flush=True)

    async with contextlib.AsyncExitStack() as parts:
        simulator = [sys.executable, "-m", "gripperd_sim", "rg75", "--link", str(folder / "tool0")]
        simulator += ["--control", str(folder / "sim.sock")]
        say("starting a simulated RG75 on a pseudo terminal")
        await parts.enter_async_context(child("simulator", simulator, folder / "sim.log", lambda told: "ready" in told))
        broker = await parts.enter_async_context(demo_broker(folder))
        say(f"starting {broker.name} on {broker.host}:{broker.port}")
        config = folder / "gripperd.toml"
        config.write_text(_CONFIG.format(folder=folder, host=broker.host, port=broker.port))
        daemon = [sys.executable, "-m", "gripperd", "run", "--config", str(config)]
        say("starting gripperd")
        await parts.enter_async_context(child("gripperd", daemon, folder / "daemon.log", lambda told: "ready" in told))
        client = await parts.enter_async_context(await Client.connect(folder / "gripperd.sock"))
        infos = {name: await client.gripper(name).info() for name in names}
        yield Demo(folder, broker, client, Board(infos))


def _end_when_told() -> None:
    """A closed terminal and `kill` end the demo like Ctrl-C does: nothing is left behind. `nohup` keeps its meaning."""
    task = asyncio.current_task()
    assert task is not None
    for told in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(told) is signal.SIG_DFL:
            asyncio.get_running_loop().add_signal_handler(told, task.cancel)


async def _demo(folder: Path, names: Sequence[str], once: bool, live: bool) -> bool:
    _end_when_told()
    async with _running(folder, names, tell=True) as demo:
        first = asyncio.Event()
        followers = [asyncio.create_task(demo.follow_states(name)) for name in names]
        followers += [asyncio.create_task(demo.follow_mqtt(first)), asyncio.create_task(demo.follow_statistics())]
        try:
            async with asyncio.timeout(MQTT_LIMIT_S):
                await first.wait()
            with live_renderable(demo.render) if live else contextlib.nullcontext():
                good = await demo.run_script(names[0], tell=not live)
                while live and not once:
                    good = await demo.run_script(names[0], tell=False)
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)
        wrong = sum(told != expected for _, told, expected in demo.results)
        print(f"{demo.mqtt_states} states came over MQTT")
        print(f"demo: {len(demo.results) - wrong} of {len(demo.results)} steps as expected", flush=True)
        if not good:
            print(f"the end of the daemon's log:\n{tail(folder / 'daemon.log')}", file=sys.stderr)
        return good


def run_demo(once: bool, grippers: Sequence[str]) -> int:
    """The whole demo; returns the exit code: 0 if every step came as expected."""
    unknown = [name for name in grippers if name not in GRIPPERS]
    if unknown or not grippers:
        print(f"gripperd demo: there is no demo gripper {unknown}; valid: {', '.join(GRIPPERS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gripperd-demo-") as folder:
        try:
            good = asyncio.run(_demo(Path(folder), grippers, once, live=sys.stdout.isatty() and not once))
        except (DemoError, ConnectionLostError, TimeoutError) as error:
            text = "no state came over MQTT in time" if isinstance(error, TimeoutError) else error
            print(f"gripperd demo: {text}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            with contextlib.suppress(OSError):  # the terminal may be gone
                print("demo: ended", file=sys.stderr)
            return 0
    return 0 if good else 1
