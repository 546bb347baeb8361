"""Real processes for end-to-end tests: simulator on a pty, Mosquitto, daemon. Each is ended by its own id."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

START_LIMIT_S = 20.0
"""A process that is not ready by then has failed [s]; a loaded machine takes some seconds."""
END_LIMIT_S = 10.0


class Process:
    """One child, its output in a file."""

    def __init__(self, child: asyncio.subprocess.Process, log: Path) -> None:
        self.child = child
        self.log = log

    def output(self) -> str:
        """All that it wrote."""
        return self.log.read_text(errors="replace")

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; a child that stays is killed, and the test fails."""
        if self.child.returncode is None:
            self.child.send_signal(number)
        try:
            return await asyncio.wait_for(self.child.wait(), END_LIMIT_S)
        except TimeoutError:
            self.child.kill()
            await self.child.wait()
            raise AssertionError(f"did not end after {number.name}:\n{self.output()}") from None


@contextlib.asynccontextmanager
async def process(arguments: Sequence[str], log: Path) -> AsyncIterator[Process]:
    """Run a child for the time of the block."""
    with log.open("ab") as output:
        child = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    running = Process(child, log)
    try:
        yield running
    finally:
        if child.returncode is None:
            await running.end()


async def eventually(condition: Callable[[], bool], what: str, limit_s: float = START_LIMIT_S) -> None:
    """Wait for something that only the outside can tell; looks every 10 ms."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"no {what} within {limit_s} s"
        await asyncio.sleep(0.01)


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.asynccontextmanager
async def simulator(folder: Path, *options: str) -> AsyncIterator[Process]:
    """gripperd-sim rg75 at folder/tool0, its control socket at folder/sim.sock."""
    link, control = folder / "tool0", folder / "sim.sock"
    command = [sys.executable, "-m", "gripperd_sim", "rg75", "--link", str(link), "--control", str(control), *options]
    async with process(command, folder / "sim.log") as running:
        await eventually(lambda: "ready" in running.output() or running.child.returncode is not None, "simulator")
        assert running.child.returncode is None, running.output()
        yield running


@contextlib.asynccontextmanager
async def mosquitto(folder: Path, port: int, access: str = "allow_anonymous true\n") -> AsyncIterator[Process]:
    """A real broker on loopback. access: lines of its configuration."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    assert program is not None, "Mosquitto is not installed: the test command installs or names it"
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\n{access}persistence false\nset_tcp_nodelay true\nuser root\n")
    async with process([program, "-c", str(config)], folder / "mosquitto.log") as running:
        await eventually(lambda: _listens(port) or running.child.returncode is not None, "broker")
        assert running.child.returncode is None, running.output()
        yield running


def write_config(
    folder: Path, mqtt_port: int | None = None, gripper: str = "", bus: str = "", daemon: str = ""
) -> Path:
    """A configuration for one RG75 named left, on folder/tool0."""
    mqtt = (
        f'[mqtt]\nhost = "127.0.0.1"\nport = {mqtt_port}\nhost_id = "robot"\nstate_rate_hz = 50.0\n'
        if mqtt_port
        else ""
    )
    path = folder / "gripperd.toml"
    path.write_text(
        f'[daemon]\nsocket = "{folder}/g.sock"\n{daemon}\n{mqtt}'
        f'[[bus]]\nname = "tool0"\nport = "{folder}/tool0"\n{bus}\n'
        f'[[gripper]]\nname = "left"\ndriver = "rg75"\nbus = "tool0"\n{gripper}\n'
    )
    return path


@contextlib.asynccontextmanager
async def daemon(folder: Path, config: Path) -> AsyncIterator[Process]:
    """gripperd run."""
    command = [sys.executable, "-m", "gripperd", "run", "--config", str(config)]
    log = folder / "daemon.log"
    before = len(log.read_text()) if log.exists() else 0
    async with process(command, log) as running:
        await eventually(
            lambda: "ready" in running.output()[before:] or running.child.returncode is not None, "readiness"
        )
        assert running.child.returncode is None, running.output()
        yield running


async def soon(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = 5.0) -> None:
    """Wait for something that has to be asked for."""
    deadline_s = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline_s, f"no {what} within {limit_s} s"
        await asyncio.sleep(0.01)
