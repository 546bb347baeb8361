"""The bench's own RTU against published frames and against pymodbus."""

import pytest
from pymodbus.framer import FramerRTU

from bench.rtu import (
    READ_HOLDING,
    crc16,
    is_whole,
    read_reply,
    read_request,
    reply_bytes,
    request_bytes,
    write_reply,
    write_request,
)


def test_crc_of_a_well_known_request() -> None:
    body = bytes.fromhex("01 03 00 00 00 0A")
    assert crc16(body).to_bytes(2, "little").hex() == "c5cd"


@pytest.mark.parametrize(
    "frame",
    [
        read_request(),
        read_request(READ_HOLDING, 2),
        write_request((1,)),
        write_request((9, 0xFF00, 0x8080)),
        read_reply(4, (0xF1, 2, 3, 4)),
        write_reply(write_request((1,))),
    ],
)
def test_pymodbus_accepts_every_frame(frame: bytes) -> None:
    assert FramerRTU.check_CRC(frame[:-2], int.from_bytes(frame[-2:], "big"))
    assert is_whole(frame)
    assert not is_whole(frame[:-1] + bytes((frame[-1] ^ 1,)))


def test_the_stop_is_the_frame_of_the_manual() -> None:
    assert write_request((1,))[:-2].hex(" ") == "09 10 03 e8 00 01 02 00 01"


def test_lengths() -> None:
    assert reply_bytes(read_request()) == 13 == len(read_reply(4, (1, 2, 3, 4)))
    assert reply_bytes(write_request((1,))) == 8 == len(write_reply(write_request((1,))))
    assert request_bytes(write_request((1, 2, 3))) == 15
    assert request_bytes(read_request()) == 8
    assert request_bytes(read_request()[:6]) == 0
