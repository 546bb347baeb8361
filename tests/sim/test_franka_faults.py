"""What goes wrong with answers, states and connections of the simulated hand: pure first, then on real sockets."""

from __future__ import annotations

import asyncio
import struct

import pytest

from gripperd_sim.franka_hand.faults import Fault, Faults
from gripperd_sim.franka_hand.motion import Answer
from gripperd_sim.franka_hand.wire import CONNECT, MOVE, STOP
from gripperd_sim.history import History, Kind
from gripperd_sim.operations import Args, OperationError
from tests.e2e.processes import eventually
from tests.sim.franka_net import LIMIT_S, Client, Served, drained, served
from tests.vectors import franka_frames as frames

ANSWER = Answer(1, MOVE, 0, bytes.fromhex(frames.ANSWER_SUCCESS))
STOPPED = Answer(1, STOP, 0, bytes.fromhex("04 00  05 00 00 00  0c 00 00 00  00 00"))
CONNECTED = Answer(1, CONNECT, 0, bytes.fromhex(frames.CONNECT_ANSWER))
STATE = bytes.fromhex(frames.STATE)


def armed(fault: Fault, **params: bool | float | str) -> Faults:
    return seeded(0, fault, **params)


def seeded(seed: int, fault: Fault, **params: bool | float | str) -> Faults:
    faults = Faults(History(), seed)
    faults.arm(fault, 0.0, Args(params))
    return faults


def _bytes(faults: Faults, answer: Answer) -> str:
    sending = faults.answer(answer, 0.0)
    return "" if sending is None else b"".join(sending.pieces).hex(" ")


def test_answers_are_changed_in_these_bytes_only() -> None:
    assert _bytes(armed(Fault.LOSE_ANSWERS), ANSWER) == ""
    assert _bytes(armed(Fault.UNKNOWN_STATUS), ANSWER) == "03 00 05 00 00 00 0c 00 00 00 09 00"
    assert _bytes(armed(Fault.UNKNOWN_STATUS, status=0x1234), ANSWER) == "03 00 05 00 00 00 0c 00 00 00 34 12"
    assert _bytes(armed(Fault.UNKNOWN_STATUS), CONNECTED) == "00 00 00 00 00 00 0e 00 00 00 09 00 03 00"
    assert _bytes(armed(Fault.WRONG_SIZE, size=0xFFFFFFFF), ANSWER) == "03 00 05 00 00 00 ff ff ff ff 00 00"
    assert _bytes(armed(Fault.WRONG_SIZE), ANSWER) == "03 00 05 00 00 00 05 00 00 00 00 00"
    split = armed(Fault.SPLIT_ANSWERS, gap_s=0.01).answer(ANSWER, 0.0)
    assert split is not None
    assert (len(split.pieces), b"".join(split.pieces), split.gap_s) == (12, ANSWER.data, 0.01)
    late = armed(Fault.DELAY_ANSWERS, delay_s=2.5).answer(ANSWER, 0.0)
    assert late is not None
    assert (late.pieces, late.delay_s) == ((ANSWER.data,), 2.5)


def test_states_are_changed_in_these_bytes_only() -> None:
    def sent(fault: Fault, **params: float) -> list[tuple[str, float]]:
        return [(b"".join(s.pieces).hex(), s.delay_s) for s in armed(fault, **params).state(STATE, 1, 0.0)]

    assert sent(Fault.LOSE_STATES) == []
    assert sent(Fault.SHORT_STATES) == [(STATE[:22].hex(), 0.0)]
    assert sent(Fault.SHORT_STATES, keep_bytes=0) == [("", 0.0)]
    assert sent(Fault.DOUBLE_STATES) == [(STATE.hex(), 0.0)] * 2
    assert sent(Fault.DELAY_STATES, delay_s=0.3) == [(STATE.hex(), 0.3)]
    older = struct.pack("<I", 0x01020304 - 1500).hex()
    assert sent(Fault.OLD_STATES, age_s=1.5) == [(older + STATE[4:].hex(), 0.0)]
    assert sent(Fault.OLD_STATES, age_s=3600.0 * 24) == [("00000000" + STATE[4:].hex(), 0.0)], "there is none before 0"


