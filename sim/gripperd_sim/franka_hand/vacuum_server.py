"""The vacuum gripper on the network, beside the hand on the same address. asyncio; owns its sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from itertools import count

from gripperd_sim.franka_hand import vacuum, wire
from gripperd_sim.franka_hand.connection import Connection
from gripperd_sim.franka_hand.server import listening, reserve
from gripperd_sim.franka_hand.vacuum import VacuumGripper
from gripperd_sim.history import Kind

SETTLE_S = 1e-6


class VacuumServer:
    """One vacuum gripper."""

    def __init__(self, gripper: VacuumGripper, address: str, port: int = vacuum.TCP_PORT) -> None:
        self.gripper = gripper
        self.address = address
        self.port = port
        self.connections: dict[int, Connection] = {}
        self._numbers = count(1)
        self._udp_ports: dict[int, int] = {}
        self._server: asyncio.Server | None = None
        self._states: socket.socket | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._next_state_s = 0.0

    async def start(self) -> None:
        """Listen. Raises ServerError."""
        loop = asyncio.get_running_loop()
        listener = listening(reserve(self.address, self.port))
        self._server = await loop.create_server(self._connection, sock=listener)
        self.port = listener.getsockname()[1]
        self._states = socket.socket(type=socket.SOCK_DGRAM)
        self._states.setblocking(False)
        self._states.bind((self.address, 0))
        self._next_state_s = loop.time()
        self.pump()

    def _connection(self) -> Connection:
        return Connection(self, wire.Stream(vacuum.PAYLOADS, vacuum.NAMES))

    async def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.reset()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._states is not None:
            self._states.close()
            self._states = None
        await asyncio.sleep(0)  # so that transports can close

    def opened(self, connection: Connection) -> int:
        """A client connected; its number."""
        number = next(self._numbers)
        self.connections[number] = connection
        return number

    def closed(self, number: int, how: str) -> None:
        """A client is gone."""
        self.connections.pop(number, None)
        self._udp_ports.pop(number, None)

    def heard(self, connection: Connection, request: wire.Request) -> None:
        """A message came."""
        now_s = asyncio.get_running_loop().time()
        if request.command != vacuum.CONNECT:
            self.gripper.request(connection.number, request, now_s)
        else:
            version, udp_port = (int(value) for value in request.values) if request.values else (0, 0)
            fits = version == vacuum.VERSION
            told = wire.connect_answer(request.number, 0 if fits else wire.VERSION_MISMATCH, vacuum.VERSION)
            connection.write(told)
            self._udp_ports[connection.number] = udp_port if fits else 0
            number, values = connection.number, (version, udp_port)
            self.gripper.history.add(
                now_s, Kind.REQUEST, connection=number, command="connect", number=request.number, values=values,
                hex=request.data.hex(),
            )  # fmt: skip
        self.pump()

    def pump(self) -> None:
        """Let time pass up to now, send what is to be sent, and wait for the next thing."""
        loop = asyncio.get_running_loop()
        now_s = loop.time() + SETTLE_S
        self.gripper.advance(now_s)
        answers, self.gripper.answers = self.gripper.answers, []
        for number, data in answers:
            if number in self.connections:
                self.connections[number].write(data)
        if self._next_state_s <= now_s:
            data = self.gripper.datagram(now_s)
            for number, connection in self.connections.items():
                udp_port = self._udp_ports.get(number, 0)
                if udp_port and self._states is not None:
                    with contextlib.suppress(OSError):  # lost, as on any network
                        self._states.sendto(data, (connection.peer, udp_port))
            self._next_state_s = max(self._next_state_s + 1.0 / vacuum.STATE_RATE_HZ, now_s)
        if self._alarm is not None:
            self._alarm.cancel()
        event_s = self.gripper.next_event_s()
        self._alarm = loop.call_at(
            self._next_state_s if event_s is None else min(self._next_state_s, event_s), self.pump
        )
