"""Subscriptions of the client library: nothing lost unseen, nothing left behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import AnswerError, Client
from gripperd.client.connection import EVENTS_KEPT, STATES_KEPT, Stream
from gripperd.contract import (
    CommandOutcome,
    ConnectionLostError,
    Event,
    Fault,
    GraspState,
    Link,
    Outcome,
)
from tests.client.fake_server import STATE, FakeServer, fake_server
from tests.client.test_client import OUTCOME, good


async def test_notifications_before_the_answer_are_not_lost(tmp_path: Path) -> None:
    def early(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "gripper.subscribe":
            server.notify("gripper.state", subscription=1, state=STATE | {"seq": 1}, dropped=0)
            server.result(request, {"subscription": 1})
            server.notify("gripper.state", subscription=1, state=STATE | {"seq": 2}, dropped=0)
        else:
            server.result(request, {})

    async with fake_server(tmp_path / "s", early), await Client.connect(tmp_path / "s") as client:
        states = client.gripper().states()
        assert [(await anext(states)).seq, (await anext(states)).seq] == [1, 2]
        await states.aclose()


async def test_leaving_a_loop_ends_the_subscription(tmp_path: Path) -> None:
    def one(server: FakeServer, request: dict[str, Any]) -> None:
        good(server, request)
        if request["method"] == "gripper.subscribe":
            server.notify("gripper.state", subscription=1, state=STATE, dropped=0)

    async with fake_server(tmp_path / "s", one) as server, await Client.connect(tmp_path / "s") as client:
        states = client.gripper().states()
        async for state in states:
            assert state.grasp_state is GraspState.HOLDING
            break
        await states.aclose()
        assert [each["method"] for each in server.requests] == ["gripper.subscribe", "gripper.unsubscribe"]


async def test_a_reader_that_is_too_slow_keeps_the_latest_states(tmp_path: Path) -> None:
    def many(server: FakeServer, request: dict[str, Any]) -> None:
        good(server, request)
        if request["method"] == "gripper.subscribe":
            for seq in range(1, 2 * STATES_KEPT + 1):
                server.notify("gripper.state", subscription=1, state=STATE | {"seq": seq}, dropped=0)
                if seq % 2:
                    server.notify("gripper.outcome", subscription=1, outcome=OUTCOME)

    async with fake_server(tmp_path / "s", many), await Client.connect(tmp_path / "s") as client:
        stream = Stream()
        assert await client._channel.connection.subscribe({}, stream, 5.0) == 1
        await client.gripper().state()
        assert stream.dropped == STATES_KEPT
        events = [await stream.get() for _ in range(STATES_KEPT * 2)]
        seqs = [params["state"]["seq"] for event, params in events if event == "state"]
        assert seqs == list(range(STATES_KEPT + 1, 2 * STATES_KEPT + 1))
        kinds = [event for event, _ in events[STATES_KEPT // 2 :]]
        assert kinds == [Event.STATE, Event.OUTCOME, Event.STATE] * (STATES_KEPT // 2)


async def test_a_user_sees_how_many_states_were_dropped(tmp_path: Path) -> None:
    def many(server: FakeServer, request: dict[str, Any]) -> None:
        good(server, request)
        if request["method"] == "gripper.subscribe":
            for seq in range(1, STATES_KEPT + 11):
                dropped = 5 if seq == 2 else 0
                server.notify("gripper.state", subscription=1, state=STATE | {"seq": seq}, dropped=dropped)

    async with fake_server(tmp_path / "s", many), await Client.connect(tmp_path / "s") as client:
        async with client.gripper().states() as states:
            assert states.dropped == 0
            await anext(states)
            await client.gripper().state()  # everything has come by now
            assert 5 + 9 <= states.dropped <= 5 + 10  # the first may have been taken before the others came
        with pytest.raises(StopAsyncIteration):
            await anext(states)


async def test_a_reader_that_reads_no_events_costs_limited_memory() -> None:
    stream = Stream()
    for number in range(EVENTS_KEPT + 100):
        stream.put(Event.OUTCOME, {"number": number})
    told = [(await stream.get())[1]["number"] for _ in range(EVENTS_KEPT)]
    assert told == list(range(EVENTS_KEPT))
    with pytest.raises(ConnectionLostError, match="were not read"):
        await stream.get()


@pytest.mark.parametrize("early", [False, True], ids=["answer after the cancellation", "answer before it"])
async def test_a_cancelled_subscription_is_ended_when_its_answer_comes(tmp_path: Path, early: bool) -> None:
    def late(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] != "gripper.subscribe":
            good(server, request)

    async with fake_server(tmp_path / "s", late) as server, await Client.connect(tmp_path / "s") as client:
        following = asyncio.create_task(anext(client.gripper().states()))
        await server.received(1)
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"subscription": 4}}
        if early:  # it is there, and its reader has not run yet
            client._channel.connection._take(json.dumps(answer).encode())
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        if not early:
            server.result(server.requests[0], {"subscription": 4})
        await server.received(2)
        assert server.requests[1]["method"] == "gripper.unsubscribe"
        assert server.requests[1]["params"] == {"subscription": 4}
        assert (await client.gripper().state()).seq == 1


async def test_leaving_a_loop_without_closing_ends_the_subscription(tmp_path: Path) -> None:
    def one(server: FakeServer, request: dict[str, Any]) -> None:
        good(server, request)
        if request["method"] == "gripper.subscribe":
            server.notify("gripper.state", subscription=1, state=STATE, dropped=0)

    async with fake_server(tmp_path / "s", one) as server, await Client.connect(tmp_path / "s") as client:
        async for _ in client.gripper().states():
            break
        await server.received(2)
        assert server.requests[1]["method"] == "gripper.unsubscribe"


async def test_events_are_decoded_and_odd_ones_are_an_error(tmp_path: Path) -> None:
    def tell(server: FakeServer, request: dict[str, Any]) -> None:
        good(server, request)
        if request["method"] == "gripper.subscribe":
            fault = {"code": 4, "text": "overcurrent"}
            server.notify("gripper.fault", subscription=1, gripper="left", fault=fault)
            server.notify("gripper.fault", subscription=1, gripper="left", fault=None)
            server.notify("gripper.link", subscription=1, gripper="left", link="down")
            server.notify("gripper.outcome", subscription=1, outcome=OUTCOME)
            server.notify("gripper.link", subscription=1, gripper="left", link="sideways")

    async with fake_server(tmp_path / "s", tell), await Client.connect(tmp_path / "s") as client:
        events = client.gripper().events(("fault", "link", "outcome"))
        assert await anext(events) == ("left", Fault(code=4, text="overcurrent"))
        assert await anext(events) == ("left", None)
        assert await anext(events) == ("left", Link.DOWN)
        outcome = await anext(events)
        assert isinstance(outcome, CommandOutcome)
        assert outcome.outcome is Outcome.CONTACT
        with pytest.raises(AnswerError, match="sideways"):
            await anext(events)
