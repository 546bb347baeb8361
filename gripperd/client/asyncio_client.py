"""The client for asyncio programs. `gripperd.client.blocking` has the same names without `await`."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gripperd.client.channel import Channel
from gripperd.client.following import CALL_TIMEOUT_S, GripperEvent, Subscription, decode, decode_state, read
from gripperd.contract import (
    ClientList,
    CommandOutcome,
    CommandRefusedError,
    CommandReply,
    ConnectionLostError,
    DaemonInfo,
    Event,
    GripperdError,
    GripperInfo,
    GripperList,
    GripperState,
    HelloReply,
    OnDisconnect,
    StopReply,
    WaitReply,
)

DEFAULT_SOCKET = "/run/gripperd/gripperd.sock"
WAIT_SLICE_S = 30.0
"""An outcome is asked for in slices of this length [s], so that no single request is pending for ever."""


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

    def __init__(self, channel: Channel, name: str | None) -> None:
        self._channel = channel
        self.name = name
        """None: the only gripper of the daemon."""

    async def info(self) -> GripperInfo:
        """What it can do: ranges in [m] and [N]."""
        return read(GripperInfo, await self._call("info", {}))

    async def state(self) -> GripperState:
        """The latest round; each observation in it has its own validity."""
        return read(GripperState, await self._call("state", {}))

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
            told = ", ".join(f"{reply.gripper} {reply.code}" for reply in read(StopReply, result).replies)
            raise GripperdError(f"no gripper was named, so all were told to stop ({told}): use stop_all, or name one")
        return PendingCommand(self, _accepted(read(CommandReply, result)))

    async def outcome(self, command_seq: int, timeout_s: float | None = None) -> CommandOutcome:
        """The outcome of a command by its number. Raises TimeoutError after timeout_s [s]; None: no limit."""
        loop = asyncio.get_running_loop()
        if timeout_s is not None and math.isnan(timeout_s):
            raise ValueError("timeout_s is nan: give seconds, or None for no limit")
        end_s = math.inf if timeout_s is None else loop.time() + timeout_s
        while True:
            slice_s = max(0.0, min(WAIT_SLICE_S, end_s - loop.time()))
            params = {"command_seq": command_seq, "timeout_s": slice_s}
            waited = read(WaitReply, await self._call("wait", params, slice_s + CALL_TIMEOUT_S))
            if waited.outcome is not None:
                return waited.outcome
            if loop.time() >= end_s:
                raise TimeoutError(f"command {command_seq} did not end within {timeout_s} s")

    def states(self, max_rate_hz: float = 0.0) -> Subscription[GripperState]:
        """Every round as it comes, or at most max_rate_hz [Hz]. Raises ConnectionLostError when the daemon is lost."""
        return Subscription(self._channel, self._subscribe((Event.STATE,), max_rate_hz), decode_state)

    def events(
        self, kinds: Sequence[Event | str] = tuple(Event), max_rate_hz: float = 0.0
    ) -> Subscription[GripperEvent]:
        """States, outcomes, faults and changes of the link, as asked for. max_rate_hz [Hz] thins the states."""
        return Subscription(self._channel, self._subscribe(kinds, max_rate_hz), decode)

    def _subscribe(self, kinds: Sequence[Event | str], max_rate_hz: float) -> dict[str, Any]:
        params: dict[str, Any] = {"events": [Event(kind).value for kind in kinds]}
        if _finite("max_rate_hz", max_rate_hz):
            params["max_rate_hz"] = float(max_rate_hz)
        return self._named(params)

    async def _command(self, verb: str, params: Mapping[str, Any]) -> PendingCommand:
        return PendingCommand(self, _accepted(read(CommandReply, await self._call(verb, params))))

    async def _call(self, verb: str, params: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> Any:  # noqa: ANN401
        return await self._channel.call(f"gripper.{verb}", self._named(params), timeout_s)

    def _named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return dict(params) if self.name is None else {"gripper": self.name, **params}


class Client:
    """A connection to a daemon. `await Client.connect(...)`, and use it as an async context manager."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @classmethod
    async def connect(
        cls, path: str | Path = DEFAULT_SOCKET, timeout_s: float = CALL_TIMEOUT_S, reconnect: bool = False
    ) -> Self:
        """Connect to the daemon's socket. Raises ConnectionLostError.

        reconnect: when the daemon is lost, a new connection is made as soon as it is back. What was under way fails all
        the same, and nothing is sent twice; calls fail while there is no connection; subscriptions go on with the new.
        """
        return cls(await Channel.open(path, timeout_s, reconnect))

    async def __aenter__(self) -> Self:
        """Use it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End the connection. What was commanded goes on, unless `hello` asked for a stop."""
        await self._channel.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._channel.connection.lost is None

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew. Exclusive rights and the outcomes in between were lost each time."""
        return self._channel.reconnects

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """Wait for a connection. Raises TimeoutError after timeout_s [s]; ConnectionLostError if none will come."""
        async with asyncio.timeout(timeout_s):
            while (lost := self._channel.connection).lost is not None:
                await self._channel.after(lost)

    async def hello(
        self,
        name: str,
        on_disconnect: OnDisconnect | str = OnDisconnect.NONE,
        heartbeat_s: float = 0.0,
        auto_beat: bool = True,
    ) -> int:
        """Say who this is, and what its loss means. Returns the number of this client.

        on_disconnect: "stop" stops the grippers that it commanded last when the connection ends in any way, or when the
        daemon hears no beat for heartbeat_s [s]. auto_beat: they are sent by themselves, from the event loop, so that a
        program that blocks it misses them. False: call `beat`.
        """
        params = {
            "name": name,
            "on_disconnect": OnDisconnect(on_disconnect).value,
            "heartbeat_s": _finite("heartbeat_s", heartbeat_s),
        }
        return read(HelloReply, await self._channel.hello(params, auto_beat, CALL_TIMEOUT_S)).client

    async def beat(self) -> None:
        """This program lives."""
        await self._channel.call("client.beat", {}, CALL_TIMEOUT_S)

    async def clients(self) -> ClientList:
        """Who is connected, and who commanded last."""
        return read(ClientList, await self._channel.call("client.list", {}, CALL_TIMEOUT_S))

    async def acquire(self, gripper: str | None = None) -> CommandReply:
        """From now on only this client may command it; a stop is everybody's. Raises CommandRefusedError."""
        return await self._right("client.acquire", gripper)

    async def release(self, gripper: str | None = None) -> CommandReply:
        """Everybody may command it again. Raises CommandRefusedError where another client holds the right."""
        return await self._right("client.release", gripper)

    @contextlib.asynccontextmanager
    async def exclusive(self, gripper: str | None = None) -> AsyncIterator[None]:
        """The exclusive right for the time of the block. Raises CommandRefusedError where another client holds it."""
        await self.acquire(gripper)
        try:
            yield
        finally:
            with contextlib.suppress(ConnectionLostError):  # it has ended with the connection
                await self.release(gripper)

    def gripper(self, name: str | None = None) -> Gripper:
        """One gripper; its name may be left out where the daemon has one."""
        return Gripper(self._channel, name)

    async def info(self) -> DaemonInfo:
        """Who answers."""
        return read(DaemonInfo, await self._channel.call("daemon.info", {}, CALL_TIMEOUT_S))

    async def grippers(self) -> GripperList:
        """All configured grippers."""
        return read(GripperList, await self._channel.call("gripper.list", {}, CALL_TIMEOUT_S))

    async def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Counters of the daemon: part -> name -> counter -> value."""
        result: dict[str, dict[str, dict[str, float]]]
        result = await self._channel.call("daemon.statistics", {}, CALL_TIMEOUT_S)
        return result

    async def stop_all(self, timeout_s: float = CALL_TIMEOUT_S) -> StopReply:
        """Halt all grippers. The reply tells of each whether its device acknowledged."""
        return read(StopReply, await self._channel.call("gripper.stop", {}, timeout_s))

    async def _right(self, method: str, gripper: str | None) -> CommandReply:
        params = {} if gripper is None else {"gripper": gripper}
        return _accepted(read(CommandReply, await self._channel.call(method, params, CALL_TIMEOUT_S)))


def _accepted(reply: CommandReply) -> CommandReply:
    if not reply.ok:
        raise CommandRefusedError(reply)
    return reply


def _finite(name: str, value: float) -> float:
    """The value as a plain number, whatever kind of number it is. Raises ValueError, TypeError."""
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}: JSON has no such number, give a finite one")
    return float(value)
