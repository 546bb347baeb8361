"""Commands that are given again, or look like one that was: which are written, and which are not."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Code, GraspState, MotionState, Outcome
from gripperd.contract.requests import Activate, Command, Grip, Move, Open
from gripperd_sim.rg75 import Rg75Options
from tests.support.rig import REFUSAL, Rig
from tests.support.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        (Move(opening_width_m=0.075, relative_speed=0.2), Open(relative_speed=0.2), Outcome.REACHED),
        (Move(opening_width_m=0.0, relative_speed=0.2), Grip(relative_speed=0.2), Outcome.CLOSED_EMPTY),
    ],
)
def test_another_verb_with_the_same_words_is_a_command_of_its_own(
    first: Command, second: Command, end: Outcome
) -> None:
    """Its end is judged by its own criteria, when the motion ends and not before."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            if isinstance(second, Grip):
                await rig.outcome(Open())
            await rig.reply(first)
            await asyncio.sleep(0.3)
            outcome = await rig.outcome(second)
            assert outcome.outcome is end
            assert outcome.opening_width_m == pytest.approx(rig.width_m(), abs=0.001)
            assert rig.state.motion_state is MotionState.STOPPED
            assert rig.outcomes[-2].outcome is Outcome.SUPERSEDED

    run_virtual(scenario())


@pytest.mark.parametrize("instead", [REFUSAL, None], ids=["refused", "lost"])
def test_a_command_that_never_reached_the_device_is_written_when_it_is_given_again(instead: bytes | None) -> None:
    """It must not count as what the device does already."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075, relative_speed=0.05))
            await asyncio.sleep(0.3)
            rig.gate(lambda frame, now_s: frame[1] != 0x10, instead)
            again = Move(opening_width_m=0.01, relative_speed=0.3)
            assert not (await rig.reply(again)).ok
            rig.ungate()
            writes = len(rig.writes())
            await rig.outcome(again)
            assert len(rig.writes()) == writes + 1
            await rig.until(lambda: rig.state.motion_state is MotionState.STOPPED)
            assert rig.width_m() == pytest.approx(0.01, abs=0.001)

    run_virtual(scenario())


def test_what_a_refused_repetition_replaced_does_not_come_back() -> None:
    """The first copy may have been taken up, so the command before it is over. command_seq never goes back."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            before = await rig.reply(Move(opening_width_m=0.075, relative_speed=0.1))
            await asyncio.sleep(0.3)
            copies: list[bytes] = []

            def opens(frame: bytes, now_s: float) -> bool:
                if frame[1] == 0x10:
                    copies.append(frame)
                return len(copies) != 2 or frame[1] != 0x10

            rig.gate(opens, REFUSAL)
            lost = [True]
            rig.line.fault = lambda request, reply: (
                [] if reply is None or (request[1] == 0x10 and lost and lost.pop()) else [(0.0, reply)]
            )
            refused = await rig.reply(Move(opening_width_m=0.03, relative_speed=0.1))
            assert refused.code is Code.DEVICE_FAULT
            await asyncio.sleep(3.0)
            seqs = [state.command_seq for state in rig.states]
            assert seqs == sorted(seqs)
            assert (await rig.outcome(before)).outcome is Outcome.SUPERSEDED

    run_virtual(scenario())


def test_a_command_with_nothing_to_do_tells_no_reading_of_a_command_that_is_pending() -> None:
    """Activate while active: the status may still be the one from before the open, and says that it holds."""

    async def scenario() -> None:
        async with Rig(Rg75Options(takeup_s=0.12)) as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.put(0.03)
            await rig.outcome(Grip())
            await asyncio.sleep(0.1)
            await rig.reply(Open())
            await asyncio.sleep(0.03)
            outcome = await rig.outcome(Activate())
            assert outcome.grasp_state is GraspState.UNKNOWN
            assert not outcome.opening_width_valid

    run_virtual(scenario())