@pytest.mark.parametrize(
    ("of", "struck"), [("all", "cms"), ("connect", "c"), ("motion", "m"), ("stop", "s")], ids=lambda value: str(value)
)
def test_a_fault_of_some_answers_leaves_the_others_and_is_not_used_up(of: str, struck: str) -> None:
    faults = armed(Fault.LOSE_ANSWERS, of=of, count=3)
    lost = [name for name, each in zip("cms", (CONNECTED, ANSWER, STOPPED), strict=True) if _bytes(faults, each) == ""]
    assert "".join(lost) == struck
    left = 3 - len(struck)
    assert faults.armed(0.0) == ({"lose_answers": {"of": of, "count": left}} if left else {})


def test_a_fault_strikes_once_or_as_often_as_is_said() -> None:
    once, twice = armed(Fault.LOSE_STATES), armed(Fault.LOSE_STATES, count=2)
    assert [len(once.state(STATE, 1, 0.0)) for _ in range(3)] == [0, 1, 1]
    assert [len(twice.state(STATE, 1, 0.0)) for _ in range(3)] == [0, 0, 1]
    assert twice.struck() == {"lose_states": 2}


def test_a_fault_lasts_as_long_as_is_said() -> None:
    faults = armed(Fault.LOSE_STATES, duration_s=1.0)
    assert [len(faults.state(STATE, 1, t_s)) for t_s in (0.0, 0.5, 0.999, 1.0, 1.5)] == [0, 0, 0, 1, 1]
    assert faults.armed(1.0) == {}
    assert armed(Fault.LOSE_STATES, duration_s=0.0).armed(0.0) == {}


def test_chance_is_seeded_and_of_each_kind_alone() -> None:
    def lost(seed: int, *, other: bool = False) -> str:
        faults = seeded(seed, Fault.LOSE_STATES, probability=0.3)
        if other:
            faults.arm(Fault.SHORT_STATES, 0.0, Args({"probability": 0.5}))
        return "".join(str(len(faults.state(STATE, 1, 0.0))) for _ in range(200))

    assert lost(7) == lost(7) == lost(7, other=True) != lost(8)
    assert 30 < lost(7).count("0") < 90


def test_every_strike_is_in_the_history() -> None:
    history = History()
    faults = Faults(history)
    for fault in Fault:
        faults.arm(fault, 0.0)
    assert faults.answer(ANSWER, 0.5) is None
    assert [each.fields for each in history] == [
        {"fault": "lose_answers", "did": "lost", "connection": 1, "hex": ""},
    ], "what is lost uses up nothing else"
    faults.answer(ANSWER, 0.5)
    assert faults.state(STATE, 1, 0.5) == []
    faults.state(STATE, 1, 0.5)
    assert [each.fields["fault"] for each in history] == [
        "lose_answers", "unknown_status", "wrong_size", "split_answers", "delay_answers",
        "lose_states", "old_states", "short_states", "double_states", "delay_states",
    ]  # fmt: skip
    assert all(each.kind is Kind.LINE_FAULT and each.t_s == 0.5 for each in history)
    assert faults.armed(0.5) == {}


# --- on real sockets


async def test_an_answer_that_is_split_is_not_cut_by_the_next_one() -> None:
    async with served() as hand:
        client = await hand.client()
        client.send(MOVE, 0.0, 0.01)
        hand.call("split_answers", count=1, gap_s=0.005)
        client.send(STOP)
        assert await client.answer() == (MOVE, 1, 12, 3)
        assert await client.answer() == (STOP, 2, 12, 0)


async def test_a_late_answer_is_overtaken() -> None:
    async with served() as hand:
        client = await hand.client()
        client.send(MOVE, 0.0, 0.01)
        hand.call("delay_answers", of="motion", delay_s=0.2)
        client.send(STOP)
        assert await client.answer() == (STOP, 2, 12, 0)
        assert await client.answer() == (MOVE, 1, 12, 3)


async def test_a_connect_can_stay_without_an_answer() -> None:
    async with served() as hand:
        hand.call("lose_answers", of="connect")
        reader, writer = await asyncio.open_connection(hand.server.address, hand.server.port)
        writer.write(bytes.fromhex(frames.CONNECT))
        await eventually(lambda: hand.server.faults.struck() == {"lose_answers": 1}, "lost answer")
        await hand.client()
        assert not reader.at_eof()
        writer.transport.abort()


async def test_late_states_come_behind_newer_ones() -> None:
    async with served(state_rate_hz=50.0) as hand:
        client = await hand.client()
        await client.state()
        hand.call("delay_states", delay_s=0.05)
        ids = [struct.unpack_from("<I", await client.state())[0] for _ in range(8)]
        assert ids != sorted(ids)
        assert len(set(ids)) == 8


