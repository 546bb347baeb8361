"""The connection to one hand: TCP for commands, UDP for states. It owns both sockets, and knows nothing of grippers.

Rules
1. One task runs a connection: it connects, reconnects with back-off, and alone closes. Nothing is ever sent by itself
   but Connect: no connection moves the jaws.
2. `call` writes at once, whatever is pending: a stop never waits. Answers are matched by command id.
3. A connection that ends, for whatever reason, ends all its calls; `generation` tells connections apart.
4. Every wait has a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import structlog

from gripperd.clock import Clock
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.table import PROTOCOL_VERSION
from gripperd.drivers.franka_hand.wire import (
    ConnectRequest,
    ConnectResponse,
    ConnectStatus,
    Message,
    MessageDecoder,
    Payload,
    State,
    WireError,
    decode_status,
)

log = structlog.get_logger("gripperd.franka_hand")


class ConnectError(Exception):
    """The hand cannot be used. The text says why and what to do."""


@dataclass(slots=True)
class HandCounters:
    """Counters of one connection since the daemon started."""

    connected: int = 0
    lost: int = 0
    requests: int = 0
    answers: int = 0
    answers_to_nobody: int = 0
    protocol_errors: int = 0
    datagrams: int = 0
    bad_datagrams: int = 0
    old_datagrams: int = 0
    foreign_datagrams: int = 0


@dataclass(frozen=True, slots=True)
class HandLimits:
    """Times [s]. connect_timeout_s: of the TCP connection, and of the answer to Connect. A failed try is followed by a
    pause of reopen_delay_s, doubled each time up to reopen_max_s. A hand that is back is noticed within the sum of
    both, which the contract wants below 2 s.
    """

    connect_timeout_s: float = 1.0
    reopen_delay_s: float = 0.2
    reopen_max_s: float = 0.5


class Link(Protocol):
    """Both sockets, open. What a connection needs of them."""

    udp_port: int

    def write(self, data: bytes) -> None:
        """Send now. Raises ConnectError."""

    def close(self) -> None:
        """Give both sockets back; may be called again."""


class Receiver(Protocol):
    """Who is told what comes."""

    def received(self, data: bytes) -> None:
        """Bytes of the TCP stream."""

    def datagram(self, data: bytes) -> None:
        """A datagram of the hand's address."""

    def foreign(self) -> None:
        """A datagram of another address was dropped."""

    def ended(self, reason: str) -> None:
        """The TCP connection is over."""


class Dialer(Protocol):
    """Opens links."""

    address: str

    async def dial(self, receiver: Receiver, timeout_s: float) -> Link:
        """Connect. Raises ConnectError."""


