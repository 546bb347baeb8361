"""A hand over a real network: how its losses end what is pending, and a stop in the middle of a blocked move."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import Client, Gripper
from gripperd.contract import Code, CommandRefusedError, GraspState, Link, Outcome
from gripperd_sim.control import AsyncControlClient
from tests.e2e.kinds import HAND, write_config
from tests.e2e.processes import daemon, eventually, process, soon

pytestmark = pytest.mark.e2e
HIL_LIMIT_S = 150.0
"""The checks take 25 s on a quiet machine [s]."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: Unix sockets allow 107 bytes."""
    return tmp_path_factory.mktemp("g")


@contextlib.asynccontextmanager
async def homed(folder: Path) -> AsyncIterator[tuple[Gripper, AsyncControlClient]]:
    """A homed hand behind a daemon."""
    async with (
        HAND.simulated(folder) as gripper_config,
        daemon(folder, write_config(folder, gripper_config)),
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
        await Client.connect(folder / "g.sock") as client,
    ):
        gripper = client.gripper()
        await soon(lambda: _is_up(gripper), "link")
        assert (await (await gripper.activate()).outcome()).outcome is Outcome.REACHED
        yield gripper, sim


async def _is_up(gripper: Gripper) -> bool:
    return (await gripper.state()).link is Link.UP


async def _stuck(sim: AsyncControlClient) -> bool:
    return bool((await sim.call("state"))["state"]["stuck"])


async def _asked(sim: AsyncControlClient) -> list[str]:
    events: list[dict[str, Any]] = (await sim.call("log"))["events"]
    return [each["command"] for each in events if each["kind"] == "request"]


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("disconnect", {"how": "finish"}),
        ("disconnect", {"how": "reset"}),
        ("disconnect", {"how": "half_close"}),
        ("silence", {"duration_s": 1.5}),
    ],
    ids=["FIN", "RST", "half close", "silence"],
)
async def test_a_lost_connection_ends_the_motion_and_sends_none(folder: Path, op: str, params: dict[str, Any]) -> None:
    """libfranka spins for ever on the first and blocks for ever on the last."""
    async with homed(folder) as (gripper, sim):
        moving = await gripper.move(0.01, relative_speed=0.05)
        await sim.call(op, **params)
        lost_s = time.monotonic()
        assert (await moving.outcome()).outcome is Outcome.LINK_LOST
        assert time.monotonic() - lost_s < 2.5
        await soon(lambda: _is_up(gripper), "link again")
        assert (await _asked(sim)).count("move") == 1
        assert (await (await gripper.open()).outcome()).outcome is Outcome.REACHED


async def test_a_stop_in_a_blocked_move_aborts_it_at_once(folder: Path) -> None:
    """Rows 1, 2, 5, 7, 8."""
    async with homed(folder) as (gripper, sim):
        await sim.call("put_object", width_m=0.03)
        moving = await gripper.move(0.0, relative_speed=1.0)
        await soon(lambda: _stuck(sim), "blocked move")
        stop = await gripper.stop()
        assert stop.reply.ok
        assert (await moving.outcome()).outcome is Outcome.STOPPED
        assert (await stop.outcome()).outcome is Outcome.STOPPED
        assert (await sim.call("state"))["state"]["pending"] is None


async def test_a_power_cycle_is_seen_and_nothing_moves_until_it_is_homed_again(folder: Path) -> None:
    """Rows 19, 29."""
    async with homed(folder) as (gripper, sim):
        epoch = (await gripper.state()).activation_epoch
        await sim.call("power_cycle", off_s=0.5)

        async def restarted() -> bool:
            return (await gripper.state()).activation_epoch > epoch

        await soon(restarted, "restart")
        with pytest.raises(CommandRefusedError) as refused:
            await gripper.move(0.03)
        assert refused.value.code is Code.NOT_ACTIVE
        assert not (await gripper.state()).opening_width_valid
        assert "move" not in await _asked(sim)


async def test_a_grip_holds_what_it_met_whatever_its_width(folder: Path) -> None:
    """Rows 11, 12, 13, 14: outside of its band the hand lets go; it must never be."""
    async with homed(folder) as (gripper, sim):
        for width_m in (0.005, 0.04, 0.078):
            assert (await (await gripper.open()).outcome()).outcome is Outcome.REACHED
            await sim.call("put_object", width_m=width_m)
            held = await (await gripper.grip()).outcome()
            assert (held.outcome, held.grasp_state) == (Outcome.CONTACT, GraspState.HOLDING), width_m
            assert held.opening_width_m == pytest.approx(width_m, abs=0.0005)
            await sim.call("take_object")


async def test_fci_that_is_switched_off_is_told_and_waited_for(folder: Path) -> None:
    """Row 26."""
    async with homed(folder) as (gripper, sim):
        await sim.call("refuse")
        await sim.call("disconnect")

        async def told() -> bool:
            try:
                await gripper.open()
            except CommandRefusedError as refused:
                return refused.code is Code.LINK_DOWN and "activate FCI" in str(refused)
            return False

        await soon(told, "reason")
        await sim.call("listen")
        await soon(lambda: _is_up(gripper), "link again")


async def test_the_checks_for_a_real_hand_run(folder: Path) -> None:
    """What a person with a hand will start must not fail before it begins."""
    async with HAND.simulated(folder) as gripper_config:
        port = gripper_config.split("port = ")[1].strip()
        command = [sys.executable, "-m", "tests.hil", "franka-hand", "--address", "127.0.0.1", "--port", port, "--yes"]
        async with process([*command, "--stops", "3"], folder / "hil.log") as child:
            await eventually(lambda: child.child.returncode is not None, "end of the checks", HIL_LIMIT_S)
            told = child.output()
            assert child.child.returncode == 0, told
        for expected in ("15.", "3 stops: {'motion ABORTED, either first': 3}", "a second connection is accepted"):
            assert expected in told, told
