"""Lines of the socket, without a socket: what is a request, what is not, and what the answer says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from gripperd.contract import InvalidParamsError
from gripperd.contract.requests import COMMANDS, Grip, Move, Open, Subscribe, Wait
from gripperd.transports.jsonrpc import (
    NO_ID,
    BadRequestError,
    Call,
    encode_error,
    encode_notification,
    encode_result,
    parse_line,
    parse_params,
)

PARSE, REQUEST, PARAMS = -32700, -32600, -32602


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", PARSE),
        (b"{", PARSE),
        (b"\xff\xfe", PARSE),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":NaN}}', PARSE),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":Infinity}}', PARSE),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":-Infinity}}', PARSE),
        (b"[" * 60_000, PARSE),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"} {', PARSE),
        (b'[{"jsonrpc":"2.0","id":1,"method":"daemon.info"}]', REQUEST),
        (b"[]", REQUEST),
        (b"17", REQUEST),
        (b'"text"', REQUEST),
        (b"null", REQUEST),
        (b'{"id":1,"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":[1],"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":{},"method":"daemon.info"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"daemon.info","params":[]}', PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"daemon.info","params":null}', PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"daemon.info","params":5}', PARAMS),
    ],
)
def test_what_is_no_request_has_the_standard_code(line: bytes, code: int) -> None:
    with pytest.raises(BadRequestError) as error:
        parse_line(line)
    assert error.value.code == code
    assert error.value.message


@pytest.mark.parametrize(("text", "value"), [(b"1", 1), (b'"a"', "a"), (b"null", None), (b"1.5", 1.5)])
def test_an_id_is_kept_as_it_is(text: bytes, value: object) -> None:
    line = b'{"jsonrpc":"2.0","id":' + text + b',"method":"daemon.info"}'
    assert parse_line(line) == Call(value, "daemon.info", {})


def test_a_request_without_an_id_is_told_from_one_with_null() -> None:
    assert parse_line(b'{"jsonrpc":"2.0","method":"gripper.stop"}').id is NO_ID


def test_the_id_of_a_refused_request_is_kept_where_it_can_be_read() -> None:
    with pytest.raises(BadRequestError) as error:
        parse_line(b'{"id":42,"method":"daemon.info"}')
    assert error.value.id == 42


def test_a_number_past_the_range_of_floats_is_well_typed_and_reaches_the_gripper() -> None:
    """1e999 is JSON; the gripper refuses the value, not the parser."""
    call = parse_line(b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":1e999}}')
    assert math.isinf(parse_params(Move, call.params).opening_width_m)


@pytest.mark.parametrize(
    ("model", "params", "named"),
    [
        (Move, {}, "opening_width_m is missing"),
        (Move, {"opening_width_m": "0.03"}, "opening_width_m"),
        (Move, {"opening_width_m": True}, "opening_width_m"),
        (Move, {"opening_width_m": None}, "null"),
        (Move, {"opening_width_m": [0.03]}, "opening_width_m"),
        (Move, {"opening_width": 0.03}, "did you mean 'opening_width_m'"),
        (Move, {"opening_width_m": 0.03, "speed": 1}, "speed is not a parameter"),
        (Move, {"opening_width_m": 0.03, "gripper": 7}, "gripper"),
        (Move, {"opening_width_m": 0.03, "gripper": None}, "null"),
        (Grip, {"expected_object_width_valid": 1}, "expected_object_width_valid"),
        (Grip, {"relative_effort": "full"}, "relative_effort"),
        (Open, {"opening_width_m": 0.03}, "opening_width_m is not a parameter"),
        (Wait, {"timeout_s": 1.0}, "command_seq is missing"),
        (Wait, {"command_seq": 1.5}, "command_seq"),
        (Subscribe, {"events": ["states"]}, "events"),
        (Subscribe, {"events": "state"}, "events"),
        (Subscribe, {"max_rate_hz": "10"}, "max_rate_hz"),
    ],
)
def test_wrong_parameters_are_named(model: type[Move], params: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidParamsError) as error:
        parse_params(model, params)
    assert error.value.code == PARAMS
    assert named in error.value.message


def test_whole_numbers_are_good_where_a_number_is_asked_for() -> None:
    assert parse_params(Move, {"opening_width_m": 0}).opening_width_m == 0.0


def test_left_out_parameters_are_zero_or_false() -> None:
    assert parse_params(Grip, {}) == Grip(
        relative_effort=0.0, relative_speed=0.0, expected_object_width_valid=False, expected_object_width_m=0.0
    )


def test_every_verb_of_the_contract_has_its_parameters() -> None:
    verbs = {"move", "grip", "open", "stop", "activate", "deactivate", "clear_fault", "release"}
    assert set(COMMANDS) == verbs


def test_lines_end_with_a_newline_and_hold_one_object() -> None:
    for line in (
        encode_result("a", b'{"x":1}'),
        encode_error(None, -32700, "no\nJSON"),
        encode_notification("m", b"{}"),
    ):
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert from_json(line)["jsonrpc"] == "2.0"


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_call_or_a_bad_request(line: bytes) -> None:
    try:
        told: object = parse_line(line).method
    except BadRequestError as error:
        told = from_json(encode_error(error.id, error.code, error.message))["error"]["message"]
    assert isinstance(told, str)
