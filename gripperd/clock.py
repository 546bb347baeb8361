"""Time, injected. Nobody else in the package reads a clock.

Two time bases, told apart by their names: `*_s` from monotonic() [s] orders and measures, `wall_ns` [ns since the
Unix epoch] goes into stamps and is never subtracted.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from typing import Protocol

COARSE_SLEEP_S = 0.005
"""Above this a sleep may be late by the event loop's rounding (more than 1 ms); below it a timer descriptor is used."""


HOLD_S = 0.00012
"""The end of a wait that is held instead of slept [s]: waking up takes the event loop about as long, and a gap of 0.3
ms on the wire would otherwise become half as long again. The loop turns meanwhile, so a stop that comes is seen."""


class Clock(Protocol):
    """What the package needs to know of time. hold_s: how much of a wait may be held [s]; 0 where time is simulated."""

    hold_s: float

    def monotonic(self) -> float:
        """Monotonic time [s]; the same base as the running event loop's time()."""

    def wall_ns(self) -> int:
        """Unix time [ns]."""

    async def sleep(self, duration_s: float) -> None:
        """Sleep for at least duration_s [s], and little longer."""

    async def hold(self, until_s: float) -> None:
        """Wait until then, monotonic [s], at most hold_s, without giving the processor away: other tasks run."""


def thread_cpu_s() -> float:
    """Processor time that the calling thread has used [s]."""
    return time.thread_time()


class SystemClock:
    """The machine's clock. Short sleeps use a timer descriptor, since asyncio rounds up to whole milliseconds."""

    hold_s = HOLD_S

    def monotonic(self) -> float:
        """Monotonic time [s]."""
        return time.monotonic()

    def wall_ns(self) -> int:
        """Unix time [ns]."""
        return time.time_ns()

    async def sleep(self, duration_s: float) -> None:
        """Sleep for at least duration_s [s]."""
        if duration_s > COARSE_SLEEP_S:
            await asyncio.sleep(duration_s)
        elif duration_s > 0:
            await _sleep_on_descriptor(duration_s)

    async def hold(self, until_s: float) -> None:
        """Let the event loop turn without sleeping, at most HOLD_S."""
        until_s = min(until_s, time.monotonic() + HOLD_S)
        while time.monotonic() < until_s:  # noqa: ASYNC110 (what it waits for is the time)
            await asyncio.sleep(0)


async def _sleep_on_descriptor(duration_s: float) -> None:
    loop = asyncio.get_running_loop()
    expired: asyncio.Future[None] = loop.create_future()
    descriptor = _timer_descriptor(duration_s)
    try:
        loop.add_reader(descriptor, _expire, expired)
        await expired
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _expire(expired: asyncio.Future[None]) -> None:
    if not expired.done():
        expired.set_result(None)


class _Timespec(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_long), ("nanosec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


def _timer_descriptor(duration_s: float) -> int:
    """A descriptor that becomes readable after duration_s [s]. The os module offers it from Python 3.13 only."""
    descriptor: int = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    whole_s, nanosec = divmod(max(1, int(duration_s * 1e9)), 1_000_000_000)
    setting = _Itimerspec(_Timespec(0, 0), _Timespec(whole_s, nanosec))
    if _libc.timerfd_settime(descriptor, 0, ctypes.byref(setting), None) != 0:
        error = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(error, "timerfd_settime")
    return descriptor
