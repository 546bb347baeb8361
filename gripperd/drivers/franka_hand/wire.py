"""Bytes of libfranka's gripper protocol (version 3) and vacuum gripper protocol (version 1), both ways. Pure.

Every message is a packed little-endian struct. On TCP it has a header of 10 bytes: command, command id, size of the
whole message. State comes as UDP datagrams without a header. [S] libfranka-common; sizes [M].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from struct import Struct
from typing import ClassVar, Self

HEADER = Struct("<HII")
MAX_MESSAGE_BYTES = 1024
"""Longest message that is taken for one [bytes]; the longest that exists has 50."""


class WireError(ValueError):
    """Bytes that are no message of this protocol. The text names them."""


class Command(IntEnum):
    """`command` of the gripper's header."""

    CONNECT = 0
    HOMING = 1
    GRASP = 2
    MOVE = 3
    STOP = 4


class VacuumCommand(IntEnum):
    """`command` of the vacuum gripper's header."""

    CONNECT = 0
    VACUUM = 1
    DROP_OFF = 2
    STOP = 3


class Status(IntEnum):
    """How a command ended. FAIL: it could not be carried out. UNSUCCESSFUL: it was, and missed its goal."""

    SUCCESS = 0
    FAIL = 1
    UNSUCCESSFUL = 2
    ABORTED = 3


class ConnectStatus(IntEnum):
    """How a connection was answered."""

    SUCCESS = 0
    INCOMPATIBLE_LIBRARY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Header:
    """Of every TCP message. size: of the whole message, header included [bytes]."""

    command: int
    command_id: int
    size: int

    def encode(self) -> bytes:
        """Ten bytes."""
        return HEADER.pack(self.command, self.command_id, self.size)


@dataclass(frozen=True, slots=True)
class Payload:
    """What follows the header. layout: of its fields, in their order."""

    command: ClassVar[int]
    layout: ClassVar[Struct]

    def encode(self, command_id: int) -> bytes:
        """The whole message."""
        body = self.layout.pack(*(getattr(self, each.name) for each in fields(self)))
        return Header(self.command, command_id, HEADER.size + len(body)).encode() + body

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """From what follows the header. Surplus bytes are dropped, as libfranka does. Raises WireError."""
        if len(body) < cls.layout.size:
            raise WireError(f"{cls.__name__} has {cls.layout.size} bytes, {len(body)} came: {_shown(body)}")
        return cls(*cls.layout.unpack_from(body))


@dataclass(frozen=True, slots=True)
class ConnectRequest(Payload):
    """udp_port: where the client wants its states."""

    version: int
    udp_port: int
    command = Command.CONNECT
    layout = Struct("<HH")


@dataclass(frozen=True, slots=True)
class ConnectResponse(Payload):
    """version: the server's."""

    status: int
    version: int
    command = Command.CONNECT
    layout = Struct("<HH")


@dataclass(frozen=True, slots=True)
class HomingRequest(Payload):
    """Close and open fully, to learn max_width."""

    command = Command.HOMING
    layout = Struct("<")


@dataclass(frozen=True, slots=True)
class GraspRequest(Payload):
    """width, epsilons [m], speed [m/s], force [N], in the order of the wire; that of libfranka's grasp() differs."""

    width_m: float
    epsilon_inner_m: float
    epsilon_outer_m: float
    speed_m_s: float
    force_n: float
    command = Command.GRASP
    layout = Struct("<ddddd")


@dataclass(frozen=True, slots=True)
class MoveRequest(Payload):
    """width [m], speed [m/s]."""

    width_m: float
    speed_m_s: float
    command = Command.MOVE
    layout = Struct("<dd")


@dataclass(frozen=True, slots=True)
class StopRequest(Payload):
    """Abort what is pending."""

    command = Command.STOP
    layout = Struct("<")


@dataclass(frozen=True, slots=True)
class VacuumRequest(Payload):
    """vacuum [10 mbar], profile 0 to 3, timeout [ms]."""

    vacuum: int
    profile: int
    timeout_ms: int
    command = VacuumCommand.VACUUM
    layout = Struct("<BBq")


