"""The client for programs without asyncio: the same names, each call blocks. Usable from several threads at a time.

It runs the asyncio client on a loop of its own in a background thread; there is no second implementation.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gripperd.client import asyncio_client
from gripperd.client.asyncio_client import CALL_TIMEOUT_S, DEFAULT_SOCKET, GripperEvent
from gripperd.contract import (
    CommandOutcome,
    CommandReply,
    DaemonInfo,
    Event,
    GripperInfo,
    GripperList,
    GripperState,
    StopReply,
)

__all__ = ["DEFAULT_SOCKET", "Client", "Gripper", "PendingCommand"]

Result = TypeVar("Result")


class _Runner:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gripperd client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there, wait for it here. An interrupt here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class PendingCommand:
    """An accepted command."""

    def __init__(self, runner: _Runner, command: asyncio_client.PendingCommand) -> None:
        self._runner = runner
        self._command = command

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

    def states(self, max_rate_hz: float = 0.0) -> Iterator[GripperState]:
        """Every round as it comes, or at most max_rate_hz [Hz]."""
        return self._iterate(self._gripper.states(max_rate_hz))

    def events(self, kinds: Sequence[Event | str] = tuple(Event), max_rate_hz: float = 0.0) -> Iterator[GripperEvent]:
        """States, outcomes, faults and changes of the link, as asked for."""
        return self._iterate(self._gripper.events(kinds, max_rate_hz))

    def _command(self, work: Coroutine[Any, Any, asyncio_client.PendingCommand]) -> PendingCommand:
        return PendingCommand(self._runner, self._runner.call(work))

    def _iterate(self, items: AsyncGenerator[Result, None]) -> Iterator[Result]:
        async def following() -> tuple[Result] | None:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

        async def end() -> None:
            await items.aclose()

        try:
            while (item := self._runner.call(following())) is not None:
                yield item[0]
        finally:
            self._runner.call(end())


class Client:
    """A connection to a daemon; use it as a context manager."""

    def __init__(self, runner: _Runner, client: asyncio_client.Client) -> None:
        self._runner = runner
        self._client = client
        self._closed = False

    @classmethod
    def connect(cls, path: str | Path = DEFAULT_SOCKET, timeout_s: float = CALL_TIMEOUT_S) -> Self:
        """Connect to the daemon's socket. Raises ConnectionLostError."""
        runner = _Runner()
        try:
            return cls(runner, runner.call(asyncio_client.Client.connect(path, timeout_s)))
        except BaseException:
            runner.close()
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
        """End the connection. What was commanded goes on. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._runner.call(self._client.close())
            self._runner.close()

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
