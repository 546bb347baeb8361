"""What is told, and what the device did: latencies, ends of motions, other hands, jitter, frozen registers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from gripperd.contract import (
    Activation,
    CommandOutcome,
    CommandPhase,
    Event,
    GraspState,
    GripperState,
    MotionState,
    Outcome,
)
from gripperd.contract.requests import Command, Grip, Move, Open
from gripperd.drivers.jodell.table import FAULT_BLOCKS, FAULT_TEXTS
from gripperd_sim.history import Event as SimEvent
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75, Rg75Options
from tests.modbus.bench import seal
from tests.support.rig import Rig
from tests.support.virtual_time import EPOCH_NS, START_S, run_virtual

EXCHANGE_S = 0.0036
"""A read of four registers, and the gap [s]."""
TOLD_WITHIN_S = 0.010 + 2 * EXCHANGE_S
"""What the device shows is told at the latest in the next round, at 100 rounds per second; a write may be before it."""


def _s(state: GripperState | CommandOutcome) -> float:
    """The stamp in virtual time [s]."""
    return START_S + (state.stamp.to_ns() - EPOCH_NS) / 1e9


class _Edited:
    """A device whose status replies are changed on the way: (word, position) -> (word, position)."""

    def __init__(self, device: Rg75, edit: Callable[[int, int], tuple[int, int]]) -> None:
        self._device = device
        self._edit = edit

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        reply = self._device.handle(frame, now_s)
        if reply is None or frame[1] == 0x10:
            return reply
        word, position = self._edit(reply[4], reply[5])
        return seal(reply[:4] + bytes((word, position)) + reply[6:-2])


def _shows(rig: Rig, width_m: float) -> Callable[[], bool]:
    return lambda: abs(rig.state.opening_width_m - width_m) < 0.0003


@pytest.mark.parametrize("poll_rate_hz", [10.0, 50.0, 200.0])
def test_jaws_that_another_hand_moves_are_followed_at_the_idle_rate(poll_rate_hz: float) -> None:
    """STALE 43."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=poll_rate_hz) as rig:
            await rig.activate()
            for n in range(30):
                await asyncio.sleep(0.1 + 0.0017 * n)
                width_m = 0.02 + 0.001 * n
                rig.device.move_fingers(width_m, rig.now_s())
                moved_s = rig.now_s()
                await rig.until(_shows(rig, width_m))
                assert rig.state.opening_width_valid
                assert rig.now_s() - moved_s < 1 / poll_rate_hz + EXCHANGE_S
            assert len(rig.writes()) == 2, "the activation's"

    run_virtual(scenario())


def test_contact_and_loss_are_told_in_the_next_round_and_with_the_outcome() -> None:
    """STALE 44: so late, from the device's own contact, does a state or an outcome leave for its subscribers."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            for n in range(20):
                await rig.outcome(Open(relative_speed=1.0))
                rig.put(0.03 + 0.0001 * n)
                reply = await rig.reply(Grip(relative_speed=1.0))
                await rig.until(lambda: rig.state.grasp_state is GraspState.HOLDING)
                contact_s = rig.device.history.of(Kind.MOTION_END)[-1].t_s
                assert rig.now_s() - contact_s < TOLD_WITHIN_S
                assert rig.gripper.ledger.outcome(reply.command_seq) is not None, "in the same round"
                await asyncio.sleep(0.1 + 0.0013 * n)
                rig.take()
                taken_s = rig.now_s()
                await rig.until(lambda: rig.state.grasp_state is GraspState.NOT_HOLDING)
                assert rig.now_s() - taken_s < 0.02 + EXCHANGE_S

    run_virtual(scenario())


def _last_motion(rig: Rig) -> tuple[SimEvent, SimEvent]:
    """Start and end of the device's latest motion."""
    return rig.device.history.of(Kind.MOTION_START)[-1], rig.device.history.of(Kind.MOTION_END)[-1]


