"""Which bytes answer which request: vectors, noise, echo, foreign frames, flipped bits."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gripperd.modbus.transaction import (
    MAX_BUFFER_BYTES,
    READ_HOLDING,
    READ_INPUT,
    ExceptionReply,
    Reply,
    ReplyMatcher,
    Request,
    crc_fits,
    read_registers,
    write_registers,
)
from tests.modbus.bench import CONTROL, STATUS, reply_to, seal
from tests.vectors import rtu_frames

REFUSALS = [bytes.fromhex(frame) for _, _, _, frame in rtu_frames.EXCEPTIONS]
EXCHANGES = [
    (write_registers(9, CONTROL, words), bytes.fromhex(reply), ()) for _, words, _, reply in rtu_frames.WRITES
] + [
    (read_registers(9, READ_INPUT, STATUS, count), bytes.fromhex(reply), registers)
    for _, count, _, reply, registers in rtu_frames.READS
]
"""(request, reply, registers of the reply)"""

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
    """FRAME 19: each bit of each vector; the whole reply behind it still counts."""
    for bit in range(8 * len(reply)):
        damaged = bytearray(reply)
        damaged[bit // 8] ^= 1 << bit % 8
        matcher = ReplyMatcher(request_)
        assert matcher.feed(bytes(damaged)) is None
        assert not any(ReplyMatcher(request_).feed(bytes(damaged[:end])) for end in range(len(damaged)))
        assert matcher.feed(reply) == Reply(reply, registers)


@pytest.mark.parametrize("frame", REFUSALS, ids=["read", "write"])
def test_a_damaged_or_truncated_exception_is_never_accepted(frame: bytes) -> None:
    """FRAME 19."""
    request = read_registers(9, READ_INPUT, STATUS, 3) if frame[1] == 0x84 else write_registers(9, CONTROL, (1,))
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        assert ReplyMatcher(request).feed(bytes(damaged)) is None
    for length in range(len(frame)):
        matcher = ReplyMatcher(request)
        assert matcher.feed(frame[:length]) is None
        assert matcher.feed(frame[length:]) == ExceptionReply(frame, frame[2])


@exchanges
def test_a_truncated_reply_is_never_accepted(request_: Request, reply: bytes, registers: tuple[int, ...]) -> None:
    """FRAME 20. The rest, when it comes, completes it; a second reply is found behind a first that stays cut."""
    for length in range(len(reply)):
        matcher = ReplyMatcher(request_)
        assert matcher.feed(reply[:length]) is None
        assert matcher.feed(reply[length:]) == Reply(reply, registers)
        matcher = ReplyMatcher(request_)
        assert matcher.feed(reply[:length]) is None
        assert matcher.feed(reply) == Reply(reply, registers)


@exchanges
def test_an_echo_is_counted_and_the_reply_behind_it_found(
    request_: Request, reply: bytes, registers: tuple[int, ...]
) -> None:
    """An adapter that hears itself; some echo a byte less."""
    matcher = ReplyMatcher(request_)
    assert matcher.feed(request_.frame) is None
    assert matcher.feed(reply) == Reply(reply, registers)
    assert matcher.echoes == 1
    for echo in (request_.frame, request_.frame[1:], request_.frame[:-1]):
        assert ReplyMatcher(request_).feed(echo + reply) == Reply(reply, registers)
        matcher = ReplyMatcher(request_)
        answers = [matcher.feed(bytes([byte])) for byte in echo + reply]
        assert answers == [None] * (len(answers) - 1) + [Reply(reply, registers)], "byte by byte, and never the echo"
        assert matcher.echoes == (echo == request_.frame)


@pytest.mark.parametrize(
    "foreign",
    [
        read_registers(8, READ_INPUT, STATUS, 4),
        read_registers(9, READ_HOLDING, STATUS, 4),
        read_registers(9, READ_INPUT, STATUS, 3),
        read_registers(9, READ_INPUT, STATUS, 5),
        write_registers(9, CONTROL, (1,)),
    ],
    ids=["unit", "function", "fewer", "more", "write"],
)
def test_a_reply_to_something_else_is_skipped_and_the_right_one_accepted(foreign: Request) -> None:
    """SLAVE 94 and 95: a stray frame first, the right frame behind it."""
    stray = reply_to(foreign, 0x1111)
    request = read_registers(9, READ_INPUT, STATUS, 4)
    matcher = ReplyMatcher(request)
    assert matcher.feed(stray) is None
    assert matcher.foreign_frames == 1
    answer = matcher.feed(reply_to(request, 0x2222))
    assert isinstance(answer, Reply)
    assert answer.registers == (0x2222,) * 4


@pytest.mark.parametrize(
    "foreign",
    [
        write_registers(8, CONTROL, (9, 0, 0)),
        write_registers(9, CONTROL + 1, (9, 0, 0)),
        write_registers(9, CONTROL, (9, 0)),
        read_registers(9, READ_INPUT, STATUS, 3),
    ],
    ids=["unit", "address", "count", "read"],
)
def test_an_acknowledgement_of_something_else_is_skipped_and_the_right_one_accepted(foreign: Request) -> None:
    """SLAVE 94 and 95."""
    request = write_registers(9, CONTROL, (9, 0, 0))
    matcher = ReplyMatcher(request)
    assert matcher.feed(reply_to(foreign)) is None
    assert matcher.foreign_frames == 1
    assert matcher.feed(reply_to(request)) == Reply(reply_to(request), ())


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
    reply = reply_to(matcher.request, 7)
    answers = [matcher.feed(bytes([byte])) for byte in reply]
    assert answers[-1] == Reply(reply, (7,) * 4)
    assert matcher.noise_bytes == 100 * 100


REQUESTS = [
    read_registers(9, READ_INPUT, STATUS, 4),
    read_registers(9, READ_HOLDING, STATUS, 2),
    write_registers(9, CONTROL, (9, 0, 0)),
]
FRAMES = [reply for _, reply, _ in EXCHANGES] + [request.frame for request, _, _ in EXCHANGES] + REFUSALS


@st.composite
def _pieces(draw: st.DrawFn) -> bytes:
    """What a bad line may deliver: noise, whole frames, frames that are cut or have a byte changed."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=30))
    frame = bytearray(draw(st.sampled_from(FRAMES)))
    if draw(st.booleans()):
        frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
    start, end = sorted((draw(st.integers(0, len(frame))), draw(st.integers(0, len(frame)))))
    return bytes(frame[start:end] if draw(st.booleans()) else frame)


