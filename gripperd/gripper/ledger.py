"""Which commands were dispatched, which is current, and how each ended. Pure: no task, no clock, no wire.

Rules
1. Numbers grow by one and are never used twice while the daemon lives.
2. A command that another one replaces gets its outcome when the other's dispatch is over, not before: until then it
   may still be what the device does.
3. Exactly one outcome for each: `finish` is the only way to one, and a second call is a defect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gripperd.contract import CommandOutcome, CommandPhase, GraspState, Outcome, Stamp, Verb
from gripperd.drivers.base import Tracker
from gripperd.gripper.phases import CommandEvent, next_phase

OUTCOMES_KEPT = 256
"""Outcomes that `wait` remembers: contract section 8.12."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the deciding round measured; width [m] or None."""

    width_m: float | None = None
    grasp: GraspState = GraspState.UNKNOWN
    stamp: Stamp = field(default_factory=Stamp)


NOT_MEASURED = Measured()


@dataclass(eq=False, slots=True)
class Record:
    """One numbered command. deadline_s: when it is out of time, monotonic [s]."""

    seq: int
    verb: Verb
    tracker: Tracker | None = None
    phase: CommandPhase = CommandPhase.NONE
    deadline_s: float = float("inf")

    @property
    def open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.phase is not CommandPhase.DONE

    def happen(self, event: CommandEvent) -> None:
        """Follow the table."""
        self.phase = next_phase(self.phase, event)


class Ledger:
    """The commands of one gripper. `publish` gets every outcome."""

    def __init__(self, gripper: str, publish: Callable[[CommandOutcome], None]) -> None:
        self.current: Record | None = None
        self._gripper = gripper
        self._publish = publish
        self._last_seq = 0
        self._replaced: list[Record] = []
        self._beneath: Record | None = None
        self._open: dict[int, list[Callable[[CommandOutcome], None]]] = {}
        self._outcomes: OrderedDict[int, CommandOutcome] = OrderedDict()

    def number(self, verb: Verb) -> Record:
        """A new command with the next number."""
        self._last_seq += 1
        self._open[self._last_seq] = []
        return Record(self._last_seq, verb)

    def begin(self, record: Record) -> None:
        """Its first bytes go out: it is current from now on."""
        record.happen(CommandEvent.DISPATCHED)
        self._beneath = self.current if self.current is not None and self.current.open else None
        if self._beneath is not None:
            self._replaced.append(self._beneath)
        self.current = record

    def continue_as(self, record: Record) -> None:
        """The device carries out exactly this already: the record takes the current one's place and progress."""
        current = self.current
        assert current is not None
        record.happen(CommandEvent.DISPATCHED)
        record.tracker = current.tracker
        if current.phase is CommandPhase.EXECUTING:
            record.happen(CommandEvent.TAKEN_UP)
        self._replaced.append(current)
        self._beneath = None
        self.current = record

    def replaced(self, but: Verb | None = None) -> list[Record]:
        """Take what waited for the current command's dispatch to be over, and has no outcome yet. but: stays."""
        waited = [record for record in self._replaced if record.open]
        self._replaced = [record for record in waited if record.verb is but]
        return [record for record in waited if record.verb is not but]

    def restore(self, record: Record) -> None:
        """The device refused the current command: what it replaced goes on, unless that has ended."""
        beneath = self._beneath
        if self.current is record and beneath is not None and beneath.open:
            self._replaced.remove(beneath)
            self.current, self._beneath = beneath, None

    def finish(self, record: Record, outcome: Outcome, message: str = "", measured: Measured = NOT_MEASURED) -> None:
        """Give a command its outcome."""
        if record.phase is CommandPhase.NONE:
            record.happen(CommandEvent.DISPATCHED)
        record.happen(CommandEvent.ENDED)
        told = CommandOutcome(
            gripper=self._gripper,
            command_seq=record.seq,
            verb=record.verb,
            outcome=outcome,
            message=message,
            opening_width_valid=measured.width_m is not None,
            opening_width_m=measured.width_m or 0.0,
            grasp_state=measured.grasp,
            stamp=measured.stamp,
        )
        self._outcomes[record.seq] = told
        while len(self._outcomes) > OUTCOMES_KEPT:
            self._outcomes.popitem(last=False)
        waiting = self._open.pop(record.seq)
        self._publish(told)
        for resolve in waiting:
            resolve(told)

    def outcome(self, seq: int) -> CommandOutcome | None:
        """A remembered outcome."""
        return self._outcomes.get(seq)

    def await_outcome(self, seq: int, resolve: Callable[[CommandOutcome], None]) -> bool:
        """Call resolve with the outcome when it comes. False: no such command is open."""
        if seq not in self._open:
            return False
        self._open[seq].append(resolve)
        return True

    def cancel_wait(self, seq: int, resolve: Callable[[CommandOutcome], None]) -> None:
        """The one who waited has gone."""
        if resolve in self._open.get(seq, ()):
            self._open[seq].remove(resolve)
