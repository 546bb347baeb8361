"""Plays a scenario in real time: at its times, and before the devices hear a request that comes at or after them.

asyncio; owns a timer.
"""

from __future__ import annotations

import time

from gripperd_sim.scenario import ScenarioPlay
from gripperd_sim.timeline import Timeline


class ScenarioDriver:
    """Drives one scenario from the requests of a line and from a clock."""

    def __init__(self, play: ScenarioPlay) -> None:
        self._play = play
        self._timeline = Timeline()
        self._waiting_for_s: float | None = None

    def ready(self) -> None:
        """The simulator is ready."""
        self._play.ready(time.monotonic())
        self._wait()

    def heard(self, now_s: float) -> None:
        """For Line.before_request."""
        self._play.heard(now_s)
        self._wait()

    def close(self) -> None:
        """Give the timer back."""
        self._timeline.close()

    def _wait(self) -> None:
        next_s = self._play.next_s
        if next_s is not None and next_s != self._waiting_for_s:
            self._waiting_for_s = next_s
            self._timeline.at(next_s, self._due)

    def _due(self, _due_s: float) -> None:
        self._play.play(time.monotonic())
        self._wait()
