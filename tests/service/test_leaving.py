"""A defect in a task ends the daemon: what the grippers do then, and what is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gripperd.config import parse_config
from gripperd.daemon import Daemon
from gripperd.drivers.registry import driver_specs
from gripperd_sim.history import Kind
from tests.support.daemon_bench import Bench, until


class DefectError(Exception):
    """Of this test."""


@pytest.mark.parametrize("stop_at_exit", [False, True])
async def test_a_defect_in_a_task_ends_the_daemon_and_stops_what_is_to_be_stopped(
    tmp_path: Path, stop_at_exit: bool
) -> None:
    """EXIT 158, 161: the wires still have their owners then, so a stop goes out where it is configured."""
    b = Bench(tmp_path, {"left": 9})
    gripper = {"name": "left", "driver": "rg75", "bus": "tool0", "unit": 9, "stop_at_exit": stop_at_exit}
    raw = {
        "daemon": {"socket": str(b.path)},
        "bus": [{"name": "tool0", "port": "/dev/null"}],
        "gripper": [gripper],
    }
    daemon = Daemon(parse_config(raw, driver_specs()), make_line=lambda bus: b.line)
    fails = asyncio.Event()

    async def defect() -> None:
        await fails.wait()
        raise DefectError

    daemon.watch.run = defect  # type: ignore[method-assign]
    running = asyncio.create_task(daemon.run(asyncio.Event()))
    await until(lambda: daemon.crew.grippers["left"].link == "up")
    peer = await b.peer()
    assert await peer.outcome("activate") == "reached"
    assert (await peer.ask("gripper.move", opening_width_m=0.0, relative_speed=0.01))["ok"]
    writes = b.writes()
    fails.set()
    with pytest.RaisesGroup(DefectError, flatten_subgroups=True):
        await asyncio.wait_for(running, 10.0)
    assert b.writes() == writes + stop_at_exit
    last = b.devices[9].history.of(Kind.WRITE)[-1].fields
    assert (last["values"] == (1,)) is stop_at_exit, "enabled, and not going: stop"
    assert not b.path.exists(), "the socket is gone"
    await b.close_peers()


async def test_a_socket_that_cannot_be_opened_ends_the_daemon_before_any_port_is_touched(tmp_path: Path) -> None:
    """EXIT 161: what fails first costs nothing."""
    b = Bench(tmp_path, {"left": 9})
    b.path.write_text("somebody's")
    with pytest.raises(Exception, match="something else has that name"):
        await b.daemon.run(asyncio.Event())
    assert b.line.seen == []
