"""What the gripper does when the daemon leaves, in whatever way: on the wire, by the simulator's own record."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import Client
from gripperd.client.asyncio_client import Gripper
from gripperd.contract import GraspState, Link, MotionState, Outcome
from gripperd_sim.control import AsyncControlClient
from tests.e2e.kinds import KINDS, Kind, write_config
from tests.e2e.processes import daemon, soon

pytestmark = pytest.mark.e2e

ENDINGS = [
    # signal, exit code, stop_at_exit, stops on the wire
    pytest.param(signal.SIGTERM, 0, False, 0, id="SIGTERM holds"),
    pytest.param(signal.SIGINT, 0, False, 0, id="SIGINT holds"),
    pytest.param(signal.SIGKILL, -signal.SIGKILL, False, 0, id="SIGKILL holds"),
    pytest.param(signal.SIGABRT, -signal.SIGABRT, False, 0, id="watchdog holds"),
    pytest.param(signal.SIGTERM, 0, True, 1, id="SIGTERM stops"),
    pytest.param(signal.SIGINT, 0, True, 1, id="SIGINT stops"),
    pytest.param(signal.SIGKILL, -signal.SIGKILL, True, 0, id="SIGKILL cannot stop"),
    pytest.param(signal.SIGABRT, -signal.SIGABRT, True, 0, id="watchdog cannot stop"),
]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: Unix sockets allow 107 bytes."""
    return tmp_path_factory.mktemp("g")


async def _is(gripper: Gripper, field: str, value: object) -> bool:
    return bool(getattr(await gripper.state(), field) == value)


async def _done(command: Any, expected: Outcome) -> None:
    outcome = await (await command).outcome()
    assert outcome.outcome is expected, outcome


async def _ready(client: Client) -> Gripper:
    gripper = client.gripper()
    await soon(lambda: _is(gripper, "link", Link.UP), "link")
    await _done(gripper.activate(), Outcome.REACHED)
    await _done(gripper.open(), Outcome.REACHED)
    return gripper


async def _commands(sim: AsyncControlClient) -> int:
    """How often the device was told to do something."""
    events = (await sim.call("log", limit=100_000))["events"]
    writes = [each for each in events if each["kind"] == "write"]
    requests = [each for each in events if each["kind"] == "request" and each.get("command", "connect") != "connect"]
    return len(writes) + len(requests)


@pytest.mark.parametrize(("number", "code", "stop_at_exit", "stops"), ENDINGS)
async def test_a_held_object_is_held_and_adopted(
    folder: Path, number: signal.Signals, code: int, stop_at_exit: bool, stops: int
) -> None:
    """EXIT 157, 158, 160: the table of docs/operations.md, and what the next daemon finds."""
    [kind] = [each for each in KINDS if each.driver == "rg75"]
    async with (
        kind.simulated(folder) as gripper_config,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        config = write_config(folder, f"{gripper_config}stop_at_exit = {str(stop_at_exit).lower()}\n")
        async with daemon(folder, config) as first, await Client.connect(folder / "g.sock") as client:
            gripper = await _ready(client)
            await sim.call("put_object", width_m=0.04)
            await _done(gripper.grip(), Outcome.CONTACT)
            before = await _commands(sim)
            assert await first.end(number) == code
        assert await _commands(sim) == before + stops
        async with daemon(folder, config) as second, await Client.connect(folder / "g.sock") as client:
            gripper = client.gripper()
            await soon(lambda: _is(gripper, "link", Link.UP), "link")
            if not stops:
                await soon(lambda: _is(gripper, "grasp_state", GraspState.HOLDING), "adopted grip")
            state = await gripper.state()
            assert state.opening_width_m == pytest.approx(0.04, abs=0.0005)
            assert state.activation_epoch == 1
            assert await _commands(sim) == before + stops, "adopting writes nothing"
            await second.end(signal.SIGKILL)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("stop_at_exit", [False, True])
async def test_jaws_that_move_go_on_or_stop_as_configured(folder: Path, kind: Kind, stop_at_exit: bool) -> None:
    """EXIT 157: in mid-motion."""
    async with (
        kind.simulated(folder) as gripper_config,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        config = write_config(folder, f"{gripper_config}stop_at_exit = {str(stop_at_exit).lower()}\n")
        async with daemon(folder, config) as running, await Client.connect(folder / "g.sock") as client:
            gripper = await _ready(client)
            await gripper.move(0.0, relative_speed=0.2)
            await soon(lambda: _is(gripper, "motion_state", MotionState.MOVING), "motion")
            assert await running.end(signal.SIGTERM) == 0

        async def ended() -> bool:
            return bool([each for each in (await sim.call("log", limit=100_000))["events"] if _ends(each)][2:])

        await soon(ended, "end of the motion")
        events = (await sim.call("log", limit=100_000))["events"]
        last = [each for each in events if _ends(each)][-1]
        assert (last["outcome"] in ("stopped", "aborted")) is stop_at_exit, last
        assert (last["width_m"] > 0.005) is stop_at_exit, last


def _ends(event: dict[str, Any]) -> bool:
    return bool(event["kind"] == "motion_end")
