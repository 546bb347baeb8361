"""A whole daemon in this process over simulated devices in memory, and raw clients of its socket. Real time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from gripperd.config import Config, parse_config
from gripperd.daemon import Daemon
from gripperd.drivers.registry import driver_specs
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75, Rg75Options
from tests.support.sim_line import SimLine

FAST = Rg75Options(activation_s=0.1, max_speed_m_s=2.0)


class Peer:
    """A raw client: lines out, lines in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.notifications: list[dict[str, Any]] = []

    def send(self, line: bytes) -> None:
        self.writer.write(line + b"\n")

    def request(self, method: str, request_id: object = 1, **params: object) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode())

    async def line(self) -> dict[str, Any]:
        """The next line of any kind."""
        line = await asyncio.wait_for(self.reader.readline(), 10.0)
        assert line, "the connection was closed"
        message: dict[str, Any] = json.loads(line)
        return message

    async def answer(self) -> dict[str, Any]:
        """The next answer; notifications on the way are kept."""
        while True:
            message = await self.line()
            if "method" not in message:
                return message
            self.notifications.append(message)

    async def ask(self, method: str, **params: object) -> Any:
        self.request(method, **params)
        answer = await self.answer()
        return answer.get("result", answer)

    async def outcome(self, verb: str, **params: object) -> str:
        reply = await self.ask(f"gripper.{verb}", **params)
        assert reply["ok"], reply
        waited = await self.ask("gripper.wait", command_seq=reply["command_seq"], timeout_s=10.0)
        assert waited["done"]
        outcome: str = waited["outcome"]["outcome"]
        return outcome

    async def closed(self) -> bool:
        """Whether the daemon has closed the connection; what it still sent is read."""
        return await asyncio.wait_for(self.reader.read(), 10.0) is not None


class Bench:
    """A running daemon."""

    def __init__(self, folder: Path, units: dict[str, int], mqtt: dict[str, Any] | None = None, **daemon: Any) -> None:
        self.path = folder / "g.sock"
        self.devices = {unit: Rg75(FAST, now_s=time.monotonic(), unit=unit) for unit in units.values()}
        self.line = SimLine(self.devices)
        grippers = [{"name": name, "driver": "rg75", "bus": "tool0", "unit": unit} for name, unit in units.items()]
        raw: dict[str, Any] = {
            "daemon": {"socket": str(self.path), **daemon},
            "bus": [{"name": "tool0", "port": "/dev/null"}],
            "gripper": grippers,
        }
        if mqtt is not None:
            raw["mqtt"] = {"host": "127.0.0.1", "host_id": "robot", **mqtt}
        self.config: Config = parse_config(raw, driver_specs())
        self.daemon = Daemon(self.config, make_line=lambda bus: self.line)
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_unix_connection(str(self.path)))
        self._peers.append(peer)
        return peer

    def writes(self) -> int:
        return sum(len(device.history.of(Kind.WRITE)) for device in self.devices.values())

    async def close_peers(self) -> None:
        for peer in self._peers:
            peer.writer.close()
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()


@contextlib.asynccontextmanager
async def bench(folder: Path, units: dict[str, int] | None = None, **daemon: Any) -> AsyncIterator[Bench]:
    made, stop = Bench(folder, units or {"left": 9}, **daemon), asyncio.Event()
    task = asyncio.create_task(made.daemon.run(stop))
    try:
        await until(lambda: task.done() or all(each.link == "up" for each in made.daemon.crew.grippers.values()))
        assert not task.done(), task
        yield made
    finally:
        await made.close_peers()
        stop.set()
        await asyncio.wait_for(task, 10.0)


async def until(condition: Callable[[], bool]) -> None:
    """Something that only the inside can tell."""
    deadline_s = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.001)
