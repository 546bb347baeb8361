"""A way to the daemon that may outlive one connection: makes it anew if asked to, says hello again, keeps beating.

Rules
1. Nothing is ever sent twice: a call that a loss interrupts fails, since nobody knows whether it was carried out.
2. Without a connection a call fails at once, so that no old command goes out later.
3. What was said by `hello` is said again on a new connection before anything else. Exclusive rights end with the
   connection, and are not taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gripperd.client.connection import Connection
from gripperd.contract import ConnectionLostError, RpcError

FIRST_PAUSE_S = 0.05
"""Pause before the first try to connect anew [s]; it doubles up to the longest."""
LONGEST_PAUSE_S = 2.0
"""Between two tries [s]."""
BEATS_PER_PERIOD = 3
"""So that one late beat is no miss."""


class Channel:
    """See the module. Made by `Channel.open`."""

    def __init__(self, connection: Connection, path: str | Path, timeout_s: float, reconnect: bool) -> None:
        self.reconnects = 0
        self._connection = connection
        self._path = path
        self._timeout_s = timeout_s
        self._hello: Mapping[str, Any] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self._keeper = asyncio.create_task(self._keep(), name=f"gripperd reconnect {path}") if reconnect else None

    @classmethod
    async def open(cls, path: str | Path, timeout_s: float, reconnect: bool) -> Channel:
        """Connect. Raises ConnectionLostError, also with `reconnect`: a daemon that was never there is a mistake."""
        return cls(await Connection.open(path, timeout_s), path, timeout_s, reconnect)

    @property
    def connection(self) -> Connection:
        """The present one, which may be lost."""
        return self._connection

    @property
    def reconnecting(self) -> bool:
        """Whether a lost connection is made anew."""
        return self._keeper is not None and not self._closed

    async def call(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:  # noqa: ANN401 (JSON)
        """Ask, and wait for the answer. Raises RpcError, InvalidParamsError, ConnectionLostError."""
        return await self._connection.call(method, params, timeout_s)

    async def hello(self, params: Mapping[str, Any], auto_beat: bool, timeout_s: float) -> Any:  # noqa: ANN401 (JSON)
        """Say hello, now and on every later connection. Raises like `call`."""
        answer = await self._connection.call("client.hello", params, timeout_s)
        self._hello = params
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        heartbeat_s = float(params["heartbeat_s"])
        if heartbeat_s and auto_beat:
            self._beating = asyncio.create_task(self._beat(heartbeat_s / BEATS_PER_PERIOD), name="gripperd beat")
        return answer

    async def after(self, lost: Connection) -> Connection:
        """Wait for the connection that follows this one. Raises ConnectionLostError if there will be none."""
        while self._connection is lost:
            if not self.reconnecting:
                raise ConnectionLostError(str(lost.lost or f"the connection to {self._path} is lost"))
            self._changed.clear()
            await self._changed.wait()
        return self._connection

    async def close(self) -> None:
        """End it. What was commanded goes on, unless `hello` asked for a stop."""
        self._closed = True
        self._changed.set()
        tasks = [task for task in (self._keeper, self._beating) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()

    async def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await self._connection.wait_lost()
            await asyncio.sleep(pause_s)
            try:
                fresh = await self._fresh()
            except (ConnectionLostError, RpcError):
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            lost, self._connection = self._connection, fresh
            pause_s = FIRST_PAUSE_S
            self.reconnects += 1
            self._changed.set()
            await lost.close()

    async def _fresh(self) -> Connection:
        fresh = await Connection.open(self._path, self._timeout_s)
        try:
            if self._hello is not None:
                await fresh.call("client.hello", self._hello, self._timeout_s)
        except BaseException:
            await fresh.close()
            raise
        return fresh

    async def _beat(self, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)
            connection = self._connection
            try:
                await connection.call("client.beat", {}, self._timeout_s)
            except (ConnectionLostError, RpcError):
                if connection.lost is None:
                    continue  # answered too late, or not understood: the daemon decides what that means
                try:
                    await self.after(connection)
                except ConnectionLostError:
                    return
