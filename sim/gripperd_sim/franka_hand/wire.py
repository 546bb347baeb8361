"""The hand's side of libfranka's gripper protocol, version 3. Pure; written from its layout, not from gripperd.

TCP: header `<HII` (command, id, size of the whole message), then the payload. UDP: states of 23 bytes. [S], sizes [M].
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

VERSION = 3
TCP_PORT = 1338

CONNECT, HOMING, GRASP, MOVE, STOP = range(5)
NAMES = ("connect", "homing", "grasp", "move", "stop")
SUCCESS, FAIL, UNSUCCESSFUL, ABORTED = range(4)
STATUS_NAMES = ("success", "fail", "unsuccessful", "aborted")
VERSION_MISMATCH = 1
"""Status of Connect."""

HEADER_BYTES = 10
STATE_BYTES = 23
PAYLOADS = {CONNECT: "<HH", HOMING: "<", GRASP: "<5d", MOVE: "<2d", STOP: "<"}
"""Command -> layout. Grasp: width, epsilon_inner, epsilon_outer, speed, force [S]."""
MAX_BYTES = 4096
"""A longer message is none [bytes]."""


class BrokenStreamError(ValueError):
    """Bytes that are no message; nothing behind them can be told apart."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message of a client. values: as the payload's layout has them; empty where it does not fit. name: of the
    command, for the history.
    """

    command: int
    number: int
    values: tuple[float, ...]
    data: bytes
    name: str


class Stream:
    """Pieces of a TCP stream to requests. payloads: layout of each command's."""

    def __init__(self, payloads: Mapping[int, str] = PAYLOADS, names: Sequence[str] = NAMES) -> None:
        self._rest = b""
        self._payloads = payloads
        self._names = names

    def feed(self, data: bytes) -> Iterator[Request]:
        """The requests that are complete. Raises BrokenStreamError."""
        self._rest += data
        while len(self._rest) >= HEADER_BYTES:
            command, number, size = struct.unpack_from("<HII", self._rest)
            if not HEADER_BYTES <= size <= MAX_BYTES:
                raise BrokenStreamError(f"size {size} in a header: {self._rest[:HEADER_BYTES].hex()}")
            if len(self._rest) < size:
                return
            message, self._rest = self._rest[:size], self._rest[size:]
            layout = self._payloads.get(command, "<")
            fits = size - HEADER_BYTES >= struct.calcsize(layout)
            values = struct.unpack_from(layout, message, HEADER_BYTES) if fits else ()
            name = self._names[command] if command < len(self._names) else f"command {command}"
            yield Request(command, number, values, message, name)


def connect_answer(number: int, status: int, version: int = VERSION) -> bytes:
    """14 bytes."""
    return struct.pack("<HIIHH", CONNECT, number, 14, status, version)


def answer(command: int, number: int, status: int) -> bytes:
    """12 bytes."""
    return struct.pack("<HIIH", command, number, 12, status)


def state(message_id: int, width_m: float, max_width_m: float, is_grasped: bool, temperature_c: int) -> bytes:
    """23 bytes."""
    return struct.pack("<IddBH", message_id & 0xFFFFFFFF, width_m, max_width_m, is_grasped, temperature_c)
