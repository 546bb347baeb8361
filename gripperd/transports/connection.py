"""One client of the Unix socket: lines to requests, answers to lines.

Rules
1. Lines are handled in the order of their arrival, and accepting is never delayed by an answer that is still to come.
   A client that sends many at once gets `LINES_PER_TURN` of them handled before the event loop turns, so that it costs
   the wires and the other clients nothing.
2. A stop does not wait for its turn: it is raised at once, and the commands that arrived before it are fenced as if
   they had been accepted. See contract section 8.7.
3. What a client does not read waits in its own buffer, of limited size: beyond it states are dropped; when even
   answers and outcomes cannot be kept, the connection is closed, so that nothing is lost unseen.
4. A stop that has arrived whole is carried out, also if its client is gone by then. Other lines of a lost client are
   not: nobody would learn what became of them.
5. A client that asked to be stopped when it is lost counts as lost as soon as it sends no more (a half-closed
   connection), since from then on its end could not be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import structlog
from pydantic_core import to_json

from gripperd.clock import Clock
from gripperd.contract import (
    MAX_LINE_BYTES,
    Code,
    CommandReply,
    Event,
    InvalidParamsError,
    Message,
    OnDisconnect,
    RpcError,
    WaitReply,
)
from gripperd.contract.errors import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from gripperd.contract.requests import (
    COMMANDS,
    Command,
    Empty,
    Hello,
    OfGripper,
    Stop,
    Subscribe,
    Unsubscribe,
    Wait,
)
from gripperd.contract.service import Peer, Service
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
from gripperd.transports.lines import LineBuffer, LineTooLongError
from gripperd.transports.peers import with_user_names
from gripperd.transports.subscriptions import ALL, FanOut, Subscription, Telling, check_subscribe

log = structlog.get_logger("gripperd.unix_socket")

LINES_PER_TURN = 32
"""Lines of one client that are handled before the event loop turns; each costs some 30 us."""
MAX_SUBSCRIPTIONS = 64
"""Subscriptions per connection."""
MAX_UNANSWERED = 4096
"""Requests of one connection that may wait for their answers, `wait` included. A stop is taken all the same."""
HARD_BUFFER_FACTOR = 8
"""A reader that owes this many times `client_buffer_bytes` is disconnected."""
STOP_METHOD = "gripper.stop"

Answer = Message | Mapping[str, Any] | Awaitable[Message]


class Host(Protocol):
    """What a connection needs of its server."""

    service: Service
    clock: Clock
    fan_out: FanOut
    buffer_bytes: int
    counters: dict[str, int]

    def joined(self, connection: Connection, transport: asyncio.Transport) -> Peer:
        """A client came; who is it?"""

    def left(self, connection: Connection) -> None:
        """A client is gone."""


class Connection(asyncio.Protocol):
    """See the module."""

    def __init__(self, server: Host) -> None:
        self._server = server
        self._service = service = server.service
        self._buffer_bytes = server.buffer_bytes
        self._lines = LineBuffer()
        self._fences: dict[str, int] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._last_subscription = 0
        self._unanswered: set[asyncio.Future[Message]] = set()
        self._waits: set[asyncio.Future[WaitReply]] = set()
        self._busy = False
        self._half_closed = False
        self._lost_stop_logged = False
        self._on_disconnect = OnDisconnect.NONE
        self._greeting: Callable[[], None] | None = None
        self._transport: asyncio.Transport | None = None
        self._methods: dict[str, tuple[type[Message], Callable[[Any], Answer]]] = {
            "daemon.info": (Empty, lambda params: service.daemon_info()),
            "daemon.statistics": (Empty, lambda params: service.statistics()),
            "client.hello": (Hello, self._hello),
            "client.beat": (Empty, self._beat),
            "client.list": (Empty, lambda params: with_user_names(service.list_clients())),
            "client.acquire": (OfGripper, lambda params: self._session.acquire(params.gripper)),
            "client.release": (OfGripper, lambda params: self._session.release(params.gripper)),
            "gripper.list": (Empty, lambda params: service.list_grippers()),
            "gripper.info": (OfGripper, lambda params: service.info(params.gripper)),
            "gripper.state": (OfGripper, lambda params: service.state(params.gripper)),
            "gripper.wait": (Wait, self._wait),
            "gripper.subscribe": (Subscribe, self._subscribe),
            "gripper.unsubscribe": (Unsubscribe, self._unsubscribe),
            STOP_METHOD: (Stop, lambda params: self._session.stop(params.gripper)),
        }
        self._methods |= {
            f"gripper.{verb}": (model, self._command) for verb, model in COMMANDS.items() if model is not Stop
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self._session = self._service.join(self._server.joined(self, self._transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone: its stops are carried out, its subscriptions end; what it commanded goes on, or is stopped."""
        self._read_rest()
        self._transport = None
        self._raise_stops(most=None)
        self._session.leave()
        self._leave()

    def _leave(self) -> None:
        for subscription in self._subscriptions.values():
            self._server.fan_out.remove(subscription)
        self._subscriptions.clear()
        for waiting in tuple(self._waits):
            waiting.cancel()
        self._server.left(self)

    def eof_received(self) -> bool:
        """It sends no more, but may still read answers. A last line without its newline is not executed."""
        self._half_closed = True
        if self._on_disconnect is OnDisconnect.STOP:
            self._session.leave()
        return self._is_wanted()

    def data_received(self, data: bytes) -> None:
        """Handle every whole line."""
        self._lines.feed(data)
        if not self._busy:
            self._turn()

    def _turn(self) -> None:
        """Handle the next lines; what is left waits for the event loop to turn, and nothing more is read until then."""
        self._busy = False
        for _ in range(LINES_PER_TURN):
            if self._transport is None or self._transport.is_closing():
                return
            try:
                line = self._lines.next()
            except LineTooLongError as error:
                self.refuse(str(error))
                return
            if line is None:
                self._transport.resume_reading()
                return
            self._server.counters["lines"] += 1
            self._handle(line)
        if self._transport is not None:
            self._busy = True
            self._transport.pause_reading()
            self._raise_stops()
            asyncio.get_running_loop().call_soon(self._turn)

    def _read_rest(self) -> None:
        """Where a write has failed, there may be lines that nobody has read."""
        assert self._transport is not None
        with contextlib.suppress(OSError):
            while data := os.read(self._transport.get_extra_info("socket").fileno(), MAX_LINE_BYTES):
                self._lines.feed(data)

    def _raise_stops(self, most: int | None = LINES_PER_TURN) -> None:
        """Carry out the stops that wait behind other lines. From then on these are fenced."""
        for follows, line in itertools.islice(self._lines.overtaking(STOP_METHOD.encode(), _is_stop), most):
            self._server.counters["lines"] += 1
            call = parse_line(line)
            if self._carry_out(call):
                for name in self._service.names(call.params.get("gripper")):
                    self._fences[name] = follows

    def _handle(self, line: bytes) -> None:
        """One request."""
        try:
            call = parse_line(line)
        except ParamsError as error:
            if error.silent and error.method != STOP_METHOD:
                self._server.counters["ignored_without_id"] += 1
            else:
                self._send_error(NO_ID if error.silent else error.id, error)
        except BadRequestError as error:
            self._send_error(error.id, error)
        else:
            if call.id is NO_ID and call.method != STOP_METHOD:
                self._server.counters["ignored_without_id"] += 1
            else:
                self._carry_out(call)

    def _carry_out(self, call: Call) -> bool:
        """Whether it was understood. Answered it is in any case."""
        try:
            answer = self._answer(call)
        except RpcError as error:
            self._send_error(call.id, error)
            return False
        except Exception as error:
            log.exception("request_failed", method=call.method)
            self._send_error(call.id, RpcError(INTERNAL_ERROR, f"internal error: {error!r}; see the daemon's log"))
            return False
        self._deliver(call, answer)
        return True

    def _answer(self, call: Call) -> Answer:
        if call.method not in self._methods:
            text = f"{call.method[:64]!r} is not a method{nearest(call.method[:64], self._methods)}"
            raise RpcError(METHOD_NOT_FOUND, text)
        if len(self._unanswered) >= MAX_UNANSWERED and call.method != STOP_METHOD:
            raise InvalidParamsError(f"{MAX_UNANSWERED} requests of this connection are not answered yet: await them")
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
            self._unanswered.add(future)
            future.add_done_callback(functools.partial(self._answered, call))

    def _answered(self, call: Call, done: asyncio.Future[Message]) -> None:
        self._unanswered.discard(done)
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            log.error("answer_failed", method=call.method, error=repr(error))
            self._send_error(call.id, RpcError(INTERNAL_ERROR, f"internal error: {error!r}; see the daemon's log"))
        else:
            self._send_result(call.id, done.result().to_json())
        if self._half_closed and self._transport is not None and not self._is_wanted():
            self._transport.close()

    def _is_wanted(self) -> bool:
        return bool(self._unanswered or self._subscriptions)

    def _hello(self, params: Hello) -> Answer:
        reply = self._session.hello(params)
        self._on_disconnect = params.on_disconnect
        return reply

    def _beat(self, params: Empty) -> Answer:
        self._session.beat()
        return {}

    def _command(self, command: Command) -> Answer:
        if self._fences:
            [name, *_] = names = self._service.names(command.gripper)
            if len(names) == 1 and self._lines.taken <= self._fences.get(name, 0):
                return CommandReply(ok=False, message="discarded by a stop", code=Code.FENCED, gripper=name)
        return self._session.command(command)

    def _wait(self, params: Wait) -> Answer:
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
            grippers=frozenset([ALL] if params.gripper is None else names),
            events=frozenset(events),
            period_s=1.0 / params.max_rate_hz if params.max_rate_hz else 0.0,
            send=self._write,
            offer=self._offer,
            monotonic=self._server.clock.monotonic,
        )
        self._subscriptions[subscription.number] = subscription
        if Event.STATE in events:
            self._greeting = functools.partial(self._greet, subscription, names)
        self._server.fan_out.add(subscription)
        return {"subscription": subscription.number}

    def _greet(self, subscription: Subscription, names: list[str]) -> None:
        """The latest state comes first, right behind the answer."""
        for name in names:
            subscription.tell(Telling.of(Event.STATE, self._service.state(name), name))

    def _unsubscribe(self, params: Unsubscribe) -> Answer:
        subscription = self._subscriptions.pop(params.subscription, None)
        if subscription is None:
            raise InvalidParamsError(f"there is no subscription {params.subscription} on this connection")
        self._server.fan_out.remove(subscription)
        return {}

    def _offer(self, line: bytes) -> bool:
        """Write it if the client keeps up."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() >= self._buffer_bytes:
            return False
        transport.write(line)
        return True

    def _write(self, line: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > HARD_BUFFER_FACTOR * self._buffer_bytes:
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
        """The daemon ends: its clients are not lost by that."""
        self._session.leave(lost=False)
        if self._transport is not None:
            self._transport.close()

    def refuse(self, text: str) -> None:
        """Say why, and close."""
        self._lines.clear()
        self._send_error(None, RpcError(INVALID_REQUEST, text))
        if self._transport is not None:
            self._transport.close()


def _is_stop(line: bytes) -> bool:
    try:
        return parse_line(line).method == STOP_METHOD
    except BadRequestError:
        return False
