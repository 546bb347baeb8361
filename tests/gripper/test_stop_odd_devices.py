"""Stop on devices that do not do what they are told, and what can still be moved afterwards."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gripperd.contract import Activation, Code, GraspState, MotionState, Outcome
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75, Rg75Options
from tests.gripper.test_truth import PHASES, devices, pauses
from tests.support.rig import Rig
from tests.support.sim_line import CHARACTER_S, TURNAROUND_S
from tests.support.virtual_time import run_virtual

STOP_FRAME = bytes.fromhex("091003e800010200012478")
STOP_ACK = bytes.fromhex("091003e8000180f1")
IN_FLIGHT_S = 0.0036
"""The longest transaction that a stop waits for, and the gap: test_stop.py [s]."""


class _IgnoresStops:
    """Acknowledges a stop and goes on to its target."""

    def __init__(self, device: Rg75) -> None:
        self._device = device

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        return STOP_ACK if frame == STOP_FRAME else self._device.handle(frame, now_s)


def test_a_device_that_answers_nothing_during_its_motion_leaves_the_stop_unconfirmed_and_the_state_unknown() -> None:
    """STOP 31: the stop is answered by the daemon in its time, and nothing tells of a standstill."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            moving = await rig.reply(Move(opening_width_m=0.075, relative_speed=0.01))
            await asyncio.sleep(0.2)
            rig.line.fault = lambda request, reply: []
            asked_s, told = rig.now_s(), len(rig.states)
            reply = await rig.stop()
            assert (reply.ok, reply.code) == (False, Code.NOT_CONFIRMED)
            assert rig.now_s() - asked_s == pytest.approx(1.0, abs=0.001)
            assert (await rig.outcome(reply)).outcome in (Outcome.UNCONFIRMED, Outcome.LINK_LOST)
            assert (await rig.outcome(moving)).outcome is Outcome.LINK_LOST
            await asyncio.sleep(1.0)
            assert len(rig.states) > told
            assert {state.motion_state for state in rig.states[told:]} == {MotionState.UNKNOWN}
            assert {state.activation for state in rig.states[told:]} == {Activation.UNKNOWN}

    run_virtual(scenario())


def test_a_device_that_acknowledges_a_stop_and_goes_on_is_never_called_stopped() -> None:
    """STOP 32: the acknowledgement is told as one; the outcome says that no standstill was seen."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.01))
            await asyncio.sleep(0.2)
            rig.line.units = {9: _IgnoresStops(rig.device)}
            told = len(rig.states)
            reply = await rig.stop()
            outcome = await rig.outcome(reply)
            assert outcome.outcome is Outcome.UNCONFIRMED
            assert "no standstill" in outcome.message
            arrived = rig.device.history.of(Kind.MOTION_END)
            await rig.until(lambda: len(rig.device.history.of(Kind.MOTION_END)) > len(arrived))
            assert MotionState.STOPPED not in {state.motion_state for state in rig.states[told:-1]}
            assert rig.width_m() == pytest.approx(0.075, abs=0.0005), "it never stopped"

    run_virtual(scenario())


@pytest.mark.parametrize("regrip_same_force_ignored", [True, False])
def test_an_open_after_a_grip_starts_within_one_exchange_and_needs_no_stop(regrip_same_force_ignored: bool) -> None:
    """STOP 34, 37: at full effort on an object, twenty times."""

    async def scenario() -> None:
        options = Rg75Options(takeup_s=0.01, regrip_same_force_ignored=regrip_same_force_ignored)
        async with Rig(options) as rig:
            await rig.activate()
            await rig.outcome(Open(relative_speed=1.0))
            for n in range(20):
                rig.put(0.03)
                assert (await rig.outcome(Grip(relative_effort=1.0, relative_speed=1.0))).outcome is Outcome.CONTACT
                await asyncio.sleep(0.0013 * n)
                asked_s = rig.now_s()
                opening = await rig.reply(Open(relative_speed=1.0))
                assert rig.writes()[-1].t_s - asked_s < IN_FLIGHT_S + 15 * CHARACTER_S + TURNAROUND_S
                assert (await rig.outcome(opening)).outcome is Outcome.REACHED
                started = rig.device.history.of(Kind.MOTION_START)[-1]
                assert started.t_s == pytest.approx(rig.writes()[-1].t_s + options.takeup_s, abs=1e-6)
                rig.take()

    run_virtual(scenario())


@pytest.mark.parametrize("takeup_s", [0.0, 0.01])
@pytest.mark.parametrize("relative_speed", [0.05, 1.0])
def test_after_a_stop_the_jaws_travel_no_further_than_in_one_exchange_and_the_take_up(
    takeup_s: float, relative_speed: float
) -> None:
    """STOP 38: the device's own stop is used, and no target is written that it had to reach first."""

    async def scenario() -> None:
        options = Rg75Options(takeup_s=takeup_s)
        async with Rig(options, moving_poll_rate_hz=1000.0) as rig:
            await rig.activate()
            speed_m_s = options.min_speed_m_s + relative_speed * (options.max_speed_m_s - options.min_speed_m_s)
            stopped_within_s = IN_FLIGHT_S + 11 * CHARACTER_S + TURNAROUND_S + takeup_s
            for n in range(20):
                await rig.reply(Move(opening_width_m=0.075 * (1 - n % 2), relative_speed=relative_speed))
                await asyncio.sleep(0.15 + 0.0011 * n)
                asked_m = rig.width_m()
                stop = await rig.stop()
                assert (await rig.outcome(stop)).outcome is Outcome.STOPPED
                await asyncio.sleep(0.5)
                travelled_m = abs(rig.width_m() - asked_m)
                assert 0.0 < travelled_m < speed_m_s * stopped_within_s + 0.0003, "and one count of rounding"
                assert [word for each in rig.writes()[-1:] for word in each.fields["values"]] == [0x0001]

    run_virtual(scenario())


