"""Word to the service manager: ready, alive, stopping. systemd's protocol is one datagram of lines.

Rules
1. Without a manager nothing is sent, and nothing is different.
2. The watchdog is fed only while every gripper's rounds go on: whatever is stuck, the event loop, the owner of a wire,
   or one driver, is noticed, and the manager starts the daemon anew. Adopting a gripper writes nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Self

import structlog

from gripperd.clock import Clock

log = structlog.get_logger("gripperd.notify")

FEEDS_PER_PERIOD = 3
"""So that one late feed is no kill."""
STUCK_S = 10.0
"""A gripper without a round for this long is stuck [s]. The longest pause between two rounds of a silent device is two
seconds, and a round that fails is a round."""


class Notifier:
    """Tells the service manager. address: its socket; None: there is none. watchdog_s: its limit [s]; 0: none."""

    def __init__(self, address: str | None = None, watchdog_s: float = 0.0) -> None:
        self.watchdog_s = watchdog_s
        self._address = address
        self._trouble_logged = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As systemd says it."""
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environment.get("WATCHDOG_USEC", "0")
        watchdog_s = int(microseconds) / 1e6 if for_us and microseconds.isdecimal() else 0.0
        return cls(environment.get("NOTIFY_SOCKET"), watchdog_s)

    @property
    def managed(self) -> bool:
        """Whether there is a manager that wants to be told."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Everything answers."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self, monotonic_s: float) -> None:
        """The configuration is read again; `ready` follows. monotonic_s: now [s], by which systemd orders these."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={round(monotonic_s * 1e6)}\nSTATUS=reading the configuration again")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def status(self, text: str) -> None:
        """One line for people."""
        self._send(f"STATUS={text}")

    def _send(self, lines: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(lines.encode(), address)
        except OSError as error:
            if not self._trouble_logged:
                self._trouble_logged = True
                log.warning("service_manager_not_told", reason=error.strerror or str(error))


class Rounds:
    """Whose rounds go on. Pure."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def stuck(self, seqs: Mapping[str, int], now_s: float) -> list[str]:
        """Grippers whose number has not changed for STUCK_S. seqs: the number of each one's latest round."""
        for name, seq in seqs.items():
            if self._seen.get(name, (None, 0.0))[0] != seq:
                self._seen[name] = seq, now_s
        return [name for name in seqs if now_s - self._seen[name][1] > STUCK_S]


class Watchdog:
    """Feeds the manager's watchdog. seqs: the number of each gripper's latest round. Run it as a task."""

    def __init__(self, notifier: Notifier, clock: Clock, seqs: Callable[[], Mapping[str, int]]) -> None:
        self._notifier = notifier
        self._clock = clock
        self._seqs = seqs
        self._rounds = Rounds()
        self._told = False

    async def run(self) -> None:
        """Until cancelled; ends at once where there is no watchdog."""
        while self._notifier.watchdog_s:
            stuck = self._rounds.stuck(self._seqs(), self._clock.monotonic())
            if not stuck:
                self._notifier.alive()
            elif not self._told:
                log.error("watchdog_not_fed", grippers=stuck, reason=f"no round for {STUCK_S:.0f} s: this is a defect")
                self._notifier.status(f"stuck: {', '.join(stuck)}")
            self._told = bool(stuck)
            await self._clock.sleep(self._notifier.watchdog_s / FEEDS_PER_PERIOD)