@pytest.mark.parametrize("takeup_s", [0.0, 0.01, 0.05])
def test_acceptance_first_motion_and_end_stand_in_the_states_on_one_clock(takeup_s: float) -> None:
    """STALE 46, DONE 59: by command number and phase, each within one round of what the device did, never before it."""

    async def scenario() -> None:
        rng = random.Random(46)
        async with Rig(Rg75Options(takeup_s=takeup_s)) as rig:
            await rig.activate()
            for n in range(25):
                await asyncio.sleep(rng.uniform(0.0, 0.1))
                width_m = rng.uniform(0.0, 0.03) + 0.04 * (n % 2)
                outcome = await rig.outcome(Move(opening_width_m=width_m, relative_speed=rng.uniform(0.1, 1.0)))
                assert outcome.outcome is Outcome.REACHED
                own = [state for state in rig.states if state.command_seq == outcome.command_seq]
                phases = [state.command_phase for state in own]
                assert phases == sorted(phases, key=list(CommandPhase).index)
                written, (started, ended) = rig.writes()[-1], _last_motion(rig)
                executing = next(state for state in own if state.command_phase is CommandPhase.EXECUTING)
                assert takeup_s == 0.0 or own[0].command_phase is CommandPhase.PENDING
                assert written.t_s < _s(own[0]) < written.t_s + TOLD_WITHIN_S
                assert started.t_s - EXCHANGE_S < _s(executing) < started.t_s + TOLD_WITHIN_S
                assert executing.motion_state is MotionState.MOVING
                assert ended.t_s - EXCHANGE_S < _s(outcome) < ended.t_s + TOLD_WITHIN_S

    run_virtual(scenario())


@pytest.mark.parametrize("takeup_s", [0.0, 0.01, 0.12])
@pytest.mark.parametrize("command", [Open(relative_speed=0.3), Grip(), Move(opening_width_m=0.04)], ids=str)
def test_no_outcome_comes_before_the_motion_has_ended(command: Command, takeup_s: float) -> None:
    """DONE 58: also right behind another motion, whose end the status still may show."""

    async def scenario() -> None:
        async with Rig(Rg75Options(takeup_s=takeup_s)) as rig:
            await rig.activate()
            for n in range(12):
                first = Move(opening_width_m=0.075 if n % 3 else 0.002, relative_speed=1.0)
                if n % 2:
                    await rig.outcome(first)
                else:
                    await rig.reply(first)
                await asyncio.sleep(0.013 * n)
                reply = await rig.reply(command)
                outcome = await rig.outcome(reply)
                told_s = rig.now_s()
                await asyncio.sleep(1.5)
                own = [
                    e
                    for e in rig.device.history.of(Kind.COMMAND)
                    if e.fields["request"] == rig.writes()[-1].fields["request"]
                ]
                ends = [each for each in rig.device.history.of(Kind.MOTION_END) if each.t_s >= own[0].t_s]
                assert ends[-1].t_s <= told_s, outcome
                assert outcome.outcome in (Outcome.REACHED, Outcome.CLOSED_EMPTY)

    run_virtual(scenario())


def test_states_go_on_at_their_rate_while_commands_stream_in() -> None:
    """STALE 47: fifty commands a second cost less than a fifth of the rounds."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=50.0, moving_poll_rate_hz=50.0) as rig:
            await rig.activate()
            await asyncio.sleep(0.5)
            before = len(rig.states)
            await asyncio.sleep(4.0)
            idle = len(rig.states) - before
            before, end_s, n = len(rig.states), rig.now_s() + 4.0, 0
            while rig.now_s() < end_s:
                n += 1
                rig.gripper.command(Move(opening_width_m=0.0003 * n, relative_speed=1.0))
                await asyncio.sleep(0.02)
            assert n == pytest.approx(200, abs=1)
            busy = rig.states[before:]
            assert len(busy) >= 0.8 * idle > 0.8 * 199
            assert all(state.opening_width_valid for state in busy)
            assert len(rig.writes()) - 2 >= 190, "and the commands all went out"

    run_virtual(scenario())


def _frozen(word: int, position: int) -> tuple[int, int]:
    return 0xF1, 128


def _frozen_position(word: int, position: int) -> tuple[int, int]:
    return word, 128


@pytest.mark.parametrize(
    ("edit", "outcome"), [(_frozen, Outcome.UNCONFIRMED), (_frozen_position, Outcome.STALLED)], ids=["all", "position"]
)
@pytest.mark.parametrize("width_m", [0.0, 0.01, 0.06, 0.075])
def test_a_position_that_never_changes_is_never_called_reached(
    edit: Callable[[int, int], tuple[int, int]], outcome: Outcome, width_m: float
) -> None:
    """STALE 49: the width is what the device says; that it does not follow its target is told by the outcome."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Move(opening_width_m=0.0375))
            rig.line.units = {9: _Edited(rig.device, edit)}
            await asyncio.sleep(0.1)
            told = await rig.outcome(Move(opening_width_m=width_m))
            assert told.outcome is outcome
            pending = [state for state in rig.states if state.command_seq == told.command_seq]
            pending = [state for state in pending if state.command_phase is CommandPhase.PENDING]
            assert pending
            assert {state.motion_state for state in pending} == {MotionState.UNKNOWN}

    run_virtual(scenario())


