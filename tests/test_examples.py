"""Every example runs against a real daemon and does what it says."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gripperd_sim.control import AsyncControlClient
from tests.e2e.processes import daemon, simulator, write_config

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


@pytest.mark.skipif(shutil.which("socat") is None, reason="socat is not installed; it is not needed for anything else")
async def test_the_shell_example_speaks_plain_lines(folder: Path) -> None:
    code, out = await _run("sh", str(EXAMPLES / "shell.sh"), str(folder / "g.sock"))
    assert code == 0, out
    assert [f'"id":{n}' in line for n, line in enumerate(out.splitlines(), 1)] == [True] * 4
