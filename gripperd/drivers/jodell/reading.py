"""How the status of an RG75 is asked for: which of several reads, and how soon after losses.

Reads of the whole block take turns through six shapes, so that a late reply can be told from a prompt one. Brief reads
take the status word only. They have two shapes of their own, and so cost the rounds nothing: a stop looks with them
whether the device is what it was, and a link that would be called down for want of a shape is kept up by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gripperd.drivers.jodell.table import POSITION_REGISTERS, STATUS, STATUS_REGISTERS
from gripperd.modbus.bus import Bus, Ending, Result
from gripperd.modbus.transaction import ILLEGAL_FUNCTION, READ_HOLDING, READ_INPUT, Request, read_registers

HOLDING_TRIES = 3
"""Reads with function 03 that may be lost before it is given up, where it has never worked and 04 does."""
LOSS_WEIGHT = 0.1
"""Weight of the last round in the estimated share of lost replies."""
LOSS_MARGIN = 2.0
"""Factor on that share: it is an average, and luck has runs."""
SHAPES_IN_RESERVE = 3
"""With more unused shapes than these a loss is followed at the normal rate."""


class StatusReads:
    """The reads of one unit, and what was learnt of them."""

    def __init__(self, bus: Bus, unit: int) -> None:
        self._bus = bus
        self._whole = tuple(
            read_registers(unit, function, STATUS, count)
            for count in range(STATUS_REGISTERS, POSITION_REGISTERS - 1, -1)
            for function in (READ_INPUT, READ_HOLDING)
        )
        self._brief = tuple(read_registers(unit, function, STATUS, 1) for function in (READ_INPUT, READ_HOLDING))
        self._answered: Request | None = None
        self._loss = 0.0
        self._holding_works: bool | None = None
        self._holding_losses = 0

    def whole(self) -> Sequence[Request]:
        """Reads that would do, best first. The shape that was answered last comes last: its reply may come twice."""
        return sorted(self._possible(self._whole), key=lambda each: each is self._answered)

    def brief(self) -> Sequence[Request]:
        """Reads of the status word only."""
        return self._possible(self._brief)

    def now(self) -> Sequence[Request]:
        """Whole reads, or brief ones while a whole one must wait."""
        whole = self.whole()
        return whole if self._bus.wait_s(whole) == 0.0 else self.brief()

    def _possible(self, reads: Sequence[Request]) -> Sequence[Request]:
        return [each for each in reads if each.function == READ_INPUT or self._holding_works is not False]

    def learn(self, result: Result) -> None:
        """How a read ended. It shows whether function 03 reads the status too, as public drivers do, or 04 only, as
        the vendor's. [C] S1 S2 S9
        """
        if result.request is None:
            return
        answered = result.ending is Ending.REPLY
        self._loss += LOSS_WEIGHT * ((not answered) - self._loss)
        if answered:
            self._answered = result.request
        if result.request.function == READ_HOLDING:
            self._holding_works = True if answered else self._holding_works
            self._holding_losses += not answered
            if result.ending is Ending.EXCEPTION and result.code == ILLEGAL_FUNCTION:
                self._holding_works = False
        elif answered and self._holding_works is None and self._holding_losses >= HOLDING_TRIES:
            self._holding_works = False

    def forget(self) -> None:
        """The device may be another one when it is back."""
        self._holding_works = self._holding_works or None
        self._holding_losses = 0

    def spacing_s(self, limit_s: float) -> float:
        """How long to wait [s] before the next round, where many replies are owed. limit_s: see Driver.

        It slows down in proportion to the losses, but not so far that the link would be called down for want of asking.
        A pause without which the device could be left unasked for long is kept; a brief read may interrupt it.
        """
        reads, pace_s = self.whole(), 0.0
        if self._bus.unused(reads) <= SHAPES_IN_RESERVE:
            pace_s = min(limit_s, min(1.0, LOSS_MARGIN * self._loss) * self._bus.even_s(reads))
        wait_s = self._bus.wait_s(reads)
        if wait_s > limit_s and self._bus.unused(self.brief()):
            wait_s = limit_s
        return max(wait_s, pace_s)
