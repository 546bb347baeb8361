"""The units with systemd's own tools, where they are; nothing here touches this machine's services."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gripperd.client import Client
from tests.e2e.processes import END_LIMIT_S, process, simulator, soon, write_config

FOLDER = Path(__file__).parent.parent.parent / "systemd"
EXPOSURE = 1.5
"""The score of `systemd-analyze security` that must not be exceeded (0: nothing is exposed, 10: everything)."""


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not here: it comes with systemd")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units as they are installed, but for the program's path, which must exist."""
    for path in (*FOLDER.glob("gripperd.*"),):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            (tmp_path / path.name).write_text(text.replace("/usr/bin/gripperd", sys.executable))
    return tmp_path


@needs("systemd-analyze")
@pytest.mark.parametrize("name", ["gripperd.service", "gripperd.socket"])
def test_systemd_understands_every_line(units: Path, name: str) -> None:
    found = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", str(units / name))
    ours = [line for line in found.stderr.splitlines() if "gripperd" in line]
    assert found.returncode == 0, found.stderr
    assert not ours, ours


@needs("systemd-analyze")
def test_the_exposure_is_as_documented(units: Path) -> None:
    found = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(units / "gripperd.service"))
    score = re.search(r"Overall exposure level for gripperd\.service: ([\d.]+)", found.stdout)
    assert score is not None, found.stdout + found.stderr
    assert float(score[1]) <= EXPOSURE, found.stdout
    documented = (FOLDER.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    assert f"exposure {score[1]}" in documented


@needs("systemd-sysusers")
@pytest.mark.skipif(os.getuid() != 0, reason="systemd-sysusers writes into a root folder as root only")
def test_the_user_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = run("systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "sysusers.conf"))
    assert made.returncode == 0, made.stderr
    assert re.search(r"^gripperd:.*:/run/gripperd:/usr/sbin/nologin$", (tmp_path / "etc/passwd").read_text(), re.M)
    assert re.search(r"^dialout:.*gripperd", (tmp_path / "etc/group").read_text(), re.M)


@needs("systemd-socket-activate")
async def test_a_socket_that_systemd_opened_is_served_and_left_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("g")
    path = folder / "handed.sock"
    config = write_config(folder)
    arguments = ["systemd-socket-activate", "-l", str(path), "--fdname=gripperd.socket"]
    arguments += [f"-EPYTHONPATH={os.environ.get('PYTHONPATH', '')}"]
    arguments += [sys.executable, "-m", "gripperd", "run", "--config", str(config)]
    async with simulator(folder), process(arguments, folder / "daemon.log") as running:

        async def there() -> bool:
            return path.exists()

        await soon(there, "socket of systemd-socket-activate")
        async with await Client.connect(path, timeout_s=END_LIMIT_S) as client:

            async def up() -> bool:
                return (await client.gripper().state()).link == "up"

            await soon(up, "link", END_LIMIT_S)
            assert (await client.gripper().stop()).reply.ok
        assert not (folder / "g.sock").exists(), "it opened no socket of its own"
        assert await running.end() == 0
    assert path.exists(), "it belongs to the manager"
    await asyncio.sleep(0)
