"""The client library against a daemon that misbehaves in every way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import Client
from gripperd.client.connection import STATES_KEPT
from gripperd.contract import (
    Code,
    CommandRefusedError,
    ConnectionLostError,
    GraspState,
    InvalidParamsError,
    Outcome,
    RpcError,
)
from tests.client.fake_server import STATE, FakeServer, fake_server

REPLY = {"ok": True, "message": "", "code": "accepted", "gripper": "left", "command_seq": 7}
OUTCOME = {
    "gripper": "left",
    "command_seq": 7,
    "verb": "grip",
    "outcome": "contact",
    "message": "",
    "opening_width_valid": True,
    "opening_width_m": 0.03,
    "grasp_state": 2,
    "stamp": {"sec": 1, "nanosec": 0},
}


def _good(server: FakeServer, request: dict[str, Any]) -> None:
    method = request["method"]
    if method == "gripper.state":
        server.result(request, STATE)
    elif method == "gripper.wait":
        server.result(request, {"done": True, "outcome": OUTCOME})
    elif method == "gripper.subscribe":
        server.result(request, {"subscription": 1})
    elif method == "gripper.unsubscribe":
        server.result(request, {})
    else:
        server.result(request, REPLY)


async def test_commands_carry_their_parameters_and_give_their_outcome(tmp_path: Path) -> None:
    async with fake_server(tmp_path / "s", _good) as server, await Client.connect(tmp_path / "s") as client:
        gripper = client.gripper("left")
        command = await gripper.grip(relative_effort=0.5, expected_object_width_m=0.03)
        assert command.command_seq == 7
        assert (await command.outcome()).outcome is Outcome.CONTACT
        params = server.requests[0]["params"]
        assert params == {
            "gripper": "left",
            "relative_effort": 0.5,
            "relative_speed": 0.0,
            "expected_object_width_valid": True,
            "expected_object_width_m": 0.03,
        }
        await client.gripper().move(0.02)
        assert server.requests[2]["params"] == {"opening_width_m": 0.02, "relative_speed": 0.0}


async def test_answers_may_come_in_any_order(tmp_path: Path) -> None:
    held: list[dict[str, Any]] = []

    def backwards(server: FakeServer, request: dict[str, Any]) -> None:
        held.append(request)
        if len(held) == 3:
            for number, each in enumerate(reversed(held)):
                server.result(each, STATE | {"seq": each["id"], "command_seq": number})

    async with fake_server(tmp_path / "s", backwards), await Client.connect(tmp_path / "s") as client:
        states = await asyncio.gather(*(client.gripper().state() for _ in range(3)))
        assert [state.command_seq for state in states] == [2, 1, 0]


async def test_a_refusal_is_an_exception_with_the_reply(tmp_path: Path) -> None:
    def refuse(server: FakeServer, request: dict[str, Any]) -> None:
        server.result(request, REPLY | {"ok": False, "code": "not_active", "message": "activate it first"})

    async with fake_server(tmp_path / "s", refuse), await Client.connect(tmp_path / "s") as client:
        with pytest.raises(CommandRefusedError, match="activate it first") as error:
            await client.gripper().open()
        assert error.value.code is Code.NOT_ACTIVE
        with pytest.raises(CommandRefusedError):
            await client.gripper().stop()


async def test_errors_of_the_protocol_have_their_classes(tmp_path: Path) -> None:
    codes = iter((-32602, -32601))

    def fail(server: FakeServer, request: dict[str, Any]) -> None:
        server.error(request, next(codes), "no")

    async with fake_server(tmp_path / "s", fail), await Client.connect(tmp_path / "s") as client:
        with pytest.raises(InvalidParamsError):
            await client.info()
        with pytest.raises(RpcError) as error:
            await client.info()
        assert error.value.code == -32601


async def test_numbers_that_json_cannot_carry_are_refused_here(tmp_path: Path) -> None:
    async with fake_server(tmp_path / "s", _good) as server, await Client.connect(tmp_path / "s") as client:
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="opening_width_m"):
                await client.gripper().move(value)
        assert not server.requests


async def test_losing_the_daemon_fails_everything_at_once(tmp_path: Path) -> None:
    def die(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "gripper.subscribe":
            server.result(request, {"subscription": 1})
        elif request["method"] == "gripper.open":
            server.hang_up()

    async with fake_server(tmp_path / "s", die) as server, await Client.connect(tmp_path / "s") as client:
        gripper = client.gripper()
        states = gripper.states()
        following = asyncio.create_task(anext(states))
        pending = [asyncio.create_task(gripper.state()) for _ in range(3)]
        await server.received(4)
        with pytest.raises(ConnectionLostError):
            await gripper.open()
        for task in (*pending, following):
            with pytest.raises(ConnectionLostError):
                await task
        with pytest.raises(ConnectionLostError):
            await gripper.state()


@pytest.mark.parametrize("line", [b"{nonsense", b"[]", b"17", b'{"jsonrpc":"2.0","method":"x","params":{}}'])
async def test_a_daemon_that_talks_nonsense_is_lost_and_nothing_hangs(tmp_path: Path, line: bytes) -> None:
    def nonsense(server: FakeServer, request: dict[str, Any]) -> None:
        server.raw(line)

    async with fake_server(tmp_path / "s", nonsense), await Client.connect(tmp_path / "s") as client:
        with pytest.raises(ConnectionLostError):
            await client.gripper().state()


async def test_no_daemon_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLostError, match="start gripperd"):
        await Client.connect(tmp_path / "none")


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
        _good(server, request)
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
        _good(server, request)
        if request["method"] == "gripper.subscribe":
            for seq in range(1, 2 * STATES_KEPT + 1):
                server.notify("gripper.state", subscription=1, state=STATE | {"seq": seq}, dropped=0)
                if seq % 2:
                    server.notify("gripper.outcome", subscription=1, outcome=OUTCOME)

    async with fake_server(tmp_path / "s", many), await Client.connect(tmp_path / "s") as client:
        number, stream = await client._connection.subscribe({}, 5.0)
        await client.gripper().state()
        assert number == 1
        assert stream.dropped == STATES_KEPT
        events = [await stream.get() for _ in range(STATES_KEPT * 2)]
        seqs = [params["state"]["seq"] for event, params in events if event == "state"]
        assert seqs == list(range(STATES_KEPT + 1, 2 * STATES_KEPT + 1))


async def test_a_cancelled_call_harms_nothing(tmp_path: Path) -> None:
    held: list[dict[str, Any]] = []

    def late(server: FakeServer, request: dict[str, Any]) -> None:
        held.append(request)
        if len(held) == 2:
            for each in held:
                server.result(each, STATE | {"seq": each["id"]})

    async with fake_server(tmp_path / "s", late) as server, await Client.connect(tmp_path / "s") as client:
        call = asyncio.create_task(client.gripper().state())
        await server.received(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.gripper().state()).seq == 2


async def test_an_outcome_that_does_not_come_in_time_is_a_time_out(tmp_path: Path) -> None:
    def never(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "gripper.wait":
            assert request["params"]["timeout_s"] <= 0.05
            server.result(request, {"done": False, "outcome": None})
        else:
            server.result(request, REPLY)

    async with fake_server(tmp_path / "s", never), await Client.connect(tmp_path / "s") as client:
        command = await client.gripper().open()
        with pytest.raises(TimeoutError, match="command 7"):
            await command.outcome(timeout_s=0.05)


async def test_closing_the_client_leaves_no_task(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with fake_server(tmp_path / "s", _good):
        for _ in range(20):
            async with await Client.connect(tmp_path / "s") as client:
                await client.gripper().state()
    left = {task for task in asyncio.all_tasks() - before if "gripperd client" in task.get_name()}
    assert not left
