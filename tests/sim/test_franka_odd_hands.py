"""What a hand does by option, by a person's hand, or when requests cross each other; in simulated time."""

from __future__ import annotations

import pytest

from gripperd_sim.franka_hand.wire import GRASP, MOVE, STOP
from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject, WorldError
from tests.sim.franka_bench import Client


def test_a_hand_that_needs_a_stop_to_reopen() -> None:
    client = Client(reopen_needs_stop=True)
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    refused = client.send(MOVE, 0.08, 0.1)
    client.wait(0.1)
    client.send(STOP)
    opened = client.send(MOVE, 0.08, 0.1)
    client.wait(1.0)
    assert (client.told[refused][0], client.told[opened][0]) == ("fail", "success")


def test_a_stop_that_fails_changes_nothing() -> None:
    client = Client(stop_failed=1.0)
    moving = client.send(MOVE, 0.0, 0.1)
    client.wait(0.3)
    stop = client.send(STOP)
    assert client.told == {stop: ("fail", 0.3)}
    client.wait(1.0)
    assert client.told[moving] == ("success", 0.8)


def test_message_ids_begin_anew_after_seven_weeks() -> None:
    client = Client(uptime_s=4294967.2)
    before = client.state()[0]
    client.wait(0.1)
    assert (before, client.state()[0]) == (0xFFFFFFFF - 95, 4)


def test_stops_are_ignored_by_chance_and_the_chance_is_seeded() -> None:
    def played() -> list[str]:
        client = Client(stop_ignored=0.5)
        for n in range(20):
            client.send(MOVE, 0.0 if n % 2 else 0.08, 0.1)
            client.wait(0.1)
            client.send(STOP)
            client.wait(1.0)
        return [status for status, _ in client.told.values()]

    assert played() == played()
    assert 3 < played().count("aborted") < 17


@pytest.mark.parametrize(("busy", "statuses"), [("abort", ("aborted", "success")), ("ignore", ("success", "fail"))])
def test_a_motion_while_one_is_pending(busy: str, statuses: tuple[str, str]) -> None:
    client = Client(busy=busy)
    first = client.send(MOVE, 0.0, 0.1)
    client.wait(0.3)
    second = client.send(MOVE, 0.07, 0.1)
    client.wait(3.0)
    assert (client.told[first][0], client.told[second][0]) == statuses
    assert client.width_m == pytest.approx(0.07 if busy == "abort" else 0.0)


@pytest.mark.parametrize("busy", ["abort", "ignore"])
def test_nothing_moves_on_under_a_motion_that_was_refused(busy: str) -> None:
    client = Client(busy=busy)
    first = client.send(MOVE, 0.0, 0.02)
    client.wait(1.0)
    second = client.send(MOVE, 0.2, 0.1)
    client.wait(5.0)
    assert client.told[second][0] == "fail"
    assert client.told[first][0] == ("aborted" if busy == "abort" else "success")
    assert client.width_m == pytest.approx(0.06 if busy == "abort" else 0.0)
    ends = client.hand.history.of(Kind.MOTION_END)
    assert ends[0].fields["width_m"] == pytest.approx(client.width_m), "what the history told is true"


def test_a_motion_ends_once_also_when_its_answer_is_still_due() -> None:
    client = Client(command_latency_s=1.0)
    client.put(0.03)
    grasp = client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(0.8)
    client.send(STOP)
    assert client.told[grasp] == ("aborted", 0.8)
    assert [event.fields["outcome"] for event in client.hand.history.of(Kind.MOTION_END)] == ["grasped"]


def test_closing_the_connection_of_a_grasp_that_has_closed_leaves_it_alone() -> None:
    client = Client(command_latency_s=1.0, close_stops=True)
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(0.8)
    client.hand.closed(1, client.t_s)
    assert client.state()[3] == 1
    client.hand.take_object(client.t_s)
    assert client.state()[3] == 0, "nothing is held any more"


