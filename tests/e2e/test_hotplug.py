"""The adapter is pulled out and put back, the device loses its power, another device comes: what an adapter on a real
port does, on a pty that hangs up and comes back under another name.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from gripperd.client import Client
from gripperd.client.asyncio_client import Gripper
from gripperd.contract import Activation, CommandOutcome, CommandRefusedError, Event, Link
from gripperd_sim.control import AsyncControlClient
from tests.e2e.processes import Process, daemon, eventually, simulator, soon, write_config

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

CYCLES = 20
BACK_LIMIT_S = 2.0
"""Contract section 2: valid states this soon after the device's return [s]."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: Unix sockets allow 107 bytes."""
    return tmp_path_factory.mktemp("g")


async def _is(gripper: Gripper, field: str, value: object) -> bool:
    return bool(getattr(await gripper.state(), field) == value)


def _descriptors(running: Process) -> list[str]:
    """What the daemon has open."""
    folder, found = Path(f"/proc/{running.child.pid}/fd"), []
    for each in list(folder.iterdir()):
        with contextlib.suppress(OSError):
            found.append(os.readlink(each))
    return found


def _ptys(running: Process) -> list[str]:
    return [each for each in _descriptors(running) if each.startswith("/dev/pts/")]


async def _writes(sim: AsyncControlClient) -> int:
    events = (await sim.call("log", limit=100_000))["events"]
    return len([each for each in events if each["kind"] == "write"])


def _threads(running: Process) -> int:
    return len(list(Path(f"/proc/{running.child.pid}/task").iterdir()))