@pytest.mark.parametrize("bit", sorted(FAULT_TEXTS))
def test_each_fault_of_the_device_stands_in_the_state_with_code_and_text(bit: int) -> None:
    """STALE 50: in the next round, and as an event of its own."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.device.inject_fault(bit, rig.now_s())
            raised_s = rig.now_s()
            await rig.until(lambda: rig.state.fault is not None)
            assert rig.now_s() - raised_s < 0.02 + EXCHANGE_S
            assert rig.state.fault is not None
            assert (rig.state.fault.code, rig.state.fault.text) == (bit, FAULT_TEXTS[bit])
            assert rig.events[-2] == (Event.FAULT, rig.state.fault)
            assert rig.state.activation is Activation.ACTIVE
            if bit & FAULT_BLOCKS:
                refused = await rig.reply(Open())
                assert FAULT_TEXTS[bit] in refused.message

    run_virtual(scenario())


@pytest.mark.parametrize("noise_counts", [0, 1, 2, 4, 8])
def test_jitter_of_the_position_does_not_hide_that_the_jaws_are_blocked(noise_counts: int) -> None:
    """DONE 52, 53, 55: the device says that it stopped; a position that goes on to chatter delays nothing."""

    async def scenario() -> None:
        rng = random.Random(noise_counts)

        def jitter(word: int, position: int) -> tuple[int, int]:
            return word, min(255, max(0, position + rng.randint(-noise_counts, noise_counts)))

        async with Rig() as rig:
            await rig.activate()
            rig.line.units = {9: _Edited(rig.device, jitter)}
            for n in range(10):
                await rig.outcome(Open(relative_speed=1.0))
                rig.put(0.03)
                command = Grip(relative_speed=1.0) if n % 2 else Move(opening_width_m=0.005, relative_speed=1.0)
                outcome = await rig.outcome(command)
                blocked_s = rig.device.history.of(Kind.MOTION_END)[-1].t_s
                assert outcome.outcome is Outcome.CONTACT, outcome
                assert rig.now_s() - blocked_s < TOLD_WITHIN_S
                assert outcome.opening_width_m == pytest.approx(0.03, abs=0.0003 * (noise_counts + 1))
                rig.take()

    run_virtual(scenario())


@pytest.mark.parametrize("takeup_s", [0.01, 0.06])
@pytest.mark.parametrize("noise_counts", [1, 2])
def test_jitter_is_no_proof_of_a_motion(noise_counts: int, takeup_s: float) -> None:
    """DONE 52: targets that change in mid-motion, while the status still tells of the one before."""

    async def scenario() -> None:
        rng = random.Random(noise_counts)

        def jitter(word: int, position: int) -> tuple[int, int]:
            return word, min(255, max(0, position + rng.randint(-noise_counts, noise_counts)))

        async with Rig(Rg75Options(takeup_s=takeup_s)) as rig:
            await rig.activate()
            rig.line.units = {9: _Edited(rig.device, jitter)}
            for n in range(120):
                first = Move(opening_width_m=rng.uniform(0.005, 0.07), relative_speed=rng.uniform(0.1, 1.0))
                if n % 2:
                    await rig.reply(first)
                    await asyncio.sleep(rng.uniform(0.0, 0.3))
                second = Move(opening_width_m=rng.uniform(0.005, 0.07), relative_speed=rng.uniform(0.1, 1.0))
                outcome = await rig.outcome(second)
                assert outcome.outcome is Outcome.REACHED, outcome
                assert rig.width_m() == pytest.approx(second.opening_width_m, abs=0.0012), "it is there already"

    run_virtual(scenario())
