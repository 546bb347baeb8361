"""One client's way to command: its rights are checked, its loss is acted on. See roster.py for the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from gripperd.contract import Code, CommandReply, HelloReply, StopReply, Verb
from gripperd.contract.requests import Command, Hello
from gripperd.gripper import Gripper
from gripperd.roster import Member, Roster

log = structlog.get_logger("gripperd.session")

Reply = asyncio.Future[CommandReply]
Stopping = Reply | asyncio.Future[StopReply]


@dataclass(eq=False, slots=True)
class SessionCounters:
    """Of all sessions of the daemon."""

    not_permitted: int = 0
    heartbeats_missed: int = 0
    stopped_on_loss: int = 0


@dataclass(eq=False, slots=True)
class ClientSession:
    """See contract/service.py for what each method promises. find: the gripper of a name. stop_all: all of them."""

    member: Member
    roster: Roster
    counters: SessionCounters
    find: Callable[[str | None], Gripper]
    stop_all: Callable[[Callable[[Gripper], Reply]], Stopping]
    _alarm: asyncio.TimerHandle | None = None
    _gone: bool = False
    _last_stops: set[Reply] = field(default_factory=set)

    def command(self, command: Command) -> Reply:
        """Accept or refuse any command but stop."""
        gripper = self.find(command.gripper)
        refusal = self.roster.refusal(self.member, gripper.name)
        if refusal:
            self.counters.not_permitted += 1
            refused: Reply = asyncio.get_running_loop().create_future()
            refused.set_result(_reply(gripper.name, refusal))
            return refused
        return self._follow(gripper, command.verb, gripper.command(command))

    def stop(self, gripper: str | None) -> Stopping:
        """Stop one gripper, or all."""
        if gripper is not None:
            return self._stop_one(self.find(gripper))
        return self.stop_all(self._stop_one)

    def hello(self, hello: Hello) -> HelloReply:
        """Say who asks."""
        self.roster.hello(self.member, hello)
        self._watch()
        return HelloReply(client=self.member.number)

    def beat(self) -> None:
        """It lives."""
        was_overdue = self.member.overdue
        self.roster.beat(self.member)
        if was_overdue:
            log.info("heartbeat_back", client=str(self.member))
        self._watch()

    def acquire(self, gripper: str | None) -> CommandReply:
        """Only this client may command it from now on."""
        name = self.find(gripper).name
        refusal = self.roster.acquire(self.member, name)
        self.counters.not_permitted += bool(refusal)
        return _reply(name, refusal, f"only this client may command {name} until it releases it or ends")

    def release(self, gripper: str | None) -> CommandReply:
        """Everybody may command it again."""
        name = self.find(gripper).name
        return _reply(name, self.roster.release(self.member, name), f"every client may command {name}")

    def leave(self, lost: bool = True) -> None:
        """The client is gone."""
        if self._gone:
            return
        self._gone = True
        if self._alarm is not None:
            self._alarm.cancel()
        grippers = self.roster.leave(self.member)
        if lost and grippers and not self.member.overdue:
            self._stop_lost(grippers, "client_lost")

    def _stop_one(self, gripper: Gripper) -> Reply:
        return self._follow(gripper, Verb.STOP, gripper.stop())

    def _follow(self, gripper: Gripper, verb: Verb, reply: Reply) -> Reply:
        member, roster, name = self.member, self.roster, gripper.name
        roster.begun(member, name)

        def answered(done: Reply) -> None:
            failed = done.cancelled() or done.exception() is not None
            roster.answered(member, name, verb, 0 if failed else done.result().command_seq)

        reply.add_done_callback(answered)
        return reply

    def _watch(self) -> None:
        """The next heartbeat is due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self.member.heartbeat_s:
            self._alarm = asyncio.get_running_loop().call_later(self.member.heartbeat_s, self._missed)

    def _missed(self) -> None:
        self._alarm = None
        self.counters.heartbeats_missed += 1
        self._stop_lost(self.roster.miss(self.member), "heartbeat_overdue")

    def _stop_lost(self, grippers: list[str], event: str) -> None:
        for name in grippers:
            stop = self.find(name).stop()
            self.counters.stopped_on_loss += 1
            self._last_stops.add(stop)
            stop.add_done_callback(self._stopped)
        log.warning(event, client=str(self.member), stopped=grippers)

    def _stopped(self, stop: Reply) -> None:
        self._last_stops.discard(stop)
        if not stop.cancelled() and stop.exception() is None and not stop.result().ok:
            reply = stop.result()
            log.warning("stop_of_lost_client_not_confirmed", gripper=reply.gripper, reason=reply.message)


def _reply(gripper: str, refusal: str, message: str = "") -> CommandReply:
    code = Code.NOT_PERMITTED if refusal else Code.ACCEPTED
    return CommandReply(ok=not refusal, message=refusal or message, code=code, gripper=gripper)
