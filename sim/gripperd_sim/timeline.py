"""Calls at exact times inside an asyncio loop, by one timer file descriptor (Linux).

asyncio's own timers round up to whole milliseconds: longer than a byte takes on the wire. Owns its descriptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import itertools
import os
import sys
import time
from collections.abc import Callable

_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_LONG_AGO_S = 1e-9  # an absolute time of 0 would switch the timer off


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def _create() -> int:
    if sys.version_info >= (3, 13):
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=_TFD_FLAGS)
    fd = int(ctypes.CDLL(None, use_errno=True).timerfd_create(time.CLOCK_MONOTONIC, _TFD_FLAGS))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    return fd


def _arm(fd: int, due_s: float) -> None:
    due_s = max(due_s, _LONG_AGO_S)
    if sys.version_info >= (3, 13):
        os.timerfd_settime(fd, flags=_TFD_TIMER_ABSTIME, initial=due_s)
        return
    whole = int(due_s)
    spec = _Itimerspec(_Timespec(0, 0), _Timespec(whole, int((due_s - whole) * 1e9)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None) < 0:
        raise OSError(ctypes.get_errno(), "timerfd_settime failed")


class Timeline:
    """Calls in the order of their times [s, time.monotonic()]; equal times in the order they were given."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        self._fd = _create()
        self._loop.add_reader(self._fd, self._run_due)

    def at(self, due_s: float, call: Callable[[float], None]) -> None:
        """Have call(due_s) run at due_s, or as soon as possible if that is past."""
        heapq.heappush(self._calls, (due_s, next(self._numbers), call))
        if self._calls[0][0] == due_s:
            _arm(self._fd, due_s)

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()

    def close(self) -> None:
        """Forget all calls and give the descriptor back."""
        self.clear()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _run_due(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        while self._calls and self._calls[0][0] <= time.monotonic():
            due_s, _, call = heapq.heappop(self._calls)
            call(due_s)
        if self._calls:
            _arm(self._fd, self._calls[0][0])
