"""A bare client of a hand for checks on hardware: gripperd's own connection, without driver and supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gripperd.clock import SystemClock
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.connection import HandConnection, HandLimits
from gripperd.drivers.franka_hand.sockets import SocketDialer
from gripperd.drivers.franka_hand.wire import Payload, State

CONNECT_LIMIT_S = 5.0
ANSWER_LIMIT_S = 200.0
"""Users waited up to three minutes for the answer of a move against an object [s]."""


class ProbeError(Exception):
    """The check could not be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A state and when it arrived, monotonic [s]."""

    at_s: float
    state: State


@dataclass(eq=False)
class Probe:
    """`async with Probe(address, port) as probe:` is connected until the end of the block. stops: how many to try."""

    address: str
    port: int
    stops: int = 20
    heard: list[Heard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = SystemClock()
        dialer = SocketDialer(self.address, self.port)
        self.hand = HandConnection(dialer, HandLimits(), self.clock, heard=self._hear, changed=self._changed)
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.hand.run())
        try:
            await self.until(lambda: self.hand.ready, CONNECT_LIMIT_S, "connection")
        except ProbeError:
            await self.__aexit__(None, None, None)
            raise ProbeError(self.hand.trouble) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, state: State) -> None:
        self.heard.append(Heard(self.clock.monotonic(), state))
        self._news.set()

    def _changed(self) -> None:
        self._news.set()

    @property
    def state(self) -> State:
        """The latest. Raises ProbeError if none came."""
        if not self.heard:
            raise ProbeError("no state datagram came")
        return self.heard[-1].state

    async def until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait for a condition, looking after everything that comes. Raises ProbeError."""
        try:
            async with asyncio.timeout(limit_s):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise ProbeError(f"no {what} within {limit_s} s") from None

    async def next_state(self, limit_s: float = 2.0) -> State:
        """One that comes from now on."""
        count = len(self.heard)
        await self.until(lambda: len(self.heard) > count, limit_s, "state datagram")
        return self.state

    def send(self, payload: Payload, order: list[Call] | None = None) -> Call:
        """Send; order gets the call when it is answered."""

        def answered(call: Call) -> None:
            if order is not None:
                order.append(call)
            self._news.set()

        return self.hand.call(payload, answered)

    async def answer(self, call: Call, limit_s: float = ANSWER_LIMIT_S) -> str:
        """How a call ended, and after how long."""
        await self.until(lambda: not call.pending, limit_s, f"answer to {type(call.payload).__name__}")
        took_s = self.clock.monotonic() - call.sent_s
        return f"{call.status.name if call.status is not None else 'lost: ' + call.lost} after {took_s:.3f} s"

    async def do(self, payload: Payload) -> str:
        """Send, and wait for the answer."""
        return await self.answer(self.send(payload))
