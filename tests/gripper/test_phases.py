"""The table of command phases: what is listed happens, what is not raises and changes nothing."""

from __future__ import annotations

import itertools

import pytest

from gripperd.contract import CommandOutcome, CommandPhase, Outcome, Verb
from gripperd.gripper.ledger import OUTCOMES_KEPT, Ledger, Record
from gripperd.gripper.phases import TRANSITIONS, CommandEvent, PhaseError, next_phase


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(CommandPhase, CommandEvent)))
def test_every_pair_is_listed_or_raises(phase: CommandPhase, event: CommandEvent) -> None:
    record = Record(1, Verb.MOVE, phase=phase)
    if (phase, event) in TRANSITIONS:
        record.happen(event)
        assert record.phase is TRANSITIONS[phase, event]
    else:
        with pytest.raises(PhaseError):
            record.happen(event)
        assert record.phase is phase


def test_a_command_that_has_ended_cannot_end_again() -> None:
    with pytest.raises(PhaseError):
        next_phase(CommandPhase.DONE, CommandEvent.ENDED)


def _ledger() -> tuple[Ledger, list[CommandOutcome]]:
    told: list[CommandOutcome] = []
    return Ledger("left", told.append), told


def test_outcomes_are_told_once_and_the_last_ones_remembered() -> None:
    ledger, told = _ledger()
    records = [ledger.number(Verb.MOVE) for _ in range(OUTCOMES_KEPT + 10)]
    for record in records:
        ledger.begin(record)
        ledger.finish(record, Outcome.REACHED)
    assert [outcome.command_seq for outcome in told] == list(range(1, OUTCOMES_KEPT + 11))
    assert ledger.outcome(10) is None
    assert ledger.outcome(11) is not None
    with pytest.raises(PhaseError):
        ledger.finish(records[-1], Outcome.REACHED)


def test_a_replaced_command_waits_for_the_dispatch_of_the_one_that_replaces_it() -> None:
    ledger, told = _ledger()
    old, new = ledger.number(Verb.MOVE), ledger.number(Verb.GRIP)
    ledger.begin(old)
    ledger.begin(new)
    assert not told
    assert ledger.replaced() == [old]
    assert ledger.replaced() == []


def test_a_command_that_the_device_refuses_gives_way_to_the_one_before() -> None:
    ledger, _ = _ledger()
    old, new = ledger.number(Verb.MOVE), ledger.number(Verb.GRIP)
    ledger.begin(old)
    ledger.begin(new)
    ledger.finish(new, Outcome.FAULT)
    ledger.restore(new)
    assert ledger.current is old
    assert old.open


def test_a_command_that_the_device_refuses_never_gives_way_to_one_that_ended() -> None:
    """Two stops that were merged, the older one still listed as replaced; found by the torture test."""
    ledger, _ = _ledger()
    older, newer, first, second = (ledger.number(verb) for verb in (Verb.STOP, Verb.STOP, Verb.GRIP, Verb.GRIP))
    for record in (older, newer, first):
        ledger.begin(record)
    ledger.finish(first, Outcome.FAULT)
    ledger.restore(first)
    assert ledger.current is newer
    ledger.finish(older, Outcome.STOPPED)
    ledger.finish(newer, Outcome.STOPPED)
    ledger.begin(second)
    ledger.finish(second, Outcome.FAULT)
    ledger.restore(second)
    assert ledger.current is second


def test_who_waits_is_told_and_who_leaves_is_not() -> None:
    ledger, _ = _ledger()
    record = ledger.number(Verb.MOVE)
    told: list[CommandOutcome] = []
    left: list[CommandOutcome] = []
    assert ledger.await_outcome(record.seq, told.append)
    assert ledger.await_outcome(record.seq, left.append)
    ledger.cancel_wait(record.seq, left.append)
    ledger.begin(record)
    ledger.finish(record, Outcome.CONTACT)
    assert [outcome.outcome for outcome in told] == [Outcome.CONTACT]
    assert not left
    assert not ledger.await_outcome(record.seq, told.append)


def test_what_has_its_outcome_already_waits_for_nothing() -> None:
    ledger, told = _ledger()
    old, new = ledger.number(Verb.GRIP), ledger.number(Verb.ACTIVATE)
    ledger.begin(old)
    ledger.begin(new)
    ledger.finish(old, Outcome.CONTACT)
    assert ledger.replaced() == []
    assert [outcome.command_seq for outcome in told] == [old.seq]
