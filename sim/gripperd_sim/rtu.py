"""Modbus RTU as a slave sees it: CRC, finding requests in a byte stream, decoding them, building replies.

Pure, written from the Modbus serial line specification V1.02 and application protocol V1.1b3, and on purpose not
with the library the daemon uses: one misreading must not hide in both. It knows no registers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

READ_HOLDING = 0x03
READ_INPUT = 0x04
WRITE_ONE = 0x06
WRITE_MANY = 0x10
FUNCTIONS = (READ_HOLDING, READ_INPUT, WRITE_ONE, WRITE_MANY)

ILLEGAL_FUNCTION = 0x01
ILLEGAL_ADDRESS = 0x02
ILLEGAL_VALUE = 0x03

BROADCAST = 0
MIN_FRAME_BYTES = 4
MAX_FRAME_BYTES = 256
MAX_READ_COUNT = 125
MAX_WRITE_COUNT = 123

IDLE_GAP_S = 0.010
"""Silence after which what came before can no longer belong to the same request [s]. A slave on a wire uses 3.5
characters; on a pty the two halves of one write may be read some milliseconds apart, and clients wait far longer than
this before they try again."""


def crc16(data: bytes) -> int:
    """CRC-16/MODBUS of data."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def seal(body: bytes) -> bytes:
    """body with its CRC appended, low byte first."""
    return body + struct.pack("<H", crc16(body))


def crc_fits(frame: bytes) -> bool:
    """Whether frame is long enough to be one and ends in its own CRC."""
    return len(frame) >= MIN_FRAME_BYTES and seal(frame[:-2]) == frame


@dataclass(frozen=True, slots=True)
class Request:
    """A request with a right CRC. `exception` is what the slave has to answer when it is not well formed, else None."""

    unit: int
    function: int
    address: int = 0
    count: int = 0
    values: tuple[int, ...] = ()
    exception: int | None = None

    @property
    def is_write(self) -> bool:
        """Whether it asks for registers to be changed."""
        return self.function in (WRITE_ONE, WRITE_MANY)


def decode_request(frame: bytes) -> Request | None:
    """The request in frame; None when its CRC is wrong."""
    if not crc_fits(frame):
        return None
    unit, function, payload = frame[0], frame[1], frame[2:-2]
    if function in (READ_HOLDING, READ_INPUT):
        return _decode_read(unit, function, payload)
    if function == WRITE_ONE:
        return _decode_write_one(unit, payload)
    if function == WRITE_MANY:
        return _decode_write_many(unit, payload)
    return Request(unit, function, exception=ILLEGAL_FUNCTION)


def _decode_read(unit: int, function: int, payload: bytes) -> Request:
    if len(payload) != 4:
        return Request(unit, function, exception=ILLEGAL_VALUE)
    address, count = struct.unpack(">HH", payload)
    bad = None if 1 <= count <= MAX_READ_COUNT else ILLEGAL_VALUE
    return Request(unit, function, address, count, exception=bad)


def _decode_write_one(unit: int, payload: bytes) -> Request:
    if len(payload) != 4:
        return Request(unit, WRITE_ONE, exception=ILLEGAL_VALUE)
    address, value = struct.unpack(">HH", payload)
    return Request(unit, WRITE_ONE, address, 1, (value,))


def _decode_write_many(unit: int, payload: bytes) -> Request:
    if len(payload) < 5:
        return Request(unit, WRITE_MANY, exception=ILLEGAL_VALUE)
    address, count, size = struct.unpack(">HHB", payload[:5])
    data = payload[5:]
    if not 1 <= count <= MAX_WRITE_COUNT or size != 2 * count or len(data) != size:
        return Request(unit, WRITE_MANY, address, count, exception=ILLEGAL_VALUE)
    return Request(unit, WRITE_MANY, address, count, struct.unpack(f">{count}H", data))


def read_reply(unit: int, function: int, values: tuple[int, ...]) -> bytes:
    """Reply to function 03 or 04."""
    return seal(struct.pack(f">BBB{len(values)}H", unit, function, 2 * len(values), *values))


def write_reply(request: Request) -> bytes:
    """Acknowledgement of function 06 (an echo) or 10h (address and count)."""
    last = request.values[0] if request.function == WRITE_ONE else request.count
    return seal(struct.pack(">BBHH", request.unit, request.function, request.address, last))


def exception_reply(unit: int, function: int, code: int) -> bytes:
    """Exception reply."""
    return seal(bytes((unit, (function | 0x80) & 0xFF, code)))


@dataclass(frozen=True, slots=True)
class Framed:
    """One request found in the stream. `end` = bytes of the fed chunk up to and including its last one."""

    data: bytes
    end: int


class Framer:
    """Cuts a byte stream into requests by their expected length; what does not fit is dropped until the line is idle.

    A slave that frames by gaps takes whatever came without a gap as one frame and drops all of it when the CRC is
    wrong. The framer is as strict: after a wrong CRC nothing is heard until IDLE_GAP_S of silence, so that a master
    which tears its requests gets no answer. It is more lenient in one point: right frames that follow each other
    without a visible gap are each taken, since a pty does not show the gap the master kept.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._deaf = False
        self._last_byte_s = float("-inf")
        self.heard_bytes = 0
        self.dropped_bytes = 0

    def feed(self, data: bytes, now_s: float) -> list[Framed]:
        """Take bytes that arrived at now_s and return the requests they complete. Their CRC is right."""
        if now_s - self._last_byte_s > IDLE_GAP_S:
            self._drop_all()
            self._deaf = False
        self._last_byte_s = now_s
        self.heard_bytes += len(data)
        carried = len(self._buffer)
        self._buffer += data
        found = []
        consumed = 0
        while not self._deaf and (length := self._frame_length()):
            consumed += length
            found.append(Framed(self._buffer[:length], consumed - carried))
            self._buffer = self._buffer[length:]
        if self._deaf:
            self._drop_all()
        return found

    def _drop_all(self) -> None:
        self.dropped_bytes += len(self._buffer)
        self._buffer = b""

    def _frame_length(self) -> int:
        """Length of the right frame at the head of the buffer; 0 when there is none yet. Goes deaf on a wrong one."""
        buffer = self._buffer
        if len(buffer) < MIN_FRAME_BYTES:
            return 0
        if buffer[1] not in FUNCTIONS:
            return self._unknown_function_length()
        expected = 8
        if buffer[1] == WRITE_MANY:
            if len(buffer) < 7:
                return 0
            expected = 9 + buffer[6]
        if len(buffer) < expected:
            return 0
        if crc_fits(buffer[:expected]):
            return expected
        self._deaf = True
        return 0

    def _unknown_function_length(self) -> int:
        # Nothing tells the length of a function the slave does not know: the first right CRC ends it.
        for length in range(MIN_FRAME_BYTES, min(len(self._buffer), MAX_FRAME_BYTES) + 1):
            if crc_fits(self._buffer[:length]):
                return length
        self._deaf = len(self._buffer) >= MAX_FRAME_BYTES
        return 0
