"""Stop: next on the wire, never moves, repeated until acknowledged, and nothing older passes it."""

from __future__ import annotations

import asyncio
import sys
from typing import Literal

import pytest

from gripperd.contract import Activation, Code, CommandPhase, CommandReply, GraspState, Link, MotionState, Outcome
from gripperd.contract.requests import Activate, Deactivate, Grip, Move, Open, Release
from gripperd_sim.rg75 import Rg75Options
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual

STOP_FRAME = bytes.fromhex("091003e800010200012478")


def test_a_stop_in_mid_motion_is_acknowledged_and_ends_both() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            moving = await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.2)
            asked_s = rig.now_s()
            stop = await rig.stop()
            assert stop.ok
            assert rig.now_s() - asked_s < 0.007, "one transaction in flight, and its own"
            assert (await rig.outcome(moving)).outcome is Outcome.STOPPED
            outcome = await rig.outcome(stop)
            assert outcome.outcome is Outcome.STOPPED
            assert 0.0 < outcome.opening_width_m < 0.075
            assert rig.state.motion_state is MotionState.STOPPED
            assert rig.state.command_seq == stop.command_seq

    run_virtual(scenario())


def test_a_stop_with_fifty_commands_and_polls_queued_is_the_next_frame() -> None:
    """STOP 31, 34: everything that was queued is answered `fenced`, and never reaches the wire."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=1000.0, moving_poll_rate_hz=1000.0) as rig:
            await rig.activate()
            queued = [rig.gripper.command(Move(opening_width_m=0.001 * n)) for n in range(1, 51)]
            await asyncio.sleep(0.0)
            seen = len(rig.line.seen)
            stop = rig.gripper.stop()
            reply = await stop
            frames = [seen.frame for seen in rig.line.seen[seen:]]
            assert STOP_FRAME in frames[:1]
            codes = [each.code for each in await asyncio.gather(*queued)]
            assert codes.count(Code.FENCED) >= 49
            assert reply.ok
            await asyncio.sleep(1.0)
            later = rig.line.seen[seen:]
            assert [each.frame for each in later if each.frame[1] == 0x10] == [STOP_FRAME]
            assert all(outcome.command_seq <= reply.command_seq for outcome in rig.outcomes)

    run_virtual(scenario())


def test_a_stop_never_waits_for_more_than_the_transaction_in_flight() -> None:
    async def scenario() -> None:
        async with Rig(poll_rate_hz=1000.0, moving_poll_rate_hz=1000.0) as rig:
            await rig.activate()
            for n in range(200):
                await asyncio.sleep(0.000_137 * n)
                asked_s, seen = rig.now_s(), len(rig.line.seen)
                reply = await rig.stop()
                assert reply.ok
                first = next(each for each in rig.line.seen[seen:] if each.frame == STOP_FRAME)
                assert first.t_s - asked_s < 0.0036, "a read of four registers takes 2.8 ms, and the gap 0.3 ms"

    run_virtual(scenario())


def test_a_stop_of_an_inactive_gripper_writes_nothing() -> None:
    """Contract 8.1: the word that stops would enable it, and start its sweep."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            reply = await rig.stop()
            assert (reply.ok, reply.message) == (True, "not active: nothing to stop")
            assert (await rig.outcome(reply)).outcome is Outcome.STOPPED
            await asyncio.sleep(1.0)
            assert rig.writes() == []

    run_virtual(scenario())


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.05, 0.099, 0.103, 0.108, 0.115, 0.2, 0.8, 1.4])
def test_a_stop_during_the_activation_cancels_it(delay_s: float) -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            activation = rig.gripper.command(Activate())
            await asyncio.sleep(delay_s)
            stop = await rig.stop()
            assert stop.ok
            width_m = rig.width_m()
            reply = await activation
            if reply.command_seq:
                assert (await rig.outcome(reply)).outcome is Outcome.STOPPED
            else:
                assert reply.code is Code.FENCED
            assert (await rig.outcome(stop)).outcome is Outcome.STOPPED
            await asyncio.sleep(3.0)
            assert rig.state.activation is Activation.INACTIVE
            travelled_m = abs(rig.width_m() - width_m)
            assert travelled_m < 0.003, "no more than what it moved until the stop was taken up"

    run_virtual(scenario())


