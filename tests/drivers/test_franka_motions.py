"""Motions of a supervised hand: what its answers and states become. Rows are those of docs/franka-hand.md."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Code, GraspState, MotionState, Outcome
from gripperd.contract.requests import Deactivate, Grip, Move, Open
from gripperd.drivers.franka_hand.wire import Command, GraspRequest, MoveRequest, Status
from tests.support.hand_rig import HandRig, ScriptedHand
from tests.support.virtual_time import run_virtual

MOVE, GRASP, STOP = Command.MOVE, Command.GRASP, Command.STOP


def test_a_move_is_executing_while_the_width_changes_and_reached_with_the_answer() -> None:
    """Rows 6, 23: the answer comes when the motion has ended; the reply does not wait for it."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            asked_s = rig.now_s()
            reply = await rig.reply(Move(opening_width_m=0.04, relative_speed=0.5))
            assert rig.now_s() - asked_s < 0.01
            assert MoveRequest.decode(rig.hand.sent[-1].data[10:]) == MoveRequest(0.04, 0.05)
            await asyncio.sleep(0.2)
            assert (rig.state.command_phase, rig.state.motion_state) == ("pending", MotionState.UNKNOWN)
            rig.hand.width_m = 0.06
            await rig.until(lambda: rig.state.command_phase == "executing")
            assert rig.state.motion_state is MotionState.MOVING
            rig.hand.width_m = 0.04
            rig.hand.answer()
            outcome = await rig.outcome(reply)
            assert (outcome.outcome, outcome.opening_width_m) == (Outcome.REACHED, 0.04)
            await rig.until(lambda: rig.state.motion_state is MotionState.STOPPED)

    run_virtual(main())


def test_a_move_that_is_stuck_ends_stalled_within_three_seconds_and_is_stopped() -> None:
    """Rows 1, 7, 8, 9: the hand itself answers after minutes."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.0))
            await asyncio.sleep(0.3)
            rig.hand.width_m = 0.05
            stuck_s = rig.now_s()
            outcome = await rig.outcome(reply)
            assert outcome.outcome is Outcome.STALLED
            assert "was told to stop" in outcome.message
            assert rig.now_s() - stuck_s < 3.0
            await asyncio.sleep(0.5)
            assert rig.hand.commands() == [MOVE, STOP]
            assert not rig.hand.pending

    run_virtual(main())


def test_a_command_that_takes_its_second_at_the_target_is_not_stalled() -> None:
    """Row 6: a second even where nothing has to move."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Open())
            await asyncio.sleep(4.0)
            assert not rig.outcomes
            rig.hand.answer()
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED

    run_virtual(main())


def test_a_grip_uses_a_band_that_takes_every_width_and_closes_from_anywhere() -> None:
    """Rows 11, 12, 13, 14, 17, 20: outside of its band the hand lets go; the width is judged here."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            outcome = await rig.moved(Grip(relative_effort=1.0, relative_speed=1.0), 0.03, grasped=True)
            assert GraspRequest.decode(rig.hand.sent[-1].data[10:]) == GraspRequest(0.0, 0.005, 0.08, 0.1, 70.0)
            assert (outcome.outcome, outcome.grasp_state) == (Outcome.CONTACT, GraspState.HOLDING)
            assert outcome.opening_width_m == 0.03

    run_virtual(main())


def test_a_grip_on_nothing_is_closed_empty_though_the_hand_calls_it_a_success() -> None:
    """Row 17; contract, section 1.5: at the closed end the flag tells nothing."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            outcome = await rig.moved(Grip(), 0.0005, grasped=True)
            assert (outcome.outcome, outcome.grasp_state) == (Outcome.CLOSED_EMPTY, GraspState.UNKNOWN)

    run_virtual(main())


def test_a_grip_that_meets_another_width_is_a_mismatch_and_still_holds() -> None:
    """Rows 12, 13."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            grip = Grip(expected_object_width_valid=True, expected_object_width_m=0.05)
            outcome = await rig.moved(grip, 0.03, grasped=True)
            assert (outcome.outcome, outcome.grasp_state) == (Outcome.WIDTH_MISMATCH, GraspState.HOLDING)

    run_virtual(main())


def test_a_second_grip_while_holding_sends_nothing_and_lets_nothing_go() -> None:
    """Rows 15, 16: the hand refuses a second grasp."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.moved(Grip(), 0.03, grasped=True)
            outcome = await rig.outcome(await rig.reply(Grip()))
            assert (outcome.outcome, outcome.grasp_state) == (Outcome.CONTACT, GraspState.HOLDING)
            assert outcome.opening_width_m == 0.03
            reply = await rig.reply(Grip(relative_effort=1.0))
            assert reply.code is Code.NOT_SUPPORTED
            assert "open, move or stop first" in reply.message
            assert rig.hand.commands() == [GRASP]

    run_virtual(main())


def test_opening_after_a_grasp_stops_first() -> None:
    """Row 10: without a stop the hand does not reopen."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.moved(Grip(), 0.03, grasped=True)
            outcome = await rig.moved(Open(), 0.0795)
            assert outcome.outcome is Outcome.REACHED
            assert rig.hand.commands() == [GRASP, STOP, MOVE]
            assert MoveRequest.decode(rig.hand.sent[-1].data[10:]).width_m == pytest.approx(0.0795)

    run_virtual(main())


def test_a_newer_command_stops_the_one_that_is_pending_and_follows_it() -> None:
    """Rows 9, 18: a hand ignores what comes while a motion is pending, or aborts both."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            first = await rig.reply(Move(opening_width_m=0.0))
            await asyncio.sleep(0.2)
            rig.hand.width_m = 0.06
            await asyncio.sleep(0.2)
            outcome = await rig.moved(Move(opening_width_m=0.07), 0.07)
            assert outcome.outcome is Outcome.REACHED
            assert (await rig.outcome(first)).outcome is Outcome.SUPERSEDED
            assert rig.hand.commands() == [MOVE, STOP, MOVE]

    run_virtual(main())