@dataclass(eq=False)
class HandConnection:
    """See the module. heard: called with every state that is newer than the one before. changed: the connection came
    or went.
    """

    dialer: Dialer
    limits: HandLimits
    clock: Clock
    heard: Callable[[State], None] = lambda state: None
    changed: Callable[[], None] = lambda: None
    counters: HandCounters = field(default_factory=HandCounters)
    trouble: str = "not connected yet"
    generation: int = 0

    def __post_init__(self) -> None:
        self._link: Link | None = None
        self._ready = False
        self._decoder = MessageDecoder()
        self._next_id = 0
        self._calls: dict[int, Call] = {}
        self._greeting: asyncio.Future[ConnectResponse] | None = None
        self._over: asyncio.Future[None] | None = None
        self._last_id: int | None = None

    @property
    def name(self) -> str:
        """For statistics and logs."""
        return self.dialer.address

    @property
    def ready(self) -> bool:
        """Whether commands can be sent."""
        return self._ready

    def statistics(self) -> dict[str, int | float]:
        """Plain numbers."""
        return asdict(self.counters)

    # --- the owner

    async def run(self) -> None:
        """Connect, and again whenever the connection is lost, until cancelled."""
        delay_s = self.limits.reopen_delay_s
        try:
            while True:
                try:
                    await self._connect()
                except ConnectError as error:
                    if self.trouble != str(error):
                        log.warning("hand_unreachable", address=self.name, reason=str(error))
                    self._end(str(error))
                    await self.clock.sleep(delay_s)
                    delay_s = min(2 * delay_s, self.limits.reopen_max_s)
                    continue
                delay_s = self.limits.reopen_delay_s
                assert self._over is not None
                await self._over
                log.warning("hand_lost", address=self.name, reason=self.trouble)
                await self.clock.sleep(delay_s)
        finally:
            self._end("gripperd is ending")

    async def _connect(self) -> None:
        loop, limit_s = asyncio.get_running_loop(), self.limits.connect_timeout_s
        self._decoder, self._next_id, self._last_id = MessageDecoder(), 0, None
        self._greeting, self._over = loop.create_future(), loop.create_future()
        self._link = await self.dialer.dial(self, limit_s)
        self._send(ConnectRequest(PROTOCOL_VERSION, self._link.udp_port))
        waiting: set[asyncio.Future[Any]] = {self._greeting, self._over}
        await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            raise ConnectError(self.trouble)
        if not self._greeting.done():
            raise ConnectError(f"{self.name} accepted the connection, and did not answer Connect within {limit_s} s")
        answer = self._greeting.result()
        if answer.status != ConnectStatus.SUCCESS:
            raise ConnectError(
                f"{self.name} speaks version {answer.version} of the gripper protocol, gripperd speaks "
                f"{PROTOCOL_VERSION}: the robot's system needs an update, or gripperd"
            )
        self._ready = True
        self.generation += 1
        self.counters.connected += 1
        self.trouble = "connected, but no state datagram came: is UDP from the robot blocked by a firewall or a router?"
        log.info("hand_connected", address=self.name, udp_port=self._link.udp_port)
        self.changed()

    def _end(self, reason: str) -> None:
        """Close what is open, and end what is pending."""
        link, self._link = self._link, None
        was_ready, self._ready = self._ready, False
        self.trouble = reason
        if link is not None:
            link.close()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.lost = reason
            call.answered(call)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        if was_ready:
            self.counters.lost += 1
            self.changed()

    # --- what goes out

    def call(self, payload: Payload, answered: Callable[[Call], None]) -> Call:
        """Send a command now. Raises ConnectError where there is no connection."""
        if not self._ready:
            raise ConnectError(self.trouble)
        number = self._next_id
        call = Call(payload, self.clock.monotonic(), answered)
        self._calls[number] = call
        try:
            self._send(payload)
        except ConnectError as error:
            del self._calls[number]
            self._end(str(error))
            raise
        self.counters.requests += 1
        return call

    def _send(self, payload: Payload) -> None:
        assert self._link is not None
        number, self._next_id = self._next_id, (self._next_id + 1) & 0xFFFFFFFF
        self._link.write(payload.encode(number))

    def restart(self, reason: str) -> None:
        """Give the connection up and make a new one: what is silent may be half open."""
        if self._link is not None:
            self._end(reason)

    # --- what comes in

    def received(self, data: bytes) -> None:
        """Receiver."""
        try:
            for message in self._decoder.feed(data):
                self._answer(message)
        except WireError as error:
            self.counters.protocol_errors += 1
            self._end(f"{self.name} broke the protocol: {error}")

    def _answer(self, message: Message) -> None:
        number = message.header.command_id
        if number == 0 and self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(ConnectResponse.decode(message.body))
            return
        status = decode_status(message.body)
        call = self._calls.pop(number, None)
        if call is None:
            self.counters.answers_to_nobody += 1
            return
        self.counters.answers += 1
        call.status = status
        call.answered(call)

    def datagram(self, data: bytes) -> None:
        """Receiver. Datagrams can overtake each other: only one that is newer than the last counts."""
        self.counters.datagrams += 1
        try:
            state = State.decode(data)
        except WireError as error:
            if not self.counters.bad_datagrams:
                log.warning("bad_datagram", address=self.name, reason=str(error))
            self.counters.bad_datagrams += 1
            return
        if not self._ready:
            return
        if self._last_id is not None and not 0 < (state.message_id - self._last_id) & 0xFFFFFFFF < 0x80000000:
            self.counters.old_datagrams += 1
            return
        self._last_id = state.message_id
        self.heard(state)

    def foreign(self) -> None:
        """Receiver."""
        self.counters.foreign_datagrams += 1

    def ended(self, reason: str) -> None:
        """Receiver."""
        self._end(reason)
