"""The client for programs without asyncio: the same names, each call blocks. Usable from several threads at a time.

It runs the asyncio client on a loop of its own in a background thread; there is no second implementation.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine, Generator, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from gripperd.client import asyncio_client, following
from gripperd.client.asyncio_client import DEFAULT_SOCKET
from gripperd.client.following import CALL_TIMEOUT_S, GripperEvent
from gripperd.contract import (
    ClientList,
    CommandOutcome,
    CommandReply,
    ConnectionLostError,
    DaemonInfo,
    Event,
    GripperInfo,
    GripperList,
    GripperState,
    OnDisconnect,
    StopReply,
)

__all__ = ["DEFAULT_SOCKET", "Client", "Gripper", "PendingCommand", "Subscription"]

Result = TypeVar("Result")

CLOSE_LIMIT_S = 2.0
"""Calls of other threads that have not ended by then after the connection was closed are cancelled [s]."""

_CLOSED = "this client is closed: connect a new one"


class _Runner:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # Reentrant: the garbage collector may end a subscription in the middle of a call of the same thread.
        self._lock = threading.RLock()
        self._closed = False
        self._leftover: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gripperd client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there, wait for it here. An interrupt here cancels it there. Raises ConnectionLostError if closed."""
        future = self._submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ConnectionLostError(_CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it there, unless it is closed. From there, where the garbage collector may call, it is not waited for."""
        if threading.current_thread() is self._thread:
            task = self._loop.create_task(work)
            self._leftover.add(task)
            task.add_done_callback(self._leftover.discard)
            return
        try:
            self.call(work)
        except ConnectionLostError:
            return

    def close(self, client: asyncio_client.Client | None) -> None:
        """End the client, what others still wait for, the loop and the thread. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._end(client), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        with self._lock:  # so that nothing reaches the loop after it was told to end: it would never be answered
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise ConnectionLostError(_CLOSED)

    async def _end(self, client: asyncio_client.Client | None) -> None:
        if client is not None:
            await client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, left = await asyncio.wait(others, timeout=CLOSE_LIMIT_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


class Subscription(Iterator[Result], Generic[Result]):
    """An iterator over what the daemon tells. The daemon is asked at the first item.

    It ends with ConnectionLostError when the daemon is lost, after all that came before. Leaving the loop ends the
    subscription; `close()` or `with` do so at once. One thread at a time may read it.
    """

    def __init__(self, runner: _Runner, items: following.Subscription[Result]) -> None:
        self._items = items
        self._following = _follow(runner, items)

    @property
    def dropped(self) -> int:
        """States lost so far because they were not read in time, here or in the daemon."""
        return self._items.dropped

    def __next__(self) -> Result:
        """The next item; waits for it."""
        return next(self._following)

    def close(self) -> None:
        """End the subscription. A second call does nothing."""
        self._following.close()

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()


def _follow(runner: _Runner, items: following.Subscription[Result]) -> Generator[Result, None, None]:
    lock = asyncio.Lock()  # an interrupted call may still be on its way out there when the end is asked for here

    async def following() -> tuple[Result] | None:
        async with lock:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

    async def end() -> None:
        async with lock:
            await items.aclose()

    try:
        while (item := runner.call(following())) is not None:
            yield item[0]
    finally:
        runner.finish(end())


class PendingCommand:
    """An accepted command."""

    def __init__(self, runner: _Runner, command: asyncio_client.PendingCommand) -> None:
        self._runner = runner
        self._command = command

    @property
    def gripper(self) -> Gripper:
        """Whom it was given to."""
        return Gripper(self._runner, self._command.gripper)

    @property
    def reply(self) -> CommandReply:
        """The daemon's answer."""
        return self._command.reply

    @property
    def command_seq(self) -> int:
        """Its number."""
        return self._command.command_seq

    def outcome(self, timeout_s: float | None = None) -> CommandOutcome:
        """How it ended. Raises TimeoutError after timeout_s [s], ConnectionLostError."""
        return self._runner.call(self._command.outcome(timeout_s))


class Gripper:
    """One gripper; see the asyncio client for what each call promises."""

    def __init__(self, runner: _Runner, gripper: asyncio_client.Gripper) -> None:
        self._runner = runner
        self._gripper = gripper

    @property
    def name(self) -> str | None:
        """As given."""
        return self._gripper.name

    def info(self) -> GripperInfo:
        """What it can do."""
        return self._runner.call(self._gripper.info())

    def state(self) -> GripperState:
        """The latest round."""
        return self._runner.call(self._gripper.state())

    def move(self, opening_width_m: float, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to a clear width [m]."""
        return self._command(self._gripper.move(opening_width_m, relative_speed))

    def grip(
        self,
        relative_effort: float = 0.0,
        relative_speed: float = 0.0,
        expected_object_width_m: float | None = None,
    ) -> PendingCommand:
        """Close on whatever is there; the expected width [m] is a criterion for the outcome."""
        return self._command(self._gripper.grip(relative_effort, relative_speed, expected_object_width_m))

    def open(self, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to the open end."""
        return self._command(self._gripper.open(relative_speed))

    def activate(self) -> PendingCommand:
        """Make it ready; the reply says whether the jaws move."""
        return self._command(self._gripper.activate())

    def deactivate(self) -> PendingCommand:
        """Disable the drive."""
        return self._command(self._gripper.deactivate())

    def clear_fault(self) -> PendingCommand:
        """Clear the device's faults; the reply says whether the jaws move."""
        return self._command(self._gripper.clear_fault())

    def release(self) -> PendingCommand:
        """Slow automatic release."""
        return self._command(self._gripper.release())

    def stop(self, timeout_s: float = CALL_TIMEOUT_S) -> PendingCommand:
        """Halt; returns when the device has acknowledged."""
        return self._command(self._gripper.stop(timeout_s))

    def outcome(self, command_seq: int, timeout_s: float | None = None) -> CommandOutcome:
        """The outcome of a command by its number."""
        return self._runner.call(self._gripper.outcome(command_seq, timeout_s))

    def states(self, max_rate_hz: float = 0.0) -> Subscription[GripperState]:
        """Every round as it comes, or at most max_rate_hz [Hz]. Raises ConnectionLostError when the daemon is lost."""
        return Subscription(self._runner, self._gripper.states(max_rate_hz))

    def events(
        self, kinds: Sequence[Event | str] = tuple(Event), max_rate_hz: float = 0.0
    ) -> Subscription[GripperEvent]:
        """States, outcomes, faults and changes of the link, as asked for. max_rate_hz [Hz] thins the states."""
        return Subscription(self._runner, self._gripper.events(kinds, max_rate_hz))

    def _command(self, work: Coroutine[Any, Any, asyncio_client.PendingCommand]) -> PendingCommand:
        return PendingCommand(self._runner, self._runner.call(work))


class Client:
    """A connection to a daemon; use it as a context manager."""

    def __init__(self, runner: _Runner, client: asyncio_client.Client) -> None:
        self._runner = runner
        self._client = client

    @classmethod
    def connect(
        cls, path: str | Path = DEFAULT_SOCKET, timeout_s: float = CALL_TIMEOUT_S, reconnect: bool = False
    ) -> Self:
        """Connect to the daemon's socket; see the asyncio client for `reconnect`. Raises ConnectionLostError."""
        runner = _Runner()
        try:
            return cls(runner, runner.call(asyncio_client.Client.connect(path, timeout_s, reconnect)))
        except BaseException:
            runner.close(None)
            raise

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the connection; calls that other threads wait in end with ConnectionLostError.

        What was commanded goes on, unless `hello` asked for a stop. A second call does nothing.
        """
        self._runner.close(self._client)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._client.connected

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew."""
        return self._client.reconnects

    def wait_connected(self, timeout_s: float | None = None) -> None:
        """Wait for a connection. Raises TimeoutError after timeout_s [s]; ConnectionLostError if none will come."""
        self._runner.call(self._client.wait_connected(timeout_s))

    def hello(
        self,
        name: str,
        on_disconnect: OnDisconnect | str = OnDisconnect.NONE,
        heartbeat_s: float = 0.0,
        auto_beat: bool = True,
    ) -> int:
        """Say who this is, and what its loss means. Returns the number of this client.

        auto_beat: beats are sent by this client's own thread, which lives as long as the process does, also where your
        program hangs. False: call `beat` from your own loop.
        """
        return self._runner.call(self._client.hello(name, on_disconnect, heartbeat_s, auto_beat))

    def beat(self) -> None:
        """This program lives."""
        self._runner.call(self._client.beat())

    def clients(self) -> ClientList:
        """Who is connected, and who commanded last."""
        return self._runner.call(self._client.clients())

    def acquire(self, gripper: str | None = None) -> CommandReply:
        """From now on only this client may command it; a stop is everybody's. Raises CommandRefusedError."""
        return self._runner.call(self._client.acquire(gripper))

    def release(self, gripper: str | None = None) -> CommandReply:
        """Everybody may command it again. Raises CommandRefusedError where another client holds the right."""
        return self._runner.call(self._client.release(gripper))

    @contextlib.contextmanager
    def exclusive(self, gripper: str | None = None) -> Iterator[None]:
        """The exclusive right for the time of the block. Raises CommandRefusedError where another client holds it."""
        self.acquire(gripper)
        try:
            yield
        finally:
            with contextlib.suppress(ConnectionLostError):  # it has ended with the connection
                self.release(gripper)

    def gripper(self, name: str | None = None) -> Gripper:
        """One gripper; its name may be left out where the daemon has one."""
        return Gripper(self._runner, self._client.gripper(name))

    def info(self) -> DaemonInfo:
        """Who answers."""
        return self._runner.call(self._client.info())

    def grippers(self) -> GripperList:
        """All configured grippers."""
        return self._runner.call(self._client.grippers())

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Counters of the daemon."""
        return self._runner.call(self._client.statistics())

    def stop_all(self, timeout_s: float = CALL_TIMEOUT_S) -> StopReply:
        """Halt all grippers."""
        return self._runner.call(self._client.stop_all(timeout_s))
