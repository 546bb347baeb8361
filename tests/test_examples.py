"""Every example runs against a real daemon and does what it says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gripperd.client import Client
from gripperd.contract import Link
from gripperd_sim.control import AsyncControlClient
from tests.e2e.processes import daemon, free_port, mosquitto, simulator, soon, write_config

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A running daemon over a running simulator."""
    async with simulator(tmp_path), daemon(tmp_path, write_config(tmp_path)):
        yield tmp_path


async def _run(*command: str) -> tuple[int, str]:
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out, _ = await asyncio.wait_for(child.communicate(), 40.0)
    assert child.returncode is not None
    return child.returncode, out.decode()


async def _activate(path: Path) -> None:
    async with await Client.connect(path) as client:

        async def up() -> bool:
            return (await client.gripper().state()).link is Link.UP

        await soon(up, "link")
        await (await client.gripper().activate()).outcome(20.0)


@pytest.mark.parametrize("name", ["asyncio_pick.py", "blocking_pick.py"])
async def test_a_pick_tells_whether_something_is_held(folder: Path, name: str) -> None:
    command = (sys.executable, str(EXAMPLES / name), "--socket", str(folder / "g.sock"))
    code, out = await _run(*command)
    assert (code, "closed_empty" in out) == (1, True), out
    async with await AsyncControlClient.connect(folder / "sim.sock") as sim:
        await sim.call("supply_object", width_m=0.03)
    code, out = await _run(*command)
    assert code == 0, out
    assert "contact" in out


async def test_the_shell_example_speaks_plain_lines(folder: Path) -> None:
    await _activate(folder / "g.sock")
    code, out = await _run("sh", str(EXAMPLES / "shell.sh"), str(folder / "g.sock"))
    assert code == 0, out
    answers = [json.loads(line) for line in out.splitlines()]
    assert [each["id"] for each in answers] == [1, 2, 3, 4, 5]
    assert answers[3]["result"]["outcome"]["outcome"] == "closed_empty"
    assert answers[4]["result"]["ok"] is True


async def test_the_mqtt_example_commands_and_is_answered(tmp_path: Path) -> None:
    port = free_port()
    config = write_config(tmp_path, mqtt_port=port)
    config.write_text(config.read_text().replace("[mqtt]\n", "[mqtt]\ncommands = true\n"))
    async with simulator(tmp_path), mosquitto(tmp_path, port), daemon(tmp_path, config):
        await _activate(tmp_path / "g.sock")
        code, out = await _run("sh", str(EXAMPLES / "mqtt.sh"), str(port), "robot", "left")
    assert code == 0, out
    online, state, opened, refused, stopped = [json.loads(line) for line in out.splitlines()]
    assert online == {"state": "online"}
    assert state["activation"] == "active"
    assert opened["ok"] is True
    assert refused["code"] == "unreachable_width"
    assert stopped["ok"] is True
