"""Rights, losses and who commanded last, without a daemon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd.contract import InvalidParamsError, OnDisconnect, Verb
from gripperd.contract.requests import Hello
from gripperd.contract.service import Peer
from gripperd.roster import Member, Roster

STOP = Hello(name="pick", on_disconnect=OnDisconnect.STOP, heartbeat_s=1.0)


def command(roster: Roster, member: Member, gripper: str, seq: int, verb: Verb = Verb.MOVE) -> None:
    """A whole command; seq: 0 where it was refused."""
    roster.begun(member, gripper)
    roster.answered(member, gripper, verb, seq)


def pair() -> tuple[Roster, Member, Member]:
    roster = Roster()
    first, second = roster.join(Peer("unix", user="1000", pid=7), 10.0), roster.join(Peer("unix"), 11.0)
    roster.hello(first, STOP)
    return roster, first, second


def test_a_lost_client_stops_what_it_commanded_last_and_nothing_else() -> None:
    roster, first, second = pair()
    command(roster, first, "left", 1)
    command(roster, first, "right", 1)
    command(roster, second, "right", 2)
    assert roster.leave(first) == ["left"]


def test_a_command_that_was_refused_changes_nothing() -> None:
    roster, first, second = pair()
    command(roster, first, "left", 1)
    command(roster, second, "left", 0)
    assert roster.leave(first) == ["left"]


def test_a_command_under_way_counts_and_a_late_answer_of_an_earlier_one_does_not() -> None:
    roster, first, second = pair()
    roster.begun(first, "left")
    assert roster.miss(first) == ["left"]
    roster.answered(first, "left", Verb.GRIP, 0)
    assert roster.miss(first) == []
    roster.begun(first, "right")
    command(roster, second, "right", 2)
    roster.answered(first, "right", Verb.GRIP, 1)
    assert roster.leave(first) == []


def test_a_stop_of_another_client_takes_the_gripper_over() -> None:
    roster, first, second = pair()
    command(roster, first, "left", 1)
    command(roster, second, "left", 2, Verb.STOP)
    assert roster.leave(first) == []


def test_who_asked_for_nothing_stops_nothing() -> None:
    roster, _, second = pair()
    command(roster, second, "left", 1)
    assert roster.leave(second) == []


def test_the_right_to_command_alone() -> None:
    roster, first, second = pair()
    assert roster.acquire(first, "left") == ""
    assert roster.acquire(first, "left") == "", "again is no error"
    assert "client 1 'pick' of user 1000 (pid 7) holds" in roster.refusal(second, "left")
    assert roster.refusal(second, "right") == ""
    assert "holds" in roster.acquire(second, "left")
    assert "not this client" in roster.release(second, "left")
    assert roster.refusal(first, "left") == ""
    assert roster.release(first, "left") == ""
    assert roster.release(first, "left") == "", "what nobody holds is no error"
    assert roster.refusal(second, "left") == ""


def test_a_right_ends_with_its_client_and_with_an_overdue_heartbeat() -> None:
    roster, first, second = pair()
    roster.acquire(first, "left")
    roster.miss(first)
    assert roster.refusal(second, "left") == ""
    assert "overdue" in roster.refusal(first, "left")
    assert "overdue" in roster.acquire(first, "left")
    roster.beat(first)
    assert roster.refusal(first, "left") == ""
    assert roster.acquire(first, "left") == ""
    roster.leave(first)
    assert roster.refusal(second, "left") == ""


def test_a_client_that_may_only_observe_gets_the_rule() -> None:
    roster = Roster()
    member = roster.join(Peer("unix", observe_only="the rule"), 0.0)
    assert roster.refusal(member, "left") == "the rule"
    assert roster.acquire(member, "left") == "the rule"


def test_a_beat_before_a_hello_says_what_to_do() -> None:
    roster, _, second = pair()
    with pytest.raises(InvalidParamsError, match=r"client\.hello"):
        roster.beat(second)


@pytest.mark.parametrize("given_s", [-1.0, 0.049, 3600.1, float("inf"), float("nan")])
def test_a_heartbeat_outside_its_range_is_refused_with_the_range(given_s: float) -> None:
    roster, first, _ = pair()
    with pytest.raises(InvalidParamsError, match=r"0\.05 to 3600 s, or 0"):
        roster.hello(first, Hello(heartbeat_s=given_s))
    assert first.heartbeat_s == 1.0, "the hello before it still holds"


def test_the_list_tells_who_is_there_and_who_commanded_last() -> None:
    roster, first, second = pair()
    roster.acquire(first, "left")
    command(roster, first, "left", 4)
    command(roster, second, "right", 2, Verb.GRIP)
    roster.leave(second)
    told = roster.told(12.5)
    [entry] = told.clients
    assert (entry.client, entry.name, entry.user, entry.pid) == (1, "pick", "1000", 7)
    assert (entry.connected_s, entry.heartbeat_s, entry.on_disconnect) == (2.5, 1.0, OnDisconnect.STOP)
    assert (entry.holds, entry.commanded_last, entry.may_command) == (["left"], ["left"], True)
    left, right = told.last_commands
    assert (left.gripper, left.client, left.verb, left.command_seq, left.connected) == ("left", 1, "move", 4, True)
    assert (right.gripper, right.client, right.verb, right.connected) == ("right", 2, "grip", False)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["acquire", "release", "command", "leave", "miss", "beat"])))
)
def test_at_most_one_holds_and_only_the_holder_commands(steps: list[tuple[int, str]]) -> None:
    """Against the plainest model: one variable for the holder, and sets for who is gone or overdue."""
    roster = Roster()
    members = [roster.join(Peer("unix"), 0.0) for _ in range(3)]
    for member in members:
        roster.hello(member, STOP)
    holder: int | None = None
    gone: set[int] = set()
    overdue: set[int] = set()
    for who, what in steps:
        member = members[who]
        if who in gone:
            continue
        may = who not in overdue and holder in (None, who)
        if what == "acquire":
            assert (roster.acquire(member, "left") == "") == may
            holder = who if may else holder
        elif what == "release":
            assert (roster.release(member, "left") == "") == (holder in (None, who))
            holder = None if holder == who else holder
        elif what == "command":
            assert (roster.refusal(member, "left") == "") == may
        elif what == "beat":
            roster.beat(member)
            overdue.discard(who)
        else:
            holder = None if holder == who else holder
            if what == "leave":
                roster.leave(member)
                gone.add(who)
            else:
                roster.miss(member)
                overdue.add(who)
        holds = {each.client - 1 for each in roster.told(0.0).clients if each.holds}
        assert holds == ({holder} if holder is not None else set())