@dataclass(frozen=True, slots=True)
class DropOffRequest(Payload):
    """timeout [ms]."""

    timeout_ms: int
    command = VacuumCommand.DROP_OFF
    layout = Struct("<q")


@dataclass(frozen=True, slots=True)
class VacuumStopRequest(Payload):
    """Abort what is pending."""

    command = VacuumCommand.STOP
    layout = Struct("<")


RESPONSE = Struct("<H")


def encode_response(command: int, command_id: int, status: int) -> bytes:
    """The answer to any command but Connect."""
    return Header(command, command_id, HEADER.size + RESPONSE.size).encode() + RESPONSE.pack(status)


def decode_status(body: bytes) -> Status:
    """From what follows the header of an answer. Raises WireError."""
    if len(body) < RESPONSE.size:
        raise WireError(f"a status has {RESPONSE.size} bytes, {len(body)} came: {_shown(body)}")
    (number,) = RESPONSE.unpack_from(body)
    try:
        return Status(number)
    except ValueError:
        raise WireError(f"status {number} is not known (0 to 3 are): {_shown(body)}") from None


@dataclass(frozen=True, slots=True)
class Message:
    """A TCP message: header and what follows it."""

    header: Header
    body: bytes


class MessageDecoder:
    """A TCP stream, piece by piece, to messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. Raises WireError at the first that cannot be one: nothing behind it can
        be told apart any more.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            header = Header(*HEADER.unpack_from(self._buffer))
            if not HEADER.size <= header.size <= MAX_MESSAGE_BYTES:
                limits, start = f"{HEADER.size} to {MAX_MESSAGE_BYTES}", _shown(self._buffer[: HEADER.size])
                raise WireError(f"a message of {header.size} bytes cannot be ({limits}): {start}")
            if len(self._buffer) < header.size:
                return
            body, self._buffer = self._buffer[HEADER.size : header.size], self._buffer[header.size :]
            yield Message(header, body)


@dataclass(frozen=True, slots=True)
class State:
    """What one datagram of the hand says. message_id: grows by the millisecond since the robot's start. [m], [°C].

    is_grasped: the hand's own flag, with the band of its last grasp.
    """

    message_id: int
    width_m: float
    max_width_m: float
    is_grasped: bool
    temperature_c: int
    layout: ClassVar[Struct] = Struct("<Idd?H")

    def encode(self) -> bytes:
        """23 bytes."""
        widths = (self.width_m, self.max_width_m)
        return self.layout.pack(self.message_id, *widths, self.is_grasped, self.temperature_c)

    @classmethod
    def decode(cls, datagram: bytes) -> Self:
        """Longer datagrams are cut, as libfranka does. Raises WireError."""
        if len(datagram) < cls.layout.size:
            raise WireError(f"a state has {cls.layout.size} bytes, {len(datagram)} came: {_shown(datagram)}")
        return cls(*cls.layout.unpack_from(datagram))


@dataclass(frozen=True, slots=True)
class VacuumState:
    """What one datagram of the vacuum gripper says. actual_power [%], vacuum [mbar], device_status 0 green to 3 red."""

    message_id: int
    in_control_range: bool
    part_detached: bool
    part_present: bool
    device_status: int
    actual_power: int
    vacuum_mbar: int
    layout: ClassVar[Struct] = Struct("<I???Bii")

    def encode(self) -> bytes:
        """16 bytes."""
        flags = (self.in_control_range, self.part_detached, self.part_present)
        return self.layout.pack(self.message_id, *flags, self.device_status, self.actual_power, self.vacuum_mbar)

    @classmethod
    def decode(cls, datagram: bytes) -> Self:
        """Longer datagrams are cut. Raises WireError."""
        if len(datagram) < cls.layout.size:
            raise WireError(f"a vacuum state has {cls.layout.size} bytes, {len(datagram)} came: {_shown(datagram)}")
        return cls(*cls.layout.unpack_from(datagram))


def _shown(data: bytes) -> str:
    return data[:64].hex(" ") or "nothing"
