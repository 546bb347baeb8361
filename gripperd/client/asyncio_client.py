"""The client for asyncio programs. `gripperd.client.blocking` has the same names without `await`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pydantic import ValidationError

from gripperd.client.connection import Connection, Stream
from gripperd.contract import (
    CONTRACT_VERSION,
    AnswerError,
    CommandOutcome,
    CommandRefusedError,
    CommandReply,
    DaemonInfo,
    Event,
    Fault,
    GripperdError,
    GripperInfo,
    GripperList,
    GripperState,
    Link,
    Message,
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

Item = TypeVar("Item")
Answer = TypeVar("Answer", bound=Message)


class Subscription(AsyncIterator[Item], Generic[Item]):
    """An asynchronous iterator over what the daemon tells. The daemon is asked at the first item.

    It ends with ConnectionLostError when the daemon is lost, after all that came before. Leaving the loop ends the
    subscription; `aclose()` or `async with` do so at once. One task at a time may read it.
    """

    def __init__(
        self,
        connection: Connection,
        params: Mapping[str, Any],
        decode: Callable[[Event, Mapping[str, Any]], Item],
    ) -> None:
        self._stream = Stream()
        # It does not know this object: so it is finalised, and the subscription ended, as soon as nobody holds this.
        self._items = _follow(connection, params, self._stream, decode)

    @property
    def dropped(self) -> int:
        """States lost so far because they were not read in time, here or in the daemon."""
        return self._stream.dropped

    async def __anext__(self) -> Item:
        """The next item."""
        return await anext(self._items)

    async def aclose(self) -> None:
        """End the subscription. A second call does nothing."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        """Use it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        await self.aclose()


