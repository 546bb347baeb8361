"""Which bytes answer which request: vectors, noise, echo, foreign frames, flipped bits; and shapes that are owed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymodbus.framer import FramerRTU

from gripperd.modbus.transaction import (
    MAX_BUFFER_BYTES,
    READ_HOLDING,
    READ_INPUT,
    ExceptionReply,
    Quarantine,
    Reply,
    ReplyMatcher,
    Request,
    crc_fits,
    read_registers,
    write_registers,
)
from tests.vectors import rtu_frames

STATUS = 0x07D0
CONTROL = 0x03E8
EXCHANGES = [
    (write_registers(9, CONTROL, words), bytes.fromhex(reply), ()) for _, words, _, reply in rtu_frames.WRITES
] + [
    (read_registers(9, READ_INPUT, STATUS, count), bytes.fromhex(reply), registers)
    for _, count, _, reply, registers in rtu_frames.READS
]
"""(request, reply, registers of the reply)"""

SHAPES = [read_registers(9, function, STATUS, count) for count in (4, 3, 2) for function in (READ_INPUT, READ_HOLDING)]

exchanges = pytest.mark.parametrize(("request_", "reply", "registers"), EXCHANGES, ids=lambda value: str(value)[:40])


@pytest.mark.parametrize(("name", "words", "frame", "ack"), rtu_frames.WRITES)
def test_writes_are_encoded_byte_for_byte(name: str, words: tuple[int, ...], frame: str, ack: str) -> None:
    assert write_registers(9, CONTROL, words).frame == bytes.fromhex(frame), name


@pytest.mark.parametrize(("name", "count", "frame", "reply", "registers"), rtu_frames.READS)
def test_reads_are_encoded_byte_for_byte(
    name: str, count: int, frame: str, reply: str, registers: tuple[int, ...]
) -> None:
    assert read_registers(9, READ_INPUT, STATUS, count).frame == bytes.fromhex(frame), name


def test_other_frames_of_the_sources_are_encoded_too() -> None:
    assert read_registers(9, READ_INPUT, STATUS, 1).frame == bytes.fromhex(rtu_frames.STATUS_ONE_REQUEST)
    assert write_registers(9, 0x03FC, (1,)).frame == bytes.fromhex(rtu_frames.BRAKE_OPEN_REQUEST)


@exchanges
def test_a_reply_is_found_whole_or_byte_by_byte_and_what_follows_is_left(
    request_: Request, reply: bytes, registers: tuple[int, ...]
) -> None:
    """FRAME 20: the same answer however the port cuts it, and never too early."""
    assert ReplyMatcher(request_).feed(reply) == Reply(reply, registers)
    matcher = ReplyMatcher(request_)
    for byte in reply[:-1]:
        assert matcher.feed(bytes([byte])) is None
    assert matcher.feed(reply[-1:]) == Reply(reply, registers)
    matcher = ReplyMatcher(request_)
    assert matcher.feed(reply + b"\x09\x04") == Reply(reply, registers)
    assert bytes(matcher.buffer) == b"\x09\x04"


@exchanges
@pytest.mark.parametrize("noise", ["00", "FF", "09", "00 FF 55", "09 03", "09 04 08", "09 10 03 E8"])
def test_noise_before_a_reply_is_skipped_and_counted(
    request_: Request, reply: bytes, registers: tuple[int, ...], noise: str
) -> None:
    """FRAME 23."""
    matcher = ReplyMatcher(request_)
    assert matcher.feed(bytes.fromhex(noise) + reply) == Reply(reply, registers)
    assert matcher.noise_bytes == len(bytes.fromhex(noise))


@exchanges
def test_a_flipped_bit_is_never_accepted(request_: Request, reply: bytes, registers: tuple[int, ...]) -> None:
    """FRAME 19: each bit of each vector."""
    for bit in range(8 * len(reply)):
        damaged = bytearray(reply)
        damaged[bit // 8] ^= 1 << bit % 8
        matcher = ReplyMatcher(request_)
        assert matcher.feed(bytes(damaged)) is None


@exchanges
def test_a_truncated_reply_is_never_accepted(request_: Request, reply: bytes, registers: tuple[int, ...]) -> None:
    for length in range(len(reply)):
        assert ReplyMatcher(request_).feed(reply[:length]) is None


@exchanges
def test_an_echo_is_counted_and_the_reply_behind_it_found(
    request_: Request, reply: bytes, registers: tuple[int, ...]
) -> None:
    """An adapter that hears itself; some echo a byte less."""
    matcher = ReplyMatcher(request_)
    assert matcher.feed(request_.frame) is None
    assert matcher.feed(reply) == Reply(reply, registers)
    assert matcher.echoes == 1
    assert ReplyMatcher(request_).feed(request_.frame[1:] + reply) == Reply(reply, registers)
    assert ReplyMatcher(request_).feed(request_.frame[:-1] + reply) == Reply(reply, registers)


@pytest.mark.parametrize(
    "foreign",
    [
        read_registers(8, READ_INPUT, STATUS, 4),
        read_registers(9, READ_HOLDING, STATUS, 4),
        read_registers(9, READ_INPUT, STATUS, 3),
        write_registers(9, CONTROL, (1,)),
    ],
    ids=["unit", "function", "count", "write"],
)
def test_a_reply_to_something_else_is_skipped_and_the_right_one_accepted(foreign: Request) -> None:
    """SLAVE 94 and 95: a stray frame first, the right frame behind it."""
    stray = _reply_to(foreign, 0x1111)
    request = read_registers(9, READ_INPUT, STATUS, 4)
    matcher = ReplyMatcher(request)
    assert matcher.feed(stray) is None
    assert matcher.foreign_frames == 1
    answer = matcher.feed(_reply_to(request, 0x2222))
    assert isinstance(answer, Reply)
    assert answer.registers == (0x2222,) * 4


def _reply_to(request: Request, value: int) -> bytes:
    if request.function == 0x10:
        body = request.frame[:6]
    else:
        body = request.shape + value.to_bytes(2, "big") * (request.shape[2] // 2)
    return body + FramerRTU.compute_CRC(body).to_bytes(2, "big")


@pytest.mark.parametrize(("name", "function", "code", "frame"), rtu_frames.EXCEPTIONS)
def test_an_exception_answers_its_own_function_only(name: str, function: int, code: int, frame: str) -> None:
    own = read_registers(9, READ_INPUT, STATUS, 3) if function == 0x04 else write_registers(9, CONTROL, (1,))
    other = read_registers(9, READ_HOLDING, STATUS, 3)
    assert ReplyMatcher(own).feed(bytes.fromhex(frame)) == ExceptionReply(bytes.fromhex(frame), code), name
    assert ReplyMatcher(other).feed(bytes.fromhex(frame)) is None
    assert ReplyMatcher(own, exceptions_count=False).feed(bytes.fromhex(frame)) is None


def test_a_line_that_never_falls_silent_does_not_fill_the_memory() -> None:
    matcher = ReplyMatcher(read_registers(9, READ_INPUT, STATUS, 4))
    for _ in range(100):
        assert matcher.feed(b"\x55" * 100) is None
    assert len(matcher.buffer) <= MAX_BUFFER_BYTES


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_arbitrary_bytes_never_crash_and_never_fit_by_chance(chunks: list[bytes]) -> None:
    request = read_registers(9, READ_INPUT, STATUS, 4)
    matcher = ReplyMatcher(request)
    for chunk in chunks:
        answer = matcher.feed(chunk)
        if answer is not None:
            assert crc_fits(answer.frame)
            assert answer.frame[0] == 9
            return


@given(st.binary(max_size=60), st.integers(0, 0xFFFF), st.data())
def test_a_valid_reply_in_noise_is_found_however_it_is_cut(noise: bytes, value: int, data: st.DataObject) -> None:
    request = read_registers(9, READ_INPUT, STATUS, 4)
    reply = _reply_to(request, value)
    stream = noise + reply
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    matcher = ReplyMatcher(request)
    answers = [matcher.feed(stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert answers[-1] == Reply(reply, (value,) * 4)
    assert not any(answers[:-1])


def test_an_owed_shape_stays_out_of_use_until_its_reply_can_no_longer_come() -> None:
    quarantine = Quarantine(5.0)
    first, second = SHAPES[0], SHAPES[1]
    quarantine.owe(first.shape, None, 100.0)
    assert not quarantine.free(first.shape, None, 100.1)
    assert not quarantine.free(first.shape, object(), 104.9)
    assert quarantine.free(second.shape, None, 100.1)
    assert quarantine.free(first.shape, None, 105.0)


def test_the_same_words_may_be_sent_again_and_other_words_may_not() -> None:
    quarantine = Quarantine(5.0)
    move, other = object(), object()
    shape = write_registers(9, CONTROL, (9, 0, 0)).shape
    quarantine.owe(shape, move, 100.0)
    assert quarantine.free(shape, move, 100.1)
    assert not quarantine.free(shape, other, 100.1)
    quarantine.owe(shape, other, 100.2)
    assert not quarantine.free(shape, move, 100.3), "two may answer now"


def test_an_exception_counts_only_while_nothing_of_its_function_is_owed() -> None:
    quarantine = Quarantine(5.0)
    assert quarantine.exceptions_free(SHAPES[0], None, 100.0)
    quarantine.owe(SHAPES[2].shape, None, 100.0)
    assert not quarantine.exceptions_free(SHAPES[0], None, 100.1), "same function, other count"
    assert quarantine.exceptions_free(SHAPES[1], None, 100.1), "other function"


@given(st.lists(st.booleans(), max_size=200), st.floats(0.05, 0.3))
def test_a_silent_device_is_asked_again_within_two_seconds_and_always_with_an_unused_shape(
    answers: list[bool], timeout_s: float
) -> None:
    """Two quick failures, one last chance, then spaced: what the supervisor does."""
    quarantine, now_s, failures = Quarantine(5.0), 1000.0, 0
    for answered in answers:
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        assert free
        if answered:
            failures, now_s = 0, now_s + 5.0
            continue
        failures += 1
        quarantine.owe(free[0].shape, None, now_s)
        now_s += timeout_s
        wait_s = quarantine.spacing_s(SHAPES, now_s) if failures >= 2 else 0.0
        assert wait_s < 1.7
        now_s += wait_s
