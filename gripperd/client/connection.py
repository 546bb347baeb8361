"""One connection to the daemon: JSON-RPC lines out, answers and notifications in. Knows nothing of grippers.

Rules
1. Every call has a time limit. Losing the daemon fails all pending calls and subscriptions at once.
2. Cancelling a call forgets its answer and harms nothing else.
3. A subscription that is not read loses its oldest states, never its other events, and counts what it lost.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from gripperd.contract import MAX_LINE_BYTES, ConnectionLostError, Event, InvalidParamsError, RpcError
from gripperd.contract.errors import INVALID_PARAMS

ANSWER_BYTES = 4 * MAX_LINE_BYTES
"""Longest line that is taken from the daemon [bytes]: the statistics of many grippers are longer than a request."""
STATES_KEPT = 256
"""States that wait for a slow reader of one subscription: about 2.5 s at 100 Hz."""
EVENTS_KEPT = 65_536
"""Other events that wait for a slow reader; a reader that owes more has stopped reading, and its stream ends."""
UNCLAIMED_KEPT = 1024
"""Notifications kept for a subscription whose answer is not processed yet."""


@dataclass(eq=False, slots=True)
class Stream:
    """Notifications of one subscription, in order. dropped: states lost here or in the daemon."""

    items: deque[tuple[Event, Mapping[str, Any]]] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: int = 0
    error: ConnectionLostError | None = None
    _states: int = 0

    def put(self, event: Event, params: Mapping[str, Any]) -> None:
        """Add one, and drop the oldest state if there are too many."""
        if event is Event.STATE:
            self.dropped += int(params.get("dropped", 0))
            self._states += 1
            if self._states > STATES_KEPT:
                self._drop_oldest_state()
        self.items.append((event, params))
        if len(self.items) > EVENTS_KEPT:
            self.error = ConnectionLostError(f"{EVENTS_KEPT} events were not read")
        self.news.set()

    async def get(self) -> tuple[Event, Mapping[str, Any]]:
        """The next one. Raises ConnectionLostError when the daemon is lost and everything is read."""
        while not self.items:
            if self.error is not None:
                raise self.error
            self.news.clear()
            await self.news.wait()
        event, params = self.items.popleft()
        self._states -= event is Event.STATE
        return event, params

    def _drop_oldest_state(self) -> None:
        index = next(number for number, (event, _) in enumerate(self.items) if event is Event.STATE)
        del self.items[index]
        self._states -= 1
        self.dropped += 1


class Connection:
    """See the module. Made by `Connection.open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._reader = reader
        self._writer = writer
        self._path = path
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._unclaimed: deque[tuple[int, Event, Mapping[str, Any]]] = deque(maxlen=UNCLAIMED_KEPT)
        self._lost: ConnectionLostError | None = None
        self._task = asyncio.create_task(self._read(), name=f"gripperd client {path}")

    @classmethod
    async def open(cls, path: str | Path, timeout_s: float) -> Connection:
        """Connect. Raises ConnectionLostError with what to do."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_unix_connection(str(path), limit=ANSWER_BYTES)
        except FileNotFoundError:
            raise ConnectionLostError(f"there is no socket {path}: start gripperd, or give its socket") from None
        except PermissionError:
            raise ConnectionLostError(f"no permission for {path}: join the group that owns it") from None
        except TimeoutError:
            raise ConnectionLostError(f"{path} did not take the connection within {timeout_s} s") from None
        except OSError as error:
            raise ConnectionLostError(f"{path}: {error.strerror or error}; is gripperd running?") from error
        return cls(reader, writer, str(path))

    async def call(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:  # noqa: ANN401 (JSON)
        """Ask, and wait for the answer. Raises RpcError, InvalidParamsError, ConnectionLostError."""
        if self._lost is not None:
            raise self._lost
        number = next(self._ids)
        line = to_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"the request has {len(line)} bytes; at most {MAX_LINE_BYTES} are possible")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            self._writer.write(line)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise ConnectionLostError(f"{method} was not answered within {timeout_s} s") from None
        finally:
            self._calls.pop(number, None)

    async def subscribe(self, params: Mapping[str, Any], timeout_s: float) -> tuple[int, Stream]:
        """A new subscription. Its first notifications may come before its answer is processed."""
        result = await self.call("gripper.subscribe", params, timeout_s)
        number = int(result["subscription"])
        stream = self._streams[number] = Stream(error=self._lost)
        early, self._unclaimed = self._unclaimed, deque(maxlen=UNCLAIMED_KEPT)
        for subscription, event, told in early:
            if subscription == number:
                stream.put(event, told)
            else:
                self._unclaimed.append((subscription, event, told))
        return number, stream

    async def unsubscribe(self, number: int, timeout_s: float) -> None:
        """End a subscription; no error if the daemon is lost."""
        self._streams.pop(number, None)
        if self._lost is None:
            try:
                await self.call("gripper.unsubscribe", {"subscription": number}, timeout_s)
            except ConnectionLostError:
                return

    async def close(self) -> None:
        """End the connection. What was commanded goes on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._fail(ConnectionLostError("the connection is closed"))
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(line)
            error = ConnectionLostError(f"the daemon closed the connection to {self._path}")
        except (OSError, ValueError) as reason:
            error = ConnectionLostError(f"the connection to {self._path} broke: {reason}")
        self._fail(error)

    def _take(self, line: bytes) -> None:
        """One answer or notification. Raises ValueError for what is neither."""
        message = from_json(line)
        if not isinstance(message, dict):
            raise ValueError(f"not an answer: {line[:100]!r}")
        if "method" in message:
            self._notify(str(message["method"]), message.get("params", {}))
            return
        answer = self._calls.get(message.get("id", 0))
        error = message.get("error")
        if answer is None or answer.done():
            if error is not None and message.get("id") is None:
                raise ValueError(f"the daemon refused a line: {error.get('message')}")
            return
        if error is None:
            answer.set_result(message.get("result"))
        elif error.get("code") == INVALID_PARAMS:
            answer.set_exception(InvalidParamsError(str(error.get("message"))))
        else:
            answer.set_exception(RpcError(int(error.get("code", 0)), str(error.get("message"))))

    def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        number, event = int(params["subscription"]), Event(method.removeprefix("gripper."))
        stream = self._streams.get(number)
        if stream is None:
            self._unclaimed.append((number, event, params))
        else:
            stream.put(event, params)

    def _fail(self, error: ConnectionLostError) -> None:
        self._lost = self._lost or error
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)
        for stream in self._streams.values():
            stream.error = error
            stream.news.set()
