"""The socket with everything behind it: a whole daemon in this process over simulated devices in memory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gripperd.contract import (
    CommandOutcome,
    CommandReply,
    DaemonInfo,
    GripperInfo,
    GripperListEntry,
    GripperState,
)
from gripperd.transports.unix_socket import SocketError
from tests.support.daemon_bench import Bench, Peer, bench, until

STOP_FRAME = bytes.fromhex("091003e800010200012478")


async def test_every_answer_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        info = await peer.ask("daemon.info")
        assert list(info) == list(DaemonInfo.model_fields)
        assert (info["contract"], info["grippers"]) == (1, ["left"])
        listed = await peer.ask("gripper.list")
        assert list(listed) == ["grippers"]
        assert list(listed["grippers"][0]) == list(GripperListEntry.model_fields)
        assert list(await peer.ask("gripper.info")) == list(GripperInfo.model_fields)
        state = await peer.ask("gripper.state", gripper="left")
        assert list(state) == list(GripperState.model_fields)
        assert list(state["stamp"]) == ["sec", "nanosec"]
        assert isinstance(state["grasp_state"], int)
        assert isinstance(state["motion_state"], int)
        reply = await peer.ask("gripper.activate")
        assert list(reply) == list(CommandReply.model_fields)
        waited = await peer.ask("gripper.wait", command_seq=reply["command_seq"], timeout_s=10)
        assert list(waited) == ["done", "outcome"]
        assert list(waited["outcome"]) == list(CommandOutcome.model_fields)
        statistics = await peer.ask("daemon.statistics")
        assert statistics["bus"]["tool0"]["transactions"] > 0


async def test_a_scenario_over_raw_lines(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        assert (await peer.ask("gripper.open"))["code"] == "not_active"
        assert await peer.outcome("activate") == "reached"
        assert await peer.outcome("move", opening_width_m=0.03, relative_speed=1) == "reached"
        assert await peer.outcome("grip") == "closed_empty"
        assert (await peer.ask("gripper.stop"))["ok"] is True


async def test_ids_come_back_as_they_were_sent(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        for request_id in (1, "a", None, 1.5, -7, "ü"):
            peer.request("daemon.info", request_id)
            assert (await peer.answer())["id"] == request_id


async def test_a_request_without_an_id_is_carried_out_only_if_it_is_a_stop(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        before = b.writes()
        peer.send(b'{"jsonrpc":"2.0","method":"gripper.open"}')
        await peer.ask("daemon.info")
        assert b.writes() == before
        peer.send(b'{"jsonrpc":"2.0","method":"gripper.stop"}')
        await until(lambda: b.writes() == before + 1)
        peer.request("daemon.info", 77)
        assert (await peer.answer())["id"] == 77, "neither of the two was answered"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{nonsense", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":NaN}}', -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"gripper.open"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.close"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.open","params":{"gripper":"lft"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.open","params":{"speed":1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":"0.03"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":null}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.grip","params":{"relative_effort":true}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.wait","params":{"command_seq":999,"timeout_s":1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.wait","params":{"command_seq":1,"timeout_s":-1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.wait","params":{"command_seq":1,"timeout_s":1e999}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.subscribe","params":{"max_rate_hz":-1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.subscribe","params":{"events":[]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"gripper.unsubscribe","params":{"subscription":5}}', -32602),
    ],
)
async def test_bad_input_is_answered_and_moves_nothing(tmp_path: Path, line: bytes, code: int) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        before = b.writes()
        peer.send(line)
        answer = await peer.answer()
        assert answer["error"]["code"] == code
        assert answer["error"]["message"]
        assert b.writes() == before
        assert (await peer.ask("daemon.info"))["contract"] == 1, "the connection survives"


async def test_values_that_are_not_permitted_are_refused_with_the_range(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        before = b.writes()
        for width, code in ((-0.01, "invalid_argument"), (30, "unreachable_width")):
            reply = await peer.ask("gripper.move", opening_width_m=width)
            assert (reply["ok"], reply["code"]) == (False, code)
            assert "0.075" in reply["message"]
        peer.send(b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":1e999}}')
        assert (await peer.answer())["result"]["code"] == "invalid_argument"
        assert b.writes() == before


async def test_an_unknown_gripper_and_a_left_out_one_among_two_are_named(tmp_path: Path) -> None:
    async with bench(tmp_path, {"left": 9, "right": 10}) as b:
        peer = await b.peer()
        missing = await peer.ask("gripper.state")
        assert missing["error"]["code"] == -32602
        assert "left, right" in missing["error"]["message"]
        unknown = await peer.ask("gripper.state", gripper="rigt")
        assert "did you mean 'right'" in unknown["error"]["message"]


async def test_a_stop_without_a_name_stops_all(tmp_path: Path) -> None:
    async with bench(tmp_path, {"left": 9, "right": 10}) as b:
        peer = await b.peer()
        reply = await peer.ask("gripper.activate", gripper="left")
        await peer.ask("gripper.wait", gripper="left", command_seq=reply["command_seq"], timeout_s=10)
        stopped = await peer.ask("gripper.stop")
        assert list(stopped) == ["ok", "message", "replies"]
        assert [each["gripper"] for each in stopped["replies"]] == ["left", "right"]
        assert stopped["ok"] is True
        assert stopped["replies"][1]["message"] == "not active: nothing to stop"
        one = await peer.ask("gripper.stop", gripper="left")
        assert one["code"] == "accepted"


async def test_a_stop_without_a_name_of_the_only_gripper_has_both_forms(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        stopped = await peer.ask("gripper.stop")
        assert list(stopped) == [*CommandReply.model_fields, "replies"]
        only = stopped.pop("replies")
        assert only == [stopped]
        waited = await peer.ask("gripper.wait", command_seq=stopped["command_seq"], timeout_s=5)
        assert waited["outcome"]["outcome"] == "stopped"


async def test_a_line_of_the_longest_length_works_and_one_byte_more_closes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        body = b'{"jsonrpc":"2.0","id":5,"method":"daemon.info"'
        peer.send(body + b" " * (65_536 - len(body) - 2) + b"}")
        assert (await peer.answer())["id"] == 5
        peer.send(body + b" " * (65_536 - len(body) - 1) + b"}")
        assert (await peer.answer())["error"]["code"] == -32600
        assert await peer.closed()
        other = await b.peer()
        assert (await other.ask("daemon.info"))["contract"] == 1


async def test_a_last_line_without_its_newline_is_not_carried_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        before = b.writes()
        other = await b.peer()
        other.writer.write(b'{"jsonrpc":"2.0","id":1,"method":"gripper.open"}')
        other.writer.write_eof()
        assert await other.closed()
        assert b.writes() == before


async def test_a_client_that_sends_no_more_still_gets_its_answers(tmp_path: Path) -> None:
    """As shell tools do: send, half-close, read."""
    async with bench(tmp_path) as b:
        peer = await b.peer()
        peer.request("gripper.activate", 1)
        peer.request("gripper.wait", 2, command_seq=1, timeout_s=10.0)
        peer.writer.write_eof()
        answers = {}
        for _ in range(2):
            answer = await peer.answer()
            answers[answer["id"]] = answer
        assert answers[1]["result"]["ok"] is True or answers[2]
        assert await peer.closed()


async def test_a_subscription_begins_with_the_latest_state_and_gives_every_round(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        answer = await peer.ask("gripper.subscribe")
        assert answer == {"subscription": 1}
        seqs = []
        for _ in range(30):
            message = await peer.line()
            assert message["method"] == "gripper.state"
            assert list(message["params"]) == ["subscription", "state", "dropped"]
            seqs.append(message["params"]["state"]["seq"])
        assert seqs == list(range(seqs[0], seqs[0] + 30))
        assert await peer.ask("gripper.unsubscribe", subscription=1) == {}


async def test_a_subscription_can_be_thinned_and_that_is_no_loss(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.ask("gripper.subscribe", max_rate_hz=10.0)
        messages = [await peer.line() for _ in range(6)]
        stamps = [each["params"]["state"]["stamp"] for each in messages[1:]]
        times = [each["sec"] + each["nanosec"] / 1e9 for each in stamps]
        assert all(0.05 < later - earlier < 0.3 for earlier, later in itertools.pairwise(times))
        assert all(each["params"]["dropped"] == 0 for each in messages)


async def test_events_are_told_to_those_who_asked(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer, commander = await b.peer(), await b.peer()
        await peer.ask("gripper.subscribe", events=["outcome", "fault", "link"])
        await commander.outcome("activate")
        told = await peer.line()
        if told["method"] == "gripper.fault":
            assert told["params"]["fault"] is None, "needs activation no longer"
            told = await peer.line()
        assert told["method"] == "gripper.outcome"
        assert told["params"]["outcome"]["verb"] == "activate"
        b.line.unplug()
        while (told := await peer.line())["method"] != "gripper.link":
            assert told["method"] == "gripper.fault"
        assert told["params"] == {"subscription": 1, "gripper": "left", "link": "down"}


async def test_a_slow_reader_loses_states_and_is_told_and_costs_the_others_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, client_buffer_bytes=65_536) as b:
        slow, quick = await b.peer(), await b.peer()
        for _ in range(40):
            slow.request("gripper.subscribe", events=["state", "outcome"])
        await quick.ask("gripper.subscribe")
        await quick.outcome("activate")
        publish = b.daemon.store
        for n in range(3000):
            latest = publish.latest("left")
            publish.publish_state(latest.model_copy(update={"seq": latest.seq + 1}))
            if n % 50 == 0:
                while not quick.notifications or _last_seq(quick) < latest.seq:
                    quick.notifications.append(await quick.line())
        assert await quick.outcome("open") == "reached"
        seen = [each["params"]["state"]["seq"] for each in quick.notifications if each["method"] == "gripper.state"]
        assert seen == list(range(seen[0], seen[0] + len(seen)))
        dropped, outcomes = 0, 0
        async with asyncio.timeout(20.0):
            while not dropped or outcomes < 80:
                message = await slow.line()
                if message.get("method") == "gripper.state":
                    dropped += message["params"]["dropped"]
                outcomes += message.get("method") == "gripper.outcome"
        assert dropped > 100
        assert outcomes == 80, "both outcomes in each of its forty subscriptions"


def _last_seq(peer: Peer) -> int:
    seqs = [each["params"]["state"]["seq"] for each in peer.notifications if each["method"] == "gripper.state"]
    return max(seqs, default=0)


async def test_a_client_that_never_reads_its_answers_is_disconnected_at_the_limit(tmp_path: Path) -> None:
    async with bench(tmp_path, client_buffer_bytes=65_536) as b:
        deaf, other = await b.peer(), await b.peer()
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for n in range(20_000):
            deaf.request("gripper.info", n)
            if n % 500 == 0:
                with contextlib.suppress(ConnectionError):
                    await asyncio.wait_for(deaf.writer.drain(), 5.0)
        await until(lambda: b.daemon.socket.counters["dropped_clients"] == 1)
        assert (await other.ask("daemon.info"))["contract"] == 1


async def test_a_stop_behind_a_thousand_unanswered_requests_is_the_next_write(tmp_path: Path) -> None:
    """STOP: same connection, everything sent at once."""
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        seen = len(b.line.seen)
        for n in range(1000):
            peer.request("gripper.move", n, opening_width_m=0.00005 * n)
        peer.request("gripper.stop", "stop")
        answers = {}
        for _ in range(1001):
            answer = await peer.answer()
            answers[answer["id"]] = answer["result"]
        assert answers["stop"]["ok"] is True
        words = [each.frame for each in b.line.seen[seen:] if each.frame[1] == 0x10]
        stopped_at = words.index(STOP_FRAME)
        assert stopped_at <= 3, "no more than what was written before the stop arrived"
        assert words[-1] == STOP_FRAME
        codes = [answers[n]["code"] for n in range(1000)]
        assert codes.count("fenced") >= 996


async def test_one_client_too_many_is_told_and_closed(tmp_path: Path) -> None:
    async with bench(tmp_path, max_clients=2) as b:
        first, second, third = await b.peer(), await b.peer(), await b.peer()
        await first.ask("daemon.info")
        await second.ask("daemon.info")
        assert "2 clients" in (await third.answer())["error"]["message"]
        assert await third.closed()


async def test_clients_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for _ in range(50):
            peer = await b.peer()
            await peer.ask("gripper.subscribe")
            peer.request("gripper.wait", command_seq=1, timeout_s=100.0)
            peer.writer.transport.abort()
        await until(lambda: b.daemon.socket.counters["connected"] == 0)
        assert b.daemon.socket.counters["clients"] == 50
        assert b.daemon.socket.fan_out.subscriptions == 0
        assert [each.client for each in b.daemon.service.list_clients().clients] == []


async def test_the_socket_has_the_configured_permissions(tmp_path: Path) -> None:
    async with bench(tmp_path, socket_mode="0600") as b:
        assert stat.S_IMODE(b.path.stat().st_mode) == 0o600
    assert not b.path.exists(), "it is removed at the end"


async def test_a_second_daemon_on_the_same_socket_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path):
        with pytest.raises(SocketError, match="another gripperd"):
            await Bench(tmp_path, {"left": 9}).daemon.run(asyncio.Event())


async def test_a_socket_that_a_crash_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(tmp_path / "g.sock"))
    async with bench(tmp_path) as b:
        assert (await (await b.peer()).ask("daemon.info"))["contract"] == 1


async def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "g.sock").write_text("precious")
    with pytest.raises(SocketError, match="something else"):
        await Bench(tmp_path, {"left": 9}).daemon.run(asyncio.Event())
    assert (tmp_path / "g.sock").read_text() == "precious"


async def test_a_missing_folder_and_an_unknown_group_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="does not exist"):
        await Bench(tmp_path / "no", {"left": 9}).daemon.run(asyncio.Event())
    with pytest.raises(SocketError, match="no such group"):
        await Bench(tmp_path, {"left": 9}, socket_group="no-such-group").daemon.run(asyncio.Event())


async def test_wait_tells_when_its_time_is_over(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.outcome("activate")
        reply = await peer.ask("gripper.move", opening_width_m=0.075, relative_speed=0.01)
        waited = await peer.ask("gripper.wait", command_seq=reply["command_seq"], timeout_s=0.05)
        assert waited == {"done": False, "outcome": None}
        assert (await peer.ask("gripper.stop"))["ok"]
        waited = await peer.ask("gripper.wait", command_seq=reply["command_seq"], timeout_s=5.0)
        assert waited["outcome"]["outcome"] == "stopped"


@pytest.mark.parametrize("params", [b'{"gripper":"lfet"}', b'{"force":1}', b"[]"])
async def test_a_stop_without_an_id_that_is_none_is_logged_since_nobody_can_be_told(
    tmp_path: Path, params: bytes
) -> None:
    """Once for each connection; other requests without an id are counted only."""
    async with bench(tmp_path) as b:
        peer = await b.peer()
        with capture_logs() as logs:
            for method in (b"gripper.move", b"gripper.stop", b"gripper.stop"):
                peer.send(b'{"jsonrpc":"2.0","method":"' + method + b'","params":' + params + b"}")
            assert (await peer.ask("daemon.info"))["contract"] == 1
        told = [each for each in logs if each["event"] == "stop_without_id_failed"]
        assert len(told) == 1
        assert told[0]["log_level"] == "warning"
        assert b.daemon.socket.counters["ignored_without_id"] == 1
