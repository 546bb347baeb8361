"""The hand on the network: TCP connections, a stream of states to each, and the faults of both. asyncio.

Owns its sockets. Connections that it ends by itself end with a reset: an orderly close leaves libfranka's clients
spinning for ever [M], so only the `disconnect` operation can ask for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import socket
import struct
from collections.abc import Iterator
from itertools import count
from typing import Protocol

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.faults import Fault, Faults
from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.motion import Answer
from gripperd_sim.history import Kind

BYTE_GAP_S = 0.003
"""Between the single bytes of an answer that is split [s]."""
SETTLE_S = 1e-6
"""A timer that fires this much early counts as due [s]."""


class ServerError(OSError):
    """The address cannot be served; the text says why."""


class HandServer:
    """One hand on one address."""

    def __init__(self, hand: FrankaHand, address: str, port: int = wire.TCP_PORT) -> None:
        self.hand = hand
        self.address = address
        self.port = port
        self.faults = Faults()
        self.connections: dict[int, Connection] = {}
        self._numbers = count(1)
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving = False
        self._refusing = False
        self._states: socket.socket | None = None
        self._silent_until_s = -math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._schedule = _schedule(hand.options.state_rate_hz)
        self._next_state_s = math.inf

    async def start(self) -> None:
        """Listen. Raises ServerError."""
        self._reserved = reserve(self.address, self.port)
        self.port = self._reserved.getsockname()[1]
        await self._accept(self._take_listener())
        self._serving = True
        self._states = socket.socket(type=socket.SOCK_DGRAM)
        self._states.setblocking(False)
        self._states.bind((self.address, 0))
        self._next_state_s = self.now_s()
        self._plan()

    async def _accept(self, listener: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self, wire.Stream()), sock=listener
        )
        if self._refusing or not self.hand.powered:
            self._stop_accepting()

    def _take_listener(self) -> socket.socket:
        """The reserved port, listening. Raises ServerError when another program listens there by now."""
        reserved, self._reserved = self._reserved or reserve(self.address, self.port), None
        try:
            reserved.listen()
        except OSError as error:
            reserved.close()
            raise ServerError(explain(self.address, self.port, error)) from error
        return reserved

    def listen(self) -> None:
        """Accept connections again. Raises ServerError."""
        if self._serving and self.hand.powered and self._server is None and not self._tasks:
            task = asyncio.get_running_loop().create_task(self._accept(self._take_listener()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._refusing = False

    def refuse(self) -> None:
        """Accept no connection any more; those that are open stay. The port is kept for listen()."""
        self._refusing = True
        self._stop_accepting()

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            # A port that is bound and does not listen refuses, and is still ours.
            with contextlib.suppress(ServerError):
                self._reserved = reserve(self.address, self.port)

    async def close(self) -> None:
        """End everything."""
        self._serving = False
        await asyncio.gather(*self._tasks)
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        self.reset_all()
        self._plan()
        if self._states is not None:
            self._states.close()
            self._states = None
        await asyncio.sleep(0)  # so that transports can close

    def _follow_power(self) -> None:
        """Without power there are no connections and nobody listens."""
        if not self.hand.powered:
            self._stop_accepting()
            self.reset_all()
        elif self._server is None and not self._refusing:
            try:
                self.listen()
            except ServerError as error:
                self._refusing = True
                self.hand.history.add(self.now_s(), Kind.PORT, change=f"does not listen: {error}", name=self.address)

    def now_s(self) -> float:
        """The hand's time is the event loop's [s]."""
        return asyncio.get_running_loop().time()

    def silence(self, duration_s: float) -> None:
        """Neither hear nor say anything for so long [s]: the cable is out, or the hand hangs."""
        self._silent_until_s = self.now_s() + duration_s
        self._plan()

    @property
    def silent(self) -> bool:
        """Whether nothing is heard or said now."""
        return self.now_s() < self._silent_until_s

    def reset_all(self) -> None:
        """End all connections with RST."""
        for connection in list(self.connections.values()):
            connection.reset()

    # --- what comes

    def opened(self, connection: Connection) -> int:
        """A client connected; its number."""
        number = next(self._numbers)
        self.connections[number] = connection
        return number

    def closed(self, number: int) -> None:
        """A client is gone."""
        if self.connections.pop(number, None) is not None:
            self.hand.closed(number, self.now_s())
            self.pump()

    def heard(self, connection: Connection, request: wire.Request) -> None:
        """A message came."""
        if self.silent:
            self._note_silence("not heard", connection.number, request.data)
            return
        self.hand.receive(connection.number, request, self.now_s())
        self.pump()

    # --- what goes

    def pump(self) -> None:
        """Let time pass up to now, send what is to be sent, and wait for the next thing."""
        now_s = self.now_s() + SETTLE_S
        self.hand.advance(now_s)
        for each in self.hand.take_answers():
            self._send(each)
        if self._next_state_s <= now_s:
            self._send_states()
            while self._next_state_s <= now_s:
                self._next_state_s += next(self._schedule)
        self._plan()
        if self._serving:
            self._follow_power()

    def _plan(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._serving:
            return
        event_s = self.hand.next_event_s()
        due_s = min(self._next_state_s, math.inf if event_s is None else event_s)
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_at(due_s, self.pump) if math.isfinite(due_s) else None

    def _send(self, answer: Answer) -> None:
        connection = self.connections.get(answer.connection)
        if connection is None or self.silent:
            reason = "connection is gone" if connection is None else "not sent"
            self._note_silence(reason, answer.connection, answer.data)
            return
        if self.faults.strikes(Fault.LOSE_ANSWERS):
            return
        data = answer.data
        if self.faults.strikes(Fault.UNKNOWN_STATUS):
            data = data[:-2] + struct.pack("<H", 9)
        if self.faults.strikes(Fault.WRONG_SIZE):
            data = data[:6] + struct.pack("<I", 5) + data[10:]
        if not self.faults.strikes(Fault.SPLIT_ANSWERS):
            connection.write(data)
            return
        loop = asyncio.get_running_loop()
        for n in range(len(data)):
            loop.call_later(n * BYTE_GAP_S, connection.write, data[n : n + 1])

    def _note_silence(self, reason: str, connection: int, data: bytes) -> None:
        self.hand.history.add(self.now_s(), Kind.SILENCE, reason=reason, connection=connection, hex=data.hex())

    def _send_states(self) -> None:
        if self.silent or not self.hand.powered or not self.connections:
            return
        if self.faults.strikes(Fault.LOSE_STATES):
            return
        now_s = self.now_s()
        data = self.hand.datagram(now_s)
        if self.faults.strikes(Fault.OLD_STATES):
            (number,) = struct.unpack_from("<I", data)
            data = self.hand.datagram(now_s, max(0, number - 5000))
        if self.faults.strikes(Fault.SHORT_STATES):
            data = data[:-1]
        for data_again in (data, data) if self.faults.strikes(Fault.DOUBLE_STATES) else (data,):
            for connection in self.connections.values():
                self._send_state(connection, data_again)

    def _send_state(self, connection: Connection, data: bytes) -> None:
        udp_port = self.hand.udp_ports.get(connection.number, 0)
        if not udp_port or self._states is None:
            return
        try:
            self._states.sendto(data, (connection.peer, udp_port))
        except OSError:
            connection.states_lost += 1  # as on any network; the next one comes


class Host(Protocol):
    """What a connection needs of its server."""

    def opened(self, connection: Connection) -> int:
        """A client connected; its number."""

    def closed(self, number: int) -> None:
        """A client is gone."""

    def heard(self, connection: Connection, request: wire.Request) -> None:
        """A message came."""


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Host, stream: wire.Stream) -> None:
        self.number = 0
        self.peer = ""
        self.udp_port = 0
        self.states_lost = 0
        self._server = server
        self._stream = stream
        self._transport: asyncio.Transport | None = None
        self._half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = transport.get_extra_info("peername")[0]
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio."""
        self._server.closed(self.number)

    def data_received(self, data: bytes) -> None:
        """asyncio."""
        try:
            for request in self._stream.feed(data):
                self._server.heard(self, request)
        except wire.BrokenStreamError:
            self.reset()

    def write(self, data: bytes) -> None:
        """Send, if it is still there and was not closed one way."""
        if self._transport is not None and not self._transport.is_closing() and not self._half_closed:
            self._transport.write(data)

    def reset(self) -> None:
        """End with RST."""
        if self._transport is not None:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()

    def finish(self) -> None:
        """End in an orderly way, with FIN."""
        if self._transport is not None:
            self._transport.close()

    def half_close(self) -> None:
        """Send nothing any more over TCP; states go on."""
        if self._transport is not None and self._transport.can_write_eof():
            self._half_closed = True
            self._transport.write_eof()


def _schedule(rate_hz: float) -> Iterator[float]:
    """Pauses between states [s]. The real hand: every 100 ms, and 12 ms after each second one. [U] franky#35, [M]"""
    while True:
        yield from (1.0 / rate_hz,) if rate_hz else (0.012, 0.088, 0.1)


def reserve(address: str, port: int) -> socket.socket:
    """A TCP socket that holds the port and does not listen yet. Raises ServerError."""
    found = socket.socket()
    try:
        found.setblocking(False)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
    except OSError as error:
        found.close()
        raise ServerError(explain(address, port, error)) from error
    return found


def explain(address: str, port: int, error: OSError) -> str:
    """Why an address cannot be served."""
    if error.errno == errno.EADDRINUSE:
        return f"{address}:{port} is in use: end the other simulator, or give another --address, such as 127.0.0.3"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is no address of this machine: give one that is, such as 127.0.0.2"
    return f"{address}:{port}: {error.strerror or error}"
