"""One request in flight: sends it, collects what comes, knows when to stop waiting.

Rules
1. It ends with the answer, with the port, or with its time: never later than the time-out.
2. `hurry` ends it sooner when the reply is overdue, so that a stop need not wait for the time-out. A reply that is
   still due, or whose bytes are coming, is not torn off: the next request would collide with it.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import deque

from gripperd.modbus.line import Line
from gripperd.modbus.transaction import ExceptionReply, Reply, ReplyMatcher, Request

Answer = Reply | ExceptionReply | str | None
"""A reply, an exception, why the port was lost, or None: nothing in time."""

USUAL_REPLIES = 64
"""Last replies that say what is usual on a line."""
USUAL_REPLIES_NEEDED = 8
"""With fewer replies nothing is called overdue before its time-out."""
USUAL_FACTOR = 1.5
USUAL_MARGIN_S = 0.002
"""A reply is overdue when it is later than the slowest of the last ones by this factor and this margin [s]."""


class UsualReply:
    """How long the device of a line usually takes to reply, beside the time of the bytes on the wire."""

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=USUAL_REPLIES)

    def add(self, took_s: float) -> None:
        """A reply came took_s [s] after its request, less its wire time."""
        self._took_s.append(took_s)

    def median_s(self) -> float:
        """What is usual [s]; 0 before the first reply."""
        return statistics.median(self._took_s) if self._took_s else 0.0

    def limit_s(self, timeout_s: float) -> float:
        """Later than this [s] a reply is overdue; at most the time-out."""
        if len(self._took_s) < USUAL_REPLIES_NEEDED:
            return timeout_s
        return min(timeout_s, USUAL_FACTOR * max(self._took_s) + USUAL_MARGIN_S)


class Exchange:
    """See the module. All times in [s] of the event loop."""

    def __init__(self, request: Request, exceptions_count: bool, timeout_s: float, overdue_s: float) -> None:
        self.matcher = ReplyMatcher(request, exceptions_count)
        self.answered = False
        self._timeout_s = timeout_s
        self._overdue_s = overdue_s
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._began_s = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    async def run(self, line: Line) -> Answer:
        """Send, and wait. Raises PortError if nothing can be sent."""
        loop = asyncio.get_running_loop()
        self._began_s = loop.time()
        line.write(self.matcher.request.frame)
        self._alarm = loop.call_at(self._began_s + self._timeout_s, self._resolve, None)
        try:
            return await self._answer
        finally:
            self._alarm.cancel()

    def take(self, data: bytes) -> bool:
        """Bytes came. False: the exchange is over, they belong to nobody."""
        if self._answer.done():
            return False
        answer = self.matcher.feed(data)
        if answer is not None:
            self.answered = True
            self._resolve(answer)
        return True

    def port_lost(self, reason: str) -> None:
        """There will be no answer."""
        self._resolve(reason)

    def hurry(self) -> None:
        """Somebody must not wait longer than for a reply that is still due."""
        if self._alarm is None or self._overdue_s >= self._timeout_s:
            return
        self._alarm.cancel()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_at(max(self._began_s + self._overdue_s, loop.time()), self._give_up)

    def _give_up(self) -> None:
        if not self.matcher.received_bytes:
            self._resolve(None)
        else:  # a reply is under way: it has until the time-out
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(max(self._began_s + self._timeout_s, loop.time()), self._resolve, None)

    def _resolve(self, answer: Answer) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)
