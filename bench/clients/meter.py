"""Counts a client's transactions and its CPU time, in a window after a warm-up."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """What a client has to do: read the status block over and over. Times [s]."""

    port: str
    baudrate: int
    warm_s: float
    measure_s: float
    timeout_s: float = 0.1

    @property
    def character_s(self) -> float:
        """Time of one character [s]."""
        return 10 / self.baudrate


@dataclass(slots=True)
class Tally:
    """What came of it. The window is from began_s to ended_s [s], CLOCK_MONOTONIC; cpu_s: of the whole process."""

    transactions: int = 0
    errors: int = 0
    began_s: float = 0.0
    ended_s: float = 0.0
    cpu_s: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


class Meter:
    """Told of every transaction; says when the time is over."""

    def __init__(self, task: Task) -> None:
        self.tally = Tally()
        self._task = task
        self._warm_until_s = time.monotonic() + task.warm_s
        self._cpu_s = 0.0

    def count(self, ok: bool) -> bool:
        """A transaction is over. False: so is the measurement."""
        now_s, tally = time.monotonic(), self.tally
        if not tally.began_s:
            if now_s >= self._warm_until_s:
                tally.began_s, self._cpu_s = now_s, time.process_time()
            return True
        if ok:
            tally.transactions += 1
        else:
            tally.errors += 1
        if now_s - tally.began_s < self._task.measure_s:
            return True
        if not tally.ended_s:
            tally.ended_s, tally.cpu_s = now_s, time.process_time() - self._cpu_s
        return False
