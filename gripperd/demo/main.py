"""`gripperd demo`: starts everything, runs the script, shows it, ends everything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
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
from gripperd.demo.grippers import GRIPPERS, DemoGripper, free_address
from gripperd.demo.world import World
from gripperd.watch import Board, Rate, live_renderable

MQTT_LIMIT_S = 5.0
"""Longest wait for the first state over MQTT [s]."""
STEP_PAUSE_S = 0.7
"""Between two steps on a terminal [s], so that a person can follow."""
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux [bytes]."""
FOLDER_BYTES = 40
"""What the demo adds to its parent folder's path at most [bytes]: its own name, and that of a socket in it."""

_CONFIG = """[daemon]
socket = "{folder}/gripperd.sock"
[mqtt]
host = "{host}"
port = {port}
host_id = "demo"
state_rate_hz = 50.0
"""


@dataclass(eq=False, slots=True)
class Demo:
    """What is running, and what came of it."""

    folder: Path
    broker: DemoBroker
    client: Client
    board: Board
    grippers: Sequence[DemoGripper]
    mqtt_rate: Rate = field(default_factory=Rate)
    mqtt_states: int = 0
    results: list[tuple[str, str, str]] = field(default_factory=list)
    statistics: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def render(self) -> Group:
        """The live view."""
        table = Table(expand=True)
        for heading in ("step", "outcome", "as expected"):
            table.add_column(heading)
        for title, told, expected in self.results[-sum(len(each.script) for each in self.grippers) :]:
            table.add_row(title, told, "[green]yes[/]" if told == expected else f"[red]no: {expected}[/]")
        lines = "".join(self._line(each.bus) for each in self.grippers if each.bus)
        line = (
            f"{lines}MQTT ({self.broker.name}, {self.broker.host}:{self.broker.port}): "
            f"{self.mqtt_rate.hz(time.monotonic()):.0f} states/s\n"
            f"look yourself: gripperctl --socket {self.folder}/gripperd.sock watch    Ctrl-C ends the demo"
        )
        return Group(self.board.table(), table, Panel(line, title="gripperd demo"))

    def _line(self, name: str) -> str:
        bus = self.statistics.get("bus", {}).get(name, {})
        told = ", ".join(
            f"{name} {bus[name]:g}" for name in ("transactions", "timeouts", "crc_errors", "resyncs") if name in bus
        )
        return f"line {name}: {told}, round trip {bus.get('round_trip_p50_s', 0) * 1e3:.1f} ms\n"

    async def follow_states(self, name: str) -> None:
        """Until cancelled."""
        async for _ in self.board.follow(self.client.gripper(name)):
            pass

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

    async def run_scripts(self, tell: bool) -> bool:
        """Every step of every gripper; True if all came as expected. Raises ConnectionLostError."""
        return all([await self._run_script(each, tell) for each in self.grippers])

    async def _run_script(self, which: DemoGripper, tell: bool) -> bool:
        gripper, world = self.client.gripper(which.name), World(which.control(self.folder))
        good = True
        for step in which.script:
            try:
                told = await step.run(gripper, world)
            except ConnectionLostError:
                raise  # there is no daemon any more: no further step can tell anything
            except (GripperdError, TimeoutError) as error:
                told = f"failed: {str(error) or 'no end in time'}"
            title = step.title if len(self.grippers) == 1 else f"{which.name}: {step.title}"
            self.results.append((title, told, step.expected))
            good = good and told == step.expected
            if not tell:
                await asyncio.sleep(STEP_PAUSE_S)
            else:
                verdict = "as expected" if told == step.expected else f"EXPECTED {step.expected}"
                print(f"  {title:36} {told:20} {verdict}", flush=True)
        return good


@contextlib.asynccontextmanager
async def _running(folder: Path, grippers: Sequence[DemoGripper]) -> AsyncIterator[Demo]:
    """Simulators, broker and daemon for the time of the block."""
    address = free_address()
    async with contextlib.AsyncExitStack() as parts:
        for each in grippers:
            print(f"starting {each.title.format(address=address)}", flush=True)
            log, command = folder / f"{each.name}.log", each.command(folder, address)
            simulator = child(f"simulator of {each.name}", command, log, lambda told: "ready" in told)
            await parts.enter_async_context(simulator)
        broker = await parts.enter_async_context(demo_broker(folder))
        print(f"starting {broker.name} on {broker.host}:{broker.port}", flush=True)
        config = folder / "gripperd.toml"
        text = _CONFIG + "".join(each.config for each in grippers)
        config.write_text(text.format(folder=folder, address=address, host=broker.host, port=broker.port))
        daemon = [sys.executable, "-m", "gripperd", "run", "--config", str(config)]
        print("starting gripperd", flush=True)
        await parts.enter_async_context(child("gripperd", daemon, folder / "daemon.log", lambda told: "ready" in told))
        client = await parts.enter_async_context(await Client.connect(folder / "gripperd.sock"))
        infos = {each.name: await client.gripper(each.name).info() for each in grippers}
        yield Demo(folder, broker, client, Board(infos), grippers)