async def test_twenty_replugs_during_motion_and_commands(folder: Path) -> None:
    """HOTPLUG 122, 124, 125, 128; RECON 139, 142, 143: no leak, one outcome for each, back within two seconds."""
    rng = random.Random(20)
    async with (
        simulator(folder) as _,
        daemon(folder, write_config(folder)) as running,
        await Client.connect(folder / "g.sock") as client,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        gripper = client.gripper()
        accepted: list[int] = []
        outcomes: Counter[int] = Counter()
        ready = asyncio.Event()

        async def listen() -> None:
            async with gripper.events([Event.OUTCOME]) as events:
                ready.set()
                async for outcome in events:
                    assert isinstance(outcome, CommandOutcome)
                    outcomes[outcome.command_seq] += 1

        listener = asyncio.create_task(listen())
        await asyncio.wait_for(ready.wait(), 5.0)
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        accepted.append((await gripper.activate()).command_seq)
        await soon(lambda: _is(gripper, "activation", Activation.ACTIVE), "activation", 10.0)
        before = len(_descriptors(running)), _threads(running)
        for cycle in range(CYCLES):
            commands = [
                asyncio.create_task(gripper.move(0.07 * (number % 2), relative_speed=0.1)) for number in range(3)
            ]
            await asyncio.sleep(0.2 * rng.random())
            await sim.call("unplug")
            await soon(lambda: _is(gripper, "link", Link.DOWN), "loss")
            for command in commands:
                with contextlib.suppress(CommandRefusedError):
                    accepted.append((await command).command_seq)
            assert _ptys(running) == [], "an open descriptor would give the adapter another name"
            writes = await _writes(sim)
            await sim.call("plug")
            back_s = time.monotonic()
            await soon(lambda: _is(gripper, "opening_width_valid", True), "valid state")
            assert time.monotonic() - back_s < BACK_LIMIT_S, cycle
            assert await _writes(sim) == writes, "nothing is commanded by a return"
            assert len(_ptys(running)) == 1
        accepted.append((await gripper.open()).command_seq)
        await gripper.outcome(accepted[-1], timeout_s=10.0)
        await eventually(lambda: set(outcomes) >= set(accepted), "outcomes", 5.0)
        assert set(outcomes.values()) == {1}, outcomes
        assert (len(_descriptors(running)), _threads(running)) <= before, _descriptors(running)
        log = running.output()
        assert log.count("port_lost") == CYCLES, "once for each loss"
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def test_a_port_that_is_gone_costs_nothing(folder: Path) -> None:
    """HOTPLUG 122: the loop sleeps while the adapter is away, and tells it once."""
    async with (
        simulator(folder) as _,
        daemon(folder, write_config(folder)) as running,
        await Client.connect(folder / "g.sock") as client,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        gripper = client.gripper()
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        before = len(running.output())
        await sim.call("unplug")
        await soon(lambda: _is(gripper, "link", Link.DOWN), "loss")
        used_s, began_s = _cpu_s(running), time.monotonic()
        await asyncio.sleep(2.0)
        share = (_cpu_s(running) - used_s) / (time.monotonic() - began_s)
        assert share < 0.05, f"{100 * share:.1f} % of a core without a device"
        told = Counter(re.findall(r"\] (\w+) ", running.output()[before:]))
        assert set(told.values()) == {1}, told


def _cpu_s(running: Process) -> float:
    fields = Path(f"/proc/{running.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_power_cycle_is_told_and_nothing_moves(folder: Path) -> None:
    """START 118, RECON 142: the adapter stays, the device is inactive afterwards and says so."""
    async with (
        simulator(folder) as _,
        daemon(folder, write_config(folder)) as _running,
        await Client.connect(folder / "g.sock") as client,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        gripper = client.gripper()
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        await (await gripper.activate()).outcome()
        epoch, writes = (await gripper.state()).activation_epoch, await _writes(sim)
        await sim.call("power_cycle", off_s=1.0)
        await soon(lambda: _is(gripper, "link", Link.DOWN), "loss")
        await soon(lambda: _is(gripper, "activation", Activation.INACTIVE), "honest activation")
        state = await gripper.state()
        assert (state.activation_epoch, state.opening_width_valid) == (epoch + 1, False)
        assert await _writes(sim) == writes


async def test_the_adapter_that_comes_back_in_another_socket_is_found_by_its_name(folder: Path) -> None:
    """HOTPLUG 127: by the link that udev keeps; the pty behind it is another one each time."""
    async with (
        simulator(folder) as _,
        daemon(folder, write_config(folder)) as running,
        await Client.connect(folder / "g.sock") as client,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        gripper = client.gripper()
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        held = os.open(_ptys(running)[0], os.O_RDWR | os.O_NOCTTY)  # so that the number is not given again
        try:
            [before] = _ptys(running)
            await sim.call("replug", off_s=0.3)
            await eventually(lambda: _ptys(running) not in ([before], []), "another port")
            await soon(lambda: _is(gripper, "link", Link.UP), "return")
        finally:
            os.close(held)


async def test_another_device_in_its_place_raises_the_epoch(folder: Path) -> None:
    """Its version tells it: both are inactive, so that nothing else could."""
    command = ("--option", "version_138c=0x0204")
    async with daemon(folder, write_config(folder)) as running, await Client.connect(folder / "g.sock") as client:
        gripper = client.gripper()
        for options, version, epoch in (((), "1.3", 1), (command, "2.4", 2)):
            async with simulator(folder, *options):
                await soon(lambda: _is(gripper, "link", Link.UP), "link")

                async def known(wanted: str = version) -> bool:
                    return (await gripper.info()).device_version == wanted

                await soon(known, f"version {version}")
                seq = (await gripper.state()).seq + 2

                async def rounds(wanted: int = seq) -> bool:
                    return (await gripper.state()).seq >= wanted

                await soon(rounds, "rounds that tell it")
                await soon(lambda epoch=epoch: _is(gripper, "activation_epoch", epoch), "epoch")  # type: ignore[misc]
            await soon(lambda: _is(gripper, "link", Link.DOWN), "loss")
        assert running.output().count("device_replaced") == 1


async def test_a_fault_is_still_told_after_a_return_and_never_cleared_unasked(folder: Path) -> None:
    """RECON 140: what is latched in the device outlives the loss of the line."""
    async with (
        simulator(folder) as _,
        daemon(folder, write_config(folder)),
        await Client.connect(folder / "g.sock") as client,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        gripper = client.gripper()
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        await (await gripper.activate()).outcome()
        await sim.call("fault", bits=0x08)

        async def faulty() -> bool:
            state = await gripper.state()
            return state.fault is not None and state.fault.code == 0x08

        await soon(faulty, "fault")
        writes = await _writes(sim)
        await sim.call("unplug")
        await soon(lambda: _is(gripper, "link", Link.DOWN), "loss")
        await sim.call("plug")
        await soon(faulty, "fault after the return")
        assert await _writes(sim) == writes
