"""The listening end of the Unix socket of contract section 4: permissions, limits, counters. A client that fails costs
nobody else anything; see connection.py.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from gripperd.clock import Clock
from gripperd.config import DaemonConfig
from gripperd.contract import Event, GripperdError
from gripperd.contract.service import Peer, Service
from gripperd.transports.connection import Connection
from gripperd.transports.peers import AccessError, AccessRule, access_rule, read_credentials
from gripperd.transports.subscriptions import FanOut

ANSWER_LIMIT_S = 5.0
"""Longest time that the daemon's own question over its socket may take at the start [s]."""


class SocketError(GripperdError):
    """The socket cannot be opened."""


class UnixSocketServer:
    """Listens, and counts. inherited: a socket that the service manager opened; it stays the manager's."""

    def __init__(
        self, config: DaemonConfig, service: Service, clock: Clock, inherited: socket.socket | None = None
    ) -> None:
        self.service = service
        self.clock = clock
        self.buffer_bytes = config.client_buffer_bytes
        self.fan_out = FanOut(lambda turn: asyncio.get_running_loop().call_soon(turn))
        self.counters = {
            "clients": 0,
            "connected": 0,
            "refused": 0,
            "dropped_clients": 0,
            "lines": 0,
            "errors": 0,
            "ignored_without_id": 0,
        }
        self._config = config
        self._inherited = inherited
        self._rule = AccessRule()
        self._connections: set[Connection] = set()
        self._end_listening: Callable[[], None] | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises SocketError."""
        (await self.new_rule(self._config))()
        listener = self._inherited or await asyncio.to_thread(_bind, self._config)
        self._end_listening = self.service.subscribe(None, tuple(Event), self.fan_out.listen)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: Connection(self), sock=listener)

    async def answers(self) -> None:
        """Ask a question over the socket, as a client does. Raises SocketError if there is no answer."""
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                reader, writer = await asyncio.open_unix_connection(self.path)
                writer.write(b'{"jsonrpc":"2.0","id":1,"method":"daemon.info"}\n')
                answer = await reader.readline()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError) as error:
            raise SocketError(f"socket {self.path} does not answer: {str(error) or 'no word'}") from error
        if b'"result"' not in answer:
            raise SocketError(f"socket {self.path} answers {answer.decode(errors='replace')!r}")

    async def new_rule(self, config: DaemonConfig) -> Callable[[], None]:
        """Look up who may command by a new configuration. Call what is returned, and it holds for clients that come
        from then on. Raises SocketError.
        """
        try:
            rule = await asyncio.to_thread(access_rule, config.command_users, config.command_groups)
        except AccessError as error:
            raise SocketError(str(error)) from None
        return lambda: setattr(self, "_rule", rule)

    @property
    def path(self) -> str:
        """Where clients find it: an inherited socket has the path that the manager gave it."""
        return str(self._inherited.getsockname()) if self._inherited is not None else self._config.socket

    async def close(self) -> None:
        """Stop listening, end all connections, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        if self._end_listening is not None:
            self._end_listening()
        for connection in tuple(self._connections):
            connection.end()
        if self._inherited is None:
            await asyncio.to_thread(Path(self._config.socket).unlink, missing_ok=True)

    def joined(self, connection: Connection, transport: asyncio.Transport) -> Peer:
        """A client came; one too many is told so and closed."""
        self._connections.add(connection)
        self.counters["clients"] += 1
        self.counters["connected"] = len(self._connections)
        if len(self._connections) > self._config.max_clients:
            self.counters["refused"] += 1
            connection.refuse(f"{self._config.max_clients} clients are connected already")
        who = read_credentials(transport.get_extra_info("socket"))
        return Peer("unix", user=str(who.uid), pid=who.pid, observe_only=self._rule.observe_only(who))

    def left(self, connection: Connection) -> None:
        """A client is gone."""
        self._connections.discard(connection)
        self.counters["connected"] = len(self._connections)


def _bind(config: DaemonConfig) -> socket.socket:
    """A bound socket with its permissions; nobody can connect before it listens. Raises SocketError."""
    path = Path(config.socket)
    _make_way(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.bind(str(path))
        if config.socket_group is not None:
            os.chown(path, -1, grp.getgrnam(config.socket_group).gr_gid)
        path.chmod(int(config.socket_mode, 8))
    except KeyError:
        listener.close()
        raise SocketError(f"socket_group = {config.socket_group!r}: there is no such group") from None
    except OSError as error:
        listener.close()
        raise SocketError(f"socket {path} cannot be opened: {error.strerror}") from error
    return listener


def _make_way(path: Path) -> None:
    """Remove what a crashed daemon left; leave alone what somebody uses. Raises SocketError."""
    if not path.parent.is_dir():
        raise SocketError(f"socket {path}: its folder does not exist; create {path.parent}, or set [daemon] socket")
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise SocketError(f"socket {path}: something else has that name; remove it, or set [daemon] socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink()
                return
            raise SocketError(f"socket {path} is in use, or not ours: {error.strerror}") from error
    raise SocketError(f"socket {path} is in use by another gripperd: stop that one first")