async def test_states_are_counted_for_each_client() -> None:
    async with served(state_rate_hz=100.0) as hand:
        first, second = await hand.client(), await hand.client()
        await first.state()
        await second.state()
        hand.call("lose_states", count=10)
        await eventually(lambda: not hand.call("state")["faults"]["armed"], "ten lost states")
        clients = hand.call("state")["clients"]
        assert [each["connection"] for each in clients] == [1, 2]
        assert all(each["states_sent"] >= 1 and each["peer"] == "127.0.0.1" for each in clients)
        lost_by = [e.fields["connection"] for e in hand.hand.history.of(Kind.LINE_FAULT)]
        assert (lost_by.count(1), lost_by.count(2)) == (5, 5)


async def test_ignored_connections_stay_open_and_new_ones_are_served() -> None:
    """Half open: its client can only see that no state comes."""
    async with served() as hand:
        client = await hand.client()
        await client.state()
        hand.call("ignore")
        await drained(client)
        client.send(STOP)
        other = await hand.client()
        await other.state()
        with pytest.raises(BlockingIOError):
            client.states.recv(100)
        assert requests(hand) == ["connect", "connect"]
        assert not client.reader.at_eof()


async def test_a_pulled_cable_loses_states_and_delays_the_rest() -> None:
    async with served() as hand:
        client = await hand.client()
        client.send(MOVE, 0.0, 0.5)
        await eventually(lambda: requests(hand) == ["connect", "move"], "move")
        hand.call("unplug")
        await drained(client)
        stop = client.send(STOP)
        await eventually(lambda: hand.call("state")["state"]["pending"] is None, "end of the motion")
        with pytest.raises(BlockingIOError):
            client.states.recv(100)
        assert requests(hand) == ["connect", "move"], "the stop is under way"
        hand.call("plug")
        assert await client.answer() == (MOVE, 1, 12, 0)
        assert await client.answer() == (STOP, stop, 12, 0)
        assert len(await client.state()) == 23


@pytest.mark.parametrize("reset", [False, True])
async def test_what_a_client_that_gave_up_had_sent_arrives_unless_it_reset(reset: bool) -> None:
    """After an orderly close its system goes on to repeat what was sent: the hand moves, though nobody waits."""
    async with served() as hand:
        client = await hand.client()
        hand.call("unplug")
        client.send(MOVE, 0.0, 0.1)
        client.close(reset=reset)
        other = await hand.client_without_answer()
        hand.call("plug")
        await eventually(lambda: len(hand.server.connections) == 1, "end of the first connection")
        assert len(await asyncio.wait_for(other.reader.readexactly(14), LIMIT_S)) == 14
        assert requests(hand) == (["connect", "connect"] if reset else ["connect", "move", "connect"])


async def test_a_cable_comes_back_by_itself() -> None:
    async with served() as hand:
        client = await hand.client()
        hand.call("unplug", duration_s=0.1)
        number = client.send(STOP)
        assert await client.answer() == (STOP, number, 12, 0)


async def test_who_ended_a_connection_is_in_the_history() -> None:
    async with served() as hand:
        for how in ("reset", "finish"):
            client = await hand.client()
            hand.call("disconnect", how=how)
            await eventually(lambda: not hand.server.connections, "end")
            client.close()
        for reset in (True, False):
            client = await hand.client()
            client.close(reset=reset)
            await eventually(lambda: not hand.server.connections, "end")
        changes = [e.fields["change"] for e in hand.hand.history.of(Kind.CONNECTION) if e.fields["change"] != "opened"]
        assert changes == ["reset", "finished", "reset by the client", "finished by the client"]


async def test_the_next_client_meets_faults_that_were_cleared_no_more() -> None:
    async with served() as hand:
        hand.call("lose_answers", probability=1)
        assert hand.call("clear_faults") == {"armed": {}}
        await hand.client()


def test_wrong_parameters_say_what_is_valid() -> None:
    hand = Served.offline()
    with pytest.raises(OperationError, match="one of all, connect, motion, stop"):
        hand.call("lose_answers", of="some")
    with pytest.raises(OperationError, match="from 0 to 1"):
        hand.call("lose_states", probability=2)
    with pytest.raises(OperationError, match="from 0 to 22"):
        hand.call("short_states", keep_bytes=23)


def requests(hand: Served) -> list[str]:
    return [event.fields["command"] for event in hand.hand.history.of(Kind.REQUEST)]


def test_the_client_of_these_tests_sends_what_is_written_down() -> None:
    assert Client.message(STOP, 9).hex() == frames.STOP.replace(" ", "")
