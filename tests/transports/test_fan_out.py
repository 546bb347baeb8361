"""Who is told what, in which order and in which turn, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gripperd.contract import CommandOutcome, Event, Fault, GripperState, Link, Outcome, Verb
from gripperd.transports.subscriptions import TELLINGS_KEPT, WRITES_PER_TURN, FanOut, Subscription

EVERYTHING = frozenset(Event)


def outcome(seq: int = 3) -> CommandOutcome:
    return CommandOutcome(gripper="left", command_seq=seq, verb=Verb.MOVE, outcome=Outcome.REACHED)


def state(seq: int, gripper: str = "left") -> GripperState:
    return GripperState(gripper=gripper, boot_id="b", seq=seq)


class Hall:
    """A fan-out whose turns are called by hand, and its readers."""

    def __init__(self) -> None:
        self.turns: list[Callable[[], None]] = []
        self.fan_out = FanOut(self.turns.append)
        self.full: set[int] = set()
        self.now_s = 0.0
        self.lines: dict[int, list[bytes]] = {}

    def reader(self, number: int, events: frozenset[Event] = EVERYTHING, period_s: float = 0.0) -> Subscription:
        lines = self.lines[number] = []

        def offer(line: bytes) -> bool:
            if number not in self.full:
                lines.append(line)
            return number not in self.full

        reader = Subscription(number, frozenset({"left"}), events, period_s, lines.append, offer, self.time)
        self.fan_out.add(reader)
        return reader

    def time(self) -> float:
        return self.now_s

    def turn(self) -> bool:
        """One turn of the loop; whether there was anything to do."""
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()
        return bool(turns)

    def run(self) -> None:
        while self.turn():
            pass

    def told(self, number: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines[number]]

    def seqs(self, number: int) -> list[int]:
        return [each["params"]["state"]["seq"] for each in self.told(number)]


def test_each_kind_has_the_form_of_the_contract() -> None:
    hall = Hall()
    hall.reader(7)
    fault = Fault(code=8, text="not activated")
    for event, item in ((Event.LINK, Link.UP), (Event.FAULT, fault), (Event.FAULT, None), (Event.OUTCOME, outcome())):
        hall.fan_out.listen(event, item, "left")
    hall.fan_out.listen(Event.STATE, state(1), "left")
    hall.run()
    link, faulty, healthy, ended, round_ = hall.told(7)
    assert link == {
        "jsonrpc": "2.0",
        "method": "gripper.link",
        "params": {"subscription": 7, "gripper": "left", "link": "up"},
    }
    assert faulty["params"] == {"subscription": 7, "gripper": "left", "fault": {"code": 8, "text": "not activated"}}
    assert healthy["params"] == {"subscription": 7, "gripper": "left", "fault": None}
    assert ended["params"] == {"subscription": 7, "outcome": outcome().to_dict()}
    assert round_["params"] == {"subscription": 7, "state": state(1).to_dict(), "dropped": 0}
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in hall.lines[7])


def test_nothing_is_written_inside_the_stores_call_and_a_state_is_encoded_once() -> None:
    hall = Hall()
    for number in range(100):
        hall.reader(number)
    hall.fan_out.listen(Event.STATE, state(1), "left")
    assert not any(hall.lines.values())
    sizes = []
    while hall.turn():
        sizes.append(sum(len(lines) for lines in hall.lines.values()))
    assert sizes == [WRITES_PER_TURN, 2 * WRITES_PER_TURN, 3 * WRITES_PER_TURN, 100]
    assert hall.fan_out.counters["states_encoded"] == 1
    assert len({line.replace(b'"subscription":%d,' % number, b"") for number, [line] in hall.lines.items()}) == 1


def test_what_nobody_subscribed_to_is_not_encoded() -> None:
    hall = Hall()
    hall.reader(1, frozenset({Event.OUTCOME}))
    hall.fan_out.listen(Event.STATE, state(1), "left")
    hall.fan_out.listen(Event.STATE, state(1, "right"), "right")
    assert not hall.turn()
    assert hall.fan_out.counters["states_encoded"] == 0


def test_who_comes_later_or_has_left_gets_nothing_of_what_waits() -> None:
    hall = Hall()
    early, leaver = hall.reader(1), hall.reader(2)
    hall.fan_out.listen(Event.STATE, state(1), "left")
    hall.reader(3)
    hall.fan_out.remove(leaver)
    hall.run()
    assert (hall.seqs(1), hall.seqs(2), hall.seqs(3)) == ([1], [], [])
    hall.fan_out.remove(early)
    assert hall.fan_out.subscriptions == 1


def test_a_reader_without_room_loses_states_and_is_told_how_many_and_never_an_outcome() -> None:
    hall = Hall()
    hall.reader(1)
    hall.reader(2)
    hall.full.add(1)
    for seq in range(1, 4):
        hall.fan_out.listen(Event.STATE, state(seq), "left")
    hall.fan_out.listen(Event.OUTCOME, outcome(), "left")
    hall.run()
    hall.full.clear()
    for seq in (4, 5):
        hall.fan_out.listen(Event.STATE, state(seq), "left")
    hall.run()
    ended, fourth, fifth = hall.told(1)
    assert ended["method"] == "gripper.outcome"
    assert (fourth["params"]["state"]["seq"], fourth["params"]["dropped"]) == (4, 3)
    assert fifth["params"]["dropped"] == 0
    assert [each["method"] for each in hall.told(2)].count("gripper.state") == 5


def test_thinning_is_no_loss() -> None:
    hall = Hall()
    hall.reader(1, period_s=0.1)
    for seq in range(100):
        hall.now_s = 0.01 * seq
        hall.fan_out.listen(Event.STATE, state(seq), "left")
        hall.run()
    assert 9 <= len(hall.seqs(1)) <= 11
    assert all(each["params"]["dropped"] == 0 for each in hall.told(1))


def test_an_overloaded_loop_sheds_the_oldest_states_and_counts_them_for_each() -> None:
    hall = Hall()
    for number in range(3):
        hall.reader(number)
    hall.fan_out.listen(Event.OUTCOME, outcome(), "left")
    for seq in range(1, TELLINGS_KEPT + 11):
        hall.fan_out.listen(Event.STATE, state(seq), "left")
    hall.run()
    for number in range(3):
        ended, *states = hall.told(number)
        assert ended["method"] == "gripper.outcome"
        assert [each["params"]["state"]["seq"] for each in states] == list(range(11, TELLINGS_KEPT + 11))
        assert [each["params"]["dropped"] for each in states] == [10] + [0] * (TELLINGS_KEPT - 1)
    assert hall.fan_out.counters["states_shed"] == 10


def test_a_telling_that_fails_costs_the_others_nothing_for_long() -> None:
    hall = Hall()
    broken = hall.reader(1)
    hall.reader(2)

    def fail(line: bytes) -> bool:
        raise OSError

    broken.offer = fail
    hall.fan_out.listen(Event.STATE, state(1), "left")
    try:
        hall.turn()
    except OSError:
        hall.fan_out.remove(broken)
    hall.fan_out.listen(Event.STATE, state(2), "left")
    hall.run()
    assert hall.seqs(2)[-1] == 2


@given(
    st.lists(st.tuples(st.sampled_from(["tell", "turn", "fill", "empty", "outcome"]), st.integers(0, 1)), max_size=80)
)
def test_everybody_sees_everything_in_order_or_is_told_how_much_is_missing(steps: list[tuple[str, int]]) -> None:
    """States seen and states reported as dropped add up, whatever the turns, and outcomes are all there."""
    hall = Hall()
    for number in range(40):
        hall.reader(number)
    seq = outcomes = 0
    for what, number in steps:
        if what == "tell":
            seq += 1
            hall.fan_out.listen(Event.STATE, state(seq), "left")
        elif what == "outcome":
            outcomes += 1
            hall.fan_out.listen(Event.OUTCOME, outcome(outcomes), "left")
        elif what == "turn":
            hall.turn()
        elif what == "fill":
            hall.full.add(number)
        else:
            hall.full.discard(number)
    hall.run()
    hall.full.clear()
    hall.fan_out.listen(Event.STATE, state(seq + 1), "left")
    hall.run()
    for number in (0, 1, 39):
        told = hall.told(number)
        expected = 0
        for each in told:
            if each["method"] == "gripper.state":
                expected += 1 + each["params"]["dropped"]
                assert each["params"]["state"]["seq"] == expected
        assert expected == seq + 1
        seen = [each["params"]["outcome"]["command_seq"] for each in told if each["method"] == "gripper.outcome"]
        assert seen == list(range(1, outcomes + 1))
