"""The two sockets of a connection to a hand: TCP for commands, UDP for states. Moves bytes, and knows no message."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from gripperd.drivers.franka_hand.connection import ConnectError, Link, Receiver
from gripperd.drivers.franka_hand.table import TCP_PORT

KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 1, 1, 3
"""As libfranka sets them [S]: a path that vanished is noticed after about four seconds, also without any traffic."""
MAX_UNSENT_BYTES = 1024
"""More than this unsent [bytes], some twenty messages, is a path that does not work: the connection is given up."""


class SocketDialer:
    """Real sockets. port: of the hand; only tests use another than libfranka's."""

    def __init__(self, address: str, port: int = TCP_PORT) -> None:
        self.address = address
        self._port = port

    async def dial(self, receiver: Receiver, timeout_s: float) -> Link:
        """See Dialer."""
        loop = asyncio.get_running_loop()
        link = _SocketLink(self.address, receiver)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: link.stream, self.address, self._port, family=socket.AF_INET)
            await loop.create_datagram_endpoint(lambda: link.states, ("0.0.0.0", 0))
        except BaseException as error:  # also when cancelled: nothing may stay open
            link.close()
            if isinstance(error, OSError):  # TimeoutError is one
                raise ConnectError(_explain(self.address, self._port, timeout_s, error)) from error
            raise
        link.udp_port = link.states.port()
        return link


def _explain(address: str, port: int, timeout_s: float, error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer from {address}:{port} within {timeout_s} s: is the robot on, and in this net?"
    if isinstance(error, ConnectionRefusedError):
        return f"{address}:{port} refuses connections: mount the hand, select it in Desk, and activate FCI"
    if isinstance(error, socket.gaierror):
        return f"{address}: there is no such host: give the robot's IPv4 address"
    return f"{address}:{port}: {error.strerror or error}"


class _SocketLink:
    """Both sockets of one connection."""

    def __init__(self, address: str, receiver: Receiver) -> None:
        self.udp_port = 0
        self.stream = _Stream(address, receiver)
        self.states = _States(self.stream, receiver)

    def write(self, data: bytes) -> None:
        """See Link."""
        transport = self.stream.transport
        if transport is None or transport.is_closing():
            raise ConnectError("the connection is closing")
        transport.write(data)
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            raise ConnectError("the hand takes no more bytes: the connection is given up")

    def close(self) -> None:
        """See Link. Nothing is told any more."""
        self.stream.silent = self.states.silent = True
        if self.stream.transport is not None:
            self.stream.transport.abort()
        if self.states.transport is not None:
            self.states.transport.abort()


class _Stream(asyncio.Protocol):
    def __init__(self, address: str, receiver: Receiver) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.silent = False
        self._address = address
        self._receiver = receiver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = transport.get_extra_info("peername")[0]
        connection: socket.socket = transport.get_extra_info("socket")
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES),
        ):
            connection.setsockopt(level, option, value)

    def data_received(self, data: bytes) -> None:
        if not self.silent:
            self._receiver.received(data)

    def eof_received(self) -> bool:
        self._end(f"{self._address} closed the connection")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection to {self._address} broke: {error or 'closed'}")

    def _end(self, reason: str) -> None:
        if not self.silent:
            self.silent = True
            self._receiver.ended(reason)


class _States(asyncio.DatagramProtocol):
    def __init__(self, stream: _Stream, receiver: Receiver) -> None:
        self.transport: asyncio.DatagramTransport | None = None
        self.silent = False
        self._stream = stream
        self._receiver = receiver

    def port(self) -> int:
        assert self.transport is not None
        number: int = self.transport.get_extra_info("sockname")[1]
        return number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)  # Python 3.11's is none by its type

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if self.silent:
            return
        if address[0] != self._stream.peer:
            self._receiver.foreign()
            return
        self._receiver.datagram(data)

    def error_received(self, error: Exception) -> None:
        """ICMP errors of a socket that never sends: nothing to do."""
