"""The simulated hand in simulated time: motions, answers, band, stops, states."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.wire import (
    GRASP,
    HOMING,
    MOVE,
    NAMES,
    STOP,
    BrokenStreamError,
    Stream,
)
from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject, WorldError
from tests.sim.franka_bench import Client
from tests.vectors import franka_frames as frames


def test_requests_are_read_from_literal_bytes() -> None:
    stream = Stream()
    data = b"".join(map(bytes.fromhex, (frames.CONNECT, frames.HOMING, frames.MOVE, frames.GRASP, frames.STOP)))
    requests = [request for n in range(len(data)) for request in stream.feed(data[n : n + 1])]
    assert [(each.command, each.number, each.values) for each in requests] == [
        (0, 0, (3, 0x1234)),
        (1, 1, ()),
        (3, 0x01020304, (0.25, 0.125)),
        (2, 7, (0.0625, 0.0078125, 0.015625, 0.125, 30.0)),
        (4, 9, ()),
    ]
    with pytest.raises(BrokenStreamError):
        list(Stream().feed(b"\x03\x00\x01\x00\x00\x00\x05\x00\x00\x00"))


def test_a_hand_is_not_homed_at_first_and_homing_closes_opens_and_sets_max_width() -> None:
    client = Client(homed=False)
    assert client.state()[2] == 0.0
    refused = client.send(MOVE, 0.04, 0.1)
    client.wait(0.001)
    assert client.told[refused][0] == "fail"
    homing = client.send(HOMING)
    client.wait(0.999)
    assert client.width_m < 0.001
    assert client.state()[2] == 0.0
    client.wait(1.0)
    assert homing not in client.told
    client.wait(0.01)
    assert client.told[homing] == ("success", pytest.approx(2.0, abs=0.01))
    assert client.state()[1:4] == (0.08, 0.08, 0)


def test_a_move_is_answered_when_it_has_ended_and_never_before_the_latency() -> None:
    client = Client(command_latency_s=1.0)
    slow = client.send(MOVE, 0.0, 0.05)
    client.wait(1.7)
    assert client.told[slow] == ("success", pytest.approx(1.6, abs=0.001))
    short = client.send(MOVE, 0.001, 0.1)
    client.wait(1.1)
    assert client.told[short] == ("success", pytest.approx(1.7 + 1.0, abs=0.001))


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (MOVE, (0.0801, 0.1)),
        (MOVE, (-0.001, 0.1)),
        (MOVE, (float("nan"), 0.1)),
        (MOVE, (0.04, 0.0)),
        (GRASP, (0.02, 0.005, 0.005, 0.1, 0.0)),
        (GRASP, (0.02, 0.005, 0.005, 0.0, 30.0)),
    ],
)
def test_what_cannot_be_fails_and_moves_nothing(command: int, values: tuple[float, ...]) -> None:
    client = Client()
    number = client.send(command, *values)
    client.wait(0.5)
    assert client.told[number][0] == "fail"
    assert client.width_m == 0.08


def test_a_move_against_an_object_is_not_answered_until_it_is_taken_away() -> None:
    client = Client()
    client.put(0.03)
    number = client.send(MOVE, 0.0, 0.1)
    client.wait(30.0)
    assert not client.told
    assert client.width_m == pytest.approx(0.03, abs=0.0001)
    client.hand.take_object(client.t_s)
    client.wait(1.0)
    assert client.told[number] == ("success", pytest.approx(30.3, abs=0.01))
    changes = [event.fields["change"] for event in client.hand.history.of(Kind.OBJECT)]
    assert changes == ["put", "taken"], "what was not grasped was not lost"
    assert len(client.hand.history.of(Kind.MOTION_START)) == 1, "the same motion goes on"


def test_a_move_that_stays_stuck_is_given_up_after_minutes() -> None:
    client = Client(stuck_move_s=120.0)
    client.put(0.03)
    number = client.send(MOVE, 0.0, 0.1)
    client.wait(130.0)
    assert client.told[number] == ("unsuccessful", pytest.approx(120.5, abs=0.01))


@pytest.mark.parametrize(
    ("width_m", "inner_m", "outer_m", "held"),
    [
        (0.03, 0.005, 0.005, True),
        (0.026, 0.005, 0.005, True),
        (0.0245, 0.005, 0.005, False),
        (0.0355, 0.005, 0.005, False),
        (0.0, 0.005, 0.08, True),
        (0.0, 0.005, 0.029, False),
    ],
)
def test_a_grasp_succeeds_inside_its_band_only(width_m: float, inner_m: float, outer_m: float, held: bool) -> None:
    client = Client()
    client.put(0.03)
    number = client.send(GRASP, width_m, inner_m, outer_m, 0.1, 30.0)
    client.wait(1.0)
    assert client.told[number][0] == ("success" if held else "unsuccessful")
    assert bool(client.state()[3]) is held
    assert client.width_m == pytest.approx(0.03 if held else 0.032, abs=0.0001), "outside of it the fingers let go"
    assert (client.hand.jaw.force_n > 0) is held


def test_the_band_is_open_at_both_ends() -> None:
    client = Client()
    nothing = client.send(GRASP, 0.0, 0.0, 0.08, 0.1, 30.0)
    client.wait(1.0)
    assert client.told[nothing][0] == "unsuccessful", "0 is not more than 0 - 0"
    again = client.send(GRASP, 0.0, 0.001, 0.08, 0.1, 30.0)
    client.wait(1.0)
    assert client.told[again][0] == "success", "a grasp of nothing is one, too"


@pytest.mark.parametrize("how", ["taken", "moved", "stopped", "homed"])
def test_grasped_is_told_until_the_object_is_lost_or_let_go(how: str) -> None:
    client = Client()
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    assert client.state()[3] == 1
    if how == "taken":
        client.hand.take_object(client.t_s)
    else:
        client.send({"moved": MOVE, "stopped": STOP, "homed": HOMING}[how], *((0.06, 0.1) if how == "moved" else ()))
    client.wait(0.1)
    assert client.state()[3] == 0


def test_a_second_grasp_while_grasping_fails_and_lets_nothing_go() -> None:
    client = Client(command_latency_s=0.5)
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    second = client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 60.0)
    client.wait(1.0)
    assert client.told[second] == ("fail", 1.5)
    assert client.hand.jaw.holding


@pytest.mark.parametrize("first", [False, True])
def test_a_stop_aborts_what_is_pending_and_both_are_answered_at_once(first: bool) -> None:
    client = Client(stop_answered_first=first, command_latency_s=1.0)
    moving = client.send(MOVE, 0.0, 0.05)
    client.wait(0.5)
    stop = client.send(STOP)
    assert client.told == {moving: ("aborted", 0.5), stop: ("success", 0.5)}
    assert (next(iter(client.told)) == stop) is first
    client.wait(1.0)
    assert client.width_m == pytest.approx(0.08 - 0.025, abs=0.0001)


def test_a_stop_that_is_ignored_is_answered_when_the_motion_has_ended() -> None:
    client = Client(stop_ignored=1.0)
    moving = client.send(MOVE, 0.0, 0.1)
    client.wait(0.3)
    stop = client.send(STOP)
    client.wait(1.0)
    assert client.told == {moving: ("success", 0.8), stop: ("success", 0.8)}


def test_a_power_cycle_loses_homing_and_what_is_pending_and_numbers_begin_anew() -> None:
    client = Client()
    client.wait(5.0)
    assert client.state()[0] == 5000
    client.send(MOVE, 0.0, 0.1)
    client.wait(0.3)
    client.hand.power_cycle(client.t_s, 1.0)
    client.send(MOVE, 0.0, 0.1)
    client.wait(2.0)
    assert not client.told
    assert client.hand.history.of(Kind.MOTION_END)[-1].fields["outcome"] == "power lost"
    assert client.state()[:3] == (1000, pytest.approx(0.05), 0.0)
    with pytest.raises(WorldError):
        client.hand.power_cycle(client.t_s, -1.0)


def test_message_ids_are_milliseconds_and_never_the_same() -> None:
    client = Client()
    ids = []
    for _ in range(5):
        ids += [client.state()[0], client.state()[0]]
        client.t_s += 0.1
    assert all(b > a for a, b in pairwise(ids))
    assert ids[::2] == [1, 100, 200, 300, 400]


def test_a_part_lies_ready_whenever_the_hand_is_open() -> None:
    client = Client(homed=False)
    client.hand.supply_object(GraspObject(0.03), 0.0)
    client.send(HOMING)
    client.wait(2.1)
    grasp = client.send(GRASP, 0.0, 0.005, 0.08, 0.1, 30.0)
    client.wait(1.0)
    assert client.told[grasp][0] == "success"
    assert client.width_m == pytest.approx(0.03, abs=0.0001)


def test_connect_is_answered_by_the_bytes_of_the_protocol_and_tells_where_states_go() -> None:
    hand = FrankaHand()
    request = bytes.fromhex(frames.CONNECT)
    assert hand.handle(7, request[:5], 0.0) == []
    (answer,) = hand.handle(7, request[5:], 0.0)
    assert (answer.connection, answer.data) == (7, bytes.fromhex(frames.CONNECT_ANSWER))
    assert hand.udp_ports == {7: 0x1234}
    hand.closed(7, 1.0)
    assert hand.udp_ports == {}
    other = FrankaHand(HandOptions(protocol_version=2))
    assert [each.data for each in other.handle(7, request, 0.0)] == [bytes.fromhex(frames.CONNECT_REFUSED)]
    assert other.udp_ports == {}
    assert [each.data for each in hand.handle(8, request[:6] + b"\x0a\0\0\0", 2.0)] == [
        bytes.fromhex(frames.CONNECT_ANSWER)[:10] + b"\x01\0\x03\0"
    ], "without a version it fits none"


def test_the_history_tells_every_request_answer_and_motion() -> None:
    client = Client()
    client.send(MOVE, 0.04, 0.1)
    client.wait(1.0)
    history = client.hand.history
    assert [event.kind for event in history] == [Kind.REQUEST, Kind.MOTION_START, Kind.MOTION_END, Kind.REPLY]
    request = history.of(Kind.REQUEST)[0].fields
    assert (request["command"], request["number"], request["values"]) == (NAMES[MOVE], 1, (0.04, 0.1))
    assert history.of(Kind.REPLY)[0].fields["hex"] == "03000100000" + "00c000000" + "0000"
    assert history.of(Kind.MOTION_END)[0].fields == {"outcome": "reached", "width_m": pytest.approx(0.04)}
