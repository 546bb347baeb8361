"""What the demo's hands can do in the simulated world: put an object between the jaws, take it out."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_core import from_json, to_json

from gripperd.demo.children import DemoError

ANSWER_LIMIT_S = 5.0
"""Longest time for an answer of the simulator [s]."""


class World:
    """A simulator's control socket: JSON lines, one request at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def put(self, width_m: float) -> None:
        """An object of this width [m] between the jaws."""
        await self._call({"id": 1, "op": "put_object", "width_m": width_m})

    async def take(self) -> None:
        """Take it out."""
        await self._call({"id": 1, "op": "take_object"})

    async def _call(self, request: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                answer = await self._ask(to_json(request) + b"\n")
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise DemoError(f"the simulator did not answer {request['op']}: {error!r}") from error
        if not answer.get("ok"):
            raise DemoError(f"the simulator refused {request['op']}: {answer.get('error')}")

    async def _ask(self, line: bytes) -> dict[str, object]:
        reader, writer = await asyncio.open_unix_connection(str(self._path))
        try:
            writer.write(line)
            answer: dict[str, object] = from_json(await reader.readline())
            return answer
        finally:
            writer.close()
            await writer.wait_closed()
