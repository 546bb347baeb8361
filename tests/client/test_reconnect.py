"""A client that outlives its daemon: what fails, what goes on, and that nothing is sent twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import Client
from gripperd.client.blocking import Client as BlockingClient
from gripperd.contract import CommandRefusedError, ConnectionLostError, GripperState, MotionState
from tests.client.fake_server import STATE, FakeServer, fake_server
from tests.support.daemon_bench import bench, until

HELLO = {"name": "pick", "on_disconnect": "stop", "heartbeat_s": 0.0}


def answer(server: FakeServer, request: dict[str, Any]) -> None:
    """What a daemon says; it never answers a move."""
    results: dict[str, object] = {
        "client.hello": {"client": 7},
        "client.beat": {},
        "gripper.state": STATE,
        "gripper.subscribe": {"subscription": 1},
        "gripper.unsubscribe": {},
    }
    if request["method"] in results:
        server.result(request, results[request["method"]])
    if request["method"] == "gripper.subscribe":
        server.notify("gripper.state", subscription=1, state=STATE, dropped=0)


@contextlib.asynccontextmanager
async def twice(path: Path) -> AsyncIterator[tuple[Client, FakeServer]]:
    """A client that reconnects, and its first daemon."""
    async with fake_server(path, answer) as server, await Client.connect(path, reconnect=True) as client:
        yield client, server


async def test_a_call_under_way_fails_and_is_not_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    async with twice(path) as (client, first):
        moving = asyncio.create_task(client.gripper("left").move(0.03))
        await first.received(1)
        first.hang_up()
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            await moving
        assert not client.connected
        with pytest.raises(ConnectionLostError):
            await client.gripper("left").move(0.03)
        await client.wait_connected(5.0)
        assert client.connected
        assert (await client.gripper("left").state()).opening_width_m == 0.03
        assert client.reconnects == 1
        assert [each["method"] for each in first.requests] == ["gripper.move", "gripper.state"]


async def test_hello_comes_first_on_every_connection(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    async with twice(path) as (client, server):
        assert await client.hello("pick", on_disconnect="stop") == 7
        for n in range(1, 4):
            server.hang_up()
            await until(lambda n=n: client.reconnects == n)  # type: ignore[misc]
        assert [(each["method"], each["params"]) for each in server.requests] == [("client.hello", HELLO)] * 4


async def test_states_go_on_with_the_next_connection(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    async with twice(path) as (client, server), client.gripper("left").states() as states:
        async with asyncio.timeout(5.0):
            assert (await anext(states)).seq == 1
            server.hang_up()
            assert (await anext(states)).seq == 1
            server.notify("gripper.state", subscription=1, state={**STATE, "seq": 2}, dropped=3)
            assert (await anext(states)).seq == 2
        assert states.dropped == 3


async def test_beats_are_sent_by_themselves_also_on_the_next_connection(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"

    def beats() -> int:
        return sum(each["method"] == "client.beat" for each in server.requests)

    async with twice(path) as (client, server):
        await client.hello("loop", heartbeat_s=0.15)
        await until(lambda: beats() >= 3)
        server.hang_up()
        await until(lambda: client.reconnects == 1)
        before = beats()
        await until(lambda: beats() >= before + 3)
        await client.hello("loop", heartbeat_s=0.15, auto_beat=False)
        before = beats()
        await asyncio.sleep(0.2)
        assert beats() == before
        await client.beat()
        assert beats() == before + 1


async def test_closing_ends_everything_also_while_the_daemon_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    async with fake_server(path, answer) as server:
        client = await Client.connect(path, reconnect=True)
        await client.hello("loop", heartbeat_s=0.1)
        states = client.gripper("left").states()
        await anext(states)
        waiting = asyncio.create_task(states.__anext__())
        server.hang_up()
    path.unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert not waiting.done(), "it waits for the daemon to come back"
    await client.close()
    with pytest.raises(ConnectionLostError):
        await waiting
    with pytest.raises(ConnectionLostError):
        await client.wait_connected(1.0)
    assert {task.get_name() for task in asyncio.all_tasks() if "gripperd" in task.get_name()} == set()


async def test_a_daemon_that_was_never_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLostError, match="there is no socket"):
        await Client.connect(tmp_path / "g.sock", reconnect=True)


async def test_a_real_daemon_that_restarts_is_found_again(tmp_path: Path) -> None:
    seen: list[GripperState] = []

    async def follow(client: Client) -> None:
        async for state in client.gripper().states():
            seen.append(state)

    async with contextlib.AsyncExitStack() as stack:
        async with bench(tmp_path) as b:
            client = await stack.enter_async_context(await Client.connect(b.path, reconnect=True))
            following = asyncio.create_task(follow(client))
            await until(lambda: len(seen) > 10)
        count = len(seen)
        async with bench(tmp_path):
            await until(lambda: len(seen) > count + 10)
            assert (await client.info()).boot_id == seen[-1].boot_id != seen[0].boot_id
            assert client.reconnects >= 1
            following.cancel()


def test_the_blocking_client_has_the_same_sessions(tmp_path: Path) -> None:
    async def play() -> None:
        async with bench(tmp_path) as b:
            await asyncio.to_thread(blocking, b.path)
            await until(lambda: b.daemon.service.session_counters.stopped_on_loss == 1)

    def blocking(path: Path) -> None:
        with BlockingClient.connect(path) as other, BlockingClient.connect(path, reconnect=True) as client:
            assert client.hello("pick", on_disconnect="stop", heartbeat_s=5.0, auto_beat=False) == 2
            client.beat()
            gripper = client.gripper()
            with client.exclusive():
                gripper.activate().outcome(10.0)
                with pytest.raises(CommandRefusedError, match="'pick'"):
                    other.gripper().open()
                with pytest.raises(CommandRefusedError):
                    other.acquire()
            other.gripper().grip().outcome(10.0)
            gripper.move(0.075, 0.01)
            while gripper.state().motion_state is not MotionState.MOVING:
                pass
            assert [each.name for each in client.clients().clients] == ["", "pick"]
            assert (client.connected, client.reconnects) == (True, 0)

    asyncio.run(play())
