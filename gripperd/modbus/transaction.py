"""Modbus RTU transactions: what is asked, and which bytes answer it. Pure: no port, no clock, no task.

Rules
1. Bytes are framed by length and CRC, never by gaps: USB adapters merge and split replies.
2. A reply answers a request only if unit, function, length and byte count (or address and count) fit it.
   These bytes are the request's `shape`: all that tells two replies of RTU apart.
3. RTU has no transaction number. A reply that is overdue may still come, later than any silence that was waited
   for. So its shape stays out of use until it can no longer arrive (`Quarantine`), and the next request takes
   another shape. Within one tag (the same words, repeated, with nothing else between) a late acknowledgement is as
   good as a prompt one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pymodbus.framer import FramerRTU
from pymodbus.pdu import DecodePDU
from pymodbus.pdu.register_message import (
    ReadHoldingRegistersRequest,
    ReadInputRegistersRequest,
    WriteMultipleRegistersRequest,
)

READ_HOLDING: Final = 0x03
READ_INPUT: Final = 0x04
WRITE_SINGLE: Final = 0x06
WRITE_MULTIPLE: Final = 0x10
EXCEPTION_BIT: Final = 0x80
ILLEGAL_FUNCTION: Final = 1
"""Exception code of a device that does not know the function at all."""
WRITES: Final = (WRITE_SINGLE, WRITE_MULTIPLE)

MIN_FRAME_BYTES: Final = 5
"""Shortest RTU answer: unit, function, exception code, CRC."""
MAX_BUFFER_BYTES: Final = 1024
"""Most bytes kept while one reply is awaited; four of the longest RTU frames. More is noise: the oldest go."""

BLIND_LIMIT_S = 1.8
"""Longest pause between two rounds that owed replies may force [s]: the contract has valid states within two seconds
after a device is back, and the round itself takes its time."""
TIMER_MARGIN_S = 1e-5
"""A wait ends this much later [s]: a timer that fires early by its rounding must meet no shape that is owed still."""

_framer = FramerRTU(DecodePDU(False))


@dataclass(frozen=True, slots=True)
class Request:
    """One request, encoded, with all that its answer must show.

    shape: first bytes of a fitting answer: unit, function, byte count; or for writes unit, function, address, count.
    """

    frame: bytes
    shape: bytes
    reply_bytes: int

    @property
    def unit(self) -> int:
        """Modbus unit number."""
        return self.frame[0]

    @property
    def function(self) -> int:
        """Modbus function code."""
        return self.frame[1]


def read_registers(unit: int, function: int, address: int, count: int) -> Request:
    """Read `count` registers with function 03 or 04."""
    pdu = {READ_HOLDING: ReadHoldingRegistersRequest, READ_INPUT: ReadInputRegistersRequest}[function]
    frame = _framer.buildFrame(pdu(address=address, count=count, dev_id=unit))
    return Request(frame, bytes((unit, function, 2 * count)), MIN_FRAME_BYTES + 2 * count)


def write_registers(unit: int, address: int, values: Sequence[int]) -> Request:
    """Write registers with function 10h, in one frame."""
    frame = _framer.buildFrame(WriteMultipleRegistersRequest(address=address, registers=list(values), dev_id=unit))
    return Request(frame, frame[:6], 8)


def crc_fits(frame: bytes) -> bool:
    """Whether the last two bytes are the CRC of the others."""
    return FramerRTU.check_CRC(frame[:-2], int.from_bytes(frame[-2:], "big"))


@dataclass(frozen=True, slots=True)
class Reply:
    """A fitting answer. registers: 16-bit values of a read; empty for the acknowledgement of a write."""

    frame: bytes
    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExceptionReply:
    """The device answered that it will not. code: Modbus exception code."""

    frame: bytes
    code: int


@dataclass(slots=True)
class ReplyMatcher:
    """Collects the bytes that come after one request, and says when they hold its answer.

    exceptions_count: False while an exception could be the answer to an earlier request of the same function.
    """

    request: Request
    exceptions_count: bool = True
    buffer: bytearray = field(default_factory=bytearray)
    foreign_frames: int = 0
    echoes: int = 0
    noise_bytes: int = 0
    received_bytes: int = 0
    _look_from: int = 0
    """Before it no frame begins in `buffer`, whatever follows."""

    def feed(self, data: bytes) -> Reply | ExceptionReply | None:
        """Take what the port delivered. None: not there yet. Bytes behind the answer stay in `buffer`."""
        self.received_bytes += len(data)
        self.buffer += data
        excess = len(self.buffer) - MAX_BUFFER_BYTES
        if excess > 0:
            del self.buffer[:excess]
            self.noise_bytes += excess
            self._look_from = max(0, self._look_from - excess)
        while (frame := self._next_frame()) is not None:
            answer = self._judge(frame)
            if answer is not None:
                return answer
        return None

    def _next_frame(self) -> bytes | None:
        """Take the next whole frame out of the buffer, and the noise before it."""
        start, end = find_frame(bytes(self.buffer), self._look_from, self.request.frame)
        if start == end:
            self._look_from = start
            return None
        frame = bytes(self.buffer[start:end])
        self.noise_bytes += start
        del self.buffer[:end]
        self._look_from = 0
        return frame

    def _judge(self, frame: bytes) -> Reply | ExceptionReply | None:
        request = self.request
        if frame == request.frame:
            self.echoes += 1
        elif frame.startswith(request.shape) and len(frame) == request.reply_bytes:
            return Reply(frame, _registers(frame) if request.function in (READ_HOLDING, READ_INPUT) else ())
        elif frame[:2] == bytes((request.unit, request.function | EXCEPTION_BIT)) and self.exceptions_count:
            return ExceptionReply(frame, frame[2])
        else:
            self.foreign_frames += 1
        return None

    def crc_failed(self) -> bool:
        """Whether a frame of the right shape and length stands in the buffer with a wrong CRC."""
        at = self.buffer.find(self.request.shape)
        return at >= 0 and len(self.buffer) - at >= self.request.reply_bytes


def _registers(frame: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{frame[2] // 2}H", frame[3:-2])


def find_frame(data: bytes, start: int, sent: bytes) -> tuple[int, int]:
    """Start and end of the first whole frame with a right CRC from `start` on. Without one both are where it may begin.

    sent: the request just sent, since an adapter may echo it.
    """
    unfinished: int | None = None
    at = start
    while len(data) - at >= MIN_FRAME_BYTES:
        for length in _lengths(data, at, sent):
            end = at + length
            if end > len(data):
                unfinished = at if unfinished is None else unfinished
            elif crc_fits(data[at:end]):
                return at, end
        at += 1
    return (at, at) if unfinished is None else (unfinished, unfinished)


def _lengths(data: bytes, at: int, sent: bytes) -> Iterator[int]:
    function = data[at + 1]
    if sent.startswith(data[at : at + len(sent)]):
        yield len(sent)
    if function & EXCEPTION_BIT:
        yield MIN_FRAME_BYTES
    elif function in (READ_HOLDING, READ_INPUT):
        yield MIN_FRAME_BYTES + data[at + 2]
    elif function in WRITES:
        yield 8


@dataclass(slots=True)
class _Tally:
    """Replies that may be foreign, counted for one tag: of more replies than were owed to others, one is its own."""

    tag: object
    foreign: int
    replies: int = 0


class Quarantine:
    """Shapes whose replies are owed: what was asked, not answered, and may still come.

    limit_s: how late a reply can be [s], counted from its request.
    tag: the words that a request carried; None where every request is a question of its own.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._owed: dict[bytes, list[tuple[float, object]]] = {}
        self._tallies: dict[bytes, _Tally] = {}

    def owe(self, shape: bytes, tag: object, sent_s: float) -> None:
        """A request of this shape, sent at sent_s [s], ended without its answer."""
        self._owed.setdefault(shape, []).append((sent_s + self.limit_s, tag))
        tally = self._tallies.get(shape)
        if tally is not None and tally.tag is not tag:
            tally.foreign += 1

    def free(self, shape: bytes, tag: object, now_s: float) -> bool:
        """Whether an answer of this shape, coming now, can only belong to the tag's own requests."""
        if shape not in self._owed:
            return True
        return all(tag is not None and other is tag for _, other in self._live(shape, now_s))

    def exceptions_free(self, request: Request, tag: object, now_s: float) -> bool:
        """Whether an exception to this unit and function, coming now, can only belong to the tag's own requests."""
        prefix = request.shape[:2]
        return all(self.free(shape, tag, now_s) for shape in list(self._owed) if shape.startswith(prefix))

    def proves(self, shape: bytes, tag: object, now_s: float) -> bool:
        """A reply came to a request of this tag though the shape was not free: whether one of the replies since must
        be the tag's own, because more came than were owed to others.
        """
        foreign = sum(other is not tag for _, other in self._live(shape, now_s))
        tally = self._tallies.get(shape)
        if tally is None or tally.tag is not tag:
            tally = self._tallies[shape] = _Tally(tag, foreign)
        tally.replies += 1
        return tally.replies > tally.foreign

    def wait_s(self, requests: Sequence[Request], now_s: float) -> float:
        """How long to wait [s] before one of these requests may be lost, so that shapes never run out for long.

        Whoever keeps it can ask again at most BLIND_LIMIT_S after any request, whatever is lost: with `unused` shapes
        left after the next one, and one more at each expiry, there must be enough for a request every blind_s.
        With few shapes blind_s is longer, so that a single loss costs nothing.
        """
        expiries_s = self._expiries_s(requests, now_s)
        blind_s = max(BLIND_LIMIT_S, self.limit_s / max(1, len(requests) - 1))
        unused = len(requests) - len(expiries_s) - 1
        wait_s = max((at - now_s - (unused + n) * blind_s for n, at in enumerate(expiries_s, 1)), default=0.0)
        return wait_s + TIMER_MARGIN_S if wait_s > 0.0 else 0.0

    def even_s(self, requests: Sequence[Request], now_s: float) -> float:
        """Pause [s] that uses the unused shapes evenly until others can be used again, if all are lost."""
        expiries_s = self._expiries_s(requests, now_s)
        unused = len(requests) - len(expiries_s)
        return max(((at - now_s) / (unused + n) for n, at in enumerate(expiries_s, 1)), default=0.0)

    def _expiries_s(self, requests: Sequence[Request], now_s: float) -> list[float]:
        """When the owed shapes among these can be used again, soonest first."""
        if not self._owed:
            return []
        live = (self._live(each.shape, now_s) for each in requests)
        return sorted(max(expiry for expiry, _ in entries) for entries in live if entries)

    def _live(self, shape: bytes, now_s: float) -> list[tuple[float, object]]:
        owed = self._owed.get(shape)
        if owed is None:
            return []
        entries = [entry for entry in owed if entry[0] > now_s]
        if entries:
            self._owed[shape] = entries
        else:
            self._owed.pop(shape, None)
            self._tallies.pop(shape, None)
        return entries
