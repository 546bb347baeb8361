"""The event loop is never blocked: no file is opened and no name resolved on it. And it is watched."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gripperd.clock import SystemClock
from gripperd.config import load_config
from gripperd.daemon import Daemon
from gripperd.drivers.registry import driver_specs
from gripperd.loop_watch import LOG_PERIOD_S, LoopWatch
from gripperd_sim.control import AsyncControlClient
from tests.e2e.processes import free_port, mosquitto, simulator, write_config
from tests.support.daemon_bench import Peer

BLOCKING = ("open", "os.listdir", "os.scandir", "os.system", "subprocess.Popen")
"""Audit events of calls that may block, beside everything that resolves a name."""
RESOLVING = ("socket.getaddrinfo", "socket.gethost", "socket.getnameinfo")


class Audit:
    """What the interpreter tells of one thread while `armed`. A hook cannot be taken away, so it is switched off."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.armed = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.armed and threading.get_ident() == self.thread and (event in BLOCKING or event.startswith(RESOLVING)):
            frame = sys._getframe(1)
            self.seen.append(f"{event} {arguments!r:.100} in {frame.f_code.co_filename}:{frame.f_lineno}")


@pytest.fixture(scope="module")
def audit() -> Audit:
    return Audit()


@contextlib.asynccontextmanager
async def _daemon_in_a_thread(config: Path, audit: Audit) -> AsyncIterator[Daemon]:
    """The daemon with a loop of its own in a thread of its own, so that its calls can be told from the test's."""
    made: asyncio.Future[tuple[Daemon, asyncio.AbstractEventLoop, asyncio.Event]]
    running: asyncio.Task[None]
    made = asyncio.get_running_loop().create_future()
    here = asyncio.get_running_loop()

    async def main() -> None:
        stop = asyncio.Event()
        daemon = Daemon(load_config(config, driver_specs()))
        audit.thread = threading.get_ident()
        here.call_soon_threadsafe(made.set_result, (daemon, asyncio.get_running_loop(), stop))
        await daemon.run(stop)

    running = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(main())))
    running.add_done_callback(lambda _: made.done() or made.cancel())  # it could not even be made
    daemon, loop, stop = await made
    try:
        yield daemon
    finally:
        loop.call_soon_threadsafe(stop.set)
        await running


async def _valid_state(peer: Peer, limit_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while (await peer.ask("gripper.state"))["link"] != "up":
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.05)


@pytest.mark.e2e
async def test_nothing_that_may_block_is_called_on_the_loop(tmp_path: Path, audit: Audit) -> None:
    """HANG: connect, command, lose the port and get it back, lose the broker by its name and get it back."""
    port = free_port()
    config = write_config(tmp_path, port)
    config.write_text(config.read_text().replace('host = "127.0.0.1"', 'host = "localhost"'))
    async with (
        contextlib.AsyncExitStack() as leave,
        simulator(tmp_path, "--option", "activation_s=0.2"),
        await AsyncControlClient.connect(tmp_path / "sim.sock") as sim,
        _daemon_in_a_thread(config, audit) as daemon,
    ):
        audit.armed = True
        try:
            async with mosquitto(tmp_path, port):
                peer = await _connected(tmp_path / "g.sock")
                leave.callback(peer.writer.close)
                await _valid_state(peer)
                assert await peer.outcome("activate") == "reached"
                assert await peer.outcome("open") == "reached"
                assert (await peer.ask("gripper.stop"))["ok"]
                await sim.call("unplug")
                await _until(lambda: daemon.crew.buses["tool0"].counters.port_lost > 0)
                await sim.call("plug")
                await _valid_state(peer)
                await _until(lambda: daemon.crew.publishers["left"].counters["states_published"] > 0)
            await _until(lambda: daemon.crew.publishers["left"].counters["connection_losses"] > 0)
            await asyncio.sleep(0.3)  # it tries in vain
        finally:
            audit.armed = False
    assert audit.seen == []


async def _connected(path: Path) -> Peer:
    await _until(path.exists)
    return Peer(*await asyncio.open_unix_connection(path))


async def _until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


def test_the_audit_sees_what_it_is_for(audit: Audit, tmp_path: Path) -> None:
    audit.thread, audit.armed = threading.get_ident(), True
    try:
        (tmp_path / "x").write_text("x")
        list(tmp_path.iterdir())
    finally:
        audit.armed = False
    kinds = [each.split()[0] for each in audit.seen]
    audit.seen.clear()
    assert kinds == ["open", "os.listdir"]


@contextlib.asynccontextmanager
async def _watched(limit_s: float = 0.02) -> AsyncIterator[LoopWatch]:
    watch = LoopWatch(SystemClock(), limit_s)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0.05)
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _block_the_loop() -> None:
    time.sleep(0.3)


def _compute_for_long() -> None:
    until_s = time.thread_time() + 0.3
    while time.thread_time() < until_s:
        sum(range(1000))


@pytest.mark.parametrize(
    ("guilty", "kind", "cause"),
    [
        (_block_the_loop, "stalls_blocked", "blocked in test_never_blocks.py"),
        (_compute_for_long, "stalls_busy", "busy in test_never_blocks.py"),
    ],
)
async def test_a_stall_is_counted_and_logged_with_its_cause(guilty: Callable[[], None], kind: str, cause: str) -> None:
    with capture_logs() as logs:
        async with _watched(limit_s=0.15) as watch:  # above what a loaded machine does by itself
            guilty()
            await asyncio.sleep(0.05)
    assert watch.counters.stalls >= 1
    assert getattr(watch.counters, kind) >= 1
    assert watch.counters.longest_stall_s >= 0.25
    told = [each for each in logs if each["event"] == "loop_stalled"]
    assert cause in told[0]["cause"]
    assert str(getattr(guilty, "__name__", None)) in told[0]["cause"]
    assert told[0]["stall_s"] >= 0.25


async def test_many_stalls_are_counted_and_not_all_logged() -> None:
    with capture_logs() as logs:
        async with _watched(limit_s=0.1) as watch:
            for _ in range(3):
                _block_the_loop()
                await asyncio.sleep(0.05)
    assert watch.counters.stalls >= 3
    assert len([each for each in logs if each["event"] == "loop_stalled"]) == 1
    assert LOG_PERIOD_S > 1.0


async def test_the_watch_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    async with _watched():
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
