"""The scripted pick: a table of steps, each with the outcome that it must have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gripperd.client import Gripper, PendingCommand
from gripperd.contract import CommandRefusedError, GraspState, GripperState, Link, MotionState
from gripperd.demo.world import World

OBJECT_WIDTH_M = 0.03
STEP_LIMIT_S = 15.0
"""Longest time for one step [s]; an activation takes two."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the script. run gives what came of it, in words; expected is what must come."""

    title: str
    run: Callable[[Gripper, World], Awaitable[str]]
    expected: str


async def _outcome(command: Awaitable[PendingCommand]) -> str:
    return (await (await command).outcome(STEP_LIMIT_S)).outcome.value


async def _when(gripper: Gripper, condition: Callable[[GripperState], bool]) -> GripperState:
    """The first state for which the condition holds."""
    async with asyncio.timeout(STEP_LIMIT_S), gripper.states() as states:
        async for state in states:
            if condition(state):
                return state
    raise AssertionError("states end with an exception only")


async def _look(gripper: Gripper, world: World) -> str:
    state = await _when(gripper, lambda state: state.link is Link.UP)
    return f"{state.link}, {state.activation}"


async def _refused(gripper: Gripper, world: World) -> str:
    try:
        return await _outcome(gripper.move(OBJECT_WIDTH_M))
    except CommandRefusedError as refusal:
        return refusal.code.value


async def _activate(gripper: Gripper, world: World) -> str:
    return await _outcome(gripper.activate())


async def _open(gripper: Gripper, world: World) -> str:
    return await _outcome(gripper.open())


async def _grip(gripper: Gripper, world: World) -> str:
    return await _outcome(gripper.grip())


async def _pick(gripper: Gripper, world: World) -> str:
    await world.put(OBJECT_WIDTH_M)
    outcome = await (await gripper.grip(expected_object_width_m=OBJECT_WIDTH_M)).outcome(STEP_LIMIT_S)
    return f"{outcome.outcome.value}, {outcome.grasp_state.name}"


async def _lose(gripper: Gripper, world: World) -> str:
    await world.take()
    return (await _when(gripper, lambda state: state.grasp_state is GraspState.NOT_HOLDING)).grasp_state.name


async def _stop(gripper: Gripper, world: World) -> str:
    moving = await gripper.move(0.07, relative_speed=0.1)
    await _when(gripper, lambda state: state.motion_state is MotionState.MOVING)
    stop = await gripper.stop()
    return f"{(await moving.outcome(STEP_LIMIT_S)).outcome}, {(await stop.outcome(STEP_LIMIT_S)).outcome}"


async def _deactivate(gripper: Gripper, world: World) -> str:
    return await _outcome(gripper.deactivate())


async def _stuck(gripper: Gripper, world: World) -> str:
    """A move, not a grip, onto an object: a hand would not answer it for minutes."""
    await world.put(OBJECT_WIDTH_M)
    told = await _outcome(gripper.move(0.0))
    await world.take()
    return told


_ALIKE = (
    Step("look before activation", _look, "up, inactive"),
    Step("move before activation", _refused, "not_active"),
    Step("activate", _activate, "reached"),
    Step("open", _open, "reached"),
    Step("grip on nothing", _grip, "closed_empty"),
    Step("open", _open, "reached"),
    Step("grip a 30 mm object", _pick, "contact, HOLDING"),
    Step("lose the object", _lose, "NOT_HOLDING"),
    Step("stop in mid-motion", _stop, "stopped, stopped"),
    Step("open", _open, "reached"),
)
SCRIPT = (*_ALIKE, Step("deactivate", _deactivate, "reached"))
HAND_SCRIPT = (*_ALIKE, Step("move onto an object", _stuck, "stalled"), Step("open", _open, "reached"))
