"""One connection to the daemon: JSON-RPC lines out, answers and notifications in. Knows nothing of grippers.

Rules
1. Every call has a time limit. Losing the daemon fails all pending calls and subscriptions at once, also when it is
   lost because it sent what is not of the protocol.
2. Cancelling a call forgets its answer and harms nothing else; a subscription that nobody waits for any more is ended.
3. A subscription that is not read loses its oldest states, never its other events, and counts what it lost.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from gripperd.contract import (
    MAX_LINE_BYTES,
    AnswerError,
    ConnectionLostError,
    Event,
    InvalidParamsError,
    RpcError,
)
from gripperd.contract.errors import INTERNAL_ERROR, INVALID_PARAMS

ANSWER_BYTES = 4 * MAX_LINE_BYTES
"""Longest line that is taken from the daemon [bytes]: the statistics of many grippers are longer than a request."""
STATES_KEPT = 256
"""States that wait for a slow reader of one subscription: about 2.5 s at 100 Hz."""
EVENTS_KEPT = 65_536
"""Other events that wait for a slow reader; a reader that owes more has stopped reading, and its stream ends."""
UNCLAIMED_KEPT = 1024
"""Notifications kept while the answer to a subscription is not processed yet."""

_EVENTS = {f"gripper.{event}": event for event in Event}


class Stream:
    """Notifications of one subscription, in order. dropped: states lost here or in the daemon."""

    def __init__(self) -> None:
        self.dropped = 0
        self._states: deque[tuple[int, Mapping[str, Any]]] = deque()
        self._others: deque[tuple[int, Event, Mapping[str, Any]]] = deque()
        self._order = itertools.count()
        self._news = asyncio.Event()
        self._error: ConnectionLostError | None = None

    def put(self, event: Event, params: Mapping[str, Any]) -> None:
        """Add one, and drop the oldest state if there are too many. Nothing is added after the end."""
        if self._error is not None:
            return
        if event is Event.STATE:
            lost = params.get("dropped", 0)
            self.dropped += lost if isinstance(lost, int) else 0
            self._states.append((next(self._order), params))
            if len(self._states) > STATES_KEPT:
                self._states.popleft()
                self.dropped += 1
        else:
            self._others.append((next(self._order), event, params))
            if len(self._others) >= EVENTS_KEPT:
                self.fail(ConnectionLostError(f"{EVENTS_KEPT} events were not read: read the events as they come"))
        self._news.set()

    async def get(self) -> tuple[Event, Mapping[str, Any]]:
        """The next one. Raises ConnectionLostError when the daemon is lost and everything is read."""
        while not self._states and not self._others:
            if self._error is not None:
                raise ConnectionLostError(str(self._error))
            self._news.clear()
            await self._news.wait()
        if self._states and (not self._others or self._states[0][0] < self._others[0][0]):
            return Event.STATE, self._states.popleft()[1]
        _, event, params = self._others.popleft()
        return event, params

    def resume(self) -> None:
        """It goes on, on another connection."""
        self._error = None

    def fail(self, error: ConnectionLostError) -> None:
        """Nothing more will come. What is here can still be read."""
        self._error = self._error or error
        self._news.set()


class Connection:
    """See the module. Made by `Connection.open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._reader = reader
        self._writer = writer
        self._path = path
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._subscribing = 0
        self._unclaimed: deque[tuple[int, Event, Mapping[str, Any]]] = deque(maxlen=UNCLAIMED_KEPT)
        self._abandoned: set[int] = set()
        self._ended = asyncio.Event()
        self.lost: ConnectionLostError | None = None
        """Why it is lost; None: it is not."""
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
        return await self._answer(self._send(method, params), method, timeout_s)

    async def subscribe(self, params: Mapping[str, Any], stream: Stream, timeout_s: float) -> int:
        """Fill the stream from a new subscription; returns its number. Raises like `call`.

        Notifications that come before the answer is processed are not lost.
        """
        number = self._send("gripper.subscribe", params)
        answer = self._calls[number]
        self._subscribing += 1
        try:
            result = await self._answer(number, "gripper.subscribe", timeout_s)
        except (asyncio.CancelledError, ConnectionLostError):
            if not answer.done() or answer.cancelled():
                self._abandoned.add(number)
            elif answer.exception() is None:
                self._end_unwanted(answer.result())
            raise
        else:
            subscription = _subscription(result)
            self._adopt(subscription, stream)
            return subscription
        finally:
            self._subscribing -= 1
            if not self._subscribing:
                self._unclaimed.clear()

    async def unsubscribe(self, number: int, timeout_s: float) -> None:
        """End a subscription; no error if the daemon is lost."""
        self._streams.pop(number, None)
        if self.lost is None:
            try:
                await self.call("gripper.unsubscribe", {"subscription": number}, timeout_s)
            except ConnectionLostError:
                return

    async def wait_lost(self) -> None:
        """Until it is lost, or closed."""
        await self._ended.wait()

    async def close(self) -> None:
        """End the connection. What was commanded goes on."""
        self._fail(ConnectionLostError("the connection is closed"))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    def _send(self, method: str, params: Mapping[str, Any]) -> int:
        """Write a request; its answer will be in `_calls`."""
        if self.lost is not None:
            raise ConnectionLostError(str(self.lost))
        number = next(self._ids)
        line = to_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"the request has {len(line)} bytes; at most {MAX_LINE_BYTES} are possible")
        self._calls[number] = asyncio.get_running_loop().create_future()
        self._writer.write(line)
        return number

    async def _answer(self, number: int, method: str, timeout_s: float) -> Any:  # noqa: ANN401 (JSON)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._calls[number]
        except TimeoutError:
            raise ConnectionLostError(f"{method} was not answered within {timeout_s} s") from None
        finally:
            answer = self._calls.pop(number)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, also where a cancellation came between the answer and its reader

    def _adopt(self, subscription: int, stream: Stream) -> None:
        """What came before the answer was processed belongs to the stream."""
        for number, event, params in self._unclaimed:
            if number == subscription:
                stream.put(event, params)
        self._streams[subscription] = stream
        if self.lost is not None:
            stream.fail(self.lost)

    async def _read(self) -> None:
        error = ConnectionLostError(f"the connection to {self._path} is not read any more")
        closed = ConnectionLostError(f"the daemon closed the connection to {self._path}")
        try:
            while line := await self._reader.readline():
                self._take(line)
            error = closed
        except (ConnectionResetError, BrokenPipeError):
            error = closed  # there was a request that it has not read
        except (OSError, ValueError, AnswerError) as reason:
            error = ConnectionLostError(f"the connection to {self._path} broke: {reason}")
        finally:
            self._fail(error)  # on every way out, or callers would wait for a reader that is gone
            self._writer.close()

    def _take(self, line: bytes) -> None:
        """One answer or notification. Raises ValueError or AnswerError for what is neither."""
        message = from_json(line)
        if not isinstance(message, dict):
            raise ValueError(f"not an answer: {line[:100]!r}")
        if "method" in message:
            self._notify(message["method"], message.get("params"))
            return
        number, error = message.get("id"), message.get("error")
        if error is not None and not isinstance(error, dict):
            raise ValueError(f"not an error: {line[:100]!r}")
        if number is None and error is not None:
            raise ValueError(f"the daemon refused a line: {error.get('message')}")
        if type(number) is not int:
            raise ValueError(f"an answer to no call: {line[:100]!r}")
        if number in self._abandoned:
            self._abandoned.discard(number)
            self._end_unwanted(message.get("result"))
        answer = self._calls.get(number)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(message.get("result"))
        else:
            answer.set_exception(_rpc_error(error))

    def _notify(self, method: object, params: object) -> None:
        event = _EVENTS.get(method) if isinstance(method, str) else None
        if event is None:
            return  # a later contract may tell more
        number = _subscription(params)
        assert isinstance(params, dict)
        stream = self._streams.get(number)
        if stream is not None:
            stream.put(event, params)
        elif self._subscribing:
            self._unclaimed.append((number, event, params))

    def _end_unwanted(self, result: object) -> None:
        """Nobody waits for this subscription any more. The answer to its end is of no interest."""
        if self.lost is None and isinstance(result, dict) and "subscription" in result:
            number = self._send("gripper.unsubscribe", {"subscription": result["subscription"]})
            del self._calls[number]

    def _fail(self, error: ConnectionLostError) -> None:
        self.lost = self.lost or error
        self._ended.set()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(ConnectionLostError(str(self.lost)))
        for stream in self._streams.values():
            stream.fail(self.lost)


def _subscription(told: object) -> int:
    """The number of the subscription in an answer or a notification. Raises AnswerError."""
    number = told.get("subscription") if isinstance(told, dict) else None
    if type(number) is not int:
        raise AnswerError(f"no subscription number in {str(told)[:100]!r}")
    return number


def _rpc_error(error: Mapping[str, Any]) -> RpcError:
    code, message = error.get("code"), str(error.get("message"))
    if code == INVALID_PARAMS:
        return InvalidParamsError(message)
    return RpcError(code if type(code) is int else INTERNAL_ERROR, message)
