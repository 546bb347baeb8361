"""The simulated hand on real sockets: connections, states, faults, operations; and the program."""

from __future__ import annotations

import asyncio
import socket
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from gripperd_sim.franka_hand import FrankaHand
from gripperd_sim.franka_hand.faults import Fault
from gripperd_sim.franka_hand.server import HandServer, ServerError
from gripperd_sim.franka_hand.wire import HOMING, MOVE, STOP
from gripperd_sim.history import Kind
from tests.e2e.processes import eventually
from tests.sim.franka_net import LIMIT_S, Client, drained, replies, served

MANUAL = Path(__file__).parents[2] / "docs" / "simulator.md"


async def test_connect_is_answered_with_fourteen_bytes_and_states_follow() -> None:
    async with served() as hand:
        client, answer = await Client.connect(hand.server)
        hand.clients.append(client)
        assert answer == bytes.fromhex("0000 00000000 0e000000 0000 0300")
        first, second = await client.state(), await client.state()
        assert len(first) == len(second) == 23
        assert struct.unpack_from("<I", second)[0] > struct.unpack_from("<I", first)[0]
        assert struct.unpack_from("<dd", first, 4) == (0.08, 0.08)


async def test_another_version_is_refused_and_gets_no_states() -> None:
    async with served() as hand:
        client, answer = await Client.connect(hand.server, version=2)
        hand.clients.append(client)
        assert answer == bytes.fromhex("0000 00000000 0e000000 0100 0300")
        good = await hand.client()
        await good.state()
        with pytest.raises(BlockingIOError):
            client.states.recv(100)


async def test_a_stop_is_heard_while_a_motion_runs_and_both_are_answered() -> None:
    async with served() as hand:
        client = await hand.client()
        client.send(MOVE, 0.0, 0.01)
        client.send(STOP)
        assert await client.answer() == (MOVE, 1, 12, 3)
        assert await client.answer() == (STOP, 2, 12, 0)


async def test_several_connections_have_their_own_numbers_and_states() -> None:
    async with served() as hand:
        first, second = await hand.client(), await hand.client()
        first.send(MOVE, 0.0, 0.01)
        await eventually(lambda: hand.hand.motion is not None, "motion")
        second.send(STOP)
        assert await first.answer() == (MOVE, 1, 12, 3)
        assert await second.answer() == (STOP, 1, 12, 0)
        assert len(await first.state()) == len(await second.state()) == 23


async def test_the_real_pattern_of_states() -> None:
    """10 Hz and 5 Hz: 0, 12, 100, 200, 212, 300 ms, ..."""
    async with served(state_rate_hz=0.0) as hand:
        client = await hand.client()
        ids = [struct.unpack_from("<I", await client.state())[0] for _ in range(7)]
        pauses_ms = [b - a for a, b in pairwise(ids)]
        begin = next(n for n in range(3) if abs(pauses_ms[n] - 12) < abs(pauses_ms[n] - 88))
        told = pauses_ms[begin : begin + 3]
        assert sum(told) == pytest.approx(200, abs=60), "a loaded machine is late, and is not late for ever"
        assert told[0] < min(told[1:])


async def test_a_broken_stream_and_the_end_of_the_server_are_resets() -> None:
    async with served() as hand:
        client, other = await hand.client(), await hand.client()
        client.writer.write(struct.pack("<HII", MOVE, 1, 5))
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(client.reader.readexactly(1), LIMIT_S)
        await hand.server.close()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(other.reader.readexactly(1), LIMIT_S)


@pytest.mark.parametrize(("how", "reset"), [("reset", True), ("finish", False), ("half_close", False)])
async def test_disconnect(how: str, reset: bool) -> None:
    async with served() as hand:
        client = await hand.client()
        hand.call("disconnect", how=how)
        if reset:
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(client.reader.read(), LIMIT_S)
        else:
            assert await asyncio.wait_for(client.reader.read(), LIMIT_S) == b""
        if how == "half_close":
            assert len(await client.state()) == 23, "states go on"


async def test_a_half_closed_connection_hears_and_is_not_answered_and_the_others_are() -> None:
    """libfranka's commands hang there, its reads go on [M]."""
    async with served() as hand:
        client, other = await hand.client(), await hand.client()
        client.send(MOVE, 0.07, 0.1)
        hand.call("disconnect", how="half_close")
        stopped = client.send(STOP)
        await eventually(lambda: any(e.fields["number"] == stopped for e in replies(hand)), "answer that is not sent")
        for each in (client, other):
            await drained(each)
            assert len(await each.state()) == 23
        assert await client.reader.read() == b""


async def test_a_server_that_is_closed_does_nothing_any_more() -> None:
    async with served() as hand:
        await hand.client()
        await hand.server.close()
        await eventually(lambda: not hand.server.connections, "end of the connection")
        assert hand.server._alarm is None


