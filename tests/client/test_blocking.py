"""The blocking twin: the same names, from several threads, against the real daemon over a simulated device."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gripperd import client as asyncio_package
from gripperd.client import blocking
from gripperd.contract import Code, CommandRefusedError, ConnectionLostError, Outcome
from tests.client.fake_server import STATE, FakeServer, fake_server
from tests.support.daemon_bench import bench


@pytest.mark.parametrize("name", ["Client", "Gripper", "PendingCommand"])
def test_both_clients_have_the_same_names_and_parameters(name: str) -> None:
    ours, theirs = getattr(blocking, name), getattr(asyncio_package, name)
    public = {each for each in dir(theirs) if not each.startswith("_")}
    assert public <= set(dir(ours)) | {"name", "reply"}
    for each in public:
        method = getattr(theirs, each)
        if inspect.isfunction(method):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(getattr(ours, each)).parameters
            ), each


async def test_a_pick_without_asyncio(tmp_path: Path) -> None:
    def pick(path: Path) -> None:
        with blocking.Client.connect(path) as client:
            gripper = client.gripper("left")
            with pytest.raises(CommandRefusedError) as refused:
                gripper.open()
            assert refused.value.code is Code.NOT_ACTIVE
            assert gripper.activate().outcome().outcome is Outcome.REACHED
            assert gripper.move(0.03, relative_speed=1.0).outcome().outcome is Outcome.REACHED
            states = gripper.states()
            first, second = next(states), next(states)
            assert second.seq == first.seq + 1
            assert states.dropped == 0
            states.close()
            assert gripper.info().max_opening_width_m == 0.075
            assert client.grippers().grippers[0].name == "left"
            assert client.stop_all().ok
            assert client.info().contract == 1
            assert client.statistics()["bus"]["tool0"]["transactions"] > 0
        client.close()

    async with bench(tmp_path) as b:
        await asyncio.to_thread(pick, b.path)


async def test_a_stop_from_one_thread_works_while_another_waits(tmp_path: Path) -> None:
    def work(path: Path) -> None:
        with blocking.Client.connect(path) as client:
            gripper = client.gripper()
            gripper.activate().outcome()
            command = gripper.move(0.075, relative_speed=0.01)
            outcomes = []
            waiting = threading.Thread(target=lambda: outcomes.append(command.outcome(timeout_s=20.0)))
            waiting.start()
            assert gripper.stop().reply.ok
            waiting.join(10.0)
            assert [outcome.outcome for outcome in outcomes] == [Outcome.STOPPED]

    async with bench(tmp_path) as b:
        await asyncio.to_thread(work, b.path)


def test_no_daemon_is_an_error_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ConnectionLostError):
        blocking.Client.connect(tmp_path / "none")
    assert threading.active_count() == before


REPLY = {"ok": True, "message": "", "code": "accepted", "gripper": "left", "command_seq": 7}


def _one_state(server: FakeServer, request: dict[str, Any]) -> None:
    """One state for each subscription, and no outcome ever."""
    method = request["method"]
    if method == "gripper.subscribe":
        server.result(request, {"subscription": 1})
        server.notify("gripper.state", subscription=1, state=STATE, dropped=0)
    elif method != "gripper.wait":
        server.result(request, STATE if method == "gripper.state" else REPLY)


@contextlib.contextmanager
def _served(path: Path) -> Iterator[FakeServer]:
    """The fake server in a thread of its own, so that the test's thread can block."""
    ready, servers, ends = threading.Event(), [], []

    async def serve() -> None:
        async with fake_server(path, _one_state) as server:
            end = asyncio.Event()
            servers.append(server)
            ends.append((asyncio.get_running_loop(), end))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(10.0)
        yield servers[0]
    finally:
        for loop, end in ends:
            loop.call_soon_threadsafe(end.set)
        thread.join(10.0)
        assert not thread.is_alive()


def _methods(server: FakeServer) -> list[str]:
    return [request["method"].removeprefix("gripper.") for request in server.requests]


def test_closing_ends_what_other_threads_wait_for(tmp_path: Path) -> None:
    ended: list[object] = []

    def waiting(wait: Any) -> None:
        try:
            wait()
        except ConnectionLostError as error:
            ended.append(error)

    before = threading.active_count()
    with _served(tmp_path / "s") as server:
        client = blocking.Client.connect(tmp_path / "s")
        command, states = client.gripper().open(), client.gripper().states()
        assert next(states).seq == 1
        waits = [command.outcome, command.outcome, command.outcome, lambda: next(states)]
        threads = [threading.Thread(target=waiting, args=(wait,), daemon=True) for wait in waits]
        for thread in threads:
            thread.start()
        while _methods(server).count("wait") < 3:
            client.gripper().state()
        client.close()
        for thread in threads:
            thread.join(5.0)
        assert len(ended) == len(waits)
    assert threading.active_count() == before


def test_a_closed_client_is_an_error_that_says_so_and_warns_of_nothing(tmp_path: Path) -> None:
    with _served(tmp_path / "s"):
        with blocking.Client.connect(tmp_path / "s") as client:
            states = client.gripper().states()
            next(states)
        for call in (client.info, client.gripper().stop, client.stop_all, states.__next__):
            with pytest.raises(ConnectionLostError, match="closed: connect a new one"):
                call()
        states.close()
        del states, call
        gc.collect()


def test_leaving_a_loop_ends_the_subscription(tmp_path: Path) -> None:
    with _served(tmp_path / "s") as server, blocking.Client.connect(tmp_path / "s") as client:
        for state in client.gripper().states():
            assert state.seq == 1
            break
        with client.gripper().states() as states:
            next(states)
        with pytest.raises(StopIteration):
            next(states)
        assert _methods(server) == ["subscribe", "unsubscribe"] * 2


def test_an_interrupt_in_a_loop_leaves_the_connection_in_order(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    try:
        with _served(tmp_path / "s") as server, blocking.Client.connect(tmp_path / "s") as client:
            timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1))
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (the second state never comes)
                for _ in client.gripper().states():
                    timer.start()
            timer.join()
            assert _methods(server) == ["subscribe", "unsubscribe"]
            assert client.gripper().state().seq == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_subscription_in_a_cycle_is_collected_without_a_deadlock(tmp_path: Path) -> None:
    """The garbage collector runs where it likes, also in the client's own thread."""
    with _served(tmp_path / "s") as server, blocking.Client.connect(tmp_path / "s") as client:
        states = client.gripper().states()
        next(states)
        cycle: list[object] = [states]
        cycle.append(cycle)
        del states, cycle

        async def collect() -> None:
            gc.collect()

        client._runner.call(collect())
        while "unsubscribe" not in _methods(server):
            client.gripper().state()