def test_a_stop_after_a_power_cycle_never_starts_the_sweep() -> None:
    """A device that restarted between two polls takes the stop for an enable; that is cancelled at once."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=10.0) as rig:
            await rig.activate()
            await rig.outcome(Open())
            await asyncio.sleep(0.25)
            rig.device.power_cycle(rig.now_s(), off_s=0.0)
            width_m = rig.width_m()
            await rig.stop()
            await asyncio.sleep(3.0)
            assert rig.width_m() == pytest.approx(width_m, abs=0.006)
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


def test_a_release_is_stopped_by_disabling_the_drive() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            release = await rig.reply(Release())
            await asyncio.sleep(0.5)
            width_m = rig.width_m()
            stop = await rig.stop()
            assert (await rig.outcome(stop)).outcome is Outcome.STOPPED
            assert (await rig.outcome(release)).outcome is Outcome.STOPPED
            await asyncio.sleep(2.0)
            assert rig.width_m() == pytest.approx(width_m, abs=0.001)

    run_virtual(scenario())


def test_a_stop_right_behind_a_deactivation_does_not_enable_it_again() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            assert (await rig.reply(Deactivate())).ok
            reply = await rig.stop()
            assert reply.ok
            await asyncio.sleep(2.0)
            assert rig.state.activation is Activation.INACTIVE
            enables = [each for each in rig.writes() if each.fields["values"] == (1,)]
            assert len(enables) == 1, "only the activation's own"

    run_virtual(scenario())


def test_a_thousand_stops_have_a_thousand_answers_and_few_frames() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            replies = await asyncio.gather(*(rig.gripper.stop() for _ in range(1000)))
            assert all(reply.ok for reply in replies)
            assert len({reply.command_seq for reply in replies}) == 1000
            await asyncio.sleep(0.5)
            stops = [outcome for outcome in rig.outcomes if outcome.verb == "stop"]
            assert len(stops) == 1000
            assert {outcome.outcome for outcome in stops} == {Outcome.STOPPED}
            frames = [each for each in rig.line.seen if each.frame == STOP_FRAME]
            assert len(frames) <= 3

    run_virtual(scenario())


def test_a_stop_during_a_stop_gets_a_frame_of_its_own() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            seen = len(rig.line.seen)
            first = rig.gripper.stop()
            await asyncio.sleep(0.001)
            second = rig.gripper.stop()
            assert (await first).ok
            assert (await second).ok
            assert [each.frame for each in rig.line.seen[seen:]].count(STOP_FRAME) == 2
            for reply in (await first, await second):
                assert (await rig.outcome(reply)).outcome is Outcome.STOPPED

    run_virtual(scenario())


def test_a_command_after_a_stop_waits_for_the_stop() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            stop = rig.gripper.stop()
            after = rig.gripper.command(Grip())
            assert (await stop).ok
            assert (await after).ok
            written = [each.fields["values"][0] for each in rig.writes()]
            assert written[-2:] == [0x0001, 0x0009]
            assert (await rig.outcome(await after)).outcome is Outcome.CLOSED_EMPTY

    run_virtual(scenario())


@pytest.mark.parametrize("bits", ["unchanged", "zero"])
def test_a_stop_at_rest_keeps_what_it_holds_and_says_so_truthfully(bits: Literal["unchanged", "zero"]) -> None:
    """What gOBJ reads after a stop is not documented: the state tells what the device says then."""

    async def scenario() -> None:
        async with Rig(Rg75Options(stop_object_bits=bits)) as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.outcome(Grip())
            reply = await rig.stop()
            assert rig.state.command_phase is CommandPhase.PENDING or rig.state.command_seq < reply.command_seq
            assert (await rig.outcome(reply)).outcome is Outcome.STOPPED
            assert rig.device.state(rig.now_s())["holding"]
            expected = GraspState.HOLDING if bits == "unchanged" else GraspState.UNKNOWN
            assert rig.state.grasp_state is expected

    run_virtual(scenario())


def test_a_stop_of_a_running_motion_is_not_taken_for_the_reset_of_an_earlier_one() -> None:
    """A stop that cancelled an activation leaves nothing behind that could decide how the next one is judged."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            await rig.reply(Activate())
            await asyncio.sleep(0.5)
            assert (await rig.outcome(await rig.stop())).outcome is Outcome.STOPPED
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.2)
            asked_s = rig.now_s()
            assert (await rig.outcome(await rig.stop())).outcome is Outcome.STOPPED
            assert rig.now_s() - asked_s < 0.05
            assert rig.state.activation is Activation.ACTIVE

    run_virtual(scenario())


