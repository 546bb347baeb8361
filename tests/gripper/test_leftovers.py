"""Nothing is left behind by hours of losses, commands, stops, unplugs and restarts: no memory, no task."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter

from gripperd.contract import Link
from gripperd.contract.requests import Activate, Grip, Move
from gripperd.gripper.ledger import OUTCOMES_KEPT
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual

WARM_UP_S = 480.0
"""By then the tables of a fixed size are full."""
SOAK_S = 240.0
SPREAD = 24
"""What may be under way in one moment more than in another: jobs, replies that are waited for, timers."""
HELD = {"Stamp": OUTCOMES_KEPT}
"""Kinds of which the kept outcomes hold one each, if they were measured; how many were is chance."""
LOOP_OBJECTS = (asyncio.Handle, asyncio.Future, asyncio.Event)


def _alive(rig: Rig) -> Counter[str]:
    """Objects of the daemon, and of the event loop, that something still holds; the test's own records are dropped."""
    rig.states.clear()
    rig.outcomes.clear()
    rig.events.clear()
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    ours = [kind for kind in kinds if kind.__module__.startswith("gripperd.") or issubclass(kind, LOOP_OBJECTS)]
    return Counter(kind.__qualname__ for kind in ours)


async def _trouble(rig: Rig, rng: random.Random, duration_s: float) -> None:
    end_s = rig.now_s() + duration_s
    while rig.now_s() < end_s:
        await asyncio.sleep(rng.random())
        dice = rng.random()
        if dice < 0.5:
            command = rig.gripper.command(Move(opening_width_m=0.075 * rng.random()))
            if dice < 0.1:
                command.cancel()
        elif dice < 0.6:
            rig.gripper.command(Grip())
        elif dice < 0.8:
            rig.gripper.stop()
        elif dice < 0.85:
            rig.line.unplug()
            await asyncio.sleep(0.7)
            rig.line.plugged = True
        elif dice < 0.9:
            rig.device.power_cycle(rig.now_s(), off_s=0.8)
        elif rig.state.link is Link.UP:
            rig.gripper.command(Activate())


def test_memory_does_not_grow() -> None:
    async def scenario() -> None:
        rng = random.Random(3)
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = lambda request, reply: (
                [] if reply is None or rng.random() < 0.02 else [(0.3 if rng.random() < 0.01 else 0.0, reply)]
            )
            await _trouble(rig, rng, WARM_UP_S)
            before = _alive(rig)
            await _trouble(rig, rng, SOAK_S)
            limits = {kind: max(count, HELD.get(kind, 0)) + SPREAD for kind, count in before.items()}
            grown = {kind: count for kind, count in _alive(rig).items() if count > limits.get(kind, SPREAD)}
            assert not grown, (grown, limits)
            assert before["CommandOutcome"] == OUTCOMES_KEPT, "the soak is long enough to fill a table"
            assert len(asyncio.all_tasks()) == 5, "this test, the bus, the gripper, its poll and dispatch tasks"

    run_virtual(scenario())
