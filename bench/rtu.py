"""The bench's own Modbus RTU: it shares no code with what it measures. Pure."""

from __future__ import annotations

from collections.abc import Sequence

READ_HOLDING = 0x03
READ_INPUT = 0x04
WRITE_MULTIPLE = 0x10

UNIT = 9
STATUS = 0x07D0
STATUS_REGISTERS = 4
"""Read in each round: what gripperd's RG75 driver reads."""
CONTROL = 0x03E8
STOP_WORD = 0x0001
"""rACT without rGTO: an active gripper stops. docs/rg75.md"""


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
        table.append(crc)
    return tuple(table)


_CRC = _table()


def crc16(data: bytes) -> int:
    """CRC-16/MODBUS."""
    crc = 0xFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc


def seal(body: bytes) -> bytes:
    """The body and its CRC, low byte first."""
    return body + crc16(body).to_bytes(2, "little")


def is_whole(frame: bytes) -> bool:
    """Whether the CRC over a frame that includes it is 0, as it must be."""
    return crc16(frame) == 0


def read_request(function: int = READ_INPUT, count: int = STATUS_REGISTERS) -> bytes:
    """Read the status block."""
    return seal(bytes((UNIT, function)) + STATUS.to_bytes(2, "big") + count.to_bytes(2, "big"))


def read_reply(function: int, registers: Sequence[int]) -> bytes:
    """The answer to a read."""
    data = b"".join(value.to_bytes(2, "big") for value in registers)
    return seal(bytes((UNIT, function, len(data))) + data)


def write_request(words: Sequence[int]) -> bytes:
    """Write the control words."""
    data = b"".join(word.to_bytes(2, "big") for word in words)
    head = bytes((UNIT, WRITE_MULTIPLE)) + CONTROL.to_bytes(2, "big") + len(words).to_bytes(2, "big")
    return seal(head + bytes((len(data),)) + data)


def write_reply(request: bytes) -> bytes:
    """The answer to a write."""
    return seal(request[:6])


def reply_bytes(request: bytes) -> int:
    """Length of the answer."""
    return 8 if request[1] == WRITE_MULTIPLE else 5 + 2 * int.from_bytes(request[4:6], "big")


def request_bytes(start: bytes) -> int:
    """Length of the request that begins so; 0 while that cannot be told."""
    if len(start) < 7:
        return 0
    return 9 + start[6] if start[1] == WRITE_MULTIPLE else 8
