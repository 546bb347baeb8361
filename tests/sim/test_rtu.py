"""RTU framing: literal frames, pymodbus as the oracle, and any bytes at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymodbus.framer import FramerRTU

from gripperd_sim import rtu
from gripperd_sim.history import Kind
from gripperd_sim.rtu import IDLE_GAP_S, Framer, Request, decode_request
from tests.sim.bench import Bench

STATUS_REQUEST = bytes.fromhex("090407D00004F00C")
CLOSE_REQUEST = bytes.fromhex("091003E80003060009FF00FFFF9E95")

# rg75.md 1.5: request, reply
VECTORS = [
    ("091003E80001020000E5B8", "091003E8000180F1"),
    ("091003E80001020001 2478", "091003E8000180F1"),
    ("091003E8000102000925BE", "091003E8000180F1"),
    ("091003E80003060009FF00FFFF9E95", "091003E800030130"),
    ("091003E8000306000900 00FFFFAE81", "091003E800030130"),
    ("091003E8000102010BA5EF", "091003E8000180F1"),
    ("091003E8000102020BA51F", "091003E8000180F1"),
    ("0910138D0001020008FC4A", "0910138D0001942E"),
]


@pytest.mark.parametrize(("request_hex", "reply_hex"), VECTORS)
def test_writes_are_acknowledged_as_in_the_notes(request_hex: str, reply_hex: str) -> None:
    assert Bench().device.handle(bytes.fromhex(request_hex), 0.0) == bytes.fromhex(reply_hex)


@pytest.mark.parametrize(("count", "tail"), [(1, "300F"), (3, "B1CE"), (4, "F00C")])
def test_status_requests(count: int, tail: str) -> None:
    frame = bytes.fromhex(f"090407D0{count:04X}{tail}")
    assert decode_request(frame) == Request(9, 4, 0x07D0, count)
    assert rtu.seal(frame[:-2]) == frame


def test_replies_are_built_as_in_the_notes() -> None:
    assert rtu.read_reply(9, 4, (0xF1, 0xFE04, 0x0100)).hex() == "09040600f1fe0401000b3f"
    assert rtu.read_reply(9, 4, (0xF1, 0xFE04, 0x0100, 0x1918)).hex() == "09040800f1fe040100191800da"
    assert rtu.exception_reply(9, 4, 2).hex() == "0984024303"
    assert rtu.exception_reply(9, 0x10, 3).hex() == "0990038dc3"
    assert rtu.seal(bytes.fromhex("091003FC0001020001")).hex() == "091003fc0001020001276c"


@given(st.binary(max_size=260))
def test_crc_is_the_one_pymodbus_computes(data: bytes) -> None:
    assert struct.pack("<H", rtu.crc16(data)) == struct.pack(">H", FramerRTU.compute_CRC(data))


def test_a_frame_may_come_in_pieces() -> None:
    framer = Framer()
    for index, byte in enumerate(CLOSE_REQUEST[:-1]):
        assert framer.feed(bytes((byte,)), index * 0.0001) == []
    found = framer.feed(CLOSE_REQUEST[-1:], 0.002)
    assert [(f.data, f.end) for f in found] == [(CLOSE_REQUEST, 1)]


def test_several_frames_in_one_read_are_each_found_with_their_ends() -> None:
    found = Framer().feed(STATUS_REQUEST + CLOSE_REQUEST + STATUS_REQUEST[:3], 0.0)
    assert [(f.data, f.end) for f in found] == [(STATUS_REQUEST, 8), (CLOSE_REQUEST, 23)]


def test_a_partial_frame_is_dropped_after_an_idle_gap() -> None:
    framer = Framer()
    framer.feed(CLOSE_REQUEST[:9], 0.0)
    found = framer.feed(STATUS_REQUEST, IDLE_GAP_S * 1.01)
    assert [f.data for f in found] == [STATUS_REQUEST]
    assert framer.dropped_bytes == 9


def test_after_garbage_nothing_is_heard_until_the_line_was_idle() -> None:
    framer = Framer()
    assert framer.feed(b"\x09\x04\x07" + STATUS_REQUEST, 0.0) == []
    assert framer.feed(STATUS_REQUEST, IDLE_GAP_S / 2) == []
    assert [f.data for f in framer.feed(STATUS_REQUEST, IDLE_GAP_S * 2)] == [STATUS_REQUEST]


def test_an_unknown_function_is_framed_by_its_crc() -> None:
    frame = rtu.seal(bytes.fromhex("0917000102030405"))
    assert [f.data for f in Framer().feed(frame + STATUS_REQUEST, 0.0)] == [frame, STATUS_REQUEST]
    assert decode_request(frame) == Request(9, 0x17, exception=rtu.ILLEGAL_FUNCTION)


def test_an_endless_unknown_frame_is_given_up() -> None:
    framer = Framer()
    assert framer.feed(b"\x09\x41" + bytes(400), 0.0) == []
    assert framer.dropped_bytes == 402


@pytest.mark.parametrize(
    ("body", "exception"),
    [
        ("090407D00000", 3),
        ("090407D0007E", 3),
        ("090407D00005", 2),
        ("09030000 0001", 2),
        ("091003E8000203 000100", 3),
        ("091003E8000000", 3),
        ("09100400000102 0001", 2),
        ("091007D0000102 0001", 2),
        ("0910138D000102 0000", 3),
        ("0910138D000102 00F8", 3),
        ("0910138E000102 0006", 3),
        ("092B0E0100", 1),
    ],
)
def test_wrong_requests_get_exceptions(body: str, exception: int) -> None:
    bench = Bench()
    frame = bytes.fromhex(body)
    assert bench.send(frame) == rtu.exception_reply(9, frame[1], exception)
    assert bench.events(Kind.WRITE) == []
    silent = Bench(options=type(bench.device.options)(exceptions=False))
    assert silent.send(frame) is None


@given(st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([0.0, 0.001, 0.02])), max_size=12))
def test_garbage_never_crashes_and_only_right_frames_come_out(chunks: list[tuple[bytes, float]]) -> None:
    framer, t_s = Framer(), 0.0
    for data, pause_s in chunks:
        t_s += pause_s
        assert all(rtu.crc_fits(framed.data) for framed in framer.feed(data, t_s))


NEARLY_FRAMES = st.sampled_from([CLOSE_REQUEST, STATUS_REQUEST, bytes.fromhex("091003E80001020001 2478")])


@given(NEARLY_FRAMES, st.data())
def test_a_damaged_frame_writes_nothing(frame: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    damaged = bytearray(frame)
    damaged[bit // 8] ^= 1 << bit % 8
    bench = Bench()
    assert bench.device.handle(bytes(damaged), 0.0) is None
    assert bench.events(Kind.WRITE, Kind.REQUEST) == []


@given(st.binary(max_size=64))
def test_any_bytes_are_survived_and_write_nothing_without_a_right_crc(data: bytes) -> None:
    bench = Bench()
    bench.device.handle(data, 0.0)
    if not rtu.crc_fits(data):
        assert bench.events(Kind.WRITE) == []


@given(st.integers(1, 6), st.binary(max_size=30))
def test_any_body_with_a_right_crc_is_survived(function: int, rest: bytes) -> None:
    bench = Bench()
    reply = bench.send(bytes((9, 0x10 if function == 1 else function)) + rest)
    assert reply is not None
    assert rtu.crc_fits(reply)
