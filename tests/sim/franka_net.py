"""A simulated hand on real sockets in this event loop, and a client that looks at every byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.operations import HandBench
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.wire import PAYLOADS
from gripperd_sim.history import Event, Kind
from gripperd_sim.operations import Operations

LIMIT_S = 10.0


class Client:
    """A client that does what libfranka does, and looks at every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.states = socket.socket(type=socket.SOCK_DGRAM)
        self.states.bind(("127.0.0.1", 0))
        self.states.setblocking(False)
        self.number = 0

    @classmethod
    async def connect(cls, server: HandServer, version: int = 3) -> tuple[Client, bytes]:
        """The client, and the answer to Connect."""
        client = await cls.ask(server, version)
        return client, await asyncio.wait_for(client.reader.readexactly(14), LIMIT_S)

    @classmethod
    async def ask(cls, server: HandServer, version: int = 3) -> Client:
        """One that sent its Connect and has no answer yet."""
        client = cls(*await asyncio.open_connection(server.address, server.port))
        client.writer.write(struct.pack("<HIIHH", 0, 0, 14, version, client.states.getsockname()[1]))
        return client

    def send(self, command: int, *values: float) -> int:
        self.number += 1
        self.writer.write(self.message(command, self.number, *values))
        return self.number

    @staticmethod
    def message(command: int, number: int, *values: float) -> bytes:
        body = struct.pack(PAYLOADS[command], *values)
        return struct.pack("<HII", command, number, 10 + len(body)) + body

    async def answer(self) -> tuple[int, int, int, int]:
        """command, number, size, status."""
        found = struct.unpack("<HIIH", await asyncio.wait_for(self.reader.readexactly(12), LIMIT_S))
        return found[0], found[1], found[2], found[3]

    async def state(self) -> bytes:
        """The next datagram."""
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(loop.sock_recv(self.states, 100), LIMIT_S)

    def close(self, *, reset: bool = False) -> None:
        """In an orderly way, or with RST."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()
        self.states.close()


class Served:
    """A server with its operations."""

    @classmethod
    def offline(cls) -> Served:
        """One that is not started."""
        return cls(FrankaHand())

    def __init__(self, hand: FrankaHand) -> None:
        self.hand = hand
        self.server = HandServer(hand, "127.0.0.1", 0)
        self.operations = Operations(HandBench(hand, self.server).table())
        self.clients: list[Client] = []

    def call(self, op: str, **params: Any) -> Any:
        return self.operations.call(op, params)

    async def client(self) -> Client:
        client, _ = await Client.connect(self.server)
        self.clients.append(client)
        return client

    async def client_without_answer(self) -> Client:
        """Its Connect is sent."""
        client = await Client.ask(self.server)
        self.clients.append(client)
        return client


@contextlib.asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Served]:
    options = {"homed": True, "command_latency_s": 0.0, "homing_s": 0.2, "state_rate_hz": 200.0} | options
    made = Served(FrankaHand(HandOptions(**options), asyncio.get_running_loop().time()))
    await made.server.start()
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        await made.server.close()


def replies(hand: Served) -> list[Event]:
    return hand.hand.history.of(Kind.REPLY)


async def drained(client: Client) -> None:
    """States that came before now are of no interest."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(1000):
            client.states.recv(100)