async def test_without_power_connections_are_refused_until_it_is_back() -> None:
    async with served() as hand:
        client = await hand.client()
        hand.call("power_cycle", off_s=0.3)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(client.reader.readexactly(1), LIMIT_S)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(hand.server.address, hand.server.port)
        await eventually(lambda: bool(hand.call("state")["state"]["powered"]), "power")
        await eventually(lambda: hand.server._server is not None, "listening")
        await hand.client()


async def test_silence_hears_and_says_nothing_and_ends() -> None:
    async with served() as hand:
        client = await hand.client()
        hand.call("silence", duration_s=3600)
        client.send(MOVE, 0.0, 0.1)
        await eventually(lambda: bool(hand.hand.history.of(Kind.SILENCE)), "request that is not heard")
        kinds = [event["kind"] for event in hand.call("log")["events"] if event["kind"] in ("request", "silence")]
        assert kinds == ["request", "silence"], "only Connect was heard"
        hand.call("silence", duration_s=0)
        number = client.send(STOP)
        assert await client.answer() == (STOP, number, 12, 0)


async def test_small_messages_do_not_wait_for_others() -> None:
    async with served() as hand:
        await hand.client()
        (connection,) = hand.server.connections.values()
        assert connection.no_delay


async def test_who_changes_his_mind_at_once_is_obeyed() -> None:
    async with served() as hand:
        hand.call("refuse")
        hand.call("listen")
        hand.call("refuse")
        await eventually(lambda: not hand.server._tasks, "end of listening")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(hand.server.address, hand.server.port)


async def test_refuse_and_listen() -> None:
    async with served() as hand:
        hand.call("refuse")
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(hand.server.address, hand.server.port)
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.bind((hand.server.address, hand.server.port))
            squatter.listen()
            with pytest.raises(ServerError, match="is in use"):
                hand.call("listen")
        hand.call("listen")
        await eventually(lambda: hand.server._server is not None, "listening")
        await hand.client()


async def test_faults_of_answers() -> None:
    async with served() as hand:
        client = await hand.client()
        hand.call("unknown_status")
        client.send(STOP)
        assert (await client.answer())[3] == 9
        hand.call("wrong_size")
        client.send(STOP)
        assert (await client.answer())[2] == 5
        hand.call("split_answers")
        client.send(STOP)
        pieces = [await asyncio.wait_for(client.reader.read(100), LIMIT_S)]
        while sum(map(len, pieces)) < 12:
            pieces.append(await asyncio.wait_for(client.reader.read(100), LIMIT_S))
        assert len(pieces) > 1
        hand.call("lose_answers", count=1)
        client.send(STOP)
        number = client.send(STOP)
        assert (await client.answer())[1] == number
        assert hand.call("state")["faults"]["struck"] == {
            "unknown_status": 1,
            "wrong_size": 1,
            "split_answers": 1,
            "lose_answers": 1,
        }


async def test_faults_of_states() -> None:
    async with served(state_rate_hz=50.0) as hand:
        client = await hand.client()
        await client.state()
        hand.call("short_states")
        assert len(await client.state()) == 22
        hand.call("double_states")
        assert await client.state() == await client.state()
        (number,) = struct.unpack_from("<I", await client.state())
        hand.call("old_states")
        (old,) = struct.unpack_from("<I", await client.state())
        assert old < number
        hand.call("lose_states", count=3)
        (after,) = struct.unpack_from("<I", await client.state())
        assert after - number > 60


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_count_of_zero_disarms(fault: Fault) -> None:
    async with served() as hand:
        hand.call(fault.value, count=5)
        assert hand.call("state")["faults"]["armed"] == {fault.value: {"count": 5}}
        hand.call(fault.value, count=0)
        assert hand.call("state")["faults"]["armed"] == {}


async def test_the_world_is_moved_by_operations() -> None:
    async with served(homed=False) as hand:
        client = await hand.client()
        number = client.send(HOMING)
        assert await client.answer() == (HOMING, number, 12, 0)
        hand.call("obstruct", width_m=0.05)
        client.send(MOVE, 0.0, 0.1)
        await eventually(lambda: hand.call("state")["state"]["stuck"], "blocked move")
        hand.call("clear_obstruction")
        assert (await client.answer())[3] == 0
        hand.call("power_cycle", off_s=0.05)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(client.reader.readexactly(1), LIMIT_S)
        await eventually(lambda: hand.call("state")["state"]["powered"], "power")
        assert not hand.call("state")["state"]["homed"]


async def test_an_address_that_cannot_be_served_is_an_error_that_says_what_to_do() -> None:
    async with served() as hand:
        second = HandServer(FrankaHand(now_s=0.0), "127.0.0.1", hand.server.port)
        with pytest.raises(
            ServerError, match=r"is in use by process .*: end the other simulator, or give another --address"
        ):
            await second.start()
    with pytest.raises(ServerError, match="is no address of this machine"):
        await HandServer(FrankaHand(now_s=0.0), "192.0.2.1", 0).start()
