"""One gripper and its commands, against the simulated device, in virtual time: outcomes, refusals, queue, limits."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Activation, Code, CommandPhase, GraspState, MotionState, Outcome
from gripperd.contract.requests import ClearFault, Command, Grip, Move, Open
from gripperd_sim.rg75 import Rg75Options
from tests.support.rig import GO_ACK, Rig
from tests.support.virtual_time import run_virtual


def test_a_grip_on_an_object_ends_on_contact_and_holds() -> None:
    """DONE 56: of a size that nobody told; contact is an outcome of its own, and no failure."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            outcome = await rig.outcome(Grip())
            assert outcome.outcome is Outcome.CONTACT
            assert outcome.grasp_state is GraspState.HOLDING
            assert outcome.opening_width_m == pytest.approx(0.03, abs=0.0005)
            assert outcome.stamp == rig.states[-1].stamp or outcome.stamp in [state.stamp for state in rig.states]
            assert rig.state.command_phase is CommandPhase.DONE

    run_virtual(scenario())


def test_a_grip_on_nothing_is_closed_empty() -> None:
    """HANG 100, J12: it ends, and says that nothing is held."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            outcome = await rig.outcome(Grip())
            assert outcome.outcome is Outcome.CLOSED_EMPTY
            assert outcome.grasp_state is GraspState.NOT_HOLDING

    run_virtual(scenario())


def test_an_expected_width_is_a_criterion_and_not_a_target() -> None:
    """GRASP 1 and 2: the object is held either way."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.036)
            wrong = await rig.outcome(Grip(expected_object_width_valid=True, expected_object_width_m=0.03))
            assert wrong.outcome is Outcome.WIDTH_MISMATCH
            assert "0.0300" in wrong.message
            assert rig.state.grasp_state is GraspState.HOLDING
            right = await rig.outcome(Grip(expected_object_width_valid=True, expected_object_width_m=0.0355))
            assert right.outcome is Outcome.CONTACT

    run_virtual(scenario())


def test_a_move_into_an_object_tells_contact_and_raises_no_fault() -> None:
    """GRASP 14."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            outcome = await rig.outcome(Move(opening_width_m=0.01))
            assert outcome.outcome is Outcome.CONTACT
            assert rig.state.fault is None

    run_virtual(scenario())


@pytest.mark.parametrize("end_counts", [(0, 255), (1, 254), (2, 253)])
def test_both_ends_of_the_range_are_reached_though_the_device_may_miss_them(end_counts: tuple[int, int]) -> None:
    """CLAMP 163: a manual's own example shows 254 after a full close."""

    async def scenario() -> None:
        options = Rg75Options(open_end_count=end_counts[0], closed_end_count=end_counts[1])
        async with Rig(options) as rig:
            await rig.activate()
            for width_m in (0.075, 0.0, 0.075):
                outcome = await rig.outcome(Move(opening_width_m=width_m, relative_speed=1.0))
                assert outcome.outcome is Outcome.REACHED, outcome

    run_virtual(scenario())


def test_an_object_lost_while_holding_is_seen_at_once() -> None:
    """GRASP 17."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.outcome(Grip())
            await rig.until(lambda: rig.state.grasp_state is GraspState.HOLDING)
            rig.take()
            lost_s = rig.now_s()
            await rig.until(lambda: rig.state.grasp_state is not GraspState.HOLDING)
            assert rig.now_s() - lost_s < 0.05
            await rig.until(lambda: rig.state.motion_state is MotionState.STOPPED)
            assert rig.state.grasp_state is GraspState.NOT_HOLDING

    run_virtual(scenario())


def test_a_newer_command_supersedes_and_each_has_one_outcome() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            first = await rig.reply(Move(opening_width_m=0.07, relative_speed=1.0))
            await asyncio.sleep(0.2)
            second = await rig.reply(Move(opening_width_m=0.02, relative_speed=1.0))
            assert (await rig.outcome(second)).outcome is Outcome.REACHED
            assert (await rig.outcome(first)).outcome is Outcome.SUPERSEDED
            assert second.command_seq == first.command_seq + 1

    run_virtual(scenario())


def test_the_same_command_again_while_it_runs_is_not_written_again() -> None:
    """Every write can restart the motion of a real gripper; the command still has its own number and outcome."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            first = await rig.reply(Move(opening_width_m=0.07))
            await asyncio.sleep(0.1)
            written = len(rig.writes())
            second = await rig.reply(Move(opening_width_m=0.07))
            assert second.ok
            assert len(rig.writes()) == written
            assert (await rig.outcome(first)).outcome is Outcome.SUPERSEDED
            assert (await rig.outcome(second)).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_equal_words_with_another_expected_width_are_another_command() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.reply(Grip())
            await asyncio.sleep(0.1)
            outcome = await rig.outcome(Grip(expected_object_width_valid=True, expected_object_width_m=0.06))
            assert outcome.outcome is Outcome.WIDTH_MISMATCH

    run_virtual(scenario())


