"""A daemon's socket whose every word the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

Answer = Callable[["FakeServer", dict[str, Any]], None]

STATE = {
    "stamp": {"sec": 1, "nanosec": 2},
    "opening_width_valid": True,
    "opening_width_m": 0.03,
    "grasp_state": 2,
    "motion_state": 2,
    "gripper": "left",
    "boot_id": "b",
    "seq": 1,
    "link": "up",
    "activation": "active",
    "activation_epoch": 1,
    "command_seq": 1,
    "command_phase": "done",
    "fault": None,
    "readings": None,
}


class FakeServer:
    """Answers with a function of the test; it may answer late, twice, wrongly or not at all."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer = answer
        self._received = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        self._writer = writer
        with contextlib.suppress(ConnectionError):  # a client that gives up on this server leaves answers unread
            while line := await reader.readline():
                request = json.loads(line)
                self.requests.append(request)
                self._answer(self, request)
                self._received.set()
        writer.close()

    async def received(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(5.0):
            while len(self.requests) < count:
                self._received.clear()
                await self._received.wait()

    def result(self, request: dict[str, Any], result: object) -> None:
        """A good answer."""
        self.raw(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode())

    def error(self, request: dict[str, Any], code: int, message: str) -> None:
        """A bad one."""
        body = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}
        self.raw(json.dumps(body).encode())

    def notify(self, method: str, **params: object) -> None:
        """A notification."""
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def raw(self, line: bytes) -> None:
        """Any line."""
        assert self._writer is not None
        self._writer.write(line + b"\n")

    def end_politely(self) -> None:
        """The daemon ends: what it said arrives, then the connection closes."""
        assert self._writer is not None
        self._writer.close()

    def hang_up(self) -> None:
        """The daemon dies."""
        assert self._writer is not None
        self._writer.transport.abort()


@contextlib.asynccontextmanager
async def fake_server(path: Path, answer: Answer) -> AsyncIterator[FakeServer]:
    """Serve for the time of the block."""
    made = FakeServer(answer)
    server = await asyncio.start_unix_server(made.serve, path)
    try:
        yield made
    finally:
        server.close()
        if made._writer is not None:
            made._writer.close()
        await asyncio.sleep(0)
