"""Stops on a line that loses replies, or a device: repeated until acknowledged, first when the link is back."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Activation, Code, Link, MotionState, Outcome
from gripperd.contract.requests import Move, Open
from gripperd_sim.history import Kind
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual

STOP_FRAME = bytes.fromhex("091003e800010200012478")


def _silent(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
    return []


def _no_acks(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
    return [(0.0, reply)] if reply is not None and request[1] != 0x10 else []


def test_a_stop_that_is_not_acknowledged_is_repeated_and_answered_not_confirmed() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.05))
            await asyncio.sleep(0.2)
            rig.line.fault = _no_acks
            asked_s = rig.now_s()
            reply = await rig.stop()
            assert (reply.ok, reply.code) == (False, Code.NOT_CONFIRMED)
            assert rig.now_s() - asked_s == pytest.approx(1.0, abs=0.01)
            assert reply.command_seq
            assert (await rig.outcome(reply)).outcome in (Outcome.UNCONFIRMED, Outcome.STOPPED)
            frames = [each.frame for each in rig.line.seen if each.t_s >= asked_s and each.frame[1] == 0x10]
            assert len(frames) >= 5, "it is repeated"
            rig.line.fault = None
            repeated = len(rig.line.seen)
            await asyncio.sleep(1.0)
            assert any(each.frame[1] == 0x10 for each in rig.line.seen[repeated:]), "until it is acknowledged"
            settled = len([each for each in rig.line.seen if each.frame[1] == 0x10])
            await asyncio.sleep(1.0)
            assert len([each for each in rig.line.seen if each.frame[1] == 0x10]) == settled

    run_virtual(scenario())


def test_a_lost_acknowledgement_costs_a_repetition_and_nothing_else() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            moving = await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.2)
            losses = [True]

            def lose_one(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                if request[1] == 0x10 and losses:
                    losses.pop()
                    return []
                return [(0.0, reply)] if reply is not None else []

            rig.line.fault = lose_one
            reply = await rig.stop()
            assert reply.ok
            assert (await rig.outcome(moving)).outcome is Outcome.STOPPED
            assert (await rig.outcome(reply)).outcome is Outcome.STOPPED

    run_virtual(scenario())


def test_a_stop_while_the_link_is_down_comes_first_when_it_returns_after_a_read() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            moving = await rig.reply(Move(opening_width_m=0.075, relative_speed=0.01))
            rig.line.unplug()
            await rig.until(lambda: rig.state.link is Link.DOWN)
            assert (await rig.outcome(moving)).outcome is Outcome.LINK_LOST
            reply = await rig.stop()
            assert reply.code is Code.NOT_CONFIRMED
            assert (await rig.outcome(reply)).outcome is Outcome.UNCONFIRMED
            seen = len(rig.line.seen)
            rig.line.plugged = True
            await rig.until(lambda: rig.state.link is Link.UP)
            await asyncio.sleep(0.1)
            frames = [each.frame for each in rig.line.seen[seen:]]
            assert frames[0][1] in (0x03, 0x04), "the status is read first"
            assert frames[1] == STOP_FRAME
            await rig.until(lambda: rig.state.motion_state is MotionState.STOPPED)

    run_virtual(scenario())


def test_a_stop_that_waited_too_long_for_the_link_is_forgotten() -> None:
    """After its lifetime it would be a stop that nobody asked for."""

    async def scenario() -> None:
        async with Rig(stop_lifetime_s=5.0) as rig:
            await rig.activate()
            rig.line.unplug()
            await rig.until(lambda: rig.state.link is Link.DOWN)
            await rig.stop()
            await asyncio.sleep(6.0)
            written = len(rig.writes())
            rig.line.plugged = True
            await rig.until(lambda: rig.state.link is Link.UP)
            await asyncio.sleep(1.0)
            assert len(rig.writes()) == written
            assert (await rig.reply(Open())).ok

    run_virtual(scenario())


def test_a_stop_for_a_device_that_came_back_inactive_is_not_written() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.unplug()
            await rig.until(lambda: rig.state.link is Link.DOWN)
            await rig.stop()
            rig.device.power_cycle(rig.now_s(), off_s=0.1)
            await asyncio.sleep(0.2)
            written = len(rig.writes())
            rig.line.plugged = True
            await rig.until(lambda: rig.state.activation is Activation.INACTIVE)
            await asyncio.sleep(1.0)
            assert len(rig.writes()) == written
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


def test_a_command_whose_acknowledgement_was_lost_is_not_sent_again_after_a_stop() -> None:
    """The retry is fenced too: the device's own history shows no motion word behind the stop."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = _no_acks
            moving = rig.gripper.command(Move(opening_width_m=0.075))
            await asyncio.sleep(0.05)
            rig.line.fault = None
            stop = rig.gripper.stop()
            assert (await stop).ok
            reply = await moving
            assert reply.code is Code.NOT_CONFIRMED
            await asyncio.sleep(0.5)
            words = [each.fields["values"][0] for each in rig.device.history.of(Kind.WRITE)]
            assert words[-1] == 0x0001
            assert (await rig.outcome(reply)).outcome is Outcome.STOPPED

    run_virtual(scenario())


def test_a_silent_device_keeps_the_stop_waiting_for_one_reply_time_only() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = _silent
            await asyncio.sleep(0.03)
            seen, asked_s = len(rig.line.seen), rig.now_s()
            stop = rig.gripper.stop()
            await asyncio.sleep(0.15)
            frames = [each for each in rig.line.seen[seen:] if each.frame == STOP_FRAME]
            assert frames
            assert frames[0].t_s - asked_s < 0.11
            assert not stop.done()

    run_virtual(scenario())


def test_lost_acknowledgements_of_earlier_stops_do_not_make_later_ones_unconfirmed() -> None:
    """Two shapes of the stop are owed; of more acknowledgements than that one is its own."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            lose = [0]

            def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                if reply is not None and request[1] == 0x10 and lose[0]:
                    lose[0] -= 1
                    return []
                return [(0.0, reply)] if reply is not None else []

            rig.line.fault = fault
            for round_, lost in enumerate([1, 1, 0, 0, 1, 0]):
                await rig.reply(Move(opening_width_m=0.075 * (round_ % 2), relative_speed=0.3))
                await asyncio.sleep(0.2)
                lose[0] = lost
                stop = await rig.stop()
                assert stop.ok, (round_, stop)
                assert (await rig.outcome(stop)).outcome is Outcome.STOPPED
                await asyncio.sleep(0.3)

    run_virtual(scenario())
