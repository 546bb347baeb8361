"""What is known of one gripper, shared by its three parts: supervisor (rounds), dispatcher (commands), stopper.

All of it is touched from the event loop only, and changed synchronously.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gripperd.clock import Clock
from gripperd.contract import Activation, Code, CommandPhase, CommandReply, Link
from gripperd.drivers.base import Before, Driver, Observation
from gripperd.gripper.ledger import Ledger, Record


@dataclass(eq=False, slots=True)
class Core:
    """Shared knowledge.

    latest: last valid observation since the link came up. fresh: it is from the last round.
    latest_settled: no command was open when that round began.
    wake: set when the next round should be reconsidered. trouble: why the last round failed.
    """

    driver: Driver
    ledger: Ledger
    clock: Clock
    link: Link = Link.DOWN
    latest: Observation | None = None
    fresh: bool = False
    latest_settled: bool = True
    trouble: str = "no answer yet"
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _round_waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The configured name."""
        return self.driver.config.name

    @property
    def known(self) -> bool:
        """Whether the last round was good, and so short ago that the device cannot have restarted since."""
        return self.fresh and self.clock.monotonic() - self.driver.heard_s < self.driver.restart_s

    async def next_round(self) -> None:
        """Wait for the end of the next round, good or not. While the link is up or just lost it comes soon."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._round_waiters.append(ended)
        self.wake.set()
        await ended

    def round_ended(self) -> None:
        """The supervisor has published a round."""
        waiters, self._round_waiters = self._round_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def before(self) -> Before:
        """What is known to a command that goes out now."""
        current = self.ledger.current
        settled = self.latest_settled and (current is None or not current.open)
        pending = current is not None and current.phase is CommandPhase.PENDING
        return Before(self.latest, self.fresh, settled, pending)

    def reply(self, code: Code, message: str, record: Record | None = None) -> CommandReply:
        """A reply in this gripper's name."""
        seq = record.seq if record is not None else 0
        return CommandReply(ok=code is Code.ACCEPTED, message=message, code=code, gripper=self.name, command_seq=seq)

    def link_down_reply(self) -> CommandReply:
        """Why nothing can be sent."""
        return self.reply(Code.LINK_DOWN, f"the device does not answer: {self.trouble}")

    @property
    def activation(self) -> Activation:
        """Activation by the last valid observation since the link came up."""
        return self.latest.activation if self.latest is not None else Activation.UNKNOWN
