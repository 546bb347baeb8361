"""One command on its way: sent, and answered once or lost. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gripperd.drivers.franka_hand.wire import Payload, Status


@dataclass(eq=False, slots=True)
class Call:
    """One command that was sent at sent_s, monotonic [s].

    answered: called once, when it has its status or when its connection ended; lost: why it did. abandoned: nobody
    waits for it any more, and the hand should be told to stop it.
    """

    payload: Payload
    sent_s: float
    answered: Callable[[Call], None] = lambda call: None
    status: Status | None = None
    lost: str = ""
    abandoned: bool = False

    @property
    def pending(self) -> bool:
        """Whether neither an answer came nor the connection ended."""
        return self.status is None and not self.lost
