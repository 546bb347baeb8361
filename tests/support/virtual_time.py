"""An event loop whose time jumps to the next timer as soon as nothing else is left to do.

Tests on it never sleep for real, and the order of events is the same in every run.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

START_S = 1000.0
"""Monotonic time at the start of a test [s]; not zero, so that a forgotten time stamp shows."""
EPOCH_NS = 1_700_000_000_000_000_000
"""Wall time at START_S [ns]."""


class DeadlockError(AssertionError):
    """Everybody waits, and no timer will ever wake anybody."""


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("all tasks wait, and there is no timer")
        self._jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._now_s = START_S
        super().__init__(_JumpingSelector(self.advance))

    def advance(self, duration_s: float) -> None:
        """Time passes [s]; called from a callback, that one took so long."""
        self._now_s += max(0.0, duration_s)

    def time(self) -> float:
        """Virtual monotonic time [s]."""
        return self._now_s


class VirtualClock:
    """gripperd's clock on the running virtual loop."""

    hold_s = 0.0

    def monotonic(self) -> float:
        """[s]"""
        return asyncio.get_running_loop().time()

    def wall_ns(self) -> int:
        """[ns]"""
        return EPOCH_NS + round((self.monotonic() - START_S) * 1e9)

    async def sleep(self, duration_s: float) -> None:
        """[s]"""
        if duration_s > 0:
            await asyncio.sleep(max(duration_s, 1e-6))  # a shorter one would not move the clock

    async def hold(self, until_s: float) -> None:
        """There is nothing to hold: hold_s is 0."""


def run_virtual(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a virtual loop; pending tasks at its end are cancelled, as in asyncio.run."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


async def within(duration_s: float, awaitable: Awaitable[Result]) -> Result:
    """Await with a limit [s] of virtual time."""
    async with asyncio.timeout(duration_s):
        return await awaitable


__all__ = ["EPOCH_NS", "START_S", "DeadlockError", "VirtualClock", "VirtualTimeLoop", "run_virtual", "within"]
