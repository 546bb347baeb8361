"""The one service behind every transport: finds the gripper, asks it, and knows who is connected."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Mapping

from gripperd import __version__
from gripperd.clock import Clock
from gripperd.contract import (
    CONTRACT_VERSION,
    ClientList,
    CommandOutcome,
    CommandReply,
    DaemonInfo,
    Event,
    GripperInfo,
    GripperList,
    GripperListEntry,
    GripperState,
    InvalidParamsError,
    StopOfOnlyReply,
    StopReply,
    WaitReply,
)
from gripperd.contract.service import Listener, Peer
from gripperd.gripper import Gripper
from gripperd.roster import Roster
from gripperd.session import ClientSession, SessionCounters
from gripperd.store import Store

MAX_WAIT_S = 3600.0
"""Longest time that one `wait` may ask for [s]; a client that wants more asks again."""

Statistics = Mapping[str, Mapping[str, Mapping[str, int | float]]]
"""Part of the daemon -> name -> counter -> value."""


class GripperService:
    """See contract/service.py for what each method promises."""

    def __init__(
        self,
        grippers: Mapping[str, Gripper],
        store: Store,
        clock: Clock,
        host: str,
        statistics: Callable[[], Statistics],
    ) -> None:
        self._grippers = grippers
        self._store = store
        self._clock = clock
        self._host = host
        self._started_s = clock.monotonic()
        self._statistics = statistics
        self._roster = Roster()
        self.session_counters = SessionCounters()

    def join(self, peer: Peer) -> ClientSession:
        """A client came."""
        member = self._roster.join(peer, self._clock.monotonic())
        return ClientSession(member, self._roster, self.session_counters, self._find, self._stop_all)

    def list_clients(self) -> ClientList:
        """Who is connected, and who commanded last."""
        return self._roster.told(self._clock.monotonic())

    def daemon_info(self) -> DaemonInfo:
        """Who answers."""
        return DaemonInfo(
            version=__version__,
            contract=CONTRACT_VERSION,
            boot_id=self._store.boot_id,
            host=self._host,
            uptime_s=round(self._clock.monotonic() - self._started_s, 3),
            grippers=list(self._grippers),
        )

    def statistics(self) -> Statistics:
        """Counters of the daemon's parts."""
        return self._statistics()

    def list_grippers(self) -> GripperList:
        """All configured grippers."""
        return GripperList(
            grippers=[
                GripperListEntry(
                    name=name,
                    driver=gripper.driver.config.driver,
                    model=gripper.info().model,
                    link=gripper.link,
                    activation=gripper.activation,
                )
                for name, gripper in self._grippers.items()
            ]
        )

    def info(self, gripper: str | None) -> GripperInfo:
        """What a gripper can do."""
        return self._find(gripper).info()

    def state(self, gripper: str | None) -> GripperState:
        """The latest round."""
        return self._store.latest(self._find(gripper).name)

    def wait(self, gripper: str | None, command_seq: int, timeout_s: float) -> asyncio.Future[WaitReply]:
        """The outcome of an accepted command."""
        if not 0.0 <= timeout_s <= MAX_WAIT_S:
            raise InvalidParamsError(f"timeout_s is {timeout_s}: give 0 to {MAX_WAIT_S:.0f} s")
        found = self._find(gripper)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[WaitReply] = loop.create_future()
        if (outcome := found.ledger.outcome(command_seq)) is not None:
            answer.set_result(WaitReply(done=True, outcome=outcome))
            return answer

        def resolve(outcome: CommandOutcome) -> None:
            if not answer.done():
                answer.set_result(WaitReply(done=True, outcome=outcome))

        if not found.ledger.await_outcome(command_seq, resolve):
            text = f"command_seq {command_seq} of {found.name} is not known: it was never accepted, or is too long ago"
            raise InvalidParamsError(text)
        alarm = loop.call_later(timeout_s, lambda: None if answer.done() else answer.set_result(WaitReply(done=False)))

        def clean_up(_: asyncio.Future[WaitReply]) -> None:
            alarm.cancel()
            found.ledger.cancel_wait(command_seq, resolve)

        answer.add_done_callback(clean_up)
        return answer

    def subscribe(self, gripper: str | None, events: Collection[Event], listener: Listener) -> Callable[[], None]:
        """Call the listener for these events. Returns what ends the subscription."""
        return self._store.subscribe(None if gripper is None else self.names(gripper), events, listener)

    def forget(self, grippers: Collection[str]) -> None:
        """They are configured no more: nobody has a right to command them, or is their last commander."""
        self._roster.forget(grippers)

    def names(self, gripper: str | None) -> list[str]:
        """The named gripper, or all."""
        return list(self._grippers) if gripper is None else [self._find(gripper).name]

    def _stop_all(
        self, stop: Callable[[Gripper], asyncio.Future[CommandReply]]
    ) -> asyncio.Future[CommandReply] | asyncio.Future[StopReply]:
        """All are raised before this returns, those that answer first: one that shares their wire and is silent would
        make them wait.
        """
        answering_first = sorted(self._grippers.values(), key=lambda each: not each.answers)
        stops = {each.name: stop(each) for each in answering_first}
        replies = [stops[name] for name in self._grippers]
        if len(replies) == 1:
            return asyncio.ensure_future(_stop_of_only(replies[0]))
        return asyncio.ensure_future(_gather_stops(replies))

    def _find(self, name: str | None) -> Gripper:
        if name is None:
            if len(self._grippers) == 1:
                return next(iter(self._grippers.values()))
            raise InvalidParamsError(f"name a gripper: {self._known()}")
        if name not in self._grippers:
            near = difflib.get_close_matches(name, self._grippers, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidParamsError(f"there is no gripper {name[:64]!r}; {hint}configured: {self._known()}")
        return self._grippers[name]

    def _known(self) -> str:
        return ", ".join(self._grippers) or "none"


async def _stop_of_only(stop: asyncio.Future[CommandReply]) -> CommandReply:
    reply = await stop
    return StopOfOnlyReply(**reply.model_dump(), replies=[reply])


async def _gather_stops(replies: list[asyncio.Future[CommandReply]]) -> StopReply:
    told = list(await asyncio.gather(*replies))
    failed = [reply.gripper for reply in told if not reply.ok]
    message = f"not confirmed by {', '.join(failed)}" if failed else "all grippers stopped or had nothing to stop"
    return StopReply(ok=not failed, message=message, replies=told)
