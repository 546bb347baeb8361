"""Stops on their way to a hand, and what counts as the answer to one.

A stop is acknowledged when the hand answered it and no motion is pending any more, or when it aborted the motion that
was pending. On real hands a stop is known to be ignored, or answered only after the motion has ended
([U] libfranka#52, #111): then it is silent, and the asker repeats it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from gripperd.drivers.base import Ack, AckKind
from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.connection import ConnectError, HandConnection
from gripperd.drivers.franka_hand.wire import Status, StopRequest

log = structlog.get_logger("gripperd.franka_hand")

RELIEF_ATTEMPTS = 20
"""Stops for a motion that was given up as stalled, until the hand answers it."""


@dataclass(eq=False, slots=True)
class _Exchange:
    """One stop. motions: what was pending when it was sent."""

    call: Call
    motions: Sequence[Call]
    ended: Callable[[Ack], None]
    alarm: asyncio.TimerHandle


class StopExchanges:
    """All stops of one hand. motions: the driver's list of pending motions; answer_s: how long a stop may take [s]."""

    def __init__(self, hand: HandConnection, motions: Sequence[Call], answer_s: float) -> None:
        self._hand = hand
        self._motions = motions
        self._answer_s = answer_s
        self._open: list[_Exchange] = []
        self._relieving = False
        self._relieved = 0

    def send(self, ended: Callable[[Ack], None]) -> None:
        """Send a stop now; ended gets its end, once."""
        try:
            call = self._hand.call(StopRequest(), lambda call: self.look())
        except ConnectError as error:
            ended(Ack(AckKind.LINK, str(error)))
            return
        loop = asyncio.get_running_loop()
        exchange: _Exchange
        alarm = loop.call_later(self._answer_s, lambda: self._end(exchange, self._verdict(exchange, late=True)))
        exchange = _Exchange(call, tuple(self._motions), ended, alarm)
        self._open.append(exchange)

    def look(self) -> None:
        """Something was answered: which stops does that end?"""
        if not any(motion.abandoned for motion in self._motions):
            self._relieved = 0
        for exchange in list(self._open):
            self._end(exchange, self._verdict(exchange, late=False))

    def _verdict(self, exchange: _Exchange, late: bool) -> Ack | None:
        call = exchange.call
        if call.lost:
            return Ack(AckKind.LINK, call.lost)
        aborted = any(motion.status is Status.ABORTED for motion in exchange.motions)
        if not self._motions and (aborted or call.status is Status.SUCCESS):
            return Ack(AckKind.ACKNOWLEDGED)
        if call.status not in (None, Status.SUCCESS):
            return Ack(AckKind.REFUSED, f"the hand answered the stop with k{call.status.name.capitalize()}")
        if not late:
            return None
        if call.status is None:
            return Ack(AckKind.SILENT, f"the hand did not answer the stop within {self._answer_s} s")
        return Ack(AckKind.SILENT, "the hand answered the stop, and the motion is still pending")

    def _end(self, exchange: _Exchange, ack: Ack | None) -> None:
        if ack is None or exchange not in self._open:
            return
        self._open.remove(exchange)
        exchange.alarm.cancel()
        exchange.ended(ack)

    def relieve(self) -> None:
        """Stop a motion that was given up as stalled, again and again until the hand answers it."""
        if self._relieving or self._relieved >= RELIEF_ATTEMPTS:
            return
        if not self._relieved:
            log.warning("stopping_a_stalled_motion", address=self._hand.name)
        self._relieving = True
        self._relieved += 1
        self.send(self._after_relief)

    def _after_relief(self, ack: Ack) -> None:
        self._relieving = False
        if ack.kind is not AckKind.ACKNOWLEDGED and self._relieved >= RELIEF_ATTEMPTS:
            log.warning("stalled_motion_goes_on", address=self._hand.name, stops=self._relieved)