def _end_when_told() -> None:
    """Ctrl-C, `kill` and a closed terminal end the demo, and nothing is left behind. `nohup` keeps its meaning.

    Only the first one counts: an impatient second Ctrl-C must not cut short the ending of the children, which takes
    END_LIMIT_S each at worst.
    """
    task = asyncio.current_task()
    assert task is not None
    told = False

    def end() -> None:
        nonlocal told
        if not told:
            told = True
            task.cancel()

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(each, end)


async def _first_state(first: asyncio.Event, follower: asyncio.Task[None]) -> None:
    """Wait for the first state over MQTT. Raises DemoError with the reason if there is none."""
    arrived = asyncio.create_task(first.wait())
    try:
        await asyncio.wait({arrived, follower}, timeout=MQTT_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        arrived.cancel()
    if not first.is_set():
        reason = repr(follower.exception()) if follower.done() else f"none within {MQTT_LIMIT_S} s"
        raise DemoError(f"no state came over MQTT: {reason}")


async def _demo(folder: Path, grippers: Sequence[DemoGripper], once: bool, live: bool) -> None:
    """Raises DemoError, with the end of the daemon's log, if anything went otherwise than expected."""
    _end_when_told()
    try:
        async with _running(folder, grippers) as demo:
            if not await _show(demo, once, live):
                raise DemoError("not every step came as expected")
    except GripperdError as error:
        log = folder / "daemon.log"
        more = f"\nthe end of the daemon's log:\n{tail(log)}" if log.exists() else ""
        raise DemoError(f"{error}{more}") from error


async def _show(demo: Demo, once: bool, live: bool) -> bool:
    """The script, once or until cancelled, and what is to be seen meanwhile. True if all came as expected."""
    first = asyncio.Event()
    mqtt = asyncio.create_task(demo.follow_mqtt(first))
    followers = [mqtt, asyncio.create_task(demo.follow_statistics())]
    followers += [asyncio.create_task(demo.follow_states(each.name)) for each in demo.grippers]
    try:
        await _first_state(first, mqtt)
        with live_renderable(demo.render) if live else contextlib.nullcontext():
            good = await demo.run_scripts(tell=not live)
            while live and not once:
                good = await demo.run_scripts(tell=False) and good
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    wrong = sum(told != expected for _, told, expected in demo.results)
    print(f"{demo.mqtt_states} states came over MQTT")
    print(f"demo: {len(demo.results) - wrong} of {len(demo.results)} steps as expected", flush=True)
    return good


def _parent() -> str:
    """A folder for the demo's own one, with a path so short that sockets fit in. Raises DemoError."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) + FOLDER_BYTES <= SOCKET_PATH_BYTES and os.access(parent, os.W_OK | os.X_OK):
            return parent
    limit = SOCKET_PATH_BYTES - FOLDER_BYTES
    raise DemoError(f"the temporary folder {tempfile.gettempdir()} is too long for sockets: set TMPDIR, {limit} bytes")


def run_demo(once: bool, grippers: Sequence[str]) -> int:
    """The whole demo; returns the exit code.

    0: every step came as expected, and states came over MQTT; or a demo without an end was ended with Ctrl-C.
    1: something went otherwise, or `once` was interrupted. 2: an unknown gripper.
    """
    unknown = [name for name in grippers if name not in GRIPPERS]
    if unknown or not grippers:
        told = f"there is no demo gripper {', '.join(unknown)}" if unknown else "no gripper is named"
        print(f"gripperd demo: {told}; valid: {', '.join(GRIPPERS)}", file=sys.stderr)
        return 2
    chosen = [GRIPPERS[name] for name in dict.fromkeys(grippers)]
    try:
        with tempfile.TemporaryDirectory(prefix="gripperd-demo-", dir=_parent()) as folder:
            asyncio.run(_demo(Path(folder), chosen, once, live=sys.stdout.isatty() and not once))
    except DemoError as error:
        print(f"gripperd demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("demo: ended", file=sys.stderr)
        return 1 if once else 0  # whoever asked for the whole script did not get it
    return 0
