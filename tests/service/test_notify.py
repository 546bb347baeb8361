"""What a service manager is told, and when its watchdog is not fed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gripperd.activation import ActivationError, inherited_socket
from gripperd.notify import STUCK_S, Notifier, Rounds, Watchdog
from tests.support.daemon_bench import Bench, until
from tests.support.virtual_time import VirtualClock, run_virtual


class Manager:
    """The manager's end of the notify socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.told: list[str] = []

    def read(self) -> list[str]:
        """All lines so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.told += self._socket.recv(4096).decode().splitlines()
        return self.told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Manager, str]]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@gripperd-test-{os.getpid()}"
    made = Manager(address)
    yield made, address
    made.close()


async def test_ready_alive_and_stopping_in_this_order(tmp_path: Path, manager: tuple[Manager, str]) -> None:
    told, address = manager
    bench, stop = Bench(tmp_path, {"left": 9}), asyncio.Event()
    bench.daemon.notifier.__init__(address, 0.15)  # type: ignore[misc]
    task = asyncio.create_task(bench.daemon.run(stop))
    await until(lambda: told.read().count("WATCHDOG=1") >= 4)
    stop.set()
    await task
    lines = told.read()
    assert lines.count("READY=1") == 1
    assert "STATUS=1 gripper on " + str(bench.path) in lines
    assert lines.index("READY=1") < lines.index("STOPPING=1")
    assert lines[-2:] == ["STOPPING=1", "STATUS=stopping"] or "WATCHDOG=1" in lines[-2:]


def test_a_gripper_without_rounds_starves_the_watchdog_and_is_named() -> None:
    """Whatever holds its owner: nobody else is asked."""
    alive: list[float] = []

    class Fake(Notifier):
        def alive(self) -> None:
            alive.append(asyncio.get_running_loop().time())

    async def play() -> None:
        seqs = {"left": 1, "right": 1}
        watchdog = Watchdog(Fake(None, 6.0), VirtualClock(), lambda: seqs)
        task = asyncio.create_task(watchdog.run())
        with capture_logs() as logs:
            for _ in range(30):
                await asyncio.sleep(1.0)
                seqs["left"] += 1
                seqs["right"] += alive[-1] - alive[0] < 5
            fed = len(alive)
            assert alive[-1] - alive[0] < 5 + STUCK_S + 2
            seqs["right"] += 1
            await asyncio.sleep(3.0)
            assert len(alive) > fed, "it goes on: fed again"
        task.cancel()
        assert [each["grippers"] for each in logs if each["event"] == "watchdog_not_fed"] == [["right"]]

    run_virtual(play())


def test_rounds_are_stuck_after_ten_seconds_without_a_new_number() -> None:
    rounds = Rounds()
    assert rounds.stuck({"a": 0, "b": 0}, 100.0) == []
    assert rounds.stuck({"a": 1, "b": 0}, 109.0) == []
    assert rounds.stuck({"a": 1, "b": 0}, 110.1) == ["b"]
    assert rounds.stuck({"a": 1, "b": 1}, 112.0) == []
    assert rounds.stuck({"a": 1, "b": 1}, 119.2) == ["a"]


@pytest.mark.parametrize(
    ("environment", "managed", "watchdog_s"),
    [
        ({}, False, 0.0),
        ({"NOTIFY_SOCKET": "/x"}, True, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "20000000"}, True, 20.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}, True, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, True, 0.0),
    ],
)
def test_the_environment_of_systemd(environment: dict[str, str], managed: bool, watchdog_s: float) -> None:
    notifier = Notifier.from_environment(environment)
    assert (notifier.managed, notifier.watchdog_s) == (managed, watchdog_s)


def test_a_manager_that_is_gone_is_told_once_in_the_log(tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "nobody"))
    with capture_logs() as logs:
        notifier.ready("x")
        notifier.alive()
    assert [each["event"] for each in logs] == ["service_manager_not_told"]


def test_sockets_of_another_process_are_not_ours() -> None:
    assert inherited_socket({}) is None
    assert inherited_socket({"LISTEN_PID": "1", "LISTEN_FDS": "1"}) is None
    with pytest.raises(ActivationError, match="2 sockets"):
        inherited_socket({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})