def test_a_command_given_with_a_second_stop_never_overtakes_it() -> None:
    """The first stop is acknowledged; in the same moment another stop and a command are given."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.1))
            await asyncio.sleep(0.1)
            later: list[asyncio.Future[CommandReply]] = []

            def acknowledged(_: asyncio.Future[CommandReply]) -> None:
                later.append(rig.gripper.stop())
                later.append(rig.gripper.command(Move(opening_width_m=0.075, relative_speed=0.5)))

            first = rig.gripper.stop()
            queued = rig.gripper.command(Move(opening_width_m=0.02, relative_speed=0.5))
            first.add_done_callback(acknowledged)
            stops = []

            def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                if request[1] == 0x10 and request[8] == 1:
                    stops.append(rig.now_s())
                    if len(stops) == 2:
                        return []  # so the second stop has to be repeated
                return [(0.0, reply)] if reply is not None else []

            rig.line.fault = fault
            await asyncio.sleep(1.0)
            assert (await queued).code is Code.FENCED
            assert (await later[0]).ok
            moved = await later[1]
            assert moved.ok
            go = [write for write in rig.writes() if write.fields["values"][0] == 9]
            assert len(stops) == 3
            assert go[-1].t_s > stops[-1]
            assert len(go) == 2
            # Both stops were acknowledged, and the command replaced them before standstill could be told.
            for stop in (await first, await later[0]):
                assert (await rig.outcome(stop)).outcome is Outcome.SUPERSEDED

    run_virtual(scenario())


@pytest.mark.parametrize("plugged", [True, False])
def test_the_cost_of_a_stop_does_not_grow_with_the_stops_before_it(plugged: bool) -> None:
    """Counted, not timed: what a stop looks at is independent of how many wait."""

    async def scenario(stops: int) -> int:
        async with Rig(plugged=plugged) as rig:
            if plugged:
                await rig.activate()
                await rig.reply(Move(opening_width_m=0.075, relative_speed=0.05))
            await asyncio.sleep(0.1)
            for _ in range(stops):
                rig.gripper.stop()
            calls = 0

            def count(frame: object, event: str, argument: object) -> None:
                nonlocal calls
                calls += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                rig.gripper.stop()
            finally:
                sys.setprofile(None)
            return calls

    assert run_virtual(scenario(3000)) <= run_virtual(scenario(3)) + 5


def test_stops_that_share_a_frame_all_end_with_the_command_behind_them() -> None:
    """Found by the torture test: only the newest one did."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.gripper.command(Move(opening_width_m=0.07, relative_speed=0.1))
            await asyncio.sleep(0.2)
            stops = [rig.gripper.stop() for _ in range(3)]
            moving = rig.gripper.command(Move(opening_width_m=0.0))
            replies = [await stop for stop in stops]
            assert (await moving).ok
            outcomes = [(await rig.outcome(reply)).outcome for reply in replies]
            assert set(outcomes) <= {Outcome.SUPERSEDED, Outcome.STOPPED}

    run_virtual(scenario())
