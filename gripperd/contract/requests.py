"""The parameters of every method, as typed models: contract.md sections 3, 4, 6 and 8.

Wrong types, null and unknown parameters fail here (JSON-RPC -32602). Values that are well typed but not
permitted pass, and are refused by the gripper with a CommandReply. Left-out parameters are 0 or false.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from gripperd.contract.base import Event, Message, OnDisconnect, Verb

MAX_NAME = 64
"""Longest name of a client [characters]."""


class Request(Message):
    """Base of all parameters: an unknown name or a null is an error, not a default."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_null(cls, values: Any) -> Any:  # noqa: ANN401 (whatever the client sent)
        if isinstance(values, dict):
            for name, value in values.items():
                if value is None:
                    raise ValueError(f"{name} is null: leave it out to get its default")
        return values


class Empty(Request):
    """No parameters."""


class OfGripper(Request):
    """Names a gripper; may be left out where one is configured."""

    gripper: str | None = None


class Command(OfGripper):
    """A command to one gripper."""

    verb: ClassVar[Verb]


class Move(Command):
    """Drive to a clear width [m]. relative_speed: 0 = configured default, (0, 1] device-relative."""

    verb = Verb.MOVE
    opening_width_m: float
    relative_speed: float = 0.0


class Grip(Command):
    """Close adaptively. The expected width [m] is a criterion for the outcome, not a target."""

    verb = Verb.GRIP
    relative_effort: float = 0.0
    relative_speed: float = 0.0
    expected_object_width_valid: bool = False
    expected_object_width_m: float = 0.0


class Open(Command):
    """Drive to max_opening_width_m."""

    verb = Verb.OPEN
    relative_speed: float = 0.0


class Stop(Command):
    """Halt one gripper, or all when none is named."""

    verb = Verb.STOP


class Activate(Command):
    """Make the device ready for motion; says in its answer whether the jaws move."""

    verb = Verb.ACTIVATE


class Deactivate(Command):
    """Disable the drive."""

    verb = Verb.DEACTIVATE


class ClearFault(Command):
    """Clear the device's faults; says in its answer whether the jaws move."""

    verb = Verb.CLEAR_FAULT


class Release(Command):
    """Slow automatic release where the device has one."""

    verb = Verb.RELEASE


class Wait(OfGripper):
    """Ask for the outcome of a command, for at most timeout_s [s]."""

    command_seq: int
    timeout_s: float = 0.0


class Subscribe(OfGripper):
    """Ask for notifications. max_rate_hz [Hz] thins states; left out: every round."""

    max_rate_hz: float = 0.0
    events: list[Annotated[Event, Field(strict=False)]] = Field(default_factory=lambda: [Event.STATE])


class Unsubscribe(Request):
    """End a subscription."""

    subscription: int


class Hello(Request):
    """Say who asks, and what shall happen when this client is lost.

    heartbeat_s [s]: longest pause between two `client.beat`; 0: none is asked for. No control characters in the name.
    """

    name: str = Field("", max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]*$")
    on_disconnect: Annotated[OnDisconnect, Field(strict=False)] = OnDisconnect.NONE
    heartbeat_s: float = 0.0


COMMANDS: dict[str, type[Command]] = {
    model.verb.value: model for model in (Move, Grip, Open, Stop, Activate, Deactivate, ClearFault, Release)
}
"""Verb name -> model of its parameters."""