def test_nothing_is_written_without_a_command() -> None:
    """START 115, 116, 118, 119, 121: an active gripper is adopted by reading, an inactive one stays as it is."""

    async def scenario() -> None:
        async with Rig() as rig:
            await asyncio.sleep(5.0)
            assert rig.writes() == []
            assert rig.state.activation is Activation.INACTIVE
            assert not rig.state.opening_width_valid
            assert rig.state.activation_epoch == 1

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Move(opening_width_m=float("nan")), Code.INVALID_ARGUMENT),
        (Move(opening_width_m=float("inf")), Code.INVALID_ARGUMENT),
        (Move(opening_width_m=-0.001), Code.INVALID_ARGUMENT),
        (Move(opening_width_m=0.0751), Code.UNREACHABLE_WIDTH),
        (Move(opening_width_m=30.0), Code.UNREACHABLE_WIDTH),
        (Move(opening_width_m=0.03, relative_speed=1.01), Code.INVALID_ARGUMENT),
        (Move(opening_width_m=0.03, relative_speed=-0.1), Code.INVALID_ARGUMENT),
        (Open(relative_speed=float("nan")), Code.INVALID_ARGUMENT),
        (Grip(relative_effort=2.0), Code.INVALID_ARGUMENT),
        (Grip(relative_speed=float("-inf")), Code.INVALID_ARGUMENT),
        (Grip(expected_object_width_valid=True, expected_object_width_m=0.2), Code.UNREACHABLE_WIDTH),
        (Grip(expected_object_width_valid=True, expected_object_width_m=-1.0), Code.INVALID_ARGUMENT),
    ],
    ids=str,
)
def test_a_value_that_is_not_permitted_is_refused_and_nothing_moves(command: Command, code: Code) -> None:
    """CLAMP 164."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            written = len(rig.writes())
            reply = await rig.reply(command)
            assert (reply.ok, reply.code, reply.command_seq) == (False, code, 0)
            assert "0" in reply.message, "the permitted range is in the message"
            await asyncio.sleep(0.3)
            assert len(rig.writes()) == written
            assert rig.gripper.ledger.current is not None
            assert rig.gripper.ledger.current.seq == 1

    run_virtual(scenario())


def test_a_fault_in_mid_motion_ends_the_command_within_two_polls() -> None:
    """HANG 101."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            reply = await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.2)
            rig.device.inject_fault(0x08, rig.now_s())
            raised_s = rig.now_s()
            outcome = await rig.outcome(reply)
            assert outcome.outcome is Outcome.FAULT
            assert "over-current" in outcome.message
            assert rig.now_s() - raised_s < 0.025
            assert rig.state.fault is not None
            assert (await rig.reply(Open())).code is Code.DEVICE_FAULT
            cleared = await rig.reply(ClearFault())
            assert "do not move" in cleared.message
            assert (await rig.outcome(cleared)).outcome is Outcome.REACHED
            assert rig.state.activation is Activation.INACTIVE
            assert rig.state.fault is None

    run_virtual(scenario())


def test_a_command_that_the_device_ignores_is_unconfirmed() -> None:
    """It was acknowledged, and the status never showed it."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.gate(lambda frame, now_s: frame[1] != 0x10, GO_ACK)
            outcome = await rig.outcome(Move(opening_width_m=0.05))
            assert outcome.outcome is Outcome.UNCONFIRMED

    run_virtual(scenario())


def test_a_time_limit_ends_a_motion_that_never_ends_and_writes_nothing_more() -> None:
    """STOP 40: after the time-out no further target is written."""

    async def scenario() -> None:
        async with Rig(motion_limit_s=0.3) as rig:
            await rig.activate()
            outcome = await rig.outcome(Move(opening_width_m=0.075, relative_speed=0.01))
            assert outcome.outcome is Outcome.TIMED_OUT
            written = len(rig.writes())
            await asyncio.sleep(5.0)
            assert len(rig.writes()) == written

    run_virtual(scenario())


def test_more_commands_than_the_queue_holds_are_refused_with_the_limit() -> None:
    async def scenario() -> None:
        async with Rig(queue_commands=3) as rig:
            await rig.activate()
            replies = [rig.gripper.command(Move(opening_width_m=0.01 * n)) for n in range(1, 6)]
            codes = [reply.code for reply in await asyncio.gather(*replies)]
            assert codes == [Code.ACCEPTED] * 3 + [Code.INTERNAL] * 2
            assert "3 commands wait" in (await replies[-1]).message

    run_virtual(scenario())


def test_a_caller_that_gives_up_takes_its_queued_command_with_it() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            first = rig.gripper.command(Move(opening_width_m=0.05))
            second = rig.gripper.command(Move(opening_width_m=0.01))
            second.cancel()
            assert (await first).ok
            await asyncio.sleep(1.5)
            assert rig.state.opening_width_m == pytest.approx(0.05, abs=0.001)

    run_virtual(scenario())


def test_the_state_is_told_at_the_configured_rates() -> None:
    """STALE 47: states go on while commands run."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=50.0, moving_poll_rate_hz=100.0) as rig:
            await rig.activate()
            await asyncio.sleep(0.5)
            before = len(rig.states)
            await asyncio.sleep(2.0)
            assert len(rig.states) - before == pytest.approx(100, abs=1)
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.2))
            await asyncio.sleep(0.1)
            before = len(rig.states)
            await asyncio.sleep(1.0)
            assert len(rig.states) - before == pytest.approx(100, abs=1)

    run_virtual(scenario())