speeds = st.floats(0.0, 1.0)
commands = st.one_of(
    st.builds(
        lambda width_m, speed: Move(opening_width_m=width_m, relative_speed=speed), st.floats(0.0, 0.075), speeds
    ),
    st.builds(lambda effort, speed: Grip(relative_effort=effort, relative_speed=speed), speeds, speeds),
    st.builds(lambda speed: Open(relative_speed=speed), speeds),
    st.sampled_from([Activate(), Deactivate(), ClearFault(), Release()]),
)
steps = st.lists(st.tuples(pauses, st.one_of(commands, st.sampled_from(["stop", "put", "take"]))), max_size=15)


async def _play(rig: Rig, script: list[tuple[float, Command | str]]) -> None:
    for pause_s, what in script:
        await asyncio.sleep(pause_s)
        empty = rig.device.state(rig.now_s())["object_width_m"] is None
        if what == "put":
            if empty and rig.width_m() > 0.026:
                rig.put(0.025)
        elif what == "take":
            if not empty:
                rig.take()
        elif isinstance(what, Command):
            await rig.reply(what)
        else:
            await rig.stop()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=PHASES)
@given(device=devices, script=steps)
def test_whatever_was_commanded_an_active_gripper_moves_on_the_next_command(
    device: Rg75Options, script: list[tuple[float, Command | str]]
) -> None:
    """STOP 37: no sequence needs a stop, a wait, or a restart of the daemon before the next motion."""

    async def scenario() -> None:
        async with Rig(device, motion_limit_s=30.0) as rig:
            await rig.activate()
            await _play(rig, script)
            if rig.device.state(rig.now_s())["object_width_m"] is not None:
                rig.take()
            if (await rig.reply(Open(relative_speed=1.0))).code in (Code.NOT_ACTIVE, Code.DEVICE_FAULT):
                assert (await rig.outcome(Activate())).outcome is Outcome.REACHED
            for width_m in (0.02, 0.06):
                outcome = await rig.outcome(Move(opening_width_m=width_m, relative_speed=1.0))
                assert outcome.outcome is Outcome.REACHED, outcome
                assert rig.width_m() == pytest.approx(width_m, abs=0.001)
            assert rig.state.grasp_state is GraspState.NOT_HOLDING

    run_virtual(scenario())
