"""The client for asyncio programs. `gripperd.client.blocking` has the same names without `await`."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gripperd.client.connection import Connection
from gripperd.contract import (
    CommandOutcome,
    CommandRefusedError,
    CommandReply,
    DaemonInfo,
    Event,
    Fault,
    GripperInfo,
    GripperList,
    GripperState,
    Link,
    StopReply,
    WaitReply,
)

DEFAULT_SOCKET = "/run/gripperd/gripperd.sock"
CALL_TIMEOUT_S = 5.0
"""Longest time that an answer may take [s]; commands are answered within about a second even by a silent device."""
WAIT_SLICE_S = 30.0
"""An outcome is asked for in slices of this length [s], so that no single request is pending for ever."""

GripperEvent = GripperState | CommandOutcome | tuple[str, Fault | None] | tuple[str, Link]
"""A state, an outcome, or (gripper, fault) or (gripper, link)."""


class PendingCommand:
    """An accepted command. `reply` is the daemon's answer; ok there means acknowledged by the device, not arrived."""

    def __init__(self, gripper: Gripper, reply: CommandReply) -> None:
        self.gripper = gripper
        self.reply = reply

    @property
    def command_seq(self) -> int:
        """Its number."""
        return self.reply.command_seq

    async def outcome(self, timeout_s: float | None = None) -> CommandOutcome:
        """How it ended. timeout_s [s]; None: as long as it takes. Raises TimeoutError, ConnectionLostError."""
        return await self.gripper.outcome(self.command_seq, timeout_s)


