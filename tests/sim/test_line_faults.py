"""Every kind of line fault, byte by byte and in virtual time; when they strike; that the same seed does the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd_sim.faults import FaultKind, Outgoing, fault
from gripperd_sim.faults.model import KINDS
from gripperd_sim.history import Kind
from gripperd_sim.operations import OperationError, Value
from gripperd_sim.rtu import crc_fits, seal
from tests.sim.line_fault_bench import (
    ACK,
    ENABLE,
    ENABLE_06,
    ILLEGAL_READ,
    READ_3,
    READ_3_HOLDING,
    REPLY_3,
    Stub,
    pymodbus_crc_fits,
)


def test_without_faults_the_reply_is_the_device_s_own() -> None:
    assert Stub().ask() == [Outgoing(0.0, REPLY_3)]
    assert pymodbus_crc_fits(REPLY_3)


# --- each kind once: what is on the line, and what came of the request

CHANGED: list[tuple[str, dict[str, Value], bytes, str]] = [
    ("wrong_unit", {}, READ_3, "0a0406000000010000"),
    ("wrong_unit", {"as_unit": 0}, READ_3, "000406000000010000"),
    ("wrong_unit", {"as_unit": 200}, ENABLE, "c81003e80001"),
    ("wrong_function", {}, READ_3, "090306000000010000"),
    ("wrong_function", {}, READ_3_HOLDING, "090406000000010000"),
    ("wrong_function", {}, ENABLE, "090603e80001"),
    ("wrong_function", {}, ENABLE_06, "091003e80001"),
    ("wrong_function", {}, ILLEGAL_READ, "098302"),
    ("wrong_function", {"function": 0x2B}, READ_3, "092b06000000010000"),
    ("wrong_count", {"registers": 1}, READ_3, "0904020000"),
    ("wrong_count", {"registers": 0}, READ_3, "090400"),
    ("wrong_count", {"registers": 5}, READ_3, "09040a00000001000000000000"),
    ("wrong_count", {"registers": 3}, ENABLE, "091003e80003"),
    ("exception", {"code": 6}, READ_3, "098406"),
    ("exception", {"code": 11}, ENABLE, "09900b"),
    ("lengthen", {"hex": "abcd", "right_crc": True}, READ_3, "090406000000010000abcd"),
]


@pytest.mark.parametrize(("kind", "params", "request_", "body"), CHANGED)
def test_changes_with_a_right_crc(kind: str, params: dict[str, Value], request_: bytes, body: str) -> None:
    stub = Stub().arm(kind, count=1, **params)
    good = Stub().data(request_)
    bad = stub.data(request_)
    assert bad[:-2].hex() == body
    assert pymodbus_crc_fits(bad)
    assert stub.strikes == [(kind, bad.hex())]
    if kind != "exception":
        assert stub.data(request_) == good


def test_surplus_registers_repeat_the_last() -> None:
    request = seal(bytes.fromhex("090407D00002"))
    stub = Stub().arm("wrong_count", registers=4)
    assert stub.data(request)[:-2].hex() == "090408" + "0000" + "0001" * 3


def test_lengthen_by_default_keeps_the_old_crc() -> None:
    assert Stub().arm("lengthen", hex="abcd").data() == REPLY_3[:-2] + b"\xab\xcd" + REPLY_3[-2:]
    assert len(Stub().arm("lengthen", bytes=7).data()) == len(REPLY_3) + 7


@pytest.mark.parametrize(
    ("kind", "params", "request_"),
    [
        ("wrong_count", {"registers": 3}, READ_3),
        ("wrong_count", {"registers": 1}, ILLEGAL_READ),
        ("wrong_count", {"registers": 2}, ENABLE_06),
        ("wrong_unit", {"as_unit": 9}, READ_3),
        ("wrong_function", {"function": 4}, READ_3),
        ("truncate", {"keep_bytes": 11}, READ_3),
        ("corrupt", {"bit": 88}, READ_3),
        ("split", {"gap_s": 0.1, "at_byte": 11}, READ_3),
        ("drop_acks", {}, READ_3),
        ("lose", {"of": "writes"}, READ_3),
        ("lose", {"of": "reads"}, ENABLE),
    ],
)
def test_a_fault_that_changes_nothing_has_not_struck(kind: str, params: dict[str, Value], request_: bytes) -> None:
    stub = Stub().arm(kind, count=1, **params)
    assert stub.data(request_) == Stub().data(request_)
    assert stub.faults.struck() == {}
    assert kind in stub.faults.armed(0.0)


@pytest.mark.parametrize(("kind", "request_"), [("lose", ENABLE), ("drop_acks", ENABLE), ("lose", READ_3)])
def test_lost_replies_were_carried_out(kind: str, request_: bytes) -> None:
    stub = Stub().arm(kind, count=2)
    assert [stub.ask(request_) for _ in range(2)] == [[], []]
    assert stub.ask(request_) != []
    assert len(stub.device.history.of(Kind.WRITE)) == (3 if request_ == ENABLE else 0)
    assert len(stub.device.history.of(Kind.REPLY)) == 3
    assert stub.strikes == [(kind, "")] * 2


@pytest.mark.parametrize(("kind", "params"), [("silence", {}), ("exception", {"code": 4})])
def test_what_is_not_heard_or_refused_does_not_reach_the_device(kind: str, params: dict[str, Value]) -> None:
    stub = Stub().arm(kind, count=1, of="writes", **params)
    assert (stub.ask(ENABLE) == []) == (kind == "silence")
    assert stub.device.history.of(Kind.REQUEST, Kind.WRITE) == []
    assert [e.fields["request_hex"] for e in stub.device.history.of(Kind.LINE_FAULT)] == [ENABLE.hex()]
    assert stub.data(ENABLE) == ACK


def test_silence_lets_the_watchdog_run_out() -> None:
    stub = Stub().arm("silence", duration_s=1.5)
    stub.t_s = 1.4
    assert stub.ask() == []
    stub.t_s = 1.5
    assert stub.data()[6] & 0x04
    assert [e.t_s for e in stub.device.history.of(Kind.LINE_FAULT)] == [1.4]


def test_history_is_in_the_order_of_time() -> None:
    stub = Stub().arm("silence", count=1)
    stub.t_s = 5.0
    stub.ask()
    times = [event.t_s for event in stub.device.history]
    assert times == sorted(times)
    assert times[0] == 1.0


def test_broadcasts_are_not_refused() -> None:
    stub = Stub().arm("exception", code=4)
    assert stub.ask(seal(bytes.fromhex("001003E80001020001"))) == []
    assert len(stub.device.history.of(Kind.WRITE)) == 1


@pytest.mark.parametrize(("missing", "echoed"), [(0, READ_3), (1, READ_3[:-1]), (8, b""), (200, b"")])
def test_echo(missing: int, echoed: bytes) -> None:
    stub = Stub().arm("echo", missing_bytes=missing, count=1)
    expected = [Outgoing(0.0, echoed, on_wire=True)] if echoed else []
    assert stub.ask() == [*expected, Outgoing(0.0, REPLY_3)]
    assert stub.strikes == [("echo", echoed.hex())]


@pytest.mark.parametrize("missing", [0, 1])
def test_an_echo_needs_no_device(missing: int) -> None:
    stub = Stub().arm("echo", missing_bytes=missing).arm("silence")
    assert [out.data for out in stub.ask(ENABLE_06)] == [ENABLE_06[: 8 - missing]]


@pytest.mark.parametrize("bit", [0, 7, 8, 87])
def test_a_given_bit_is_flipped(bit: int) -> None:
    bad = Stub().arm("corrupt", bit=bit).data()
    difference = bytes(a ^ b for a, b in zip(bad, REPLY_3, strict=True))
    assert int.from_bytes(difference, "little") == 1 << bit
    assert not pymodbus_crc_fits(bad)


@given(st.integers(1, 88), st.integers(0, 1000))
def test_random_bits_are_flipped_each_once(flips: int, seed: int) -> None:
    bad = Stub(seed).arm("corrupt", flips=flips).data()
    assert (int.from_bytes(bad, "big") ^ int.from_bytes(REPLY_3, "big")).bit_count() == flips


@given(st.integers(0, 1000))
def test_random_truncation_leaves_a_beginning(seed: int) -> None:
    short = Stub(seed).arm("truncate").data()
    assert 1 <= len(short) < len(REPLY_3)
    assert REPLY_3.startswith(short)


def test_a_given_truncation() -> None:
    assert Stub().arm("truncate", keep_bytes=4).data() == REPLY_3[:4]


def test_noise() -> None:
    assert Stub().arm("noise_before", hex="00 FF").data() == b"\x00\xff" + REPLY_3
    assert Stub().arm("noise_after", hex="55").data() == REPLY_3 + b"\x55"
    both = Stub(3).arm("noise_before", bytes=16).arm("noise_after").data()
    assert both[16:-1] == REPLY_3
    assert len(set(both[:16])) > 1


def test_delayed_replies_keep_what_they_said() -> None:
    stub = Stub().arm("delay", count=1, delay_s=2.5)
    (late,) = stub.ask()
    stub.ask(ENABLE)
    stub.t_s = 0.1
    (later,) = stub.ask()
    assert (late, later.delay_s) == (Outgoing(2.5, REPLY_3), 0.0)
    assert later.data[4] == 0x11


@pytest.mark.parametrize("at_byte", range(1, 11))
def test_split_at_each_byte(at_byte: int) -> None:
    stub = Stub().arm("split", at_byte=at_byte, gap_s=0.05)
    assert stub.ask() == [Outgoing(0.0, REPLY_3[:at_byte]), Outgoing(0.05, REPLY_3[at_byte:], silence_s=0.05)]


def test_split_at_every_byte() -> None:
    sent = Stub().arm("split", every_byte=True, gap_s=0.01).ask()
    assert [out.data for out in sent] == [bytes((byte,)) for byte in REPLY_3]
    assert [out.delay_s for out in sent] == pytest.approx([n * 0.01 for n in range(len(REPLY_3))])


@given(st.integers(0, 1000))
def test_a_random_split_loses_nothing(seed: int) -> None:
    first, second = Stub(seed).arm("split", gap_s=0.01).ask()
    assert first.data + second.data == REPLY_3
    assert first.data
    assert second.data


def test_merged_replies_come_in_one_piece() -> None:
    stub = Stub().arm("merge", count=1)
    assert stub.ask() == []
    assert stub.ask(ENABLE) == [Outgoing(0.0, REPLY_3 + ACK, together=True)]
    assert stub.data() != b""
    assert stub.strikes == [("merge", ""), ("merged", (REPLY_3 + ACK).hex())]
    assert stub.faults.struck() == {"merge": 1}


def test_three_replies_in_one_piece_and_none_after_a_hang_up() -> None:
    stub = Stub().arm("merge", count=2)
    assert [stub.ask(), stub.ask()] == [[], []]
    assert stub.data() == 3 * REPLY_3
    stub.arm("merge", count=1).ask()
    stub.faults.hang_up()
    assert stub.data() == REPLY_3


def test_what_is_held_too_long_is_lost() -> None:
    stub = Stub().arm("merge", count=1, within_s=0.5)
    assert stub.ask() == []
    stub.t_s = 0.5
    assert stub.data(ENABLE) == REPLY_3 + ACK
    stub.arm("merge", count=1, within_s=0.5).ask()
    stub.t_s = 1.01
    assert stub.ask(ENABLE) == [Outgoing(0.0, ACK)]
    assert stub.strikes[-1] == ("merged", ACK.hex())


def test_repeated_replies() -> None:
    stub = Stub().arm("repeat", count=1, delay_s=0.02)
    assert stub.ask() == [Outgoing(0.0, REPLY_3), Outgoing(0.02, REPLY_3)]
    assert stub.ask() == [Outgoing(0.0, REPLY_3)]


PARAMS: dict[str, dict[str, Value]] = {
    "exception": {"code": 4},
    "wrong_count": {"registers": 1},
    "split": {"gap_s": 0.01},
    "delay": {"delay_s": 0.5},
    "repeat": {"delay_s": 0.5},
}
SOME_FAULTS = st.lists(
    st.tuples(
        st.sampled_from([k for k in FaultKind if k is not FaultKind.DROP_ACKS]),
        st.sampled_from([0.2, 0.7, 1.0]),
        st.sampled_from(["reads", "writes", "all"]),
    ),
    max_size=6,
)


def play(seed: int, faults: list[tuple[FaultKind, float, str]]) -> tuple[list[list[Outgoing]], list[tuple[str, str]]]:
    stub = Stub(seed)
    for kind, probability, of in faults:
        stub.arm(kind, probability=probability, of=of, **PARAMS.get(kind, {}))
    sent = []
    for n in range(30):
        stub.t_s = n * 0.02
        sent.append(stub.ask((READ_3, ENABLE, READ_3_HOLDING)[n % 3]))
    return sent, stub.strikes


@given(st.integers(0, 2**32), SOME_FAULTS)
def test_the_same_seed_does_the_same(seed: int, faults: list[tuple[FaultKind, float, str]]) -> None:
    assert play(seed, faults) == play(seed, faults)


def test_another_seed_does_something_else() -> None:
    assert play(1, [(FaultKind.CORRUPT, 1.0, "all")]) != play(2, [(FaultKind.CORRUPT, 1.0, "all")])


@given(st.integers(0, 2**32), SOME_FAULTS)
def test_the_history_tells_every_byte_that_was_sent(seed: int, faults: list[tuple[FaultKind, float, str]]) -> None:
    """What goes out follows from the replies and the strikes in the history alone."""
    sent, strikes = play(seed, [f for f in faults if f[0] is not FaultKind.REPEAT])
    stub = Stub(seed)
    for kind, probability, of in faults:
        if kind is not FaultKind.REPEAT:
            stub.arm(kind, probability=probability, of=of, **PARAMS.get(kind, {}))
    for n, outs in enumerate(sent):
        stub.t_s = n * 0.02
        seq = stub.device.history.last_seq
        stub.ask((READ_3, ENABLE, READ_3_HOLDING)[n % 3])
        said = b""
        for event in stub.device.history.since(seq):
            told = event.kind in (Kind.REPLY, Kind.LINE_FAULT) and event.fields.get("fault") != "echo"
            said = bytes.fromhex(event.fields["hex"]) if told else said
        assert b"".join(out.data for out in outs if not out.on_wire) == said
    assert strikes == stub.strikes


@given(st.binary(max_size=12))
def test_what_is_no_frame_is_noise_to_the_device(frame: bytes) -> None:
    stub = Stub().arm("lose").arm("silence").arm("exception", code=1)
    if not crc_fits(frame):
        assert stub.ask(frame) == []
        assert stub.faults.struck() == {}


# --- wrong faults


@pytest.mark.parametrize(
    ("kind", "params", "says"),
    [
        ("loose", {}, "unknown fault 'loose'. Did you mean lose"),
        ("delay", {}, "delay needs delay_s"),
        ("delay", {"delay_s": float("inf")}, "give a number from 0 to 3600"),
        ("lose", {"delay_s": 1}, "no parameter 'delay_s'; valid: count, probability"),
        ("noise_after", {"hex": "00", "bytes": 1}, "exclude each other"),
    ],
)
def test_wrong_faults_say_what_is_valid(kind: str, params: dict[str, Any], says: str) -> None:
    with pytest.raises(OperationError, match=says):
        fault(kind, **params)


def test_every_kind_is_in_the_table_with_its_text() -> None:
    assert set(KINDS) == set(FaultKind)
    assert all(row.doc.endswith(".") for row in KINDS.values())
