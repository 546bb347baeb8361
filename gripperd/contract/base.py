"""What every message of the contract is made of. Pure: no I/O, no clock.

Rules of this package
1. The contract knows nothing of the daemon, of a device or of a transport; everybody may import it.
2. Models are frozen. Requests refuse fields that they do not know; answers ignore them, so that an older client
   understands a newer daemon. Enumerations with numbers travel as integers.
3. SI units stand in the field's name: _m, _n, _s, _c, _v.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

CONTRACT_VERSION = 1
MAX_LINE_BYTES = 65_536
"""Longest line on the Unix socket [bytes], newline included: contract.md section 4."""


class Message(BaseModel):
    """Base of all messages: immutable, types are not coerced. Fields of a later contract are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, json_schema_serialization_defaults_required=True
    )

    def to_json(self) -> bytes:
        """UTF-8 JSON of the message, without a newline."""
        return self.__pydantic_serializer__.to_json(self)

    def to_dict(self) -> dict[str, Any]:
        """The message as plain JSON types."""
        return self.model_dump(mode="json")


class GraspState(IntEnum):
    """Contact as the device reports it; never inferred from a width that stopped changing."""

    UNKNOWN = 0
    NOT_HOLDING = 1
    HOLDING = 2
    SLIPPING = 3


class MotionState(IntEnum):
    """Motion as the device reports it. STOPPED proves neither arrival nor success nor a held object."""

    UNKNOWN = 0
    MOVING = 1
    STOPPED = 2


class Link(StrEnum):
    """Whether the device answers."""

    UP = "up"
    DOWN = "down"


class Activation(StrEnum):
    """Whether the device accepts motion commands."""

    UNKNOWN = "unknown"
    INACTIVE = "inactive"
    ACTIVATING = "activating"
    ACTIVE = "active"
    FAULT = "fault"


class CommandPhase(StrEnum):
    """Where the last dispatched command stands, as the device shows it."""

    NONE = "none"
    PENDING = "pending"
    EXECUTING = "executing"
    DONE = "done"


class Verb(StrEnum):
    """What a gripper can be told."""

    MOVE = "move"
    GRIP = "grip"
    OPEN = "open"
    STOP = "stop"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    CLEAR_FAULT = "clear_fault"
    RELEASE = "release"


class Code(StrEnum):
    """Why a command was accepted or refused."""

    ACCEPTED = "accepted"
    INVALID_ARGUMENT = "invalid_argument"
    UNREACHABLE_WIDTH = "unreachable_width"
    NOT_CONFIGURABLE = "not_configurable"
    NOT_SUPPORTED = "not_supported"
    NOT_ACTIVE = "not_active"
    LINK_DOWN = "link_down"
    DEVICE_FAULT = "device_fault"
    NOT_PERMITTED = "not_permitted"
    NOT_CONFIRMED = "not_confirmed"
    FENCED = "fenced"
    INTERNAL = "internal"


class Outcome(StrEnum):
    """How an accepted command ended; exactly one for each."""

    REACHED = "reached"
    CONTACT = "contact"
    STALLED = "stalled"
    CLOSED_EMPTY = "closed_empty"
    WIDTH_MISMATCH = "width_mismatch"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    FAULT = "fault"
    LINK_LOST = "link_lost"
    TIMED_OUT = "timed_out"
    UNCONFIRMED = "unconfirmed"


class OnDisconnect(StrEnum):
    """What a client asks for the case that it is lost."""

    NONE = "none"
    STOP = "stop"


class Event(StrEnum):
    """What a subscription can ask for."""

    STATE = "state"
    OUTCOME = "outcome"
    FAULT = "fault"
    LINK = "link"
