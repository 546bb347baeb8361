"""The client library against a daemon that misbehaves in every way."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gripperd.client import AnswerError, Client
from gripperd.contract import (
    Code,
    CommandRefusedError,
    ConnectionLostError,
    GripperdError,
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


def good(server: FakeServer, request: dict[str, Any]) -> None:
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
    async with fake_server(tmp_path / "s", good) as server, await Client.connect(tmp_path / "s") as client:
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
    async with fake_server(tmp_path / "s", good) as server, await Client.connect(tmp_path / "s") as client:
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="opening_width_m"):
                await client.gripper().move(value)
            with pytest.raises(ValueError, match="expected_object_width_m"):
                await client.gripper().grip(expected_object_width_m=value)
            with pytest.raises(ValueError, match="max_rate_hz"):
                client.gripper().states(value)
        with pytest.raises(ValueError, match="timeout_s"):
            await client.gripper().outcome(7, float("nan"))
        assert not server.requests


async def test_numbers_of_other_kinds_are_sent_as_plain_ones(tmp_path: Path) -> None:
    async with fake_server(tmp_path / "s", good) as server, await Client.connect(tmp_path / "s") as client:
        await client.gripper().move(Fraction(1, 32), relative_speed=1)  # type: ignore[arg-type]
        assert server.requests[0]["params"] == {"opening_width_m": 0.03125, "relative_speed": 1.0}


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


@pytest.mark.parametrize(
    "line",
    [
        b"{nonsense",
        b"[]",
        b"17",
        b'{"jsonrpc":"2.0","method":"gripper.state","params":{}}',
        b'{"jsonrpc":"2.0","method":"gripper.state","params":null}',
        b'{"jsonrpc":"2.0","method":"gripper.outcome","params":{"subscription":"1"}}',
        b'{"jsonrpc":"2.0","id":[1],"result":{}}',
        b'{"jsonrpc":"2.0","id":2,"error":"no"}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}',
        b"x" * 400_000,
    ],
    ids=lambda line: line[:60].decode(),
)
async def test_a_daemon_that_talks_nonsense_is_lost_at_once_for_calls_and_streams(tmp_path: Path, line: bytes) -> None:
    def nonsense(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "gripper.state":
            server.raw(line)
        else:
            good(server, request)

    async with fake_server(tmp_path / "s", nonsense) as server, await Client.connect(tmp_path / "s") as client:
        following = asyncio.create_task(anext(client.gripper().states()))
        await server.received(1)
        await client.gripper().open()  # the subscription is answered
        async with asyncio.timeout(2.0):  # less than the limit of a call: it is the loss that ends them
            with pytest.raises(ConnectionLostError, match="broke"):
                await client.gripper().state()
            with pytest.raises(ConnectionLostError, match="broke"):
                await following


async def test_notifications_of_a_later_contract_are_ignored(tmp_path: Path) -> None:
    def later(server: FakeServer, request: dict[str, Any]) -> None:
        server.notify("gripper.weather", sun=True)
        server.notify("planner.progress", subscription=1)
        good(server, request)

    async with fake_server(tmp_path / "s", later), await Client.connect(tmp_path / "s") as client:
        assert (await client.gripper().state()).seq == 1


async def test_an_answer_of_another_shape_is_its_own_error_and_the_connection_lives(tmp_path: Path) -> None:
    def other(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "gripper.state":
            server.result(request, {"width": 3})
        else:
            good(server, request)

    async with fake_server(tmp_path / "s", other), await Client.connect(tmp_path / "s") as client:
        with pytest.raises(AnswerError, match="GripperState does not fit contract 1: gripper"):
            await client.gripper().state()
        assert (await client.gripper().open()).command_seq == 7


async def test_a_stop_without_a_name_says_that_it_stopped_all(tmp_path: Path) -> None:
    def two(server: FakeServer, request: dict[str, Any]) -> None:
        replies = [REPLY, REPLY | {"gripper": "right"}]
        server.result(request, {"ok": True, "message": "", "replies": replies})

    async with fake_server(tmp_path / "s", two), await Client.connect(tmp_path / "s") as client:
        assert [reply.gripper for reply in (await client.stop_all()).replies] == ["left", "right"]
        with pytest.raises(GripperdError, match=r"left accepted, right accepted.*stop_all"):
            await client.gripper().stop()


async def test_no_daemon_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLostError, match="start gripperd"):
        await Client.connect(tmp_path / "none")


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
    async with fake_server(tmp_path / "s", good):
        for _ in range(20):
            async with await Client.connect(tmp_path / "s") as client:
                await client.gripper().state()
    left = {task for task in asyncio.all_tasks() - before if "gripperd client" in task.get_name()}
    assert not left
