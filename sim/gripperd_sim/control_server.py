"""The control socket: JSON lines over a Unix stream, one request and one answer per line.

Owns the socket file. {"id": 1, "op": "put_object", "width_m": 0.03} -> {"id": 1, "ok": true, ...} or
{"id": 1, "ok": false, "error": "..."}. It carries operations and knows none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from gripperd_sim.operations import Operations

MAX_LINE_BYTES = 65_536
PROBE_S = 1.0
"""How long a socket that is there is given to accept before it counts as dead [s]."""


class SocketInUseError(Exception):
    """The path of the socket cannot be used; the text says why."""


class ControlServer:
    """Serves one table of operations."""

    def __init__(self, path: Path, operations: Operations) -> None:
        self._path = path
        self._operations = operations
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Begin to serve. A socket file nobody serves is replaced."""
        _make_room(self._path)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise SocketInUseError(f"cannot listen at {self._path}: {error}; give a writable --control path") from error

    async def close(self) -> None:
        """Stop serving, hang up, remove the file."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self._answer(line), default=list).encode() + b"\n")
                await writer.drain()
        except ValueError:
            too_long = {
                "id": None,
                "ok": False,
                "error": f"a line is at most {MAX_LINE_BYTES} bytes; connection closed",
            }
            writer.write(json.dumps(too_long).encode() + b"\n")
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, line: bytes) -> Mapping[str, object]:
        try:
            request = json.loads(line)
        except ValueError as error:
            return {"id": None, "ok": False, "error": f"not JSON: {error}"}
        if not isinstance(request, dict) or not isinstance(request.get("op"), str):
            return {"id": None, "ok": False, "error": 'give an object with "op", for example {"id": 1, "op": "help"}'}
        number, name = request.pop("id", None), request.pop("op")
        try:
            result = self._operations.call(name, request)
        except Exception as error:
            # Whatever a script asks for, the simulator lives on; the asker gets the reason.
            return {"id": number, "ok": False, "error": str(error) or type(error).__name__}
        return {"id": number, "ok": True, **(result or {})}


def _make_room(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketInUseError(f"{path} exists and is not a socket: remove it, or give another --control path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise SocketInUseError(f"{path} cannot be probed: {error}; give another --control path") from error
    raise SocketInUseError(f"{path} is served by a living process: stop that one, or give another --control path")
