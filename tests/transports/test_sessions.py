"""Sessions, rights and the stop's own path over the socket, with a whole daemon behind it."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import socket
from pathlib import Path
from typing import Any

import pytest

from gripperd.contract import ClientEntry, LastCommand, MotionState
from gripperd.transports.peers import AccessError, Credentials, access_rule, read_credentials
from gripperd.transports.unix_socket import SocketError
from tests.support.daemon_bench import Bench, Peer, bench, until

STOP_FRAME = bytes.fromhex("091003e800010200012478")
STOP_LINE = b'{"jsonrpc":"2.0","id":"stop","method":"gripper.stop"}'


def words(b: Bench, since: int) -> list[bytes]:
    """What was written to the device."""
    return [each.frame for each in b.line.seen[since:] if each.frame[1] == 0x10]


async def slow_move(b: Bench, peer: Peer) -> None:
    await peer.outcome("activate")
    assert await peer.outcome("grip") == "closed_empty"
    assert (await peer.ask("gripper.move", opening_width_m=0.075, relative_speed=0.01))["ok"]
    await until(lambda: b.daemon.store.latest("left").motion_state is MotionState.MOVING)


async def test_hello_and_list_have_the_fields_of_the_contract(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer, other = await b.peer(), await b.peer()
        assert await peer.ask("client.hello", name="pick", on_disconnect="stop", heartbeat_s=30.0) == {"client": 1}
        assert await peer.ask("client.beat") == {}
        assert await other.ask("client.hello") == {"client": 2}
        await peer.outcome("activate")
        told = await other.ask("client.list")
        assert list(told) == ["clients", "last_commands"]
        first, second = told["clients"]
        assert list(first) == list(ClientEntry.model_fields)
        assert (first["name"], first["transport"], first["pid"]) == ("pick", "unix", os.getpid())
        assert first["user"] == pwd.getpwuid(os.getuid()).pw_name
        assert (first["on_disconnect"], first["heartbeat_s"]) == ("stop", 30.0)
        assert (first["commanded_last"], second["commanded_last"]) == (["left"], [])
        [last] = told["last_commands"]
        assert list(last) == list(LastCommand.model_fields)
        assert (last["client"], last["verb"], last["connected"]) == (1, "activate", True)


@pytest.mark.parametrize("way", ["closes", "breaks off", "sends no more"])
async def test_a_client_that_asked_for_it_is_stopped_however_it_ends(tmp_path: Path, way: str) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.ask("client.hello", on_disconnect="stop")
        await slow_move(b, peer)
        await peer.ask("gripper.subscribe", events=["outcome"])
        before = len(b.line.seen)
        if way == "closes":
            peer.writer.close()
        elif way == "breaks off":
            peer.writer.transport.abort()
        else:
            peer.writer.write_eof()
        await until(lambda: STOP_FRAME in words(b, before))
        if way == "sends no more":
            assert {(await peer.line())["params"]["outcome"]["outcome"] for _ in range(2)} == {"stopped"}


async def test_a_client_that_asked_for_nothing_leaves_the_motion_alone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer, other = await b.peer(), await b.peer()
        await peer.ask("client.hello", name="pick")
        await slow_move(b, peer)
        before = len(b.line.seen)
        peer.writer.close()
        await until(lambda: b.daemon.socket.counters["connected"] == 1)
        assert (await other.ask("gripper.state"))["motion_state"] == MotionState.MOVING
        assert words(b, before) == []


async def test_the_end_of_the_daemon_is_no_loss_of_its_clients(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.ask("client.hello", on_disconnect="stop")
        await slow_move(b, peer)
        before = len(b.line.seen)
        b._peers.clear()
    assert words(b, before) == []
    peer.writer.close()


async def test_two_programs_do_not_fight(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer, other = await b.peer(), await b.peer()
        await peer.ask("client.hello", name="pick")
        await peer.outcome("activate")
        taken = await peer.ask("client.acquire")
        assert (taken["ok"], taken["code"], taken["gripper"]) == (True, "accepted", "left")
        refused = await other.ask("gripper.open")
        assert (refused["ok"], refused["code"], refused["command_seq"]) == (False, "not_permitted", 0)
        assert "'pick'" in refused["message"]
        assert (await other.ask("client.acquire"))["code"] == "not_permitted"
        assert (await other.ask("client.release"))["code"] == "not_permitted"
        assert (await other.ask("gripper.stop"))["ok"], "a stop ignores it"
        assert (await peer.ask("gripper.open"))["ok"]
        assert (await peer.ask("client.release"))["ok"]
        assert (await other.ask("gripper.open"))["ok"]
        await peer.ask("client.acquire")
        peer.writer.close()
        await until(lambda: b.daemon.socket.counters["connected"] == 1)
        assert (await other.ask("gripper.open"))["ok"], "the right ends with the connection"


@pytest.mark.parametrize(
    "line",
    [
        b'"client.hello","params":{"name":7}',
        b'"client.hello","params":{"name":"a\\u0007b"}',
        b'"client.hello","params":{"name":"' + b"n" * 65 + b'"}',
        b'"client.hello","params":{"on_disconnect":"open"}',
        b'"client.hello","params":{"heartbeat_s":0.01}',
        b'"client.hello","params":{"heartbeat_s":true}',
        b'"client.hello","params":{"beat":1}',
        b'"client.beat"',
        b'"client.acquire","params":{"gripper":"lefd"}',
        b'"client.list","params":{"gripper":"left"}',
    ],
)
async def test_bad_session_requests_are_invalid_params(tmp_path: Path, line: bytes) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        peer.send(b'{"jsonrpc":"2.0","id":1,"method":' + line + b"}")
        error = (await peer.answer())["error"]
        assert error["code"] == -32602
        assert error["message"]
        assert await peer.ask("client.hello") == {"client": 1}


# --- who may command


async def test_who_is_not_listed_may_observe_and_stop_but_not_command(tmp_path: Path) -> None:
    somebody = "nobody" if os.getuid() != pwd.getpwnam("nobody").pw_uid else "root"
    async with bench(tmp_path, command_users=[somebody]) as b:
        peer = await b.peer()
        refused = await peer.ask("gripper.activate")
        assert (refused["ok"], refused["code"]) == (False, "not_permitted")
        assert f"uid {os.getuid()}" in refused["message"]
        assert f"command_users = ['{somebody}']" in refused["message"]
        assert (await peer.ask("client.acquire"))["code"] == "not_permitted"
        assert (await peer.ask("gripper.state"))["link"] == "up"
        assert await peer.ask("gripper.subscribe") == {"subscription": 1}
        assert (await peer.ask("gripper.stop"))["ok"]
        [entry] = (await peer.ask("client.list"))["clients"]
        assert entry["may_command"] is False
        assert b.writes() == 0


async def test_who_is_listed_by_user_or_by_group_may_command(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"command_users": [pwd.getpwuid(os.getuid()).pw_name]},
        {"command_users": ["4294967294", str(os.getuid())]},
        {"command_groups": [grp.getgrgid(os.getgid()).gr_name]},
        {"command_users": ["4294967294"], "command_groups": [str(os.getgid())]},
    ]
    for rule in rules:
        async with bench(tmp_path, **rule) as b:
            assert await (await b.peer()).outcome("activate") == "reached"


async def test_unknown_users_and_groups_are_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match=r"command_users: there is no user 'no-such-user'"):
        await Bench(tmp_path, {"left": 9}, command_users=["no-such-user"]).daemon.run(asyncio.Event())
    with pytest.raises(SocketError, match=r"command_groups: there is no group 'no-such-group'"):
        await Bench(tmp_path, {"left": 9}, command_groups=["no-such-group"]).daemon.run(asyncio.Event())


def test_the_rule_looks_at_user_and_all_groups() -> None:
    rule = access_rule(["1001"], ["50", "60"])
    assert rule.observe_only(Credentials(1, 1001, (7,))) == ""
    assert rule.observe_only(Credentials(1, 7, (50,))) == ""
    assert rule.observe_only(Credentials(1, 7, (7, 60))) == ""
    told = rule.observe_only(Credentials(1, 0, (0, 7)))
    assert "uid 0 may observe and stop" in told
    assert "command_users = ['1001'] and command_groups = ['50', '60']" in told
    assert access_rule(None, None).observe_only(Credentials(1, 7, (7,))) == ""
    assert access_rule([], None).observe_only(Credentials(1, 7, (7,))) != "", "an empty list lets nobody command"
    with pytest.raises(AccessError):
        access_rule(["no-such-user"], None)


def test_the_kernel_tells_who_is_there() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        who = read_credentials(ours)
    assert (who.pid, who.uid) == (os.getpid(), os.getuid())
    assert who.gids[0] == os.getgid()
    assert set(who.gids) == {os.getgid(), *os.getgroups()}


# --- the stop's own path


async def test_a_stop_overtakes_the_lines_before_it_which_are_fenced(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        before = len(b.line.seen)
        for n in range(2000):
            peer.request("gripper.move", n, opening_width_m=0.00002 * n)
        peer.send(STOP_LINE)
        peer.request("gripper.move", "after", opening_width_m=0.05)
        answers = {}
        order = []
        for _ in range(2002):
            answer = await peer.answer()
            answers[answer["id"]] = answer["result"]
            order.append(answer["id"])
        assert answers["stop"]["ok"]
        assert answers["after"]["code"] == "accepted"
        codes = [answers[n]["code"] for n in range(2000)]
        assert codes.count("fenced") >= 1996, "but for the few that were on the wire already"
        written = words(b, before)
        assert written.index(STOP_FRAME) <= 3
        assert len(written) <= 5
        assert order.index("stop") < 2000, "it did not wait for the answers to all lines before it"


async def test_a_stop_of_another_gripper_fences_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, {"left": 9, "right": 10}) as b:
        peer = await b.peer()
        reply = await peer.ask("gripper.activate", gripper="left")
        await peer.ask("gripper.wait", gripper="left", command_seq=reply["command_seq"], timeout_s=10)
        for n in range(100):
            peer.request("gripper.state", n, gripper="left")
        peer.request("gripper.move", "move", gripper="left", opening_width_m=0.03)
        peer.request("gripper.stop", "stop", gripper="right")
        answers = {}
        for _ in range(102):
            answer = await peer.answer()
            answers[answer["id"]] = answer["result"]
        assert answers["move"]["code"] == "accepted"
        assert answers["stop"]["ok"]


async def test_a_stop_that_has_arrived_is_carried_out_although_its_client_is_gone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer, vanishing = await b.peer(), await b.peer()
        await slow_move(b, peer)
        before = len(b.line.seen)
        for n in range(500):
            vanishing.request("gripper.info", n)
        vanishing.send(STOP_LINE)
        vanishing.writer.transport.pause_reading()  # type: ignore[attr-defined]
        vanishing.writer.close()
        await until(lambda: STOP_FRAME in words(b, before))


@pytest.mark.parametrize("method", ["gripper.info", "gripper.stop"])
async def test_a_flood_of_one_client_costs_another_ones_stop_nothing(tmp_path: Path, method: str) -> None:
    """The loop turns every 32 lines, so the other's stop is seen; as many lines are left then."""
    async with bench(tmp_path) as b:
        peer, flood = await b.peer(), await b.peer()
        await slow_move(b, peer)
        for n in range(3000):
            flood.request(method, n)
        await asyncio.sleep(0)
        lines = b.daemon.socket.counters["lines"]
        assert (await peer.ask("gripper.stop"))["ok"]
        assert b.daemon.socket.counters["lines"] - lines < 3000, "the stop was answered before the flood was"