@pytest.mark.parametrize("stops", [False, True])
def test_closing_the_connection_of_a_motion(stops: bool) -> None:
    client = Client(close_stops=stops)
    client.send(MOVE, 0.0, 0.1)
    client.wait(0.3)
    client.hand.closed(1, client.t_s)
    client.wait(1.0)
    assert client.width_m == pytest.approx(0.05 if stops else 0.0)


def test_a_grasp_that_opens_relaxes_inward() -> None:
    """The fingers go away from what they met; a ring from inside is met by opening."""
    client = Client()
    client.send(MOVE, 0.02, 0.1)
    client.wait(1.0)
    client.hand.put_object(GraspObject(0.05, internal=True), client.t_s)
    number = client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    assert client.told[number][0] == "unsuccessful"
    assert client.width_m == pytest.approx(0.048, abs=1e-4)
    again = client.send(GRASP, 0.05, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    assert (client.told[again][0], client.hand.jaw.holding) == ("success", True)
    causes = [(e.fields.get("cause"), e.fields.get("outcome")) for e in client.hand.history if "motion" in e.kind]
    assert causes[2:6] == [("grasp", None), (None, "outside of the band"), ("relax", None), (None, "reached")]


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_fingers_after_a_loss(goes_on: bool) -> None:
    client = Client(drive_after_loss=goes_on)
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    client.hand.take_object(client.t_s)
    client.wait(0.2)
    assert client.width_m == pytest.approx(0.01 if goes_on else 0.03, abs=1e-4)
    client.send(STOP)
    told = [(e.fields.get("cause"), e.fields.get("outcome")) for e in client.hand.history if "motion" in e.kind]
    assert told[2:] == ([("after_loss", None), (None, "aborted")] if goes_on else [])


@pytest.mark.parametrize("how", ["slips", "is weak"])
def test_a_part_that_slips_out_is_lost(how: str) -> None:
    client = Client()
    client.hand.put_object(GraspObject(0.03, hold_force_n=40.0 if how == "is weak" else 0.0), client.t_s)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(0.55)
    assert client.state()[3] == 1
    if how == "slips":
        client.hand.slip(client.t_s)
    client.wait(0.3)
    assert (client.state()[3], client.hand.jaw.object) == (0, None)
    assert "lost" in [event.fields["change"] for event in client.hand.history.of(Kind.OBJECT)]


def test_fingers_are_moved_by_hand_and_the_temperature_is_told() -> None:
    client = Client()
    client.hand.move_fingers(0.05, client.t_s)
    client.hand.set_temperature(55, client.t_s)
    assert (client.state()[1], client.state()[4]) == (0.05, 55)
    with pytest.raises(WorldError, match="0 to 65535"):
        client.hand.set_temperature(-1, client.t_s)


@pytest.mark.parametrize("needed", [False, True])
def test_a_move_before_homing(needed: bool) -> None:
    client = Client(homed=False, needs_homing=needed)
    number = client.send(MOVE, 0.04, 0.1)
    client.wait(1.0)
    assert client.told[number][0] == ("fail" if needed else "success")
    assert client.state()[2] == 0.0


@pytest.mark.parametrize("status", ["unsuccessful", "fail"])
def test_the_status_of_a_move_that_was_given_up(status: str) -> None:
    client = Client(stuck_move_s=2.0, stuck_move_status=status)
    client.put(0.03)
    number = client.send(MOVE, 0.0, 0.1)
    client.wait(3.0)
    assert client.told[number] == (status, pytest.approx(2.5, abs=0.01))


@pytest.mark.parametrize(
    ("second", "status", "force_n"), [("fail", "fail", 30), ("unsuccessful",) * 2 + (30,), ("grasp", "success", 60)]
)
def test_a_grasp_while_grasping_is_an_option(second: str, status: str, force_n: float) -> None:
    client = Client(second_grasp=second)
    client.put(0.03)
    client.send(GRASP, 0.03, 0.005, 0.005, 0.1, 30.0)
    client.wait(1.0)
    number = client.send(GRASP, 0.029, 0.005, 0.005, 0.1, 60.0)
    client.wait(1.0)
    assert client.told[number][0] == status
    assert client.state()[3] == 1
    assert client.hand.jaw.force_n == pytest.approx(force_n)
