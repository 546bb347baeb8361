"""The README's first command, as a user types it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gripperd.demo import broker
from gripperd.demo.grippers import GRIPPERS
from gripperd.demo.main import run_demo

pytestmark = pytest.mark.e2e

COMMAND = (sys.executable, "-m", "gripperd", "demo")
LIMIT_S = 50.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """For $TMPDIR: its path is so short that the demo's sockets are in it, whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="gripperd-test-", dir="/tmp") as name:
        yield Path(name)


def _children_of_the_demo(marker: str) -> dict[int, str]:
    """Command lines that name the demo's folder, by process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marker in command:
                found[int(entry.name)] = command
    return found


def _check_nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert _children_of_the_demo(str(folder)) == {}


@contextlib.asynccontextmanager
async def _once(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`gripperd demo --once` of which the first step is done."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "--once", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}
    )
    try:
        assert child.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            while b"as expected" not in await child.stdout.readline():
                assert not child.stdout.at_eof()
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
            await child.wait()


@pytest.mark.parametrize("grippers", ["rg75", "rg75,franka_hand"])
async def test_once_checks_every_outcome_and_leaves_nothing_behind(folder: Path, grippers: str) -> None:
    scripts = [GRIPPERS[name].script for name in grippers.split(",")]
    steps = sum(map(len, scripts))
    arguments = (*COMMAND, "--once", "--grippers", grippers)
    child = await asyncio.create_subprocess_exec(
        *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}
    )
    out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    lines = out.decode().splitlines()
    assert child.returncode == 0, (lines, err.decode())
    assert lines[-1] == f"demo: {steps} of {steps} steps as expected"
    assert sum("as expected" in line for line in lines) == steps + 1
    assert any(line.endswith("came over MQTT") and not line.startswith("0 ") for line in lines)
    _check_nothing_is_left(folder)


@pytest.mark.parametrize("grippers", ["rg75", "rg75,franka_hand"])
def test_on_a_terminal_it_shows_the_live_view_until_it_is_interrupted(folder: Path, grippers: str) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(folder), "TERM": "xterm", "COLUMNS": "140", "LINES": "40"}
    child = subprocess.Popen(
        [*COMMAND, "--grippers", grippers],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    seen, deadline_s = b"", time.monotonic() + LIMIT_S
    try:
        while b"HOLDING" not in seen.replace(b"NOT_HOLDING", b""):
            assert time.monotonic() < deadline_s, seen[-2000:]
            seen += os.read(master, 65_536)
        child.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(master, 65_536)
            except OSError:
                break
        assert child.wait(LIMIT_S) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)
    text = seen.decode(errors="replace")
    for word in (*grippers.split(","), "width [mm]", "motion", "grasp", "command", "link", "round trip", "states/s"):
        assert word in text
    _check_nothing_is_left(folder)


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
async def test_a_kill_and_a_closed_terminal_leave_nothing_behind(told: signal.Signals, folder: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}
    )
    assert child.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        while b"as expected" not in await child.stdout.readline():
            assert not child.stdout.at_eof()
        child.send_signal(told)
        _, err = await child.communicate()
    assert (child.returncode, err.decode()) == (0, "demo: ended\n")
    _check_nothing_is_left(folder)


async def test_once_that_is_interrupted_was_not_as_expected(folder: Path) -> None:
    async with _once(folder) as child:
        for _ in range(3):  # an impatient person
            child.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    assert (child.returncode, err.decode()) == (1, "demo: ended\n")
    _check_nothing_is_left(folder)


async def test_a_daemon_that_dies_ends_the_demo_with_the_end_of_its_log(folder: Path) -> None:
    async with _once(folder) as child:
        (daemon,) = [pid for pid, told in _children_of_the_demo(str(folder)).items() if "-m gripperd run" in told]
        os.kill(daemon, signal.SIGKILL)
        _, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    assert child.returncode == 1
    first, *more = err.decode().splitlines()
    assert first.startswith("gripperd demo: the daemon closed the connection")
    assert "the end of the daemon's log:" in more
    assert "Traceback" not in err.decode()
    _check_nothing_is_left(folder)


async def test_a_temporary_folder_too_long_for_sockets_does_not_matter(folder: Path) -> None:
    long = folder / ("x" * 100)
    long.mkdir()
    async with _once(long) as child:  # it has started, so the sockets are somewhere else
        child.send_signal(signal.SIGTERM)
        await asyncio.wait_for(child.communicate(), LIMIT_S)
    assert list(long.iterdir()) == []


def test_an_unknown_demo_gripper_is_named_with_the_valid_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(once=True, grippers=["rg57"]) == 2
    assert "valid: rg75" in capsys.readouterr().err


def test_a_part_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker, "mosquitto_program", lambda: None)
    monkeypatch.setattr(broker, "has_embedded", lambda: False)
    assert run_demo(once=True, grippers=["rg75"]) == 1
    assert "apt-get install mosquitto" in capsys.readouterr().err