@settings(derandomize=True, deadline=None, max_examples=500)
@given(st.sampled_from(REQUESTS), st.lists(_pieces(), max_size=12), st.booleans())
def test_whatever_arrives_nothing_crashes_and_only_a_fitting_answer_is_returned(
    request: Request, chunks: list[bytes], exceptions_count: bool
) -> None:
    """An answer stands in what was received, has a right CRC, and the unit, function and length that were asked for."""
    matcher, received = ReplyMatcher(request, exceptions_count), b""
    for chunk in chunks:
        received += chunk
        answer = matcher.feed(chunk)
        if answer is None:
            continue
        assert answer.frame in received
        assert crc_fits(answer.frame)
        if isinstance(answer, Reply):
            assert answer.frame.startswith(request.shape)
            assert len(answer.frame) == request.reply_bytes
            assert len(answer.registers) == (0 if request.function == 0x10 else request.shape[2] // 2)
        else:
            assert exceptions_count
            assert answer.frame[:2] == bytes((9, request.function | 0x80))
            assert len(answer.frame) == 5
        assert received.endswith(bytes(matcher.buffer))
        return
    taken = matcher.noise_bytes + len(matcher.buffer)
    assert taken <= len(received) == matcher.received_bytes


def _begins_a_frame(noise: bytes, reply: bytes) -> bool:
    """Whether by chance a valid frame begins in the noise, and ends in it or in the reply."""
    data = noise + reply
    return any(
        crc_fits(data[at:end]) for at in range(len(noise)) for end in range(at + 5, len(data) + 1) if end - at <= 260
    )


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(REQUESTS), st.binary(max_size=60), st.integers(0, 0xFFFF), st.data())
def test_a_valid_reply_in_noise_is_found_however_it_is_cut(
    request: Request, noise: bytes, value: int, data: st.DataObject
) -> None:
    """FRAME 23."""
    reply = reply_to(request, value)
    assume(not _begins_a_frame(noise, reply))
    stream = noise + reply
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    matcher = ReplyMatcher(request)
    answers = [matcher.feed(stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert not any(answers[:-1])
    registers = () if request.function == 0x10 else (value,) * (request.shape[2] // 2)
    assert answers[-1] == Reply(reply, registers)
    assert matcher.noise_bytes == len(noise)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(REQUESTS), st.lists(_pieces(), min_size=1, max_size=6), st.data())
def test_the_pieces_in_which_bytes_arrive_do_not_change_what_they_mean(
    request: Request, chunks: list[bytes], data: st.DataObject
) -> None:
    """FRAME 20: adapters merge and split. Fed byte by byte, the same frames are taken as when fed at once."""
    stream = b"".join(chunks)
    whole, by_byte = ReplyMatcher(request), ReplyMatcher(request)
    answer = whole.feed(stream)
    answers = [each for byte in stream if (each := by_byte.feed(bytes([byte]))) is not None]
    assert answers[:1] == ([answer] if answer is not None else [])


def test_a_floating_line_costs_little_time_however_it_arrives() -> None:
    """0xFF begins a frame at every byte. What was looked at in vain is not looked at again."""
    matcher = ReplyMatcher(read_registers(9, READ_INPUT, STATUS, 4))
    checked = 0

    def counting(frame: bytes) -> bool:
        nonlocal checked
        checked += 1
        return crc_fits(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gripperd.modbus.transaction.crc_fits", counting)
        for _ in range(2000):
            assert matcher.feed(b"\xff") is None
    assert checked <= 2000


def test_long_frames_of_another_unit_are_skipped_whole() -> None:
    """A neighbour with 125 registers; its registers look like our reply."""
    request = read_registers(9, READ_INPUT, STATUS, 4)
    inner = reply_to(request, 0x1111)
    long = seal(bytes((8, 0x03, 250)) + (inner * 20)[:250])
    matcher = ReplyMatcher(request)
    assert matcher.feed(long) is None
    assert matcher.foreign_frames == 1
    assert matcher.feed(reply_to(request, 0x2222)) == Reply(reply_to(request, 0x2222), (0x2222,) * 4)
