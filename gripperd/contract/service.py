"""What a transport may ask of the daemon. Transports hold nothing else.

Commands are accepted in the order of the calls: everything up to the device's queue happens before the call
returns; the awaitable resolves when the device has acknowledged, or when the command was refused.
`stop` does all of its own work before it returns: fence, queue and wire lane.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from gripperd.contract.base import Event, Link
from gripperd.contract.messages import (
    CommandOutcome,
    CommandReply,
    DaemonInfo,
    Fault,
    GripperInfo,
    GripperList,
    GripperState,
    StopReply,
    WaitReply,
)
from gripperd.contract.requests import Command

Listener = Callable[[Event, GripperState | CommandOutcome | Fault | Link | None, str], None]
"""Called as listener(event, item, gripper name), from the event loop. It must not block and must not raise."""


class Service(Protocol):
    """The one service behind every transport. Unknown grippers raise InvalidParamsError."""

    def daemon_info(self) -> DaemonInfo:
        """Who answers."""

    def list_grippers(self) -> GripperList:
        """All configured grippers."""

    def info(self, gripper: str | None) -> GripperInfo:
        """What a gripper can do."""

    def state(self, gripper: str | None) -> GripperState:
        """The latest round; it may be invalid, it is never stale-as-fresh."""

    def command(self, command: Command) -> Awaitable[CommandReply]:
        """Accept or refuse any command but stop."""

    def stop(self, gripper: str | None) -> Awaitable[CommandReply] | Awaitable[StopReply]:
        """Stop one gripper, or all when none is named."""

    def wait(self, gripper: str | None, command_seq: int, timeout_s: float) -> Awaitable[WaitReply]:
        """The outcome of an accepted command."""

    def subscribe(self, gripper: str | None, events: Collection[Event], listener: Listener) -> Callable[[], None]:
        """Call the listener for these events of one gripper, or of all. Returns what ends the subscription."""

    def statistics(self) -> Mapping[str, Mapping[str, Mapping[str, int | float]]]:
        """Counters of the parts of the daemon: part -> name -> counter -> value."""

    def names(self, gripper: str | None) -> list[str]:
        """The grippers that a request means: the named one, or all."""
