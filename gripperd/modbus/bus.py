"""One wire and its owner: who may speak, when, and what comes back.

Rules
1. One task runs a bus. It alone touches the line, one transaction at a time, and calls back synchronously: what a
   job learns is known before the next job starts.
2. Lanes: STOP before COMMAND before POLL. The choice is made at the last moment, after the silent gap, so that a stop
   waits for at most the transaction in flight.
   A poll, or another unit's stop, whose reply is overdue is given up for it (exchange.py). A command never is: one that
   takes the device longer than usual is nothing strange.
3. A job is asked what to send at the very moment of sending. It may withdraw then, and costs nothing.
4. After anything but a clean reply the line is read until it is silent before the next request. Where no byte came at
   all, the wait for the reply was that silence.
5. A reply counts only if its shape was free (transaction.py). A poll without a free shape is not sent. A command or
   stop without one is sent, and its answer is reported as not proven.
6. Nothing here waits without a limit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

import structlog

from gripperd.clock import Clock
from gripperd.modbus.exchange import USUAL_REPLIES, Answer, Exchange, UsualReply
from gripperd.modbus.line import Line, PortError
from gripperd.modbus.statistics import LineCounters
from gripperd.modbus.transaction import WRITES, ExceptionReply, Quarantine, Reply, ReplyMatcher, Request

log = structlog.get_logger("gripperd.modbus")

GAP_CHARACTERS = 3.5
"""Silence before each request [characters]: Modbus over serial line, section 2.5.1.1."""

LOOK_TURNS = 2
"""Turns of the event loop right before the choice of the lane: one to see what has arrived, one to act on it. A stop
that came while the last round was worked on goes first that way, not after one more transaction."""

SLOW_REPLY_S = 0.010
"""With so long a usual wait for a reply, beside its bytes [s], an adapter's latency timer is suspected: FTDI's default
holds a short reply back for up to 16 ms. An RG75 is taken to answer within a few milliseconds."""


class Lane(IntEnum):
    """Who goes first."""

    STOP = 0
    COMMAND = 1
    POLL = 2


class Ending(Enum):
    """How a transaction ended."""

    REPLY = "reply"
    TIMEOUT = "no reply"
    CRC = "reply with a wrong CRC"
    MISMATCH = "answer to something else"
    EXCEPTION = "exception"
    QUARANTINED = "waiting until late replies can no longer come"
    PORT = "port lost"
    FULL = "queue full"
    WITHDRAWN = "withdrawn"


ADVICE = {
    Ending.TIMEOUT: "power, wiring, unit, baudrate and parity",
    Ending.CRC: "baudrate, parity, termination, and that nobody else speaks on the line",
    Ending.MISMATCH: "baudrate, parity, unit, and that nobody else speaks on the line",
}
"""What to check where a device goes on to answer like this."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a job gets back. proven: the answer can belong to no earlier request. sent_s: monotonic [s]. code: of an
    exception.
    """

    ending: Ending
    text: str = ""
    registers: tuple[int, ...] = ()
    request: Request | None = None
    proven: bool = True
    sent_s: float = 0.0
    round_trip_s: float = 0.0
    code: int = 0


@dataclass(eq=False, slots=True)
class Job:
    """One piece of work for the wire.

    prepare: called just before sending; the requests that would do, best first; none withdraws the job.
    done: called once with the result. attempts: how often to send at most.
    tag: the words that are sent; answers to requests with the same tag are as good as each other.
    hurried: its reply is given up when it is overdue, and not only at its time-out (exchange.py).
    """

    prepare: Callable[[], Sequence[Request]]
    done: Callable[[Result], None]
    attempts: int = 1
    tag: object = None
    hurried: bool = False
    queued: bool = False


@dataclass(frozen=True, slots=True)
class BusLimits:
    """Limits of one bus, all from its configuration; see docs/configuration.md for their reasons."""

    response_timeout_s: float = 0.1
    turnaround_s: float = 0.0
    resync_quiet_s: float = 0.02
    resync_limit_s: float = 0.2
    late_reply_limit_s: float = 5.0
    reopen_delay_s: float = 0.2
    queue_jobs: int = 4096


class Bus:
    """The owner of one line."""

    def __init__(self, name: str, line: Line, limits: BusLimits, clock: Clock) -> None:
        self.name = name
        self.limits = limits
        self.counters = LineCounters()
        self.quarantine = Quarantine(limits.late_reply_limit_s)
        self.is_open = False
        self.trouble = "not opened yet"
        self._line = line
        self._clock = clock
        self._lanes: tuple[deque[Job], ...] = tuple(deque() for _ in Lane)
        self._wake = asyncio.Event()
        self._exchange: Exchange | None = None
        self._exchange_lane = Lane.POLL
        self._usual = {writes: UsualReply() for writes in (False, True)}
        self._replies_to_probe = 0
        self._last_byte_s = 0.0
        self._dirty = False
        self._next_open_s = 0.0
        self._trouble_logged = False

    def submit(self, lane: Lane, job: Job) -> None:
        """Queue a job; one that waits already keeps its place. Never blocks. Over the limit it ends FULL at once."""
        if job.queued:
            return
        if lane is not Lane.STOP and len(self._lanes[lane]) >= self.limits.queue_jobs:
            self.counters.refused_full += 1
            job.done(Result(Ending.FULL, f"{self.limits.queue_jobs} jobs wait on bus {self.name} already"))
            return
        job.queued = True
        self._lanes[lane].append(job)
        self._wake.set()
        if lane is Lane.STOP and self._exchange is not None and self._exchange_lane is not Lane.COMMAND:
            self._exchange.hurry()

    def unused(self, requests: Sequence[Request]) -> int:
        """How many of these requests have a shape that is free now."""
        now_s = self._clock.monotonic()
        return sum(self.quarantine.free(each.shape, None, now_s) for each in requests)

    def wait_s(self, requests: Sequence[Request]) -> float:
        """How long to wait [s] before one of these requests may be lost: see Quarantine.wait_s."""
        return self.quarantine.wait_s(requests, self._clock.monotonic())

    def even_s(self, requests: Sequence[Request]) -> float:
        """Pause [s] that uses up the unused shapes of these requests evenly: see Quarantine.even_s."""
        return self.quarantine.even_s(requests, self._clock.monotonic())

    async def run(self) -> None:
        """Own the line until cancelled."""
        try:
            while True:
                await self._step()
        finally:
            self._close()

    async def _step(self) -> None:
        if not self.is_open:
            await self._try_open()
        if not any(self._lanes):
            await self._wait_for_work()
            return
        if self.is_open:
            await self._silence()
            for _ in range(LOOK_TURNS):
                await asyncio.sleep(0)
        lane = next(lane for lane in Lane if self._lanes[lane])
        job = self._lanes[lane].popleft()
        job.queued = False
        self._exchange_lane = lane
        result = await self._transact(job) if self.is_open else Result(Ending.PORT, self.trouble)
        if result.ending in _WORTH_A_RETRY and job.attempts > 1:
            job.attempts -= 1
            self.counters.retries += 1
            job.queued = True
            self._lanes[lane].appendleft(job)
        else:
            job.done(result)

    async def _wait_for_work(self) -> None:
        self._wake.clear()
        if self.is_open:
            await self._wake.wait()
            return
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(max(0.0, self._next_open_s - self._clock.monotonic()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _try_open(self) -> None:
        if self._clock.monotonic() < self._next_open_s:
            return
        try:
            await self._line.open(self._on_bytes, self._on_lost)
        except PortError as error:
            self.trouble = str(error)
            self._next_open_s = self._clock.monotonic() + self.limits.reopen_delay_s
            if not self._trouble_logged:
                self._trouble_logged = True
                log.warning("port_not_open", bus=self.name, reason=self.trouble)
            return
        self.is_open = True
        self._dirty = True
        self._last_byte_s = self._clock.monotonic()  # unknown; so it is listened to first
        self._trouble_logged = False
        self._replies_to_probe = USUAL_REPLIES
        self.counters.port_opened += 1
        log.info("port_open", bus=self.name)

    def _close(self) -> None:
        self.is_open = False
        self._line.close()

    def _on_lost(self, reason: str) -> None:
        self.is_open = False
        self.trouble = reason
        self.counters.port_lost += 1
        self._next_open_s = self._clock.monotonic() + self.limits.reopen_delay_s
        log.warning("port_lost", bus=self.name, reason=reason)
        if self._exchange is not None:
            self._exchange.port_lost(reason)
        self._wake.set()

    def _on_bytes(self, data: bytes) -> None:
        self._last_byte_s = self._clock.monotonic()
        if self._exchange is None or not self._exchange.take(data):
            self._dirty = True
            self.counters.noise_bytes += len(data)

    async def _silence(self) -> None:
        """Keep the gap before a request; where the last exchange was not clean, read until the line is silent."""
        gap_s = max(GAP_CHARACTERS * self._line.character_s(), self.limits.turnaround_s)
        give_up_s = self._clock.monotonic() + max(gap_s, self.limits.resync_limit_s)
        resyncs = False
        while self.is_open:
            if self._dirty and not resyncs:  # from before, or by a byte that came while it waits here
                resyncs = True
                self.counters.resyncs += 1
                gap_s = max(gap_s, self.limits.resync_quiet_s)
            silent_s = min(self._last_byte_s + gap_s, give_up_s)
            wait_s = silent_s - self._clock.monotonic()
            if wait_s <= 0:
                break
            if wait_s > self._clock.hold_s:
                await self._clock.sleep(wait_s - self._clock.hold_s)
            else:
                await self._clock.hold(silent_s)
        self._dirty = False

    async def _transact(self, job: Job) -> Result:
        now_s = self._clock.monotonic()
        requests = job.prepare()
        if not requests:
            self.counters.withdrawn += 1
            return Result(Ending.WITHDRAWN)
        request = next((each for each in requests if self.quarantine.free(each.shape, job.tag, now_s)), None)
        proven = request is not None
        if request is None:
            if job.tag is None:
                self.counters.quarantined += 1
                return Result(Ending.QUARANTINED, Ending.QUARANTINED.value)
            request = requests[0]
        answer = await self._send(request, job, now_s)
        assert self._exchange is not None
        if isinstance(answer, Reply) and not proven:
            proven = self.quarantine.proves(request.shape, job.tag, now_s)
        result = self._judge(answer, self._exchange.matcher, proven, now_s)
        one_of_two = not self.quarantine.free(request.shape, None, now_s)  # this reply, or the one that was owed
        if result.ending in _STILL_OWED or one_of_two:
            self.quarantine.owe(request.shape, job.tag, now_s)
        self._count(self._exchange)
        self._exchange = None
        return result

    async def _send(self, request: Request, job: Job, now_s: float) -> Answer:
        """Send, and wait for the answer."""
        character_s, limits = self._line.character_s(), self.limits
        wire_s = (len(request.frame) + request.reply_bytes) * character_s
        timeout_s = wire_s + limits.response_timeout_s
        usual = self._usual[request.function in WRITES]
        overdue_s = wire_s + usual.limit_s(limits.response_timeout_s)
        exceptions_count = self.quarantine.exceptions_free(request, job.tag, now_s)
        self._exchange = Exchange(request, exceptions_count, overdue_s if job.hurried else timeout_s, overdue_s)
        self.counters.transactions += 1
        self._last_byte_s = now_s + len(request.frame) * character_s
        try:
            answer = await self._exchange.run(self._line)
        except PortError as error:
            self._line.close()
            self._on_lost(str(error))
            return str(error)
        if isinstance(answer, Reply):
            usual.add(self._clock.monotonic() - now_s - wire_s)
            self._probe()
        return answer

    def _probe(self) -> None:
        """Once after each opening: an adapter that holds replies back costs most of the rate, and nobody is told."""
        self._replies_to_probe -= 1
        if self._replies_to_probe == 0 and (usual_s := self._usual[False].median_s()) > SLOW_REPLY_S:
            usual_ms = round(1e3 * usual_s, 1)
            log.warning("slow_replies", bus=self.name, usual_ms=usual_ms, hint=self._line.slow_remedy())

    def _judge(self, answer: Answer, matcher: ReplyMatcher, proven: bool, sent_s: float) -> Result:
        counters, request = self.counters, matcher.request
        took_s = self._clock.monotonic() - sent_s
        if isinstance(answer, Reply):
            counters.replies += 1
            counters.unproven_replies += not proven
            counters.round_trips_s.append(took_s)
            return Result(Ending.REPLY, "", answer.registers, request, proven, sent_s, took_s)
        if isinstance(answer, ExceptionReply):
            counters.exceptions += 1
            text = f"unit {request.unit} refused function {request.function:02X}h with exception {answer.code}"
            return Result(Ending.EXCEPTION, text, (), request, proven, sent_s, took_s, answer.code)
        if isinstance(answer, str):
            return Result(Ending.PORT, answer, (), request, proven, sent_s, took_s)
        seen = bytes(matcher.buffer)
        if matcher.crc_failed():
            counters.crc_errors += 1
            ending = Ending.CRC
        elif matcher.foreign_frames or seen:
            counters.mismatches += 1
            ending = Ending.MISMATCH
        else:
            counters.timeouts += 1
            ending = Ending.TIMEOUT
        received = f", received {seen.hex(' ')}" if seen else ""
        text = f"unit {request.unit}: {ending.value} within {took_s:.3f} s on {self._line.describe()}{received}"
        return Result(ending, f"{text}; check {ADVICE[ending]}", (), request, proven, sent_s, took_s)

    def _count(self, exchange: Exchange) -> None:
        """Bytes left behind the answer, or in its place, are not the next request's."""
        matcher = exchange.matcher
        self.counters.noise_bytes += matcher.noise_bytes + len(matcher.buffer)
        self.counters.echoes += matcher.echoes
        self._dirty = self._dirty or bool(matcher.buffer) or (not exchange.answered and matcher.received_bytes > 0)


_WORTH_A_RETRY = frozenset({Ending.TIMEOUT, Ending.CRC, Ending.MISMATCH})
_STILL_OWED = frozenset({Ending.TIMEOUT, Ending.CRC, Ending.MISMATCH, Ending.PORT})
