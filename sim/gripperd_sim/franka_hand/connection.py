"""One client of a simulated gripper: its bytes, and every way in which its connection can go wrong. asyncio.

Owns its transport. It knows messages by their length only.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Protocol

from gripperd_sim.franka_hand import wire

RESET_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER on, 0 s: close with RST."""


class Host(Protocol):
    """What a connection needs of its server."""

    def opened(self, connection: Connection) -> int:
        """A client connected; its number."""

    def closed(self, number: int, how: str) -> None:
        """A client is gone; how: in words, for the history."""

    def heard(self, connection: Connection, request: wire.Request) -> None:
        """A message came."""


class Connection(asyncio.Protocol):
    """One client. how: it ended, where the server ended it."""

    def __init__(self, server: Host, stream: wire.Stream) -> None:
        self.number = 0
        self.peer = ""
        self.states_sent = 0
        self.states_lost = 0
        self.ignored = False
        self._server = server
        self._stream = stream
        self._transport: asyncio.Transport | None = None
        self._half_closed = False
        self._held: list[bytes] | None = None
        self._free_s = 0.0
        self._how = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = transport.get_extra_info("peername")[0]
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio."""
        by_client = "reset by the client" if error is not None else "finished by the client"
        self._server.closed(self.number, self._how or by_client)

    def data_received(self, data: bytes) -> None:
        """asyncio."""
        try:
            for request in self._stream.feed(data):
                self._server.heard(self, request)
        except wire.BrokenStreamError:
            self.reset("reset: broken stream")

    @property
    def no_delay(self) -> bool:
        """Whether its messages go out at once (TCP_NODELAY)."""
        found = self._transport.get_extra_info("socket") if self._transport is not None else None
        return found is not None and bool(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def send(self, pieces: Sequence[bytes], delay_s: float = 0.0, gap_s: float = 0.0) -> None:
        """Send delay_s from now, the pieces gap_s apart. A message that is in pieces is never cut by another one."""
        loop = asyncio.get_running_loop()
        due_s = max(loop.time() + delay_s, self._free_s)
        for n, piece in enumerate(pieces):
            if due_s + n * gap_s <= loop.time():
                self.write(piece)
            else:
                loop.call_at(due_s + n * gap_s, self.write, piece)
        if len(pieces) > 1:
            self._free_s = due_s + len(pieces) * gap_s

    def write(self, data: bytes) -> None:
        """Send now, if it is still there and was not closed one way."""
        if self._transport is None or self._transport.is_closing() or self._half_closed or self.ignored:
            return
        if self._held is not None:
            self._held.append(data)
        else:
            self._transport.write(data)

    def hold(self) -> None:
        """The cable is out: what either side says waits, as TCP repeats it."""
        if self._transport is not None and not self._transport.is_closing() and self._held is None:
            self._held = []
            self._transport.pause_reading()

    def release(self) -> None:
        """The cable is back. A client that gave up with a reset meanwhile repeats nothing any more."""
        held, self._held = self._held, None
        if held is None or self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._how = "reset by the client"
            self._transport.abort()
            return
        for data in held:
            self.write(data)
        if not self.ignored:
            self._transport.resume_reading()

    def ignore(self) -> None:
        """Never read it again and never say anything: half open for its client."""
        if self._transport is not None and not self._transport.is_closing():
            self.ignored = True
            if self._held is None:
                self._transport.pause_reading()

    def reset(self, how: str = "reset") -> None:
        """End with RST."""
        if self._transport is not None:
            self._how = self._how or how
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_LINGER)
            self._transport.abort()

    def finish(self) -> None:
        """End in an orderly way, with FIN."""
        if self._transport is not None:
            self._how = self._how or "finished"
            self._transport.close()

    def half_close(self) -> None:
        """Send nothing any more over TCP; states go on."""
        if self._transport is not None and self._transport.can_write_eof():
            self._half_closed = True
            self._transport.write_eof()
