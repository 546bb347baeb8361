"""A supervised hand: what its answers and states become, and how its own behaviours are met.

Names of rows are those of the users' problems in docs/franka-hand.md.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gripperd.contract import Activation, Code, GraspState, Link, MotionState, Outcome
from gripperd.contract.requests import Activate, Deactivate, Grip, Move, Open
from gripperd.drivers.franka_hand.wire import Command, GraspRequest, MoveRequest, Status
from tests.support.hand_rig import HandRig, ScriptedHand
from tests.support.virtual_time import run_virtual

MOVE, GRASP, STOP, HOMING = Command.MOVE, Command.GRASP, Command.STOP, Command.HOMING


def test_states_come_as_the_datagrams_do_with_their_arrival_as_stamp() -> None:
    """Rows 21, 22: 15 Hz at most, and none of them twice; nobody waits for one."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            begin = len(rig.states)
            await asyncio.sleep(2.0)
            states = rig.states[begin:]
            assert len(states) == pytest.approx(30, abs=1)
            assert all(state.opening_width_valid for state in states)
            stamps = [state.stamp.to_ns() for state in states]
            assert stamps == sorted(set(stamps))
            assert {round((b - a) / 1e6) for a, b in pairwise(stamps)} == {12, 88, 100}
            assert states[-1].motion_state is MotionState.STOPPED
            assert states[-1].readings is not None
            assert states[-1].readings.temperature_c == 30.0
            assert not rig.hand.commands(), "reading sends nothing"

    run_virtual(main())


def test_a_missing_datagram_is_an_invalid_state_and_a_second_of_them_a_lost_link() -> None:
    """Rows 24, 25: TCP works and UDP does not."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            rig.hand.sends_states = False
            silent_s = rig.now_s()
            await rig.until(lambda: not rig.state.opening_width_valid)
            assert rig.now_s() - silent_s < 0.27
            assert rig.state.link is Link.UP
            await rig.until(lambda: rig.state.link is Link.DOWN)
            assert rig.now_s() - silent_s < 1.2
            reply = await rig.reply(Move(opening_width_m=0.01))
            assert reply.code is Code.LINK_DOWN
            rig.hand.sends_states = True
            await rig.up()
            assert rig.hand.connects == 2, "what is silent may be half open"
            assert not rig.hand.commands()

    run_virtual(main())


def test_udp_that_is_blocked_is_said_to_be() -> None:
    """Rows 24, 25."""

    async def main() -> None:
        async with HandRig(ScriptedHand(sends_states=False)) as rig:
            await asyncio.sleep(2.0)
            reply = await rig.reply(Open())
            assert reply.code is Code.LINK_DOWN
            assert "UDP from the robot blocked by a firewall" in reply.message

    run_virtual(main())


def test_a_hand_that_is_not_homed_is_inactive_and_has_no_range() -> None:
    """Row 19: max_width is 0."""

    async def main() -> None:
        async with HandRig(ScriptedHand(width_m=0.03, max_width_m=0.0)) as rig:
            await rig.up()
            assert rig.state.activation is Activation.INACTIVE
            assert not rig.state.opening_width_valid
            assert not rig.gripper.info().opening_width_range_valid
            for command in (Move(opening_width_m=0.01), Grip(), Open()):
                reply = await rig.reply(command)
                assert reply.code is Code.NOT_ACTIVE
                assert "activate first; that moves the jaws" in reply.message
            reply = await rig.stop()
            assert (reply.ok, reply.message) == (True, "not active: nothing to stop")
            assert not rig.hand.commands()
            reply = await rig.reply(Activate())
            assert "the jaws close and open fully" in reply.message
            await rig.until(lambda: rig.state.activation is Activation.ACTIVATING, 0.3)
            rig.hand.width_m = rig.hand.max_width_m = 0.08
            rig.hand.answer()
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            await rig.until(lambda: rig.state.activation is Activation.ACTIVE, 0.1)
            info = rig.gripper.info()
            assert (info.opening_width_range_valid, info.max_opening_width_m) == (True, 0.08)
            assert rig.hand.commands() == [HOMING]

    run_virtual(main())


def test_a_hand_that_is_homed_is_adopted_and_not_homed_again() -> None:
    """Rows 29, 32: a program that homes at its start drops what is held."""

    async def main() -> None:
        async with HandRig(ScriptedHand(width_m=0.03, grasped=True)) as rig:
            await rig.up()
            assert (rig.state.activation, rig.state.grasp_state) == (Activation.ACTIVE, GraspState.HOLDING)
            assert rig.state.activation_epoch == 1
            reply = await rig.reply(Activate())
            assert "the jaws do not move" in reply.message
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            assert not rig.hand.commands()

    run_virtual(main())


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


def test_a_connection_that_ends_ends_what_is_pending() -> None:
    """Section 1 of the facts: an orderly close leaves libfranka spinning for ever; row 26."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            moving = await rig.reply(Move(opening_width_m=0.0))
            assert rig.hand.receiver is not None
            ended_s = rig.now_s()
            rig.hand.receiver.ended("the hand closed the connection")
            outcome = await rig.outcome(moving)
            assert outcome.outcome is Outcome.LINK_LOST
            assert rig.now_s() - ended_s < 1.2
            await rig.until(lambda: rig.state.opening_width_valid)
            assert rig.hand.commands() == [MOVE], "no motion and no stop by a reconnect"

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


