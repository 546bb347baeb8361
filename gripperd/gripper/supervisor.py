"""One supervised gripper: polls it, keeps its link, judges commands by its status, publishes every round.

Rules
1. What a round may say about a command is fixed when the round begins: its stamp, and which command was dispatched
   last. The wire is owned by one task, so nothing is dispatched between a request and its reply.
2. While a command is pending, the status still may describe the one before: motion and grasp read UNKNOWN.
3. A round without a valid answer is published at once, and is invalid. Nothing old is repeated.
4. Link failure and recovery are logged once each.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import structlog

from gripperd.clock import Clock
from gripperd.contract import (
    Activation,
    CommandPhase,
    CommandReply,
    GraspState,
    GripperInfo,
    GripperState,
    Link,
    MotionState,
    Outcome,
    Stamp,
    Verb,
)
from gripperd.contract.requests import Activate, Command
from gripperd.drivers.base import Driver, Observation, Progress, Verdict
from gripperd.gripper.core import Core
from gripperd.gripper.dispatch import Dispatcher
from gripperd.gripper.ledger import Ledger, Measured, Record
from gripperd.gripper.phases import CommandEvent
from gripperd.gripper.stopping import Stopper
from gripperd.store import Store

log = structlog.get_logger("gripperd.gripper")

DOWN_POLL_PERIOD_S = 0.25
"""Between rounds while the link is down [s]; it bounds how late a device that is back is noticed."""
LAST_CHANCE = 0.8
"""Share of `link_down_after_s` after which a silent device is asked once more, before its link is called down."""
TIMER_RESOLUTION_S = 1e-6
"""A round may begin this much early [s]; without it a timer's rounding would be waited for again and again."""
RESETTING_VERBS = frozenset({Verb.DEACTIVATE, Verb.CLEAR_FAULT, Verb.RELEASE})
"""Commands that take a device out of its activation; without one of them it was restarted or replaced."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What was fixed when a round began."""

    wall_ns: int
    began_s: float
    record: Record | None
    phase: CommandPhase


