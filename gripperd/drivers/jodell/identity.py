"""Which device answers: its version, read once after each return of the link. No register tells a serial number.

It is read between two rounds, after some good ones, so that neither a stop nor the first state waits for it. A device
that refuses the read, or does not answer it, is asked no more until the link returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from gripperd.drivers.jodell.table import IDENTITY, IDENTITY_REGISTERS
from gripperd.modbus.bus import Bus, Ending, Job, Lane, Result
from gripperd.modbus.transaction import READ_HOLDING, Request, read_registers

ROUNDS_BEFORE = 5
"""Good rounds before it is asked."""
TRIES = 2
"""A try that is not answered costs the line one response time-out."""


def version_of(registers: Sequence[int]) -> str:
    """The version as the vendor's SDK makes it of the five registers. [C] S1"""
    first, last = registers[0], registers[4]
    return f"{first}.{last}" if first else f"{last >> 8}.{last & 0xFF}"


class Identity:
    """The version of one unit, as far as it is known. version: "" until it was read since the link came up."""

    def __init__(self, bus: Bus, unit: int) -> None:
        self.version = ""
        self._bus = bus
        self._request: Sequence[Request] = (read_registers(unit, READ_HOLDING, IDENTITY, IDENTITY_REGISTERS),)
        self._job = Job(lambda: self._request if self._wanted() else (), self._done)
        self.forget()

    def round_was_good(self) -> None:
        """One more since the link came up."""
        if self._wanted():
            self._rounds += 1
            if self._rounds >= ROUNDS_BEFORE:
                self._bus.submit(Lane.POLL, self._job)

    def forget(self) -> None:
        """The device may be another one when it is back."""
        self.version = ""
        self._rounds = 0
        self._tries_left = TRIES

    def _wanted(self) -> bool:
        return not self.version and self._tries_left > 0

    def _done(self, result: Result) -> None:
        if result.ending is Ending.REPLY and result.proven:
            self.version = version_of(result.registers)
        elif result.ending is Ending.EXCEPTION:
            self._tries_left = 0
        elif result.request is not None:
            self._tries_left -= 1