def test_the_same_command_again_goes_on_without_a_stop() -> None:
    """Row 18: a loop that sends its target in every cycle."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            replies = []
            for _ in range(5):
                replies.append(await rig.reply(Move(opening_width_m=0.02)))
                await asyncio.sleep(0.1)
            rig.hand.width_m = 0.02
            rig.hand.answer()
            outcomes = [(await rig.outcome(reply)).outcome for reply in replies]
            assert outcomes == [*[Outcome.SUPERSEDED] * 4, Outcome.REACHED]
            assert rig.hand.commands() == [MOVE]

    run_virtual(main())


@pytest.mark.parametrize(
    ("status", "outcome", "told"),
    [
        (Status.FAIL, Outcome.FAULT, "kFail"),
        (Status.ABORTED, Outcome.FAULT, "another client or Desk"),
        (Status.UNSUCCESSFUL, Outcome.STALLED, "kUnsuccessful"),
    ],
)
def test_each_answer_has_its_outcome(status: Status, outcome: Outcome, told: str) -> None:
    """Rows 18, 20, 31."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.02))
            await asyncio.sleep(0.2)
            rig.hand.answer(status=status)
            ended = await rig.outcome(reply)
            assert ended.outcome is outcome
            assert told in ended.message

    run_virtual(main())


def test_an_answer_that_the_protocol_does_not_know_ends_the_connection() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.02))
            await asyncio.sleep(0.2)
            rig.hand.answer(status=9)
            ended = await rig.outcome(reply)
            assert ended.outcome is Outcome.LINK_LOST
            assert "status 9 is not known" in ended.message

    run_virtual(main())


def test_what_a_hand_does_not_have_is_refused() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Deactivate())
            assert reply.code is Code.NOT_SUPPORTED
            reply = await rig.reply(Move(opening_width_m=0.2))
            assert (reply.code, "0 to 0.08 m" in reply.message) == (Code.UNREACHABLE_WIDTH, True)
            reply = await rig.reply(Move(opening_width_m=float("nan")))
            assert reply.code is Code.INVALID_ARGUMENT
            assert not rig.hand.commands()

    run_virtual(main())


def test_states_that_lag_behind_the_answer_are_given_time() -> None:
    """How fresh the width in a datagram is, is not known; an answer must not be contradicted by an older state."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.04))
            await asyncio.sleep(0.3)
            rig.hand.answer()
            await asyncio.sleep(0.15)
            rig.hand.width_m = 0.04
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            reply = await rig.reply(Grip())
            await asyncio.sleep(0.3)
            rig.hand.width_m = 0.03
            rig.hand.answer()
            await asyncio.sleep(0.15)
            rig.hand.grasped = True
            outcome = await rig.outcome(reply)
            assert (outcome.outcome, outcome.grasp_state) == (Outcome.CONTACT, GraspState.HOLDING)

    run_virtual(main())


def test_a_success_that_the_width_contradicts_is_not_called_reached() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            reply = await rig.reply(Move(opening_width_m=0.04))
            await asyncio.sleep(0.3)
            rig.hand.answer()
            outcome = await rig.outcome(reply)
            assert outcome.outcome is Outcome.STALLED
            assert "reports success, and its width is 0.0800 m" in outcome.message

    run_virtual(main())


def test_a_slow_motion_is_moving_in_every_state() -> None:
    """Two datagrams 12 ms apart show nearly the same width."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.reply(Move(opening_width_m=0.0, relative_speed=0.1))
            for _ in range(200):
                rig.hand.width_m -= 0.00005
                await asyncio.sleep(0.005)
            states = [state.motion_state for state in rig.states if state.command_phase == "executing"]
            assert len(states) > 12
            assert set(states) == {MotionState.MOVING}

    run_virtual(main())


def test_the_same_move_behind_a_stop_that_was_ignored_does_not_count_as_going_on() -> None:
    """Rows 3, 9: it must be stopped first, since the hand ignores what comes while a motion is pending."""

    async def main() -> None:
        async with HandRig(ScriptedHand(obeys_stop=False)) as rig:
            await rig.up()
            await rig.reply(Move(opening_width_m=0.0))
            reply = await rig.stop()
            assert not reply.ok
            rig.hand.obeys_stop = True
            await rig.until(lambda: not rig.hand.pending)
            begin = len(rig.hand.commands())
            rig.hand.obeys_stop = False
            await rig.reply(Move(opening_width_m=0.0))
            stopping = asyncio.create_task(rig.stop())
            await asyncio.sleep(0.05)
            again = asyncio.create_task(rig.reply(Move(opening_width_m=0.0)))
            await asyncio.sleep(0.3)
            rig.hand.obeys_stop = True
            await stopping
            assert (await again).ok
            await asyncio.sleep(0.01)
            sent = rig.hand.commands()[begin:]
            assert sent[-1] is MOVE
            assert sent[-2] is STOP
            assert len(rig.hand.pending) == 1

    run_virtual(main())
