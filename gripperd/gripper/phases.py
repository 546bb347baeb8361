"""The life of a dispatched command, as a table. Pure.

(phase, event) -> phase. A pair that is not listed is a defect: it raises, and changes nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from gripperd.contract import CommandPhase


class CommandEvent(Enum):
    """What can happen to a command."""

    DISPATCHED = "its first bytes go out"
    TAKEN_UP = "the device shows that it took it up"
    ENDED = "it has its outcome"


NONE, PENDING, EXECUTING, DONE = CommandPhase.NONE, CommandPhase.PENDING, CommandPhase.EXECUTING, CommandPhase.DONE

TRANSITIONS: Final = {
    (NONE, CommandEvent.DISPATCHED): PENDING,
    (PENDING, CommandEvent.TAKEN_UP): EXECUTING,
    (EXECUTING, CommandEvent.TAKEN_UP): EXECUTING,
    (PENDING, CommandEvent.ENDED): DONE,
    (EXECUTING, CommandEvent.ENDED): DONE,
}


class PhaseError(Exception):
    """An event that cannot happen in this phase: a defect of the daemon."""


def next_phase(phase: CommandPhase, event: CommandEvent) -> CommandPhase:
    """The phase after the event. Raises PhaseError for a pair that is not in the table."""
    try:
        return TRANSITIONS[phase, event]
    except KeyError:
        raise PhaseError(f"{event.name} in phase {phase}: the table has no such transition") from None
