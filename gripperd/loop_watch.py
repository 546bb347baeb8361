"""Watches the event loop: a stall is counted, and logged with its cause.

Everything in the daemon shares one loop, so whoever holds it delays a stop. The loop sets a mark every few
milliseconds; a thread looks at the mark and, when it is old, at what the loop's thread is doing just then. The loop
itself judges the stall when it is over.

The cause is one of three: Python code that ran for too long, a call that blocked, or a machine that did not run the
process. They are told apart by the processor time that the loop's thread used meanwhile, and by the stack.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

import structlog

from gripperd.clock import Clock, thread_cpu_s

log = structlog.get_logger("gripperd.loop")

MARK_PERIOD_S = 0.01
"""Between two marks [s]: half a stall, so that none is missed."""
LOOK_LATER_S = 0.001
"""The thread looks this much after a mark would be too old [s], so that it surely is."""
LOG_PERIOD_S = 10.0
"""At most one stall in this time is logged [s]; the others are counted, and their number stands in the next line."""
FRAMES_TOLD = 4
"""Innermost calls that a cause names."""
BUSY_SHARE = 0.5
"""From this share of processor time on, the loop's thread was running and not waiting."""
WAITING = ("selectors.py", "select")
"""File and function at the top of the stack of a loop that has nothing to do."""


@dataclass(slots=True)
class LoopCounters:
    """What was seen since the start. Times in [s]."""

    stalls: int = 0
    stalls_busy: int = 0
    stalls_blocked: int = 0
    stalls_not_run: int = 0
    longest_stall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call on the stack of the loop's thread."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


class LoopWatch:
    """One watch of the running loop. limit_s: a longer stall [s] is told."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self.counters = LoopCounters()
        self._clock = clock
        self._limit_s = limit_s
        self._mark_s = clock.monotonic()
        self._cpu_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._seen: tuple[float, Sequence[Call]] | None = None
        self._over = threading.Event()
        self._next_log_s = float("-inf")
        self._unlogged = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        self._mark_s, self._cpu_s = self._clock.monotonic(), thread_cpu_s()
        thread = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="gripperd loop watch", daemon=True
        )
        thread.start()
        # Not a task that sleeps: it comes a hundred times a second.
        self._timer = loop.call_later(MARK_PERIOD_S, self._mark)
        try:
            await loop.create_future()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._over.set()
            thread.join()  # it looks again within a few hundredths of a second

    def _mark(self) -> None:
        """The loop's turn."""
        now_s, cpu_s = self._clock.monotonic(), thread_cpu_s()
        stall_s = now_s - self._mark_s - MARK_PERIOD_S
        if stall_s > self._limit_s:
            self._tell(now_s, stall_s, cpu_s - self._cpu_s)
        self._mark_s, self._cpu_s = now_s, cpu_s
        self._timer = asyncio.get_running_loop().call_later(MARK_PERIOD_S, self._mark)

    def _look(self, loop_thread: int) -> None:
        """In the thread: remember what the loop's thread does, once for each mark that is too old.

        It looks when the mark that it knows would be too old, so it sees a stall as soon as it is one.
        """
        wait_s = MARK_PERIOD_S
        while not self._over.wait(wait_s):
            mark_s = self._mark_s
            left_s = mark_s + MARK_PERIOD_S + self._limit_s - self._clock.monotonic()
            if left_s < 0 and (self._seen is None or self._seen[0] != mark_s):
                self._seen = mark_s, _calls(sys._current_frames().get(loop_thread))
            wait_s = left_s + LOOK_LATER_S if left_s > 0 else MARK_PERIOD_S

    def _tell(self, now_s: float, stall_s: float, cpu_s: float) -> None:
        counters, seen = self.counters, self._seen
        calls = seen[1] if seen is not None and seen[0] == self._mark_s else ()
        counters.stalls += 1
        counters.longest_stall_s = max(counters.longest_stall_s, round(stall_s, 6))
        if cpu_s >= BUSY_SHARE * stall_s:
            counters.stalls_busy += 1
            cause = f"busy in {_told(calls)}"
        elif calls and (calls[0].file, calls[0].function) != WAITING:
            counters.stalls_blocked += 1
            cause = f"blocked in {_told(calls)}"
        else:
            counters.stalls_not_run += 1
            cause = "the process was not run: the machine is busy"
        if now_s < self._next_log_s:
            self._unlogged += 1
            return
        log.warning(
            "loop_stalled", stall_s=round(stall_s, 4), cpu_s=round(cpu_s, 4), cause=cause, unlogged=self._unlogged
        )
        self._next_log_s, self._unlogged = now_s + LOG_PERIOD_S, 0


def _calls(frame: FrameType | None) -> Sequence[Call]:
    """The innermost calls, innermost first."""
    calls: list[Call] = []
    while frame is not None and len(calls) < FRAMES_TOLD:
        code = frame.f_code
        calls.append(Call(code.co_filename.rpartition("/")[2], frame.f_lineno, code.co_name))
        frame = frame.f_back
    return calls


def _told(calls: Sequence[Call]) -> str:
    return " < ".join(map(str, calls)) or "something that ended before it could be seen"