async def _follow(
    connection: Connection,
    params: Mapping[str, Any],
    stream: Stream,
    decode: Callable[[Event, Mapping[str, Any]], Item],
) -> AsyncGenerator[Item, None]:
    number = await connection.subscribe(params, stream, CALL_TIMEOUT_S)
    try:
        while True:
            yield decode(*await stream.get())
    finally:
        await connection.unsubscribe(number, CALL_TIMEOUT_S)


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
        """None: the only gripper of the daemon."""

    async def info(self) -> GripperInfo:
        """What it can do: ranges in [m] and [N]."""
        return _read(GripperInfo, await self._call("info", {}))

    async def state(self) -> GripperState:
        """The latest round; each observation in it has its own validity."""
        return _read(GripperState, await self._call("state", {}))

    async def move(self, opening_width_m: float, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to a clear width [m]. relative_speed: 0 = configured default, up to 1."""
        params = {
            "opening_width_m": _finite("opening_width_m", opening_width_m),
            "relative_speed": _finite("relative_speed", relative_speed),
        }
        return await self._command("move", params)

    async def grip(
        self,
        relative_effort: float = 0.0,
        relative_speed: float = 0.0,
        expected_object_width_m: float | None = None,
    ) -> PendingCommand:
        """Close on whatever is there. An expected width [m] is a criterion for the outcome, not a target."""
        params: dict[str, Any] = {
            "relative_effort": _finite("relative_effort", relative_effort),
            "relative_speed": _finite("relative_speed", relative_speed),
        }
        if expected_object_width_m is not None:
            width_m = _finite("expected_object_width_m", expected_object_width_m)
            params |= {"expected_object_width_valid": True, "expected_object_width_m": width_m}
        return await self._command("grip", params)

    async def open(self, relative_speed: float = 0.0) -> PendingCommand:
        """Drive to the open end."""
        return await self._command("open", {"relative_speed": _finite("relative_speed", relative_speed)})

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
        """Halt. Returns when the device has acknowledged; raises CommandRefusedError (not_confirmed) if it has not.

        Without a name where several grippers are configured all of them are stopped, and GripperdError tells so:
        `Client.stop_all` is the call for that.
        """
        result = await self._call("stop", {}, timeout_s)
        if self.name is None and isinstance(result, dict) and "command_seq" not in result:
            told = ", ".join(f"{reply.gripper} {reply.code}" for reply in _read(StopReply, result).replies)
            raise GripperdError(f"no gripper was named, so all were told to stop ({told}): use stop_all, or name one")
        return self._accepted(_read(CommandReply, result))

    async def outcome(self, command_seq: int, timeout_s: float | None = None) -> CommandOutcome:
        """The outcome of a command by its number. Raises TimeoutError after timeout_s [s]; None: no limit."""
        loop = asyncio.get_running_loop()
        if timeout_s is not None and math.isnan(timeout_s):
            raise ValueError("timeout_s is nan: give seconds, or None for no limit")
        end_s = math.inf if timeout_s is None else loop.time() + timeout_s
        while True:
            slice_s = max(0.0, min(WAIT_SLICE_S, end_s - loop.time()))
            params = {"command_seq": command_seq, "timeout_s": slice_s}
            waited = _read(WaitReply, await self._call("wait", params, slice_s + CALL_TIMEOUT_S))
            if waited.outcome is not None:
                return waited.outcome
            if loop.time() >= end_s:
                raise TimeoutError(f"command {command_seq} did not end within {timeout_s} s")

    def states(self, max_rate_hz: float = 0.0) -> Subscription[GripperState]:
        """Every round as it comes, or at most max_rate_hz [Hz]. Raises ConnectionLostError when the daemon is lost."""
        return Subscription(self._connection, self._subscribe((Event.STATE,), max_rate_hz), _decode_state)

    def events(
        self, kinds: Sequence[Event | str] = tuple(Event), max_rate_hz: float = 0.0
    ) -> Subscription[GripperEvent]:
        """States, outcomes, faults and changes of the link, as asked for. max_rate_hz [Hz] thins the states."""
        return Subscription(self._connection, self._subscribe(kinds, max_rate_hz), _decode)

    def _subscribe(self, kinds: Sequence[Event | str], max_rate_hz: float) -> dict[str, Any]:
        params: dict[str, Any] = {"events": [Event(kind).value for kind in kinds]}
        if _finite("max_rate_hz", max_rate_hz):
            params["max_rate_hz"] = float(max_rate_hz)
        return self._named(params)

    async def _command(self, verb: str, params: Mapping[str, Any]) -> PendingCommand:
        return self._accepted(_read(CommandReply, await self._call(verb, params)))

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
        return _read(DaemonInfo, await self._connection.call("daemon.info", {}, CALL_TIMEOUT_S))

    async def grippers(self) -> GripperList:
        """All configured grippers."""
        return _read(GripperList, await self._connection.call("gripper.list", {}, CALL_TIMEOUT_S))

    async def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Counters of the daemon: part -> name -> counter -> value."""
        result: dict[str, dict[str, dict[str, float]]]
        result = await self._connection.call("daemon.statistics", {}, CALL_TIMEOUT_S)
        return result

    async def stop_all(self, timeout_s: float = CALL_TIMEOUT_S) -> StopReply:
        """Halt all grippers. The reply tells of each whether its device acknowledged."""
        return _read(StopReply, await self._connection.call("gripper.stop", {}, timeout_s))


def _finite(name: str, value: float) -> float:
    """The value as a plain number, whatever kind of number it is. Raises ValueError, TypeError."""
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}: JSON has no such number, give a finite one")
    return float(value)


def _read(model: type[Answer], told: object) -> Answer:
    """The message in an answer. Raises AnswerError."""
    try:
        return model.model_validate(told, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AnswerError(
            f"the daemon's {model.__name__} does not fit contract {CONTRACT_VERSION}: {where}: {first['msg']}; "
            "is gripperd of the same version as this client?"
        ) from None


def _decode_state(event: Event, params: Mapping[str, Any]) -> GripperState:
    return _read(GripperState, params.get("state"))


def _decode(event: Event, params: Mapping[str, Any]) -> GripperEvent:
    if event is Event.STATE:
        return _decode_state(event, params)
    if event is Event.OUTCOME:
        return _read(CommandOutcome, params.get("outcome"))
    gripper = str(params.get("gripper"))
    if event is Event.FAULT:
        fault = params.get("fault")
        return gripper, None if fault is None else _read(Fault, fault)
    try:
        return gripper, Link(str(params.get("link")))
    except ValueError as error:
        raise AnswerError(f"the daemon tells a link that contract {CONTRACT_VERSION} does not know: {error}") from None
