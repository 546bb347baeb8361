"""A device that restarts, or is another one, must not be moved by what was meant for the one before.

The words that move or stop an active device enable one that was just switched on, and start its sweep.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gripperd.contract import Activation, Code, Link, Outcome
from gripperd.contract.requests import Activate, Deactivate, Grip, Move, Open, Release
from gripperd.modbus.bus import Job, Lane
from gripperd.modbus.transaction import read_registers
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75Options
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual


async def _after_a_round(rig: Rig) -> None:
    seq = rig.state.seq
    await rig.until(lambda: rig.state.seq > seq)


@pytest.mark.parametrize("off_s", [0.05, 0.08, 0.11, 0.14, 0.17, 0.2, 0.23, 0.26, 0.29, 0.32])
def test_a_stop_that_is_repeated_to_a_booting_device_moves_nothing(off_s: float) -> None:
    """STOP, START: the repetition would be the first word that the device hears after it was switched on."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.outcome(Grip())
            await asyncio.sleep(0.1)
            sweeps, width_m = len(rig.sweeps()), rig.width_m()
            rig.device.power_cycle(rig.now_s(), off_s=off_s)
            await asyncio.sleep(0.03)
            await rig.stop()
            await asyncio.sleep(1.5)
            assert len(rig.sweeps()) == sweeps
            assert rig.width_m() == width_m

    run_virtual(scenario())


def test_a_stop_that_waits_for_a_device_that_boots_after_the_confirm_limit_moves_nothing() -> None:
    async def scenario() -> None:
        async with Rig(link_down_after_s=2.0) as rig:
            await rig.activate()
            await rig.outcome(Open())
            writes = len(rig.writes())
            rig.device.power_cycle(rig.now_s(), off_s=1.2)
            await asyncio.sleep(0.05)
            assert (await rig.stop()).code is Code.NOT_CONFIRMED
            await asyncio.sleep(5.0)
            assert rig.state.activation is Activation.INACTIVE
            assert len(rig.writes()) == writes

    run_virtual(scenario())


@pytest.mark.parametrize("off_s", [0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12])
def test_a_motion_word_is_not_written_to_a_device_whose_last_round_failed(off_s: float) -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Move(opening_width_m=0.03))
            await asyncio.sleep(0.3)
            sweeps = len(rig.sweeps())
            await _after_a_round(rig)
            await asyncio.sleep(0.010)
            rig.device.power_cycle(rig.now_s(), off_s=off_s)
            await asyncio.sleep(0.009)
            reply = await rig.reply(Move(opening_width_m=0.05))
            await asyncio.sleep(1.0)
            assert len(rig.sweeps()) == sweeps
            assert not reply.ok

    run_virtual(scenario())


def test_a_command_that_waited_behind_silent_neighbours_is_not_written_after_its_link_went_down() -> None:
    """The device restarts while the command waits for the wire."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Move(opening_width_m=0.03))
            writes, sweeps = len(rig.writes()), len(rig.sweeps())
            for unit in range(20, 27):
                requests = (read_registers(unit, 3, 0, 1),)
                rig.bus.submit(Lane.COMMAND, Job(partial(tuple, requests), lambda result: None, tag=object()))
            moving = rig.gripper.command(Move(opening_width_m=0.06))
            await asyncio.sleep(0.3)
            rig.device.power_cycle(rig.now_s(), off_s=0.3)
            await rig.until(lambda: rig.state.link is Link.DOWN)
            assert (await moving).code is Code.LINK_DOWN
            await asyncio.sleep(1.0)
            assert len(rig.writes()) == writes
            assert len(rig.sweeps()) == sweeps

    run_virtual(scenario())


@pytest.mark.parametrize("delay_s", [0.0, 0.0001, 0.0005, 0.001, 0.0015, 0.002, 0.003])
def test_a_withdrawn_activation_does_not_forget_that_the_drive_is_being_disabled(delay_s: float) -> None:
    """Deactivate, activate, stop in quick succession; then a move. Only the activation may enable the drive."""

    async def scenario() -> None:
        async with Rig(Rg75Options(takeup_s=0.12)) as rig:
            await rig.activate()
            await rig.outcome(Move(opening_width_m=0.03))
            await asyncio.sleep(0.2)
            sweeps = len(rig.sweeps())
            assert (await rig.reply(Deactivate())).ok
            activation = rig.gripper.command(Activate())
            await asyncio.sleep(delay_s)
            await rig.stop()
            await asyncio.sleep(0.05)
            await rig.reply(Move(opening_width_m=0.03, relative_speed=0.9))
            await activation
            await asyncio.sleep(3.0)
            assert len(rig.sweeps()) == sweeps
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


@pytest.mark.parametrize("wait_s", [0.485, 0.49, 0.4925, 0.495, 0.4975, 0.5, 0.5025])
def test_a_stop_at_the_edge_of_a_lost_link_does_not_disable_an_active_drive(wait_s: float) -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open(relative_speed=1.0))
            await asyncio.sleep(0.3)
            await _after_a_round(rig)
            silent_from_s = rig.now_s()
            rig.gate(lambda frame, now_s: now_s >= silent_from_s + 0.495)
            await asyncio.sleep(wait_s)
            await rig.stop()
            await rig.until(lambda: rig.state.activation is not Activation.UNKNOWN, limit_s=2.0)
            await asyncio.sleep(1.0)
            assert rig.state.activation is Activation.ACTIVE
            assert all(each.fields["values"] != (0,) for each in rig.writes() if each.t_s > silent_from_s)

    run_virtual(scenario())


def test_nothing_is_activated_by_itself_after_somebody_asked_for_a_stop() -> None:
    async def scenario() -> None:
        async with Rig(plugged=False, activate_on_start=True) as rig:
            await asyncio.sleep(0.5)
            await rig.stop()
            rig.line.plugged = True
            await asyncio.sleep(3.0)
            assert rig.state.activation is Activation.INACTIVE
            assert not rig.sweeps()

    run_virtual(scenario())


def test_a_release_that_a_restart_cut_short_did_not_end_well() -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            release = await rig.reply(Release())
            await asyncio.sleep(0.3)
            rig.device.power_cycle(rig.now_s(), off_s=0.1)
            outcome = await rig.outcome(release)
            assert outcome.outcome is Outcome.FAULT
            assert "restarted" in outcome.message

    run_virtual(scenario())


@pytest.mark.parametrize("takeup_s", [0.0, 0.06, 0.11, 0.12, 0.14])
def test_an_activation_is_not_judged_by_a_status_from_before_it(takeup_s: float) -> None:
    """Right behind a deactivation the status still says active; after a jam it still tells the old fault."""

    async def scenario() -> None:
        async with Rig(Rg75Options(takeup_s=takeup_s)) as rig:
            await rig.activate()
            await rig.reply(Deactivate())
            sweeps = len(rig.sweeps())
            outcome = await rig.outcome(Activate())
            assert outcome.outcome is Outcome.REACHED
            assert len(rig.sweeps()) == sweeps + 1
            assert (await rig.reply(Move(opening_width_m=0.03))).ok
        async with Rig(Rg75Options(takeup_s=takeup_s)) as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            rig.put(0.03)
            assert (await rig.outcome(Activate())).outcome is Outcome.FAULT
            rig.take()
            await asyncio.sleep(0.5)
            assert (await rig.outcome(Activate())).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_an_activation_needs_the_acknowledgement_of_its_second_word() -> None:
    """A late acknowledgement of the reset is none of the enable, which never reached the device."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            rig.gate(lambda frame, now_s: frame[1] != 0x10 or frame[8] != 1)
            late = [0.222]
            rig.line.fault = lambda request, reply: (
                [] if reply is None else [(late.pop() if late and request[1] == 0x10 else 0.0, reply)]
            )
            reply = await rig.reply(Activate())
            assert reply.code is Code.NOT_CONFIRMED
            assert (await rig.outcome(reply)).outcome is Outcome.UNCONFIRMED

    run_virtual(scenario())


