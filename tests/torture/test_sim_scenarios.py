"""The scenarios that come with the simulator, against the gripper of the daemon, with commands and stops meanwhile."""

from __future__ import annotations

import random

import pytest

from gripperd_sim import scenario_files
from gripperd_sim.scenario import Player
from tests.support.virtual_time import run_virtual
from tests.torture.checks import check
from tests.torture.scenario import Setting, Step
from tests.torture.world import World

LASTS_S = 20.0


def _command(rng: random.Random, number: int) -> Step:
    after_s = rng.random()
    if number % 7 == 6:
        return Step(after_s, "stop")
    if number % 11 == 10:
        return Step(after_s, "activate")
    return Step(after_s, "move", {"opening_width_m": round(0.075 * rng.random(), 4)})


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", scenario_files.names())
def test_the_promises_hold_in_every_scenario(name: str, seed: int) -> None:
    scenario = scenario_files.read(name)

    async def play() -> World:
        async with World(Setting(seed=scenario.seed or seed)) as world:
            player, rng = Player(scenario, world.now_s()), random.Random(seed)
            end_s, number = world.now_s() + LASTS_S, 0
            while world.now_s() < end_s:
                for due in player.due(world.now_s()):
                    await world.step(Step(0.0, due.op, dict(due.params)))
                number += 1
                await world.step(_command(rng, number))
            await world.recover()
        check(world)
        return world

    world = run_virtual(play())
    struck = world.faults.struck()
    assert struck or name in ("flapping_port", "brown_out"), "the scenario has done something"
