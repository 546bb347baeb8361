"""Adoption, activation, disabling, restart: what makes a gripper able to move, and what it refuses until then."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Activation, Code, CommandPhase, GraspState, Link, Outcome
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd_sim.history import Kind
from tests.support.rig import GO_ACK, Rig
from tests.support.virtual_time import run_virtual


def test_an_active_gripper_that_holds_is_adopted_as_it_is() -> None:
    """START 119: the daemon was killed while the jaws held something, and starts again."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.outcome(Grip())
            device = rig.device
            written = len(rig.writes())
        async with Rig() as again:
            again.device = device
            again.line.units = {9: device}
            await again.until(lambda: again.state.grasp_state is GraspState.HOLDING)
            await asyncio.sleep(2.0)
            assert len(device.history.of(Kind.WRITE)) == written
            assert again.state.activation is Activation.ACTIVE
            assert again.state.activation_epoch == 1
            assert again.state.command_phase is CommandPhase.NONE
            reply = await again.reply(Activate())
            assert reply.ok
            assert "do not move" in reply.message
            assert len(device.history.of(Kind.WRITE)) == written
            assert (await again.outcome(reply)).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_activation_on_start_only_where_configured_and_only_if_inactive() -> None:
    async def scenario() -> None:
        async with Rig(activate_on_start=True) as rig:
            await rig.until(lambda: rig.state.activation is Activation.ACTIVE)
            assert rig.state.activation_epoch == 2
            written = len(rig.writes())
            rig.device.power_cycle(rig.now_s(), off_s=1.0)
            await asyncio.sleep(4.0)
            assert rig.state.activation is Activation.INACTIVE
            assert len(rig.writes()) == written, "a restart of the device is not a start of the daemon"

    run_virtual(scenario())


def test_a_device_that_restarts_is_inactive_and_raises_the_epoch() -> None:
    """START 118: the loss of the activation is told, nothing moves by itself."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            epoch = rig.state.activation_epoch
            reply = await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            rig.device.power_cycle(rig.now_s(), off_s=0.05)
            outcome = await rig.outcome(reply)
            assert outcome.outcome is Outcome.FAULT
            assert rig.state.activation is Activation.INACTIVE
            assert rig.state.activation_epoch == epoch + 1
            assert not rig.state.opening_width_valid
            assert (await rig.reply(Open())).code is Code.NOT_ACTIVE

    run_virtual(scenario())


@pytest.mark.parametrize("command", [Move(opening_width_m=0.03), Grip(), Open(), Release()], ids=str)
def test_before_activation_motion_is_refused(command: Command) -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            reply = await rig.reply(command)
            assert reply.code is Code.NOT_ACTIVE
            assert rig.writes() == []

    run_virtual(scenario())


def test_motion_during_the_activation_is_refused() -> None:
    """HANG 104."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            reply = await rig.reply(Activate())
            assert "sweep" in reply.message
            await asyncio.sleep(0.3)
            assert rig.state.activation is Activation.ACTIVATING
            assert (await rig.reply(Open())).code is Code.NOT_ACTIVE
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            assert rig.state.activation_epoch == 2

    run_virtual(scenario())


def test_an_obstructed_activation_ends_with_the_devices_fault() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            rig.device.obstruct(0.04, rig.now_s())
            outcome = await rig.outcome(Activate())
            assert outcome.outcome is Outcome.FAULT
            assert "obstructed" in outcome.message
            assert rig.state.activation is Activation.FAULT
            assert (await rig.reply(Open())).code is Code.DEVICE_FAULT
            rig.device.clear_obstruction(rig.now_s())
            assert (await rig.outcome(Activate())).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_deactivate_disables_without_motion_and_without_a_new_epoch() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            epoch = rig.state.activation_epoch
            reply = await rig.reply(Deactivate())
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            assert rig.state.activation is Activation.INACTIVE
            assert rig.state.activation_epoch == epoch
            assert rig.device.history.of(Kind.MOTION_START)[-1].t_s < rig.now_s() - 0.01

    run_virtual(scenario())


def test_release_opens_slowly_and_needs_a_new_activation() -> None:
    async def scenario() -> None:
        async with Rig(motion_limit_s=30.0) as rig:
            await rig.activate()
            outcome = await rig.outcome(Release())
            assert outcome.outcome is Outcome.REACHED
            assert rig.width_m() == pytest.approx(0.075, abs=0.001)
            assert (await rig.reply(Open())).code in (Code.NOT_ACTIVE, Code.DEVICE_FAULT)
            assert (await rig.outcome(Activate())).outcome is Outcome.REACHED

    run_virtual(scenario())


@pytest.mark.parametrize("command", [Move(opening_width_m=0.03), Grip(), Open(), Release()], ids=str)
@pytest.mark.parametrize("disable", [Deactivate(), ClearFault(), Release()], ids=str)
def test_a_motion_right_behind_a_disabling_is_refused_and_does_not_enable_again(
    command: Command, disable: Command
) -> None:
    """START: the last status still says active; a motion word now would start the sweep."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=5.0, moving_poll_rate_hz=5.0) as rig:
            await rig.activate()
            assert (await rig.reply(disable)).ok
            assert (await rig.reply(command)).code is Code.NOT_ACTIVE
            await asyncio.sleep(3.0)
            homings = [each for each in rig.device.history.of(Kind.ACTIVATION) if each.fields["stage"] == "homing"]
            assert len(homings) == 1

    run_virtual(scenario())


def test_activate_right_behind_deactivate_activates() -> None:
    async def scenario() -> None:
        async with Rig(poll_rate_hz=5.0, moving_poll_rate_hz=5.0) as rig:
            await rig.activate()
            assert (await rig.reply(Deactivate())).ok
            reply = await rig.reply(Activate())
            assert "sweep" in reply.message
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            assert rig.state.activation is Activation.ACTIVE

    run_virtual(scenario())


def test_a_disabling_that_never_reached_the_device_does_not_forbid_motion_for_ever() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.gate(lambda frame, now_s: frame[1] != 0x10, GO_ACK)
            assert (await rig.outcome(Deactivate())).outcome is Outcome.UNCONFIRMED
            rig.ungate()
            await asyncio.sleep(0.2)
            assert (await rig.outcome(Move(opening_width_m=0.03))).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_an_activation_that_runs_already_and_is_given_again_ends_with_its_own_outcome() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            first = await rig.reply(Activate())
            await asyncio.sleep(0.5)
            second = await rig.reply(Activate())
            assert (await rig.outcome(second)).outcome is Outcome.REACHED
            assert (await rig.outcome(first)).outcome is Outcome.SUPERSEDED
            assert rig.state.activation is Activation.ACTIVE
            assert len(rig.sweeps()) == 1

    run_virtual(scenario())
