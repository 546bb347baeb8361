"""The connection to a hand over real sockets on loopback: how each loss is noticed, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable

import pytest

from gripperd.clock import SystemClock
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.connection import ConnectError, HandConnection, HandLimits
from gripperd.drivers.franka_hand.sockets import SocketDialer
from gripperd.drivers.franka_hand.wire import (
    ConnectRequest,
    ConnectResponse,
    MessageDecoder,
    MoveRequest,
    State,
    Status,
    StopRequest,
    encode_response,
)
from tests.e2e.processes import eventually

LIMIT_S = 5.0
QUICK = HandLimits(connect_timeout_s=0.5, reopen_delay_s=0.01, reopen_max_s=0.05)


class Peer(asyncio.Protocol):
    """One accepted connection of a hand that does what the test tells it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.decoder = MessageDecoder()
        self.udp_port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.peers.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.gone += 1

    def data_received(self, data: bytes) -> None:
        for message in self.decoder.feed(data):
            header = message.header
            self.server.commands.append(header.command)
            if header.command == ConnectRequest.command:
                self.udp_port = ConnectRequest.decode(message.body).udp_port
                if self.server.greets:
                    self.transport.write(ConnectResponse(0, 3).encode(header.command_id))
            elif header.command == StopRequest.command:
                self.transport.write(encode_response(header.command, header.command_id, Status.SUCCESS))

    def reset(self) -> None:
        """End with RST."""
        connection: socket.socket = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def state(self, message_id: int) -> None:
        """Send a datagram."""
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(State(message_id, 0.04, 0.08, False, 30).encode(), ("127.0.0.1", self.udp_port))


class Server:
    """The hand's listening side."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.commands: list[int] = []
        self.gone = 0
        self.greets = True


class Bench:
    """A connection and its other side."""

    def __init__(self, server: Server, connection: HandConnection) -> None:
        self.server = server
        self.connection = connection
        self.heard: list[State] = []
        connection.heard = self._hear
        connection.changed = self._news
        self._event = asyncio.Event()

    def _hear(self, state: State) -> None:
        self.heard.append(state)
        self._news()

    def _news(self) -> None:
        self._event.set()

    def call(self) -> Call:
        """A motion that is not answered."""
        return self.connection.call(MoveRequest(0.02, 0.1), lambda call: self._news())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, looking after everything that comes."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self._event.clear()
                await self._event.wait()


@contextlib.asynccontextmanager
async def bench(limits: HandLimits = QUICK) -> AsyncIterator[Bench]:
    """A server on a free port, and a connection that runs until the end of the block."""
    loop, server = asyncio.get_running_loop(), Server()
    listener = await loop.create_server(lambda: Peer(server), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    made = Bench(server, HandConnection(SocketDialer("127.0.0.1", port), limits, SystemClock()))
    task = asyncio.create_task(made.connection.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for peer in server.peers:
            peer.transport.abort()
        listener.close()
        await listener.wait_closed()


async def test_states_and_answers_arrive_and_no_byte_is_sent_unasked() -> None:
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        b.server.peers[0].state(7)
        await b.until(lambda: len(b.heard) == 1)
        assert b.heard[0] == State(7, 0.04, 0.08, False, 30)
        stop = b.connection.call(StopRequest(), lambda call: b._news())
        await b.until(lambda: not stop.pending)
        assert stop.status is Status.SUCCESS
        assert b.server.commands == [ConnectRequest.command, StopRequest.command]


async def test_nagle_is_off_and_keepalive_is_on() -> None:
    """A stop of ten bytes behind a motion must not wait for its acknowledgement by TCP."""
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        link = b.connection._link
        transport = link.stream.transport  # type: ignore[union-attr]
        connection = transport.get_extra_info("socket")
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda peer: peer.transport.close(), "closed the connection"),
        (lambda peer: peer.transport.write_eof(), "closed the connection"),
        (lambda peer: peer.reset(), "broke"),
        (lambda peer: peer.transport.write(b"\x03\x00\x01\x00\x00\x00\x05\x00\x00\x00"), "broke the protocol"),
        (lambda peer: peer.transport.write(encode_response(3, 1, 9)), "status 9 is not known"),
    ],
    ids=["FIN", "half close", "RST", "wrong size", "unknown status"],
)
async def test_a_lost_connection_is_noticed_at_once_and_made_anew(end: Callable[[Peer], None], told: str) -> None:
    """libfranka spins for ever on an orderly close."""
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        moving = b.call()
        await eventually(lambda: MoveRequest.command in b.server.commands, "request", LIMIT_S)
        begin_s = time.monotonic()
        end(b.server.peers[0])
        await b.until(lambda: not moving.pending)
        assert time.monotonic() - begin_s < 0.5
        assert told in moving.lost
        await b.until(lambda: b.connection.ready)
        assert b.connection.generation == 2
        assert b.server.commands.count(ConnectRequest.command) == 2
        assert b.server.commands.count(MoveRequest.command) <= 1, "a motion is never sent again"


async def test_a_hand_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    """libfranka's constructor blocks for ever there."""
    async with bench() as b:
        b.server.greets = False
        await eventually(lambda: len(b.server.peers) >= 2, "second try", LIMIT_S)
        assert "did not answer Connect within 0.5 s" in b.connection.trouble
        with pytest.raises(ConnectError, match="did not answer Connect"):
            b.call()
        b.server.greets = True
        await b.until(lambda: b.connection.ready)


async def test_why_it_cannot_be_reached_is_said() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        connection = HandConnection(SocketDialer("127.0.0.1", port), QUICK, SystemClock())
        task = asyncio.create_task(connection.run())
        await eventually(lambda: "refuses connections: mount the hand" in connection.trouble, "reason", LIMIT_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_in_single_bytes_is_one_answer() -> None:
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        moving = b.call()
        for byte in encode_response(3, 1, Status.SUCCESS):
            b.server.peers[0].transport.write(bytes([byte]))
            await asyncio.sleep(0.001)
        await b.until(lambda: not moving.pending)
        assert moving.status is Status.SUCCESS


async def test_datagrams_of_strangers_do_not_count() -> None:
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        peer = b.server.peers[0]
        with socket.socket(type=socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.77", 0))
            stranger.sendto(State(9, 0.0, 0.08, True, 30).encode(), ("127.0.0.1", peer.udp_port))
        peer.state(3)
        await b.until(lambda: len(b.heard) == 1)
        assert b.heard[0].message_id == 3
        assert b.connection.counters.foreign_datagrams == 1


async def test_two_hundred_connects_leave_nothing_behind() -> None:
    async with bench() as b:
        await b.until(lambda: b.connection.ready)
        gc.collect()
        before, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for number in range(200):
            b.server.peers[-1].reset()
            await b.until(lambda number=number: b.connection.generation == number + 2)  # type: ignore[misc]
        await b.until(lambda: b.connection.ready)
        await eventually(lambda: b.server.gone >= 200, "end of all connections", LIMIT_S)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before
        assert len(asyncio.all_tasks()) == tasks
        assert b.connection.counters.lost == 200