def test_a_lost_object_is_told_as_the_hand_tells_it() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.moved(Grip(), 0.03, grasped=True)
            rig.hand.grasped = False
            await rig.until(lambda: rig.state.grasp_state is GraspState.NOT_HOLDING)

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


def test_old_and_foreign_and_damaged_datagrams_do_not_count() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            rig.hand.sends_states = False
            await asyncio.sleep(0.05)
            rounds = len(rig.states)
            rig.hand.state(message_id=1)
            assert rig.hand.receiver is not None
            rig.hand.receiver.datagram(b"short")
            rig.hand.receiver.foreign()
            assert len(rig.states) == rounds
            counters = rig.driver.wire.statistics()
            assert (counters["old_datagrams"], counters["bad_datagrams"], counters["foreign_datagrams"]) == (1, 1, 1)

    run_virtual(main())


@pytest.mark.parametrize(
    ("hand", "told"),
    [
        (ScriptedHand(reachable=False), "no route"),
        (ScriptedHand(greets=False), "did not answer Connect within 1.0 s"),
        (ScriptedHand(version=2), "speaks version 2 of the gripper protocol, gripperd speaks 3"),
    ],
)
def test_why_a_hand_cannot_be_used_is_said(hand: ScriptedHand, told: str) -> None:
    """Row 26."""

    async def main() -> None:
        async with HandRig(hand) as rig:
            await asyncio.sleep(5.0)
            reply = await rig.reply(Open())
            assert reply.code is Code.LINK_DOWN
            assert told in reply.message

    run_virtual(main())


def test_tries_to_connect_get_rarer_and_never_end() -> None:
    async def main() -> None:
        async with HandRig(ScriptedHand(greets=False)) as rig:
            await asyncio.sleep(60.0)
            assert 38 <= rig.hand.connects <= 42
            rig.hand.greets = True
            await within_s(rig, 1.7)
            assert rig.hand.closed == rig.hand.connects - 1

    async def within_s(rig: HandRig, limit_s: float) -> None:
        begin_s = rig.now_s()
        await rig.up()
        assert rig.now_s() - begin_s < limit_s

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


def test_nothing_is_known_of_a_hand_whose_connection_was_lost() -> None:
    """It may be another one when it is back."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            assert rig.gripper.info().opening_width_range_valid
            rig.hand.reachable = False
            assert rig.hand.receiver is not None
            rig.hand.receiver.ended("reset")
            await asyncio.sleep(0.01)
            assert not rig.gripper.info().opening_width_range_valid
            assert not rig.state.opening_width_valid

    run_virtual(main())
