"""What a transport may ask of the daemon. Transports hold nothing else.

Whoever wants to command joins, and gets a session. Commands are accepted in the order of the calls: everything up to
the device's queue happens before the call returns; the awaitable resolves when the device has acknowledged, or when the
command was refused. `stop` does all of its own work before it returns: fence, queue and wire lane.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from gripperd.contract.base import Event, Link
from gripperd.contract.messages import (
    ClientList,
    CommandOutcome,
    CommandReply,
    DaemonInfo,
    Fault,
    GripperInfo,
    GripperList,
    GripperState,
    HelloReply,
    StopReply,
    WaitReply,
)
from gripperd.contract.requests import Command, Hello

Listener = Callable[[Event, GripperState | CommandOutcome | Fault | Link | None, str], None]
"""Called as listener(event, item, gripper name), from the event loop. It must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, as its transport knows.

    transport: "unix" or "mqtt". name: until the client says its own. user: name or number. pid: its process, or 0.
    observe_only: the rule that forbids it to command, or "".
    """

    transport: str
    name: str = ""
    user: str = ""
    pid: int = 0
    observe_only: str = ""


class Session(Protocol):
    """One client. Unknown grippers raise InvalidParamsError."""

    def command(self, command: Command) -> Awaitable[CommandReply]:
        """Accept or refuse any command but stop."""

    def stop(self, gripper: str | None) -> Awaitable[CommandReply] | Awaitable[StopReply]:
        """Stop one gripper, or all when none is named. It needs no right."""

    def hello(self, hello: Hello) -> HelloReply:
        """Say who asks, and what its loss means."""

    def beat(self) -> None:
        """It lives. Raises InvalidParamsError before a hello."""

    def acquire(self, gripper: str | None) -> CommandReply:
        """From now on only this client may command the gripper."""

    def release(self, gripper: str | None) -> CommandReply:
        """Everybody may command it again."""

    def leave(self, lost: bool = True) -> None:
        """The client is gone. lost: what it asked for that case is done. A second call does nothing."""


class Service(Protocol):
    """The one service behind every transport. Unknown grippers raise InvalidParamsError."""

    def join(self, peer: Peer) -> Session:
        """A client came."""

    def daemon_info(self) -> DaemonInfo:
        """Who answers."""

    def list_grippers(self) -> GripperList:
        """All configured grippers."""

    def list_clients(self) -> ClientList:
        """Who is connected, and who commanded last."""

    def info(self, gripper: str | None) -> GripperInfo:
        """What a gripper can do."""

    def state(self, gripper: str | None) -> GripperState:
        """The latest round; it may be invalid, it is never stale-as-fresh."""

    def wait(self, gripper: str | None, command_seq: int, timeout_s: float) -> Awaitable[WaitReply]:
        """The outcome of an accepted command."""

    def subscribe(self, gripper: str | None, events: Collection[Event], listener: Listener) -> Callable[[], None]:
        """Call the listener for these events of one gripper, or of all. Returns what ends the subscription."""

    def statistics(self) -> Mapping[str, Mapping[str, Mapping[str, int | float]]]:
        """Counters of the parts of the daemon: part -> name -> counter -> value."""

    def names(self, gripper: str | None) -> list[str]:
        """The grippers that a request means: the named one, or all."""
