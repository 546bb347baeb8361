"""Messages of the hand against literal bytes, both ways; damaged ones are errors that name the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd.drivers.franka_hand.wire import (
    MAX_MESSAGE_BYTES,
    ConnectRequest,
    ConnectResponse,
    DropOffRequest,
    GraspRequest,
    Header,
    HomingRequest,
    Message,
    MessageDecoder,
    MoveRequest,
    Payload,
    State,
    Status,
    StopRequest,
    VacuumRequest,
    VacuumState,
    VacuumStopRequest,
    WireError,
    decode_status,
    encode_response,
)
from tests.vectors import franka_frames as frames

REQUESTS = [
    (ConnectRequest(3, 0x1234), 0, frames.CONNECT),
    (ConnectResponse(0, 3), 0, frames.CONNECT_ANSWER),
    (ConnectResponse(1, 2), 0, frames.CONNECT_REFUSED),
    (HomingRequest(), 1, frames.HOMING),
    (MoveRequest(0.25, 0.125), 0x01020304, frames.MOVE),
    (GraspRequest(0.0625, 0.0078125, 0.015625, 0.125, 30.0), 7, frames.GRASP),
    (StopRequest(), 9, frames.STOP),
    (VacuumRequest(10, 0, 1000), 2, frames.VACUUM),
    (DropOffRequest(1000), 3, frames.DROP_OFF),
    (VacuumStopRequest(), 4, frames.VACUUM_STOP),
]


def _one(data: bytes) -> Message:
    (message,) = MessageDecoder().feed(data)
    return message


@pytest.mark.parametrize(("payload", "number", "expected"), REQUESTS)
def test_messages_have_the_bytes_of_the_protocol_and_come_back(payload: Payload, number: int, expected: str) -> None:
    data = payload.encode(number)
    assert data == bytes.fromhex(expected)
    message = _one(data)
    assert message.header == Header(payload.command, number, len(data))
    assert type(payload).decode(message.body) == payload


def test_answers() -> None:
    assert encode_response(3, 5, Status.SUCCESS) == bytes.fromhex(frames.ANSWER_SUCCESS)
    assert decode_status(_one(bytes.fromhex(frames.ANSWER_ABORTED)).body) is Status.ABORTED


def test_states() -> None:
    state = State(0x01020304, 0.0625, 0.125, True, 25)
    assert state.encode() == bytes.fromhex(frames.STATE)
    assert State.decode(bytes.fromhex(frames.STATE)) == state
    assert State.decode(state.encode() + b"more") == state
    vacuum = VacuumState(0x01020304, True, False, True, 2, 100, 500)
    assert vacuum.encode() == bytes.fromhex(frames.VACUUM_STATE)
    assert VacuumState.decode(bytes.fromhex(frames.VACUUM_STATE)) == vacuum


def test_a_longer_answer_is_cut_as_libfranka_does() -> None:
    assert ConnectResponse.decode(bytes.fromhex("00 00 03 00 aa bb")) == ConnectResponse(0, 3)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda: State.decode(bytes(22)), "a state has 23 bytes, 22 came: 00 00"),
        (lambda: VacuumState.decode(b""), "a vacuum state has 16 bytes, 0 came: nothing"),
        (lambda: decode_status(b"\x09\x00"), r"status 9 is not known \(0 to 3 are\): 09 00"),
        (lambda: decode_status(b"\x00"), "a status has 2 bytes, 1 came: 00"),
        (lambda: ConnectResponse.decode(b"\x00\x00\x03"), "ConnectResponse has 4 bytes, 3 came: 00 00 03"),
        (lambda: _one(Header(1, 2, 9).encode()), r"a message of 9 bytes cannot be \(10 to 1024\): 01 00 02 00"),
        (lambda: _one(Header(1, 2, MAX_MESSAGE_BYTES + 1).encode()), "a message of 1025 bytes cannot be"),
    ],
)
def test_bytes_that_are_no_message_are_named(broken: object, told: str) -> None:
    assert callable(broken)
    with pytest.raises(WireError, match=told):
        broken()


@given(st.lists(st.binary(max_size=60), max_size=6), st.data())
def test_a_stream_is_told_apart_wherever_it_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    sent = [Message(Header(n % 5, n, 10 + len(body)), body) for n, body in enumerate(bodies)]
    stream = b"".join(message.header.encode() + message.body for message in sent)
    decoder, at = MessageDecoder(), 0
    got: list[Message] = []
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        got += decoder.feed(stream[at : at + size])
        at += size
    assert got == sent
