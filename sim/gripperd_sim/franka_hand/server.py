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
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.connection import Connection
from gripperd_sim.franka_hand.faults import Faults, Sending
from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.motion import Answer
from gripperd_sim.history import Kind
from gripperd_sim.port_owner import port_owner

MAX_PORT = 65_535
SETTLE_S = 1e-6
"""A timer that fires this much early counts as due [s]."""


class ServerError(OSError):
    """The address cannot be served; the text says why."""


class HandServer:
    """One hand on one address."""

    def __init__(self, hand: FrankaHand, address: str, port: int = wire.TCP_PORT, seed: int = 0) -> None:
        self.hand = hand
        self.address = address
        self.port = port
        self.faults = Faults(hand.history, seed)
        self.connections: dict[int, Connection] = {}
        self._numbers = count(1)
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving = False
        self._refusing = False
        self._states: socket.socket | None = None
        self._silent_until_s = -math.inf
        self._unplugged = False
        self._plug_alarm: asyncio.TimerHandle | None = None
        self.before_request: Callable[[float], None] | None = None
        """Called with the time before the hand hears a message; for scenarios."""
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
        return listening(reserved)

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
        self.reset_all("reset: end of the simulator")
        self._plan()
        if self._plug_alarm is not None:
            self._plug_alarm.cancel()
        if self._states is not None:
            self._states.close()
            self._states = None
        await asyncio.sleep(0)  # so that transports can close

    def _follow_power(self) -> None:
        """Without power there are no connections and nobody listens."""
        if not self.hand.powered:
            self._stop_accepting()
            self.reset_all("reset: no power")
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
        """Neither hear nor say anything for so long [s]: the hand hangs. What is sent to it meanwhile is lost."""
        self._silent_until_s = self.now_s() + duration_s
        self._plan()

    @property
    def silent(self) -> bool:
        """Whether the hand hangs now."""
        return self.now_s() < self._silent_until_s

    def unplug(self, duration_s: float = math.inf) -> None:
        """The cable is out [s]. TCP repeats what was sent meanwhile when it is back; states are lost."""
        self._unplugged = True
        for connection in self.connections.values():
            connection.hold()
        if self._plug_alarm is not None:
            self._plug_alarm.cancel()
        finite = math.isfinite(duration_s)
        self._plug_alarm = asyncio.get_running_loop().call_later(duration_s, self.plug) if finite else None

    def plug(self) -> None:
        """The cable is back."""
        self._unplugged = False
        if self._plug_alarm is not None:
            self._plug_alarm.cancel()
            self._plug_alarm = None
        for connection in list(self.connections.values()):
            connection.release()

    def ignore_all(self) -> None:
        """Never hear or say anything again on the connections that are open now; new ones are served."""
        for connection in self.connections.values():
            connection.ignore()

    def reset_all(self, how: str = "reset") -> None:
        """End all connections with RST."""
        for connection in list(self.connections.values()):
            connection.reset(how)

    # --- what comes

    def opened(self, connection: Connection) -> int:
        """A client connected; its number."""
        self.hand.advance(self.now_s())
        number = next(self._numbers)
        self.connections[number] = connection
        self._note_connection(number, "opened", connection.peer)
        if self._unplugged:
            connection.hold()
        return number

    def _note_connection(self, number: int, change: str, peer: str) -> None:
        self.hand.history.add(self.now_s(), Kind.CONNECTION, connection=number, change=change, peer=peer)

    def closed(self, number: int, how: str) -> None:
        """A client is gone."""
        connection = self.connections.pop(number, None)
        if connection is not None:
            self.hand.advance(self.now_s())
            self._note_connection(number, how, connection.peer)
            self.hand.closed(number, self.now_s())
            self.pump()

    def heard(self, connection: Connection, request: wire.Request) -> None:
        """A message came."""
        if self.before_request is not None:
            self.before_request(self.now_s())
        if self.silent or connection.ignored:
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
        if connection is None or self.silent or connection.ignored:
            reason = "connection is gone" if connection is None else "not sent"
            self._note_silence(reason, answer.connection, answer.data)
            return
        sending = self.faults.answer(answer, self.now_s())
        if sending is not None:
            connection.send(sending.pieces, sending.delay_s, sending.gap_s)

    def _note_silence(self, reason: str, connection: int, data: bytes) -> None:
        now_s = self.now_s()
        self.hand.advance(now_s)
        self.hand.history.add(now_s, Kind.SILENCE, reason=reason, connection=connection, hex=data.hex())

    def _send_states(self) -> None:
        listeners = [each for number, each in self.connections.items() if self.hand.udp_ports.get(number)]
        if self.silent or not self.hand.powered or not listeners:
            return
        now_s = self.now_s()
        data = self.hand.datagram(now_s)
        for connection in listeners:
            if self._unplugged or connection.ignored:
                connection.states_lost += 1
                continue
            for sending in self.faults.state(data, connection.number, now_s):
                self._send_state(connection, sending)

    def _send_state(self, connection: Connection, sending: Sending) -> None:
        if sending.delay_s > 0:
            later = replace(sending, delay_s=0.0)
            asyncio.get_running_loop().call_later(sending.delay_s, self._send_state, connection, later)
            return
        udp_port = self.hand.udp_ports.get(connection.number, 0)
        if not udp_port or self._states is None:
            return
        try:
            self._states.sendto(b"".join(sending.pieces), (connection.peer, udp_port))
            connection.states_sent += 1
        except OSError:
            connection.states_lost += 1  # as on any network; the next one comes


def _schedule(rate_hz: float) -> Iterator[float]:
    """Pauses between states [s]. The real hand: every 100 ms, and 12 ms after each second one. [U] franky#35, [M]"""
    while True:
        yield from (1.0 / rate_hz,) if rate_hz else (0.012, 0.088, 0.1)


def reserve(address: str, port: int) -> socket.socket:
    """A TCP socket that holds the port and does not listen yet. Raises ServerError."""
    if not 0 <= port <= MAX_PORT:
        raise ServerError(f"port {port}: give 0 (any free one) to {MAX_PORT}")
    found = socket.socket()
    try:
        found.setblocking(False)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
    except OSError as error:
        found.close()
        raise ServerError(explain(address, port, error)) from error
    return found


def listening(reserved: socket.socket) -> socket.socket:
    """That socket, listening. Raises ServerError, and closes it, when another program listens there by now."""
    address, port = reserved.getsockname()
    try:
        reserved.listen()
    except OSError as error:
        reserved.close()
        raise ServerError(explain(address, port, error)) from error
    return reserved


def explain(address: str, port: int, error: OSError) -> str:
    """Why an address cannot be served."""
    if error.errno == errno.EADDRINUSE:
        owner = port_owner(address, port)
        by = f" by {owner}" if owner else ""
        return f"{address}:{port} is in use{by}: end the other simulator, or give another --address, such as 127.0.0.3"
    if isinstance(error, socket.gaierror):
        return f"{address} is no IPv4 address: give one of this machine, such as 127.0.0.2"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is no address of this machine: give one that is, such as 127.0.0.2"
    return f"{address}:{port}: {error.strerror or error}"
