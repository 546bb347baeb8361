"""The demo's children are ended on every way out, however impatient the user and stubborn the child."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from gripperd.demo import children, main
from gripperd.demo.children import DemoError, child
from gripperd.demo.grippers import GRIPPERS

STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)",
)


async def test_a_child_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "END_LIMIT_S", 0.05)
    async with child("stubborn", STUBBORN, tmp_path / "log", lambda told: "ready" in told) as process:
        assert process.returncode is None
    assert process.returncode == -signal.SIGKILL


async def test_a_child_is_killed_when_nobody_has_the_time_to_wait_for_its_end(tmp_path: Path) -> None:
    async with child("stubborn", STUBBORN, tmp_path / "log", lambda told: "ready" in told) as process:
        ending = asyncio.create_task(children._end(process))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert process.returncode == -signal.SIGKILL


async def test_a_child_that_ends_before_it_is_ready_is_told_with_its_log(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "print('no such port'); raise SystemExit(3)")
    with pytest.raises(DemoError, match="odd did not start:\nno such port"):
        async with child("odd", command, tmp_path / "log", lambda told: "ready" in told):
            raise AssertionError("not reached")


async def test_only_the_first_interrupt_counts() -> None:
    """A second one would cut short the ending of the children."""
    loop, cancelled, ended = asyncio.get_running_loop(), [], []

    async def demo() -> None:
        main._end_when_told()
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            cancelled.append(signal.SIGINT)
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(0.01)  # the ending of the children
            ended.append(True)
            raise

    task = asyncio.create_task(demo())
    try:
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5.0)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    assert (cancelled, ended) == ([signal.SIGINT], [True])


@pytest.mark.parametrize(
    ("temporary", "parent"), [("/var/tmp", "/var/tmp"), ("/var/tmp/" + "x" * 90, "/tmp")], ids=["short", "long"]
)
def test_the_demos_folder_leaves_room_for_the_name_of_a_socket(
    temporary: str, parent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: temporary)
    monkeypatch.setattr("os.access", lambda *_: True)
    assert main._parent() == parent


def test_the_names_in_the_demos_folder_fit_the_room_that_is_kept_for_them() -> None:
    own = Path("gripperd-demo-12345678")
    longest = max(len(str(each.control(own))) for each in GRIPPERS.values())
    assert max(longest, len(str(own / "gripperd.sock"))) + 1 <= main.FOLDER_BYTES
