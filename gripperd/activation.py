"""Sockets that systemd opened for us (socket activation)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from gripperd.contract import GripperdError

FIRST_DESCRIPTOR = 3
"""sd_listen_fds(3): descriptors begin here."""


class ActivationError(GripperdError):
    """What was handed over is not what is needed."""


def inherited_socket(environment: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening Unix socket that was handed over, or None. Raises ActivationError."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = environment.get("LISTEN_FDS", "0")
    if count != "1":
        raise ActivationError(
            f"systemd handed {count} sockets over: gripperd takes one, ListenStream= of gripperd.socket"
        )
    handed = socket.socket(fileno=FIRST_DESCRIPTOR)
    if handed.family is not socket.AF_UNIX or handed.type != socket.SOCK_STREAM:
        handed.detach()
        raise ActivationError("the socket that systemd handed over is no Unix stream socket: see ListenStream=")
    os.set_inheritable(FIRST_DESCRIPTOR, False)
    handed.setblocking(False)
    return handed
