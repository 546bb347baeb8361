"""Clients of the control socket, blocking and asyncio, with the same names.

    with ControlClient("/tmp/sim.sock") as sim:
        sim.call("put_object", width_m=0.03)
        print(sim.call("state")["state"]["width_m"])

call() returns the answer without "id" and "ok", and raises ControlError when the simulator refuses.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A whole log may come in one line."""

DEFAULT_TIMEOUT_S = 5.0

Param = bool | int | float | str | None


class ControlError(Exception):
    """The simulator refused, or is not there."""


def _encode(number: int, op: str, params: dict[str, Param]) -> bytes:
    return json.dumps({**params, "id": number, "op": op}).encode() + b"\n"


def _decode(line: bytes, op: str) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ControlError(f"the simulator closed the connection during {op}")
    answer: dict[str, Any] = json.loads(line)
    answer.pop("id", None)
    if not answer.pop("ok", False):
        raise ControlError(str(answer.get("error", "refused without a reason")))
    return answer


class ControlClient:
    """Blocking client."""

    def __init__(self, path: str | Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise ControlError(f"no simulator at {path}: {error}; start it with --control {path}") from error
        self._file = self._socket.makefile("rb")
        self._number = 0

    def call(self, op: str, **params: Param) -> dict[str, Any]:
        """Do one operation; `help` lists them."""
        self._number += 1
        try:
            self._socket.sendall(_encode(self._number, op, params))
            return _decode(self._file.readline(MAX_ANSWER_BYTES), op)
        except OSError as error:
            raise ControlError(f"{op}: {error}") from error

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncControlClient:
    """asyncio client: `async with await AsyncControlClient.connect(path) as sim: await sim.call("state")`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_s = timeout_s
        self._number = 0
        self._turn = asyncio.Lock()

    @classmethod
    async def connect(cls, path: str | Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Connect."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_ANSWER_BYTES)
        except OSError as error:
            raise ControlError(f"no simulator at {path}: {error}; start it with --control {path}") from error
        return cls(reader, writer, timeout_s)

    async def call(self, op: str, **params: Param) -> dict[str, Any]:
        """Do one operation; `help` lists them."""
        async with self._turn:
            self._number += 1
            try:
                async with asyncio.timeout(self._timeout_s):
                    self._writer.write(_encode(self._number, op, params))
                    line = await self._reader.readline()
            except (OSError, TimeoutError) as error:
                # An answer that is still under way would be taken for the next one's: the connection is of no use now.
                self._writer.close()
                raise ControlError(f"{op}: no answer ({error!r})") from error
        return _decode(line, op)

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
