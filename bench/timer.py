"""A timer descriptor that is made once and armed often: the most exact wake-up that Linux gives without spinning."""

from __future__ import annotations

import ctypes
import os
import time

_ABSOLUTE = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_long), ("nanosec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class Timer:
    """See the module. Its descriptor is readable once the time has come."""

    def __init__(self) -> None:
        self.descriptor = int(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._setting = _Itimerspec()
        self._pointer = ctypes.byref(self._setting)

    def at(self, due_s: float) -> None:
        """Arm for a monotonic time [s]."""
        value = self._setting.value
        value.sec = int(due_s)
        value.nanosec = int((due_s - value.sec) * 1e9)
        if _libc.timerfd_settime(self.descriptor, _ABSOLUTE, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def clear(self) -> None:
        """Take the expiry off the descriptor."""
        try:
            os.read(self.descriptor, 8)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)


def spin_until(due_s: float) -> float:
    """Wait without sleeping, for the last microseconds before a deadline; returns the time [s]."""
    now_s = time.monotonic()
    while now_s < due_s:
        now_s = time.monotonic()
    return now_s
