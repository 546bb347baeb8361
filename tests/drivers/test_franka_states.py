"""What a hand's datagrams become, and how its connection is kept. Rows are those of docs/franka-hand.md."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gripperd.contract import Activation, Code, GraspState, Link, MotionState, Outcome
from gripperd.contract.requests import Activate, Grip, Move, Open
from gripperd.drivers.franka_hand.wire import Command
from tests.support.hand_rig import HandRig, ScriptedHand
from tests.support.virtual_time import run_virtual

MOVE, HOMING = Command.MOVE, Command.HOMING


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
    """START 116, 121: Rows 29, 32: a program that homes at its start drops what is held."""

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


def test_a_lost_object_is_told_as_the_hand_tells_it() -> None:
    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            await rig.moved(Grip(), 0.03, grasped=True)
            rig.hand.grasped = False
            await rig.until(lambda: rig.state.grasp_state is GraspState.NOT_HOLDING)

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


@pytest.mark.parametrize(
    ("told_m", "width_m"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (108.0, None),
        (30.0, None),
        (-0.01, None),
        (0.0825, None),
        (-0.0004, 0.0),
        (0.0804, 0.0804),
        (0.03, 0.03),
    ],
)
def test_a_width_that_no_hand_can_have_is_invalid(told_m: float, width_m: float | None) -> None:
    """UNITS 73: millimetres, radians, or noise in place of metres."""

    async def main() -> None:
        async with HandRig() as rig:
            await rig.up()
            rig.hand.width_m = told_m
            await asyncio.sleep(0.5)
            assert rig.state.link is Link.UP
            assert rig.state.opening_width_valid is (width_m is not None)
            assert rig.state.opening_width_m == pytest.approx(width_m or 0.0)

    run_virtual(main())
