"""Faults of the network and of the server, armed by count. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong with the next answers or states."""

    LOSE_ANSWERS = "lose_answers"
    SPLIT_ANSWERS = "split_answers"
    UNKNOWN_STATUS = "unknown_status"
    WRONG_SIZE = "wrong_size"
    LOSE_STATES = "lose_states"
    SHORT_STATES = "short_states"
    DOUBLE_STATES = "double_states"
    OLD_STATES = "old_states"


DOCS = {
    Fault.LOSE_ANSWERS: "Answers are never sent.",
    Fault.SPLIT_ANSWERS: "Answers come in single bytes.",
    Fault.UNKNOWN_STATUS: "Answers have a status that the protocol does not know.",
    Fault.WRONG_SIZE: "Answers have a header whose size cannot be.",
    Fault.LOSE_STATES: "States are lost on the network.",
    Fault.SHORT_STATES: "States arrive cut short.",
    Fault.DOUBLE_STATES: "States arrive twice.",
    Fault.OLD_STATES: "States arrive with the message id of one that is five seconds older.",
}


@dataclass(slots=True)
class Faults:
    """What is armed, and how often each struck."""

    left: dict[Fault, int] = field(default_factory=dict)
    struck: dict[str, int] = field(default_factory=dict)

    def arm(self, fault: Fault, count: int) -> None:
        """The next `count` times; 0 disarms."""
        self.left[fault] = count

    def strikes(self, fault: Fault) -> bool:
        """Whether it strikes now; that uses it up."""
        if self.left.get(fault, 0) <= 0:
            return False
        self.left[fault] -= 1
        self.struck[fault] = self.struck.get(fault, 0) + 1
        return True
