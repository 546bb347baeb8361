"""Commands from acceptance to dispatch: checked, queued, sent one at a time, answered, fenced.

Rules
1. Acceptance is synchronous and in the order of the calls.
2. A command is checked twice: when it comes, and when it is about to be sent.
3. A stop discards what is queued and forbids every further byte of what is under way (`fenced`). The check is made
   by the wire's owner at the moment of sending, so nothing accepted before a stop can reach the device after it.
4. Nothing is sent blindly: a write goes out only on top of a valid round, and one that was not acknowledged is sent
   again only after another valid round has shown that the device is what it was. One that restarted meanwhile would
   take a motion word for an enable, and sweep.
5. Everything that the wire tells is acted on inside its callback; the worker only waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum

from gripperd.contract import Code, CommandPhase, CommandReply, Link, Outcome
from gripperd.contract.requests import Activate, Command
from gripperd.drivers.base import Ack, AckKind, Plan, Step
from gripperd.gripper.core import Core
from gripperd.gripper.ledger import Record

FENCED = "discarded by a stop"
SHOWN = frozenset({Outcome.REACHED, Outcome.CONTACT, Outcome.CLOSED_EMPTY, Outcome.WIDTH_MISMATCH, Outcome.STALLED})
"""Outcomes that the status itself told."""


class _Then(Enum):
    """What follows an exchange."""

    NEXT_STEP = "acknowledged"
    AGAIN = "perhaps another attempt"
    LOOK = "the status has to tell"
    OVER = "answered"
    REPLAN = "nothing was sent"


@dataclass(eq=False, slots=True)
class _Queued:
    command: Command
    reply: asyncio.Future[CommandReply]
    fenced: bool = False
    again: bool = False
    record: Record | None = None
    frames: int = 0

    def answer(self, reply: CommandReply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)


class Dispatcher:
    """The command lane of one gripper. clear: set while no stop is undelivered."""

    def __init__(self, core: Core, clear: asyncio.Event) -> None:
        self._core = core
        self._clear = clear
        self._queue: deque[_Queued] = deque()
        self._sending: _Queued | None = None
        self._work = asyncio.Event()

    def accept(self, command: Command) -> asyncio.Future[CommandReply]:
        """Check and queue. The future has the reply; cancelling it takes the command out of the queue."""
        reply: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
        refused = self._refusal(command)
        limit = self._core.driver.config.queue_commands
        if refused is None and len(self._queue) >= limit:
            refused = self._core.reply(Code.INTERNAL, f"{limit} commands wait already: wait for their replies")
        if refused is not None:
            reply.set_result(refused)
            return reply
        self._queue.append(_Queued(command, reply))
        self._work.set()
        return reply

    def fence(self) -> None:
        """A stop was raised."""
        queue, self._queue = self._queue, deque()
        for queued in queue:
            queued.answer(self._core.reply(Code.FENCED, FENCED))
        if self._sending is not None:
            self._sending.fenced = True

    def drop_all(self) -> None:
        """The link is down: nothing that waits can be sent."""
        queue, self._queue = self._queue, deque()
        for queued in queue:
            queued.answer(self._core.link_down_reply())

    def retire(self) -> None:
        """The gripper is no more: what waits or is under way has its answer, and no further byte of it is sent."""
        self.drop_all()
        sending = self._sending
        if sending is not None:
            sending.fenced = True
            if sending.record is None:
                sending.answer(self._core.link_down_reply())
            else:
                text = f"sent, but not acknowledged: {self._core.trouble}"
                sending.answer(self._core.reply(Code.NOT_CONFIRMED, text, sending.record))

    async def run(self) -> None:
        """Send what is queued, until cancelled."""
        while True:
            self._work.clear()
            while self._queue:
                while not self._clear.is_set():
                    await self._clear.wait()
                if self._queue:
                    await self._send_next()
            await self._work.wait()

    def _refusal(self, command: Command) -> CommandReply | None:
        core = self._core
        refusal = core.driver.invalid(command)
        if refusal is None:
            if core.link is Link.DOWN or core.latest is None:
                return core.link_down_reply()
            refusal = core.driver.refusal(command, core.latest)
        return None if refusal is None else core.reply(refusal.code, refusal.message)

    async def _send_next(self) -> None:
        queued = self._sending = self._queue.popleft()  # from here on a stop finds it there
        try:
            queued.again = True
            while queued.again:
                queued.again = False
                await self._send(queued)
        finally:
            self._sending = None

    async def _send(self, queued: _Queued) -> None:
        """Wait for a valid round, look once more whether the command may be sent, and send it."""
        core = self._core
        if not core.known and core.link is Link.UP and not queued.fenced:
            await core.next_round()
        while not core.fresh and core.link is Link.UP and not queued.fenced:
            await core.next_round()
        if queued.fenced:
            queued.answer(self._core.reply(Code.FENCED, FENCED))
        if queued.reply.done():
            return
        if (refused := self._refusal(queued.command)) is not None:
            queued.answer(refused)
            return
        plan = core.driver.plan(queued.command, core.before())
        current = core.ledger.current
        same = plan.continues and current is not None and current.open and current.verb is queued.command.verb
        if same or not plan.steps:
            self._accept_unsent(queued, plan)
            return
        for step in plan.steps:
            await core.clock.sleep(step.pause_s)
            if not await self._send_step(queued, plan, step, last=step is plan.steps[-1]):
                return

    def _accept_unsent(self, queued: _Queued, plan: Plan) -> None:
        """The device does exactly this already, or has nothing to do."""
        ledger = self._core.ledger
        record = ledger.number(queued.command.verb)
        current = ledger.current
        if plan.continues and current is not None and current.open and current.verb is record.verb:
            record.deadline_s = self._deadline_s(queued.command)
            ledger.continue_as(record)
            for replaced in ledger.replaced():
                ledger.finish(replaced, Outcome.SUPERSEDED, "the same command was given again")
        elif plan.judged:
            record.tracker, record.deadline_s = plan.tracker, self._deadline_s(queued.command)
            ledger.begin(record)
            self._replace(record)
            self._core.wake.set()
        else:
            ledger.finish(record, Outcome.REACHED, plan.message)
        queued.answer(self._core.reply(Code.ACCEPTED, plan.message or "the device does this already", record))

    def _deadline_s(self, command: Command) -> float:
        config = self._core.driver.config
        limit_s = config.activation_limit_s if isinstance(command, Activate) else config.motion_limit_s
        return self._core.clock.monotonic() + limit_s

    async def _send_step(self, queued: _Queued, plan: Plan, step: Step, last: bool) -> bool:
        """Send one write. True: it was acknowledged and the next may follow."""
        attempts = self._core.driver.config.write_attempts
        for attempt in range(1, attempts + 1):
            then = await self._attempt(queued, plan, step, last, final=attempt == attempts)
            if then is _Then.LOOK:
                await self._look(queued)
            if then is _Then.REPLAN:
                queued.again = True
                return False
            if then is not _Then.AGAIN:
                return then is _Then.NEXT_STEP
            if not await self._may_try_again(queued):
                return False
        assert queued.record is not None  # a command without one is planned anew
        self._answer_by_status(queued, queued.record)
        return False

    async def _attempt(self, queued: _Queued, plan: Plan, step: Step, last: bool, final: bool) -> _Then:
        over: asyncio.Future[_Then] = asyncio.get_running_loop().create_future()

        def ended(ack: Ack) -> None:
            then = self._ended(queued, plan, ack, last, final)
            if not over.done():
                over.set_result(then)

        self._core.driver.send(step, step, lambda: self._began(queued, plan), ended)
        return await over

    async def _may_try_again(self, queued: _Queued) -> bool:
        """Look first. False: the command was answered, since there is nothing left to send."""
        core, record = self._core, queued.record
        assert record is not None
        while True:
            await core.next_round()
            if core.fresh and record.open and not queued.fenced:
                return True
            if queued.fenced or not record.open or core.link is Link.DOWN:
                break
        self._answer_by_status(queued, record)
        return False

    async def _look(self, queued: _Queued) -> None:
        """An acknowledgement came that may be another's. Another copy would not help: only the status can tell."""
        record = queued.record
        assert record is not None
        while record.phase is CommandPhase.PENDING and not queued.fenced and self._core.link is Link.UP:
            await self._core.next_round()
        self._answer_by_status(queued, record)

    def _answer_by_status(self, queued: _Queued, record: Record) -> None:
        outcome = self._core.ledger.outcome(record.seq)
        shown = record.phase is CommandPhase.EXECUTING or (outcome is not None and outcome.outcome in SHOWN)
        if shown and not queued.fenced:
            queued.answer(self._core.reply(Code.ACCEPTED, "the status shows that the device took it up", record))
        else:
            text = FENCED if queued.fenced else "neither an acknowledgement nor the status tells that it was taken up"
            queued.answer(self._core.reply(Code.NOT_CONFIRMED, f"sent, but not acknowledged: {text}", record))
        self._replace(record)

    def _began(self, queued: _Queued, plan: Plan) -> bool:
        """The wire is about to send; also called for every further attempt. What was known when the command was queued
        may be over: a round may have failed since, or shown another device.
        """
        if queued.fenced or (queued.record is None and queued.reply.cancelled()):
            return False
        if not self._core.fresh or self._core.link is Link.DOWN or (queued.record and not queued.record.open):
            return False
        if queued.record is None and self._refusal(queued.command) is not None:
            return False
        queued.frames += 1
        if queued.record is None:
            ledger = self._core.ledger
            record = queued.record = ledger.number(queued.command.verb)
            record.tracker = plan.tracker
            record.deadline_s = self._deadline_s(queued.command)
            ledger.begin(record)
            self._core.wake.set()
        return True

    def _ended(self, queued: _Queued, plan: Plan, ack: Ack, last: bool, final: bool) -> _Then:
        core, record = self._core, queued.record
        if record is None:  # no byte went out
            withdrawn = ack.kind is AckKind.WITHDRAWN
            if withdrawn and not queued.fenced and not queued.reply.done():
                return _Then.REPLAN
            queued.answer(core.reply(Code.FENCED, FENCED) if withdrawn else core.reply(Code.LINK_DOWN, ack.text))
            return _Then.OVER
        acknowledged = ack.kind is AckKind.ACKNOWLEDGED
        if ack.kind is AckKind.WITHDRAWN and not queued.fenced:
            return _Then.AGAIN
        if ack.kind in (AckKind.ACKNOWLEDGED, AckKind.UNPROVEN) and not last and not queued.fenced:
            return _Then.NEXT_STEP
        if ack.kind is AckKind.REFUSED:
            self._refused(queued, record, ack)
            queued.answer(core.reply(Code.DEVICE_FAULT, ack.text, record))
            return _Then.OVER
        if last or queued.fenced:
            plan.tracker.sent(core.clock.monotonic(), acknowledged and last)
        core.wake.set()
        if ack.kind is AckKind.UNPROVEN and not queued.fenced:
            return _Then.LOOK
        if ack.kind is AckKind.SILENT and not final and not queued.fenced:
            return _Then.AGAIN
        self._replace(record)
        if acknowledged and last:
            queued.answer(core.reply(Code.ACCEPTED, plan.message or "acknowledged by the device", record))
        else:
            text = FENCED if queued.fenced else ack.text
            queued.answer(core.reply(Code.NOT_CONFIRMED, f"sent, but not acknowledged: {text}", record))
        return _Then.OVER

    def _replace(self, record: Record) -> None:
        """The dispatch is over: what the record replaced has its outcome now."""
        if self._core.ledger.current is record:
            for replaced in self._core.ledger.replaced():
                self._core.ledger.finish(replaced, Outcome.SUPERSEDED, f"replaced by command {record.seq}")

    def _refused(self, queued: _Queued, record: Record, ack: Ack) -> None:
        """What it replaced goes on only if this was the first frame: an earlier one may have been taken up."""
        ledger = self._core.ledger
        if record.open:
            ledger.finish(record, Outcome.FAULT, ack.text)
        if queued.frames == 1:
            ledger.restore(record)
        else:
            self._replace(record)
