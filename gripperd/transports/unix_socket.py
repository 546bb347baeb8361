"""The Unix socket of contract section 4. A thin adapter over the service.

Rules
1. Lines are handled synchronously in the order of their arrival: accepting is never delayed by an answer that is
   still to come, so a stop waits for nothing.
2. What a client does not read waits in its own buffer, of limited size: beyond it states are dropped; when even
   answers and outcomes cannot be kept, the connection is closed, so that nothing is lost unseen.
3. A client that fails costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import grp
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import structlog
from pydantic_core import to_json

from gripperd.clock import Clock
from gripperd.config import DaemonConfig
from gripperd.contract import MAX_LINE_BYTES, Event, GripperdError, InvalidParamsError, Message, RpcError, WaitReply
from gripperd.contract.errors import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from gripperd.contract.requests import COMMANDS, Command, Empty, OfGripper, Stop, Subscribe, Unsubscribe, Wait
from gripperd.contract.service import Service
from gripperd.transports.jsonrpc import (
    NO_ID,
    BadRequestError,
    Call,
    ParamsError,
    encode_error,
    encode_result,
    nearest,
    parse_line,
    parse_params,
)
from gripperd.transports.subscriptions import StateEncoder, Subscription, check_subscribe

log = structlog.get_logger("gripperd.unix_socket")

MAX_SUBSCRIPTIONS = 64
"""Subscriptions per connection."""
MAX_WAITS = 1024
"""Outcomes that one connection may wait for at a time."""
HARD_BUFFER_FACTOR = 8
"""A reader that owes this many times `client_buffer_bytes` is disconnected."""
STOP_METHOD = "gripper.stop"

Answer = Message | Mapping[str, Any] | Awaitable[Message]


class SocketError(GripperdError):
    """The socket cannot be opened."""


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: UnixSocketServer) -> None:
        self._server = server
        self._service = server.service
        self._buffer = bytearray()
        self._subscriptions: dict[int, Callable[[], None]] = {}
        self._last_subscription = 0
        self._pending: set[asyncio.Future[Message]] = set()
        self._waits: set[asyncio.Future[WaitReply]] = set()
        self._half_closed = False
        self._lost_stop_logged = False
        self._greeting: Callable[[], None] | None = None
        self._transport: asyncio.Transport | None = None
        self._methods: dict[str, tuple[type[Message], Callable[[Any], Answer]]] = {
            "daemon.info": (Empty, lambda params: self._service.daemon_info()),
            "daemon.statistics": (Empty, lambda params: self._service.statistics()),
            "gripper.list": (Empty, lambda params: self._service.list_grippers()),
            "gripper.info": (OfGripper, lambda params: self._service.info(params.gripper)),
            "gripper.state": (OfGripper, lambda params: self._service.state(params.gripper)),
            "gripper.wait": (Wait, self._wait),
            "gripper.subscribe": (Subscribe, self._subscribe),
            "gripper.unsubscribe": (Unsubscribe, self._unsubscribe),
            STOP_METHOD: (Stop, lambda params: self._service.stop(params.gripper)),
        }
        self._methods |= {
            f"gripper.{verb}": (model, self._command) for verb, model in COMMANDS.items() if model is not Stop
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone: what it subscribed to ends, what it commanded goes on."""
        for end in self._subscriptions.values():
            end()
        self._subscriptions.clear()
        for waiting in tuple(self._waits):
            waiting.cancel()
        self._transport = None
        self._server.left(self)

    def eof_received(self) -> bool:
        """It sends no more, but may still read answers. A last line without its newline is not executed."""
        self._half_closed = True
        return self._is_wanted()

    def data_received(self, data: bytes) -> None:
        """Handle every whole line."""
        self._buffer += data
        while self._transport is not None and not self._transport.is_closing():
            end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES)
            if end < 0:
                if len(self._buffer) >= MAX_LINE_BYTES:
                    self.refuse(f"a line is longer than {MAX_LINE_BYTES} bytes")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._server.counters["lines"] += 1
            self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            call = parse_line(line)
        except ParamsError as error:
            if error.silent and error.method != STOP_METHOD:
                self._server.counters["ignored_without_id"] += 1
            else:
                self._send_error(NO_ID if error.silent else error.id, error)
            return
        except BadRequestError as error:
            self._send_error(error.id, error)
            return
        if call.id is NO_ID and call.method != STOP_METHOD:
            self._server.counters["ignored_without_id"] += 1
            return
        try:
            answer = self._answer(call)
        except RpcError as error:
            self._send_error(call.id, error)
        except Exception as error:
            log.exception("request_failed", method=call.method)
            self._send_error(call.id, RpcError(INTERNAL_ERROR, f"internal error: {error!r}; see the daemon's log"))
        else:
            self._deliver(call, answer)

    def _answer(self, call: Call) -> Answer:
        if call.method not in self._methods:
            text = f"{call.method[:64]!r} is not a method{nearest(call.method[:64], self._methods)}"
            raise RpcError(METHOD_NOT_FOUND, text)
        model, handler = self._methods[call.method]
        return handler(parse_params(model, call.params))

    def _deliver(self, call: Call, answer: Answer) -> None:
        if isinstance(answer, Message):
            self._send_result(call.id, answer.to_json())
        elif isinstance(answer, Mapping):
            self._send_result(call.id, to_json(answer))
            if self._greeting is not None:
                greeting, self._greeting = self._greeting, None
                greeting()
        else:
            future = cast("asyncio.Future[Message]", asyncio.ensure_future(answer))
            self._pending.add(future)
            future.add_done_callback(lambda done: self._answered(call, done))

    def _answered(self, call: Call, done: asyncio.Future[Message]) -> None:
        self._pending.discard(done)
        if done.cancelled() or self._transport is None:
            return
        if (error := done.exception()) is not None:
            log.error("answer_failed", method=call.method, error=repr(error))
            self._send_error(call.id, RpcError(INTERNAL_ERROR, f"internal error: {error!r}; see the daemon's log"))
        else:
            self._send_result(call.id, done.result().to_json())
        if self._half_closed and not self._is_wanted():
            self._transport.close()

    def _is_wanted(self) -> bool:
        return bool(self._pending or self._subscriptions)

    def _command(self, command: Command) -> Answer:
        return self._service.command(command)

    def _wait(self, params: Wait) -> Answer:
        if len(self._waits) >= MAX_WAITS:
            raise InvalidParamsError(f"this connection waits for {MAX_WAITS} outcomes already: subscribe to them")
        waiting = asyncio.ensure_future(self._service.wait(params.gripper, params.command_seq, params.timeout_s))
        self._waits.add(waiting)
        waiting.add_done_callback(self._waits.discard)
        return waiting

    def _subscribe(self, params: Subscribe) -> Answer:
        events = check_subscribe(params)
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidParamsError(f"this connection has {MAX_SUBSCRIPTIONS} subscriptions already: end one")
        names = self._service.names(params.gripper)
        self._last_subscription += 1
        subscription = Subscription(
            number=self._last_subscription,
            period_s=1.0 / params.max_rate_hz if params.max_rate_hz else 0.0,
            encoder=self._server.encoder,
            send=self._write,
            room=self._has_room,
            monotonic=self._server.clock.monotonic,
        )
        end = self._service.subscribe(params.gripper, events, subscription.listen)
        self._subscriptions[subscription.number] = end
        if Event.STATE in events:
            self._greeting = functools.partial(self._greet, subscription, names)
        return {"subscription": subscription.number}

    def _greet(self, subscription: Subscription, names: list[str]) -> None:
        """The latest state comes first, right behind the answer."""
        for name in names:
            subscription.send_state(self._service.state(name))

    def _unsubscribe(self, params: Unsubscribe) -> Answer:
        end = self._subscriptions.pop(params.subscription, None)
        if end is None:
            raise InvalidParamsError(f"there is no subscription {params.subscription} on this connection")
        end()
        return {}

    def _has_room(self) -> bool:
        transport = self._transport
        return transport is not None and transport.get_write_buffer_size() < self._server.buffer_bytes

    def _write(self, line: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > HARD_BUFFER_FACTOR * self._server.buffer_bytes:
            log.warning("client_dropped", reason="it does not read its answers")
            self._server.counters["dropped_clients"] += 1
            transport.abort()
            return
        transport.write(line)

    def _send_result(self, request_id: object, result: bytes) -> None:
        if request_id is not NO_ID:
            self._write(encode_result(request_id, result))

    def _send_error(self, request_id: object, error: RpcError) -> None:
        self._server.counters["errors"] += 1
        if request_id is not NO_ID:
            self._write(encode_error(request_id, error.code, error.message))
        elif not self._lost_stop_logged:  # a stop whose client cannot be told that it was none
            self._lost_stop_logged = True
            log.warning("stop_without_id_failed", reason=error.message)

    def end(self) -> None:
        """Close when what is written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def refuse(self, text: str) -> None:
        """Say why, and close."""
        self._buffer.clear()
        self._send_error(None, RpcError(INVALID_REQUEST, text))
        self.end()


class UnixSocketServer:
    """Listens, and counts."""

    def __init__(self, config: DaemonConfig, service: Service, clock: Clock) -> None:
        self.service = service
        self.clock = clock
        self.encoder = StateEncoder()
        self.buffer_bytes = config.client_buffer_bytes
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
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises SocketError."""
        listener = await asyncio.to_thread(_bind, self._config)
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(self), sock=listener)

    async def close(self) -> None:
        """Stop listening, end all connections, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.end()
        await asyncio.to_thread(Path(self._config.socket).unlink, missing_ok=True)

    def joined(self, connection: Connection) -> None:
        """A client came; one too many is told so and closed."""
        self._connections.add(connection)
        self.counters["clients"] += 1
        self.counters["connected"] = len(self._connections)
        if len(self._connections) > self._config.max_clients:
            self.counters["refused"] += 1
            connection.refuse(f"{self._config.max_clients} clients are connected already")

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
