"""Stop: the path that always gets through. See docs/architecture.md, "Stop".

Rules
1. `raise_stop` does all its work before it returns: fence, number, wire lane. It awaits nothing, takes no lock, joins
   no queue that can be full, writes no file and logs nothing.
2. A stop never moves. What has to be written depends on the activation, and is decided at the moment of sending; where
   it is not known, the status is read first. A device that may have restarted since its last status would take a stop
   for an enable: where the last round failed or is long ago, and before every repetition, it is looked at. If nothing
   is seen, the first of all undelivered stops goes out all the same, since a device that is not heard may still hear.
3. It is repeated until it is acknowledged, until it is older than `stop_lifetime_s`, or until a status shows that
   there is nothing to stop. A lost link only makes it wait.
4. Its answer comes after the acknowledgement, or after `stop_confirm_limit_s` with not_confirmed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from gripperd.contract import Code, CommandPhase, CommandReply, Link, Outcome, Verb
from gripperd.drivers.base import Ack, AckKind, StopKind
from gripperd.gripper.core import Core
from gripperd.gripper.dispatch import Dispatcher
from gripperd.gripper.ledger import NOT_MEASURED, Measured, Record

REPEAT_DELAY_S = 0.02
"""Pause before an unacknowledged stop is sent again [s]: other units of the line get a turn, no command does."""
NOTHING_TO_STOP = "not active: nothing to stop"


class _Sight(Enum):
    """What is known of the device since the stop was asked for, or sent last."""

    NONE = "not looked at"
    SEEN = "it answered"
    BLIND = "looked at, and not seen"


@dataclass(eq=False, slots=True)
class _Stop:
    """One accepted stop. asked_s: monotonic [s]."""

    record: Record
    reply: asyncio.Future[CommandReply]
    asked_s: float
    sight: _Sight
    alarm: asyncio.TimerHandle | None = None
    tried: bool = False

    def answer(self, reply: CommandReply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)


class Stopper:
    """The stop lane of one gripper. clear: set while no stop is undelivered; commands wait for it."""

    def __init__(self, core: Core, dispatcher: Dispatcher, clear: asyncio.Event) -> None:
        self._core = core
        self._dispatcher = dispatcher
        self._clear = clear
        self._undelivered: list[_Stop] = []
        self._in_flight: list[_Stop] = []
        self._delivered: list[_Stop] = []
        self._last: _Stop | None = None
        self._repeat_alarm: asyncio.TimerHandle | None = None
        self._looking = False
        self._look_asked_s = 0.0
        self._blind = False
        clear.set()

    def raise_stop(self) -> asyncio.Future[CommandReply]:
        """Stop this gripper. The future has the reply."""
        core, loop = self._core, asyncio.get_running_loop()
        self._dispatcher.fence()
        sight = _Sight.SEEN if core.known else _Sight.NONE
        stop = _Stop(core.ledger.number(Verb.STOP), loop.create_future(), core.clock.monotonic(), sight)
        if core.link is Link.UP and not self._undelivered and core.driver.stop_kind() is StopKind.NOTHING:
            self._nothing_to_stop(stop)
            return stop.reply
        self._undelivered.append(stop)
        self._clear.clear()
        if self._repeat_alarm is not None:  # a new stop waits for nobody's repetition
            self._repeat_alarm.cancel()
            self._repeat_alarm = None
        self._deliver()
        stop.alarm = loop.call_later(core.driver.config.stop_confirm_limit_s, self._out_of_time, stop)
        return stop.reply

    def round_ended(self) -> None:
        """A round brought a valid status: what waited for it can be decided now."""
        self._seen()

    def _seen(self) -> None:
        if self._core.driver.stop_misread() and self._last is not None and self._last not in self._undelivered:
            self._last.asked_s = self._core.clock.monotonic()
            self._undelivered.append(self._last)  # as its status wants it now; it was answered long ago
        if not self._undelivered:
            return
        if self._core.driver.stop_kind() is StopKind.NOTHING:
            stops, self._undelivered = self._undelivered, []
            for stop in stops:
                self._nothing_to_stop(stop)
        else:
            self._undelivered[-1].sight = _Sight.SEEN
        self._deliver()

    def _looked(self, seen: bool) -> None:
        """The look that a stop asked for is over."""
        self._looking = False
        if seen:
            self._seen()
        elif self._undelivered:
            newest = self._undelivered[-1]
            if self._tried():
                self._repeat_later()
            if self._tried() or newest.asked_s <= self._look_asked_s:  # an older look tells nothing of now
                newest.sight = _Sight.BLIND
            self._deliver()

    def link_lost(self) -> None:
        """Pending stops end; those that were not delivered still wait for the link."""
        for stop in self._undelivered + self._delivered:
            self._finish(stop, Outcome.LINK_LOST, self._core.trouble)
        self._delivered.clear()

    def retire(self) -> None:
        """The gripper is no more: every stop has its answer, and none is sent or repeated after this."""
        if self._repeat_alarm is not None:
            self._repeat_alarm.cancel()
        for stop in self._undelivered:
            stop.answer(self._core.reply(Code.NOT_CONFIRMED, f"not acknowledged: {self._core.trouble}", stop.record))
        for stop in self._undelivered + self._delivered:
            if stop.alarm is not None:
                stop.alarm.cancel()
            self._finish(stop, Outcome.LINK_LOST, self._core.trouble)
        self._undelivered.clear()
        self._delivered.clear()

    def ended(self, outcome: Outcome, message: str, measured: Measured) -> None:
        """The status shows how the delivered stops ended."""
        stops, self._delivered = self._delivered, []
        for stop in stops:
            self._finish(stop, outcome, message, measured)

    def _deliver(self) -> None:
        """Put the stop on the wire's first lane if its word is known, else have the status read."""
        core = self._core
        oldest_s = core.clock.monotonic() - core.driver.config.stop_lifetime_s
        while self._undelivered and self._undelivered[0].asked_s < oldest_s:  # in the order of their asking
            stop = self._undelivered.pop(0)
            self._finish(stop, Outcome.UNCONFIRMED, "could not be delivered in time, given up")
            self._end_replaced(Outcome.UNCONFIRMED, f"a stop ({stop.record.seq}) was sent, and never acknowledged")
        waits = self._repeat_alarm is not None or self._in_flight  # polls must get their turn between two attempts
        if self._undelivered and not waits and core.driver.stop_kind() is StopKind.WRITE:
            if self._may_go():
                core.driver.stop(self._began, self._ended)
            else:
                self._look()
        if not self._undelivered:
            self._clear.set()
        core.wake.set()

    def _look(self) -> None:
        if not self._looking:
            self._looking, self._look_asked_s = True, self._core.clock.monotonic()
            self._core.driver.look(self._looked)

    def _tried(self) -> bool:
        """Whether a stop that is not delivered yet was sent: no command followed it, so a device that hears has it."""
        return any(stop.tried for stop in self._undelivered)

    def _may_go(self) -> bool:
        """Whether the newest stop may be sent now."""
        if not self._undelivered:
            return False
        sight = self._undelivered[-1].sight
        return sight is _Sight.SEEN or (sight is _Sight.BLIND and not self._tried())

    def _began(self) -> bool:
        """The wire is about to send the stop."""
        if not self._may_go():
            return False
        core = self._core
        self._blind = self._undelivered[-1].sight is _Sight.BLIND
        self._in_flight = list(self._undelivered)
        for stop in self._in_flight:
            stop.tried, stop.sight = True, _Sight.NONE
        self._last = self._in_flight[-1]
        before = core.before()
        for stop in self._in_flight:  # all of them, so that the next command ends all of them
            if stop.record.phase is CommandPhase.NONE:
                core.ledger.begin(stop.record)
        self._last.record.tracker = core.driver.track_stop(before)
        return True

    def _ended(self, ack: Ack) -> None:
        core, stops = self._core, self._in_flight
        self._in_flight = []
        if ack.kind is AckKind.ACKNOWLEDGED:
            self._acknowledged(stops)
            if self._blind:  # it is heard again: did it take the stop for an enable?
                self._look()
        elif ack.kind in (AckKind.SILENT, AckKind.UNPROVEN, AckKind.REFUSED):
            self._repeat_later()
        elif ack.kind is AckKind.LINK:
            core.trouble = ack.text

    def _repeat_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._repeat_alarm = self._repeat_alarm or loop.call_later(REPEAT_DELAY_S, self._repeat_now)

    def _repeat_now(self) -> None:
        self._repeat_alarm = None
        self._deliver()

    def _acknowledged(self, stops: list[_Stop]) -> None:
        core = self._core
        acknowledged = set(map(id, stops))
        self._undelivered = [stop for stop in self._undelivered if id(stop) not in acknowledged]
        self._delivered += [stop for stop in stops if stop.record.open]
        tracker = stops[-1].record.tracker
        assert tracker is not None
        tracker.sent(core.clock.monotonic(), acknowledged=True)
        for stop in stops:
            stop.answer(core.reply(Code.ACCEPTED, "stop acknowledged by the device", stop.record))
        self._end_replaced(Outcome.STOPPED, f"ended by stop {stops[-1].record.seq}")
        self._deliver()

    def _nothing_to_stop(self, stop: _Stop) -> None:
        ledger = self._core.ledger
        stop.answer(self._core.reply(Code.ACCEPTED, NOTHING_TO_STOP, stop.record))
        self._finish(stop, Outcome.STOPPED, NOTHING_TO_STOP)
        text = f"ended by stop {stop.record.seq}: the device is not active"
        self._end_replaced(Outcome.STOPPED, text)
        if ledger.current is not None and ledger.current.open:
            ledger.finish(ledger.current, Outcome.STOPPED, text)

    def _end_replaced(self, outcome: Outcome, message: str) -> None:
        """What the stop replaced has its outcome now. Stops among it end with the lists of this class, or with the
        next command.
        """
        for replaced in self._core.ledger.replaced(but=Verb.STOP):
            self._core.ledger.finish(replaced, outcome, message)

    def _out_of_time(self, stop: _Stop) -> None:
        limit_s = self._core.driver.config.stop_confirm_limit_s
        text = f"the device did not acknowledge the stop within {limit_s} s; it is still being repeated"
        stop.answer(self._core.reply(Code.NOT_CONFIRMED, f"{text} ({self._core.trouble})", stop.record))
        self._finish(stop, Outcome.UNCONFIRMED, f"no standstill seen within {limit_s} s")
        if stop in self._delivered:
            self._delivered.remove(stop)
        if len(self._undelivered) > 1 and self._undelivered[0] is stop:
            self._undelivered.pop(0)  # a newer one is being repeated, which does for both
            self._undelivered[0].tried |= stop.tried

    def _finish(self, stop: _Stop, outcome: Outcome, message: str, measured: Measured = NOT_MEASURED) -> None:
        if outcome is not Outcome.LINK_LOST and stop.alarm is not None:
            stop.alarm.cancel()
        if stop.record.open:
            self._core.ledger.finish(stop.record, outcome, message, measured)
