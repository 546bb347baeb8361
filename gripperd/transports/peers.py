"""Who is at the other end of a Unix socket, and whether the configuration lets it command."""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import pwd
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gripperd.contract import ClientList, GripperdError

SO_PEERGROUPS = 59
"""Linux 4.13: the supplementary groups of the peer; Python has no name for it."""
MAX_GROUPS = 256
"""Python reads options of at most 1024 bytes. Of a peer in more groups only the primary one is known."""
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid: struct ucred of Linux


class AccessError(GripperdError):
    """The configuration names a user or a group that this machine does not have."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the kernel vouches for, as of the connect. gids: all groups, the first one is the primary."""

    pid: int
    uid: int
    gids: tuple[int, ...]


def read_credentials(connection: socket.socket) -> Credentials:
    """Of the peer of a connected Unix socket. Raises OSError."""
    pid, uid, gid = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * MAX_GROUPS)
    except OSError as error:
        if error.errno != errno.ERANGE:
            raise
        packed = b""
    more = struct.unpack(f"{len(packed) // 4}I", packed)
    return Credentials(pid, uid, (gid, *(each for each in more if each != gid)))


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may command. uids and gids: of the configured users and groups; both None: whoever may open the socket."""

    text: str = ""
    uids: frozenset[int] | None = None
    gids: frozenset[int] | None = None

    def observe_only(self, who: Credentials) -> str:
        """Why this client may not command, or ""."""
        if self.uids is None and self.gids is None:
            return ""
        if who.uid in (self.uids or ()) or (self.gids or frozenset()) & set(who.gids):
            return ""
        return f"uid {who.uid} may observe and stop, but not command: {self.text}"


def access_rule(users: Sequence[str] | None, groups: Sequence[str] | None) -> AccessRule:
    """The rule of `command_users` and `command_groups`: names, or numbers as text. Raises AccessError."""
    if users is None and groups is None:
        return AccessRule()
    told = [f"{key} = {list(names)}" for key, names in (("command_users", users), ("command_groups", groups)) if names]
    text = f"[daemon] {' and '.join(told) or 'command_users = []'}"
    uids = [_number("command_users", each, "user", lambda name: pwd.getpwnam(name).pw_uid) for each in users or ()]
    gids = [_number("command_groups", each, "group", lambda name: grp.getgrnam(name).gr_gid) for each in groups or ()]
    return AccessRule(text, frozenset(uids), frozenset(gids))


def _number(key: str, given: str, kind: str, find: Callable[[str], int]) -> int:
    if given.isdecimal():
        return int(given)
    try:
        return find(given)
    except KeyError:
        hint = f"create it, or give the number of one as text, for example {os.getuid()!r}"
        raise AccessError(f"[daemon] {key}: there is no {kind} {given!r}: {hint}") from None


async def with_user_names(told: ClientList) -> ClientList:
    """The list with the names of users in place of their numbers. They are looked up in a thread: a directory service
    that does not answer must not hold the wires up.
    """
    numbers = {each.user for each in told.clients}
    names = await asyncio.to_thread(lambda: {number: _user_name(number) for number in numbers})
    return told.model_copy(
        update={"clients": [each.model_copy(update={"user": names[each.user]}) for each in told.clients]}
    )


def _user_name(number: str) -> str:
    if not number.isdecimal():
        return number
    try:
        return pwd.getpwuid(int(number)).pw_name
    except KeyError:
        return number