class Gripper:
    """Life cycle of one gripper, whatever its driver. before: the one that had this name, whose numbers go on."""

    def __init__(self, driver: Driver, store: Store, clock: Clock, before: Gripper | None = None) -> None:
        self.driver = driver
        self.name = driver.config.name
        self.ledger: Ledger = before.ledger if before is not None else Ledger(self.name, store.publish_outcome)
        store.add(self.name)
        self._store = store
        self._clock = clock
        self._core = Core(driver, self.ledger, clock)
        clear = asyncio.Event()
        self._dispatcher = Dispatcher(self._core, clear)
        self._stopper = Stopper(self._core, self._dispatcher, clear)
        self._epoch: int = before._epoch + 1 if before is not None else 1
        self._identity: str = before._identity if before is not None else ""
        self._retired = False
        self._known_activation: Activation | None = None
        self._last_answer_s = clock.monotonic()
        self._due_s = clock.monotonic()
        self._activate_on_start = driver.config.activate_on_start
        self._start_reply: asyncio.Future[CommandReply] | None = None

    @property
    def link(self) -> Link:
        """Whether the device answers."""
        return self._core.link

    @property
    def answers(self) -> bool:
        """Whether the device answered in the last round."""
        return self._core.fresh

    @property
    def activation(self) -> Activation:
        """By the last valid answer since the link came up."""
        return self._core.activation

    def info(self) -> GripperInfo:
        """What the gripper can do."""
        return self.driver.info()

    def command(self, command: Command) -> asyncio.Future[CommandReply]:
        """Accept or refuse a command other than stop."""
        return self._dispatcher.accept(command)

    def stop(self) -> asyncio.Future[CommandReply]:
        """Stop, now. Nothing is activated by itself after somebody asked for a stop."""
        self._activate_on_start = False
        return self._stopper.raise_stop()

    def retire(self, reason: str) -> None:
        """It is the daemon's no more: that its link is down is told at once, and everything that waits has its answer.
        Cancel `run` then; nothing of it reaches the wire again.
        """
        self._retired = True
        self._core.trouble = reason
        self._dispatcher.retire()
        self._stopper.retire()
        self._lose(self._begin_round())
        self._core.round_ended()

    async def run(self) -> None:
        """Poll and dispatch until cancelled."""
        self._last_answer_s = self._due_s = self._clock.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dispatcher.run(), name=f"dispatch {self.name}")
            tasks.create_task(self._poll(), name=f"poll {self.name}")

    async def _poll(self) -> None:
        while True:
            await self._round()
            await self._pause()

    async def _round(self) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        now, told = self._begin_round(), False

        def began() -> bool:
            nonlocal now
            now = self._begin_round()
            return not self._retired

        def ended(observation: Observation | None, text: str) -> None:
            if not told and not self._retired:
                self._ended(now, observation, text)
            if not over.done():
                over.set_result(None)

        def overdue() -> None:
            """The round waits for longer than the link may be silent: it has failed, and the link is down."""
            nonlocal told
            if self._core.link is Link.UP and self._is_silent():
                told = True
                self._fail(now)

        self.driver.poll(began, ended)
        alarm = loop.call_later(max(0.0, self._silent_from_s() - self._clock.monotonic()), overdue)
        try:
            await over
        finally:
            alarm.cancel()

    def _silent_from_s(self) -> float:
        return max(self._last_answer_s, self.driver.heard_s) + self.driver.config.link_down_after_s

    def _is_silent(self) -> bool:
        return self._clock.monotonic() >= self._silent_from_s() - TIMER_RESOLUTION_S

    def _begin_round(self) -> _Round:
        record = self.ledger.current
        phase = record.phase if record is not None else CommandPhase.NONE
        return _Round(self._clock.wall_ns(), self._clock.monotonic(), record, phase)

    async def _pause(self) -> None:
        """Until the next round is due. A dispatched command or a stop may make that earlier."""
        core, loop = self._core, asyncio.get_running_loop()
        spaced_s = self._spaced_s()
        while (due_s := max(self._due_s + self._period_s(), spaced_s)) - self._clock.monotonic() > TIMER_RESOLUTION_S:
            failing = core.link is Link.UP and not core.fresh
            look_s = min(due_s, self._silent_from_s()) if failing else due_s
            core.wake.clear()
            alarm = loop.call_at(loop.time() + look_s - self._clock.monotonic(), core.wake.set)
            try:
                await core.wake.wait()
            finally:
                alarm.cancel()
            if core.link is Link.UP and not core.fresh and self._is_silent():
                self._fail(self._begin_round())
                spaced_s = self._spaced_s()
        self._due_s = max(due_s, self._clock.monotonic() - self._period_s())  # absolute: late timers do not add up

    def _spaced_s(self) -> float:
        """When the driver wants the next round at the earliest, monotonic [s]."""
        now_s, config = self._clock.monotonic(), self.driver.config
        up = self._core.link is Link.UP
        last_chance_s = self._silent_from_s() - (1.0 - LAST_CHANCE) * config.link_down_after_s if up else math.inf
        return now_s + self.driver.spacing_s(max(0.0, (last_chance_s - now_s) / 2.0))

    def _period_s(self) -> float:
        config, latest = self.driver.config, self._core.latest
        if self._core.link is Link.DOWN:
            return DOWN_POLL_PERIOD_S
        moving = latest is not None and latest.motion is MotionState.MOVING
        busy = moving or (self.ledger.current is not None and self.ledger.current.open)
        return 1.0 / (max(config.moving_poll_rate_hz, config.poll_rate_hz) if busy else config.poll_rate_hz)

    def _ended(self, now: _Round, observation: Observation | None, text: str) -> None:
        """The wire's owner tells the end of a round."""
        core = self._core
        if observation is None:
            core.trouble = text
            self._fail(now)
            return
        core.fresh = True
        core.latest = observation
        self._last_answer_s = self._clock.monotonic()
        if core.link is Link.DOWN:
            core.link = Link.UP
            log.info("link_up", gripper=self.name, activation=observation.activation.value)
        self._watch_activation(observation)
        measured = Measured(observation.width_m, observation.grasp, Stamp.from_ns(now.wall_ns))
        verdict = self._judge(now, observation)
        phase = now.phase
        if verdict is not None and now.record is not None and verdict.progress is Progress.TAKEN_UP:
            now.record.happen(CommandEvent.TAKEN_UP)
            phase = now.record.phase
        elif verdict is not None and verdict.progress is Progress.ENDED:
            phase = CommandPhase.DONE
        self._publish(now, observation, phase)
        if verdict is not None and now.record is not None:
            self._act_on(verdict, now.record, measured)
        core.latest_settled = now.record is None or not now.record.open
        self._stopper.round_ended()
        core.round_ended()
        self._start_up(observation)

    def _judge(self, now: _Round, observation: Observation) -> Verdict | None:
        record = now.record
        if record is None or not record.open or record.tracker is None:
            return None
        verdict = record.tracker.observe(observation, now.began_s)
        out_of_time = now.began_s > record.deadline_s and verdict.progress is not Progress.ENDED
        if out_of_time and record.verb is not Verb.STOP:
            return Verdict(Progress.ENDED, Outcome.TIMED_OUT, "no end within the command's time limit")
        return verdict

    def _act_on(self, verdict: Verdict, record: Record, measured: Measured) -> None:
        if verdict.progress is not Progress.ENDED or verdict.outcome is None:
            return
        if record.verb is Verb.STOP:
            self._stopper.ended(verdict.outcome, verdict.message, measured)
        elif record.open:
            self.ledger.finish(record, verdict.outcome, verdict.message, measured)

    def _watch_activation(self, observation: Observation) -> None:
        """Raise the epoch when the device was activated, restarted or replaced."""
        if observation.identity:
            before_it, self._identity = self._identity, observation.identity
            if before_it and before_it != observation.identity:
                self._epoch += 1
                log.warning("device_replaced", gripper=self.name, before=before_it, now=observation.identity)
        before, self._known_activation = self._known_activation, observation.activation
        if before is None or before is observation.activation:
            return
        current = self.ledger.current
        if observation.activation is Activation.ACTIVE:
            self._epoch += 1
        elif before is Activation.ACTIVE and (current is None or current.verb not in RESETTING_VERBS):
            self._epoch += 1
            log.warning("device_restarted", gripper=self.name, activation=observation.activation.value)

    def _fail(self, now: _Round) -> None:
        """A round without a valid answer: told at once, and the link is down if there was none for too long."""
        core = self._core
        core.fresh = False
        if core.link is Link.UP and self._is_silent():
            self._lose(now)
            log.warning("link_down", gripper=self.name, reason=core.trouble)
        else:
            self._publish(now, None, now.phase)
        core.round_ended()

    def _lose(self, now: _Round) -> None:
        """The link is down."""
        core = self._core
        core.fresh, core.link, core.latest, core.latest_settled = False, Link.DOWN, None, True
        self.driver.lost()
        self._publish(now, None, CommandPhase.DONE if now.record is not None else now.phase)
        self._end_all()

    def _end_all(self) -> None:
        current = self.ledger.current
        lost = self.ledger.replaced() + ([current] if current is not None else [])
        self._stopper.link_lost()
        for record in lost:
            if record.open:
                self.ledger.finish(record, Outcome.LINK_LOST, self._core.trouble)
        self._dispatcher.drop_all()

    def _publish(self, now: _Round, observation: Observation | None, phase: CommandPhase) -> None:
        record = now.record
        told = observation if phase is not CommandPhase.PENDING else None
        self._store.publish_state(
            GripperState(
                stamp=Stamp.from_ns(now.wall_ns),
                opening_width_valid=observation is not None and observation.width_m is not None,
                opening_width_m=(observation.width_m or 0.0) if observation is not None else 0.0,
                grasp_state=told.grasp if told is not None else GraspState.UNKNOWN,
                motion_state=told.motion if told is not None else MotionState.UNKNOWN,
                gripper=self.name,
                boot_id=self._store.boot_id,
                seq=self._store.next_seq(self.name),
                link=self._core.link,
                activation=observation.activation if observation is not None else Activation.UNKNOWN,
                activation_epoch=self._epoch,
                command_seq=record.seq if record is not None else 0,
                command_phase=phase,
                fault=observation.fault if observation is not None else None,
                readings=observation.readings if observation is not None else None,
            )
        )

    def _start_up(self, observation: Observation) -> None:
        """activate_on_start: once, and only a device that is found inactive."""
        if not self._activate_on_start:
            return
        self._activate_on_start = False
        if observation.activation is Activation.INACTIVE:
            log.warning("activating_on_start", gripper=self.name, note="the jaws sweep their whole stroke")
            self._start_reply = self.command(Activate(gripper=self.name))