@pytest.mark.parametrize("off_s", [0.2, 0.25, 0.3, 0.35])
@pytest.mark.parametrize("later_s", [0.001, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1])
def test_a_stop_right_after_a_restart_that_the_link_survived_moves_nothing(off_s: float, later_s: float) -> None:
    """The last status is from before the restart: the device is looked at first."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            await asyncio.sleep(0.1)
            sweeps, writes = len(rig.sweeps()), len(rig.writes())
            rig.device.power_cycle(rig.now_s(), off_s=off_s)
            await asyncio.sleep(off_s + later_s)
            stop = await rig.stop()
            await asyncio.sleep(1.0)
            assert len(rig.sweeps()) == sweeps
            assert len(rig.writes()) == writes
            assert stop.ok
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


@pytest.mark.parametrize("silent_s", [0.15, 0.2, 0.3, 0.4])
def test_a_stop_for_a_device_that_hears_and_is_not_heard_reaches_it_after_one_look(silent_s: float) -> None:
    """Replies are lost for some rounds already. The look is given up when its reply is overdue."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.05))
            await asyncio.sleep(0.2)
            rig.line.fault = lambda request, reply: []
            await asyncio.sleep(silent_s)
            assert rig.state.link is Link.UP
            asked_s = rig.now_s()
            rig.gripper.stop()
            await asyncio.sleep(0.05)
            stops = [write for write in rig.writes() if write.fields["values"] == (1,) and write.t_s > asked_s]
            assert len(stops) == 1
            assert stops[0].t_s - asked_s < 0.02

    run_virtual(scenario())


def test_a_device_that_restarts_between_two_slow_rounds_is_looked_at_before_a_stop_and_before_a_motion() -> None:
    """The last round was good, and is longer ago than a restart takes."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=1.0, moving_poll_rate_hz=50.0, link_down_after_s=3.0) as rig:
            for ask in (rig.stop, lambda: rig.reply(Move(opening_width_m=0.02))):
                await rig.activate()
                sweeps, rounds = len(rig.sweeps()), len(rig.states)
                await rig.until(lambda rounds=rounds: len(rig.states) > rounds)  # type: ignore[misc]
                rig.device.power_cycle(rig.now_s(), off_s=0.4)
                await asyncio.sleep(0.7)
                assert len(rig.states) == rounds + 1, "no round since"
                reply = await ask()
                assert reply.ok is (ask == rig.stop)
                await asyncio.sleep(2.0)
                assert len(rig.sweeps()) == sweeps
                assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


def test_a_restart_that_ends_between_the_look_and_the_stop_moves_the_jaws_for_milliseconds_only() -> None:
    """The one stop that goes out although nothing was seen; its acknowledgement is followed by a look at once."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.device.power_cycle(rig.now_s(), off_s=0.33)
            await asyncio.sleep(0.327)
            await rig.stop()
            await asyncio.sleep(1.0)
            began = rig.device.history.of(Kind.ACTIVATION)
            assert [each.fields["stage"] for each in began[-2:]] == ["homing", "inactive"]
            took_s = began[-1].t_s - began[-2].t_s
            assert took_s < 0.008, "the word that cancels is 6 ms behind, and taken up as late as the one before"
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())