class Gripper:
    """One gripper of a daemon. Made by `Client.gripper`.

    Commands raise CommandRefusedError where the daemon does not accept them, with the contract's code and reason; also
    for `not_confirmed`, where the reply in the exception has the command_seq to ask the outcome for.
    """

    def __init__(self, connection: Connection, name: str | None) -> None:
        self._connection = connection
        self.name = name

    async def info(self) -> GripperInfo:
        """What it can do: ranges in [m] and [N]."""
        return GripperInfo.model_validate(await self._call("info", {}), strict=False)

    async def state(self) -> GripperState:
        """The latest round; each observation in it has its own validity."""
        return GripperState.model_validate(await self._call("state", {}), strict=False)

    async def move(self, opening_width_m: float, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to a clear width [m]. relative_speed: 0 = configured default, up to 1."""
        return await self._command("move", {"opening_width_m": opening_width_m, "relative_speed": relative_speed})

    async def grip(
        self,
        relative_effort: float = 0.0,
        relative_speed: float = 0.0,
        expected_object_width_m: float | None = None,
    ) -> PendingCommand:
        """Close on whatever is there. An expected width [m] is a criterion for the outcome, not a target."""
        params: dict[str, Any] = {"relative_effort": relative_effort, "relative_speed": relative_speed}
        if expected_object_width_m is not None:
            params |= {"expected_object_width_valid": True, "expected_object_width_m": expected_object_width_m}
        return await self._command("grip", params)

    async def open(self, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to the open end."""
        return await self._command("open", {"relative_speed": relative_speed})

    async def activate(self) -> PendingCommand:
        """Make it ready. The reply says whether the jaws move."""
        return await self._command("activate", {})

    async def deactivate(self) -> PendingCommand:
        """Disable the drive."""
        return await self._command("deactivate", {})

    async def clear_fault(self) -> PendingCommand:
        """Clear the device's faults. The reply says whether the jaws move."""
        return await self._command("clear_fault", {})

    async def release(self) -> PendingCommand:
        """Slow automatic release, where the device has one."""
        return await self._command("release", {})

    async def stop(self, timeout_s: float = CALL_TIMEOUT_S) -> PendingCommand:
        """Halt. Returns when the device has acknowledged; raises CommandRefusedError (not_confirmed) if it has not."""
        reply = CommandReply.model_validate(await self._call("stop", {}, timeout_s), strict=False)
        return self._accepted(reply)

    async def outcome(self, command_seq: int, timeout_s: float | None = None) -> CommandOutcome:
        """The outcome of a command by its number. Raises TimeoutError after timeout_s [s]."""
        loop = asyncio.get_running_loop()
        end_s = math.inf if timeout_s is None else loop.time() + timeout_s
        while True:
            slice_s = max(0.0, min(WAIT_SLICE_S, end_s - loop.time()))
            params = {"command_seq": command_seq, "timeout_s": slice_s}
            waited = WaitReply.model_validate(await self._call("wait", params, slice_s + CALL_TIMEOUT_S), strict=False)
            if waited.outcome is not None:
                return waited.outcome
            if loop.time() >= end_s:
                raise TimeoutError(f"command {command_seq} did not end within {timeout_s} s")

    async def states(self, max_rate_hz: float = 0.0) -> AsyncGenerator[GripperState, None]:
        """Every round as it comes, or at most max_rate_hz [Hz]. Raises ConnectionLostError when the daemon is lost."""
        async with contextlib.aclosing(self.events((Event.STATE,), max_rate_hz)) as events:
            async for item in events:
                assert isinstance(item, GripperState)
                yield item

    async def events(
        self, kinds: Sequence[Event | str] = tuple(Event), max_rate_hz: float = 0.0
    ) -> AsyncGenerator[GripperEvent, None]:
        """States, outcomes, faults and changes of the link, as asked for."""
        _finite("max_rate_hz", max_rate_hz)
        params: dict[str, Any] = {"events": [Event(kind).value for kind in kinds]}
        if max_rate_hz:
            params["max_rate_hz"] = max_rate_hz
        number, stream = await self._connection.subscribe(self._named(params), CALL_TIMEOUT_S)
        try:
            while True:
                yield _decode(*await stream.get())
        finally:
            await self._connection.unsubscribe(number, CALL_TIMEOUT_S)

    async def _command(self, verb: str, params: Mapping[str, Any]) -> PendingCommand:
        for name, value in params.items():
            _finite(name, value)
        return self._accepted(CommandReply.model_validate(await self._call(verb, params), strict=False))

    def _accepted(self, reply: CommandReply) -> PendingCommand:
        if not reply.ok:
            raise CommandRefusedError(reply)
        return PendingCommand(self, reply)

    async def _call(self, verb: str, params: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> Any:  # noqa: ANN401
        return await self._connection.call(f"gripper.{verb}", self._named(params), timeout_s)

    def _named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return dict(params) if self.name is None else {"gripper": self.name, **params}


class Client:
    """A connection to a daemon. `await Client.connect(...)`, and use it as an async context manager."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, path: str | Path = DEFAULT_SOCKET, timeout_s: float = CALL_TIMEOUT_S) -> Self:
        """Connect to the daemon's socket. Raises ConnectionLostError."""
        return cls(await Connection.open(path, timeout_s))

    async def __aenter__(self) -> Self:
        """Use it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End the connection. What was commanded goes on."""
        await self._connection.close()

    def gripper(self, name: str | None = None) -> Gripper:
        """One gripper; its name may be left out where the daemon has one."""
        return Gripper(self._connection, name)

    async def info(self) -> DaemonInfo:
        """Who answers."""
        return DaemonInfo.model_validate(await self._connection.call("daemon.info", {}, CALL_TIMEOUT_S), strict=False)

    async def grippers(self) -> GripperList:
        """All configured grippers."""
        return GripperList.model_validate(await self._connection.call("gripper.list", {}, CALL_TIMEOUT_S), strict=False)

    async def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Counters of the daemon: part -> name -> counter -> value."""
        result: dict[str, dict[str, dict[str, float]]]
        result = await self._connection.call("daemon.statistics", {}, CALL_TIMEOUT_S)
        return result

    async def stop_all(self, timeout_s: float = CALL_TIMEOUT_S) -> StopReply:
        """Halt all grippers. The reply tells of each whether its device acknowledged."""
        result = await self._connection.call("gripper.stop", {}, timeout_s)
        return StopReply.model_validate(result, strict=False)


def _finite(name: str, value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}: JSON has no such number, give a finite one")


def _decode(event: Event, params: Mapping[str, Any]) -> GripperEvent:
    if event is Event.STATE:
        return GripperState.model_validate(params["state"], strict=False)
    if event is Event.OUTCOME:
        return CommandOutcome.model_validate(params["outcome"], strict=False)
    if event is Event.FAULT:
        fault = params["fault"]
        return str(params["gripper"]), None if fault is None else Fault.model_validate(fault)
    return str(params["gripper"]), Link(params["link"])
