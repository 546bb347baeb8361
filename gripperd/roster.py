"""Who is connected, who may command what, who commanded last, and what the loss of a client means. Pure.

Rules
1. A stop needs none of this.
2. A client that asked for it and is lost, or whose heartbeat is overdue, has the grippers stopped whose last accepted
   command was its own, or that have a command of its own under way. A gripper that somebody else commanded since is
   somebody else's.
3. The right to command alone ends with the connection, and with an overdue heartbeat. A client that is overdue commands
   nothing until it beats again: nobody would watch over what it begins.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gripperd.contract import ClientEntry, ClientList, InvalidParamsError, LastCommand, OnDisconnect, Verb
from gripperd.contract.requests import Hello
from gripperd.contract.service import Peer

MIN_HEARTBEAT_S = 0.05
"""Shorter than this, the event loops of both sides would decide [s]."""
MAX_HEARTBEAT_S = 3600.0
"""Longer than this, nobody would be protected [s]."""


@dataclass(eq=False, slots=True)
class Member:
    """One client. under_way: how many of its commands are not answered yet, by gripper. overdue: it missed a beat."""

    number: int
    peer: Peer
    joined_s: float
    name: str
    on_disconnect: OnDisconnect = OnDisconnect.NONE
    heartbeat_s: float = 0.0
    said_hello: bool = False
    overdue: bool = False
    under_way: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        user = f" of user {self.peer.user}" if self.peer.user else ""
        pid = f" (pid {self.peer.pid})" if self.peer.pid else ""
        return f"client {self.number}{name}{user}{pid}"


@dataclass(frozen=True, slots=True)
class _Last:
    member: Member
    verb: Verb
    command_seq: int


class Roster:
    """All clients of the daemon."""

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._numbers = itertools.count(1)
        self._holders: dict[str, Member] = {}
        self._last: dict[str, _Last] = {}

    def join(self, peer: Peer, now_s: float) -> Member:
        """A client came."""
        member = Member(next(self._numbers), peer, now_s, peer.name)
        self._members[member.number] = member
        return member

    def leave(self, member: Member) -> list[str]:
        """It is gone. Returns the grippers that have to be stopped if it was lost."""
        self._members.pop(member.number, None)
        self._end_rights(member)
        return self._to_stop(member)

    def hello(self, member: Member, hello: Hello) -> None:
        """It says who it is. Raises InvalidParamsError."""
        given_s = hello.heartbeat_s
        if not math.isfinite(given_s) or (given_s != 0.0 and not MIN_HEARTBEAT_S <= given_s <= MAX_HEARTBEAT_S):
            valid = f"give {MIN_HEARTBEAT_S} to {MAX_HEARTBEAT_S:.0f} s, or 0 for none"
            raise InvalidParamsError(f"heartbeat_s is {given_s}: {valid}")
        member.name, member.on_disconnect = hello.name or member.peer.name, hello.on_disconnect
        member.heartbeat_s, member.said_hello, member.overdue = given_s, True, False

    def beat(self, member: Member) -> None:
        """It lives. Raises InvalidParamsError before a hello."""
        if not member.said_hello:
            raise InvalidParamsError("say client.hello with heartbeat_s first")
        member.overdue = False

    def miss(self, member: Member) -> list[str]:
        """Its heartbeat is overdue. Returns the grippers that have to be stopped."""
        member.overdue = True
        self._end_rights(member)
        return self._to_stop(member)

    def refusal(self, member: Member, gripper: str) -> str:
        """Why it may not command this gripper now, or ""."""
        if member.peer.observe_only:
            return member.peer.observe_only
        if member.overdue:
            return (
                f"the heartbeat of this client is overdue (heartbeat_s = {member.heartbeat_s}): client.beat comes first"
            )
        holder = self._holders.get(gripper)
        if holder is not None and holder is not member:
            return f"{holder} holds the exclusive right to command {gripper}: it has to release it, or to end"
        return ""

    def acquire(self, member: Member, gripper: str) -> str:
        """Take the right to command alone. Returns why not, or ""."""
        refusal = self.refusal(member, gripper)
        if not refusal:
            self._holders[gripper] = member
        return refusal

    def release(self, member: Member, gripper: str) -> str:
        """Give it back; what nobody holds is no error. Returns why not, or ""."""
        holder = self._holders.get(gripper)
        if holder is not None and holder is not member:
            return f"{holder} holds the exclusive right to command {gripper}, not this client"
        self._holders.pop(gripper, None)
        return ""

    def forget(self, grippers: Iterable[str]) -> None:
        """These are no more."""
        for gripper in grippers:
            self._holders.pop(gripper, None)
            self._last.pop(gripper, None)
            for member in self._members.values():
                member.under_way.pop(gripper, None)

    def begun(self, member: Member, gripper: str) -> None:
        """A command of this client is on its way."""
        member.under_way[gripper] += 1

    def answered(self, member: Member, gripper: str, verb: Verb, command_seq: int) -> None:
        """It has its answer. command_seq: 0 where it was not dispatched."""
        if member.under_way[gripper] <= 1:  # the gripper may have been removed meanwhile
            del member.under_way[gripper]
        else:
            member.under_way[gripper] -= 1
        last = self._last.get(gripper)
        if command_seq and (last is None or command_seq > last.command_seq):
            self._last[gripper] = _Last(member, verb, command_seq)

    def told(self, now_s: float) -> ClientList:
        """Answer of `client.list`."""
        return ClientList(
            clients=[self._entry(member, now_s) for member in self._members.values()],
            last_commands=[
                LastCommand(
                    gripper=gripper,
                    client=last.member.number,
                    name=last.member.name,
                    verb=last.verb,
                    command_seq=last.command_seq,
                    connected=last.member.number in self._members,
                )
                for gripper, last in self._last.items()
            ],
        )

    def _entry(self, member: Member, now_s: float) -> ClientEntry:
        return ClientEntry(
            client=member.number,
            name=member.name,
            transport=member.peer.transport,
            user=member.peer.user,
            pid=member.peer.pid,
            may_command=not member.peer.observe_only,
            on_disconnect=member.on_disconnect,
            heartbeat_s=member.heartbeat_s,
            connected_s=round(now_s - member.joined_s, 3),
            holds=[gripper for gripper, holder in self._holders.items() if holder is member],
            commanded_last=[gripper for gripper, last in self._last.items() if last.member is member],
        )

    def _end_rights(self, member: Member) -> None:
        self._holders = {gripper: holder for gripper, holder in self._holders.items() if holder is not member}

    def _to_stop(self, member: Member) -> list[str]:
        if member.on_disconnect is not OnDisconnect.STOP:
            return []
        own = {gripper for gripper, last in self._last.items() if last.member is member}
        return sorted(own | {gripper for gripper, count in member.under_way.items() if count > 0})
