"""Stops of a hand that obeys, and of one that does not. Rows are those of docs/franka-hand.md."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Code, MotionState, Outcome
from gripperd.contract.requests import Move
from gripperd.drivers.franka_hand.wire import Command
from tests.support.hand_rig import HandRig, ScriptedHand
from tests.support.virtual_time import run_virtual

MOVE, STOP = Command.MOVE, Command.STOP


def test_a_stalled_move_is_stopped_again_until_the_hand_obeys_but_not_for_ever() -> None:
    """Rows 2, 3, 4: a stop that is ignored."""

    async def main() -> None:
        async with HandRig(ScriptedHand(obeys_stop=False)) as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.0))
            assert (await rig.outcome(reply)).outcome is Outcome.STALLED
            await asyncio.sleep(20.0)
            assert rig.hand.commands() == [MOVE, *[STOP] * 20]

    run_virtual(main())


def test_a_stop_goes_out_at_once_and_is_confirmed_by_the_aborted_answer() -> None:
    """Rows 1, 2, 5."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            moving = await rig.reply(Move(opening_width_m=0.0))
            await asyncio.sleep(0.33)
            rig.hand.width_m = 0.05
            asked_s = rig.now_s()
            reply = await rig.stop()
            assert reply.ok
            assert rig.now_s() - asked_s < 0.001
            assert (await rig.outcome(moving)).outcome is Outcome.STOPPED
            stopped = await rig.outcome(reply)
            assert (stopped.outcome, stopped.opening_width_m) == (Outcome.STOPPED, 0.05)
            assert rig.state.motion_state is MotionState.STOPPED
            assert rig.hand.commands() == [MOVE, STOP]

    run_virtual(main())


def test_a_stop_that_is_ignored_is_repeated_and_not_confirmed() -> None:
    """Rows 3, 4, 30."""

    async def main() -> None:
        async with HandRig(ScriptedHand(obeys_stop=False)) as rig:
            await rig.up()
            moving = await rig.reply(Move(opening_width_m=0.0))
            reply = await rig.stop()
            assert (reply.ok, reply.code) == (False, Code.NOT_CONFIRMED)
            assert rig.hand.commands().count(STOP) >= 3
            assert (await rig.outcome(reply)).outcome is Outcome.UNCONFIRMED
            rig.hand.obeys_stop = True
            assert (await rig.outcome(moving)).outcome is Outcome.STOPPED
            stops = rig.hand.commands().count(STOP)
            await asyncio.sleep(3.0)
            assert rig.hand.commands().count(STOP) == stops, "it is over once it was obeyed"

    run_virtual(main())


def test_a_stop_that_is_answered_while_the_motion_goes_on_is_not_confirmed() -> None:
    """Row 3: the answer of the stop alone proves nothing."""

    async def main() -> None:
        async with HandRig(ScriptedHand(obeys_stop=False)) as rig:
            await rig.up()
            await rig.reply(Move(opening_width_m=0.0))
            asking = asyncio.create_task(rig.stop())
            await asyncio.sleep(0.01)
            rig.hand.answer(rig.hand.sent[-1])
            assert (await asking).code is Code.NOT_CONFIRMED

    run_virtual(main())


def test_a_stop_goes_out_over_tcp_when_udp_is_blocked() -> None:
    """Row 24."""

    async def main() -> None:
        async with HandRig(ScriptedHand(sends_states=False)) as rig:
            await asyncio.sleep(1.5)
            reply = await rig.stop()
            assert reply.ok
            assert rig.hand.commands() == [STOP]

    run_virtual(main())


def test_a_stop_while_the_hand_is_unreachable_goes_out_when_it_is_back() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            rig.hand.reachable = False
            assert rig.hand.receiver is not None
            rig.hand.receiver.ended("reset")
            reply = await rig.stop()
            assert reply.code is Code.NOT_CONFIRMED
            rig.hand.reachable = True
            await rig.up()
            await asyncio.sleep(0.1)
            assert rig.hand.commands() == [STOP]

    run_virtual(main())


def test_a_stop_ends_with_a_standstill_not_with_its_answer() -> None:
    """Row 3: the fingers can go on for a while."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.reply(Move(opening_width_m=0.0))
            await asyncio.sleep(0.3)
            rig.hand.width_m = 0.05
            reply = await rig.stop()
            assert reply.ok
            for _ in range(50):
                rig.hand.width_m -= 0.0002
                await asyncio.sleep(0.01)
                assert rig.gripper.ledger.outcome(reply.command_seq) is None
            outcome = await rig.outcome(reply)
            assert (outcome.outcome, round(outcome.opening_width_m, 4)) == (Outcome.STOPPED, 0.04)

    run_virtual(main())


@pytest.mark.parametrize("after_s", [0.0, 0.00005, 0.0002, 0.05, 0.3])
def test_no_motion_that_was_accepted_before_a_stop_reaches_the_hand_after_it(after_s: float) -> None:
    """Whether it waits in the queue, for the stop before it, or for a state."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            first = await rig.reply(Move(opening_width_m=0.0))
            queued = [rig.gripper.command(Move(opening_width_m=0.01 * n)) for n in range(1, 6)]
            await asyncio.sleep(after_s)
            stop = rig.gripper.stop()
            sent = len(rig.hand.sent)
            assert (await stop).ok
            await asyncio.sleep(1.0)
            assert {each.command for each in rig.hand.sent[sent:]} <= {STOP}
            replies = [await each for each in queued]
            for reply in (first, *(each for each in replies if each.command_seq)):
                assert (await rig.outcome(reply)).outcome in (Outcome.STOPPED, Outcome.SUPERSEDED)
            assert all(each.code is Code.FENCED for each in replies if not each.command_seq)

    run_virtual(main())


def test_a_thousand_stops_are_answered_and_have_one_outcome_each() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.reply(Move(opening_width_m=0.0))
            stops = [rig.gripper.stop() for _ in range(1000)]
            replies = [await each for each in stops]
            assert all(reply.ok for reply in replies)
            await asyncio.sleep(2.0)
            told = [outcome.command_seq for outcome in rig.outcomes]
            assert len(told) == len(set(told))
            assert set(told) >= {reply.command_seq for reply in replies}

    run_virtual(main())
