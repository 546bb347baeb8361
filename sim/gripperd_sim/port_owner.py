"""Which process listens on a TCP port of this machine, as far as this user may see it (Linux). Reads /proc."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

LISTENING = "0A"
"""State in /proc/net/tcp (proc(5), net/tcp_states.h)."""
MAX_NAME = 80


def port_owner(address: str, port: int) -> str:
    """In words, such as 'process 123 (gripperd-sim franka-hand)'; empty where it cannot be told."""
    with contextlib.suppress(OSError):
        inodes = _listening(address, port)
        for folder in Path("/proc").iterdir() if inodes else ():
            if folder.name.isdigit() and _holds(folder, inodes):
                return f"process {folder.name} ({_name(folder)})"
    return ""


def _listening(address: str, port: int) -> set[str]:
    wanted = {f"{_hex(each)}:{port:04X}" for each in (address, "0.0.0.0")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {row[9] for row in rows if row[1] in wanted and row[3] == LISTENING}


def _hex(address: str) -> str:
    """As the kernel writes it: the four bytes as a number of this machine."""
    number = int.from_bytes(socket.inet_aton(socket.gethostbyname(address)), "little")
    return f"{number:08X}"


def _holds(folder: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):  # it ended, or belongs to somebody else
        for entry in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False


def _name(folder: Path) -> str:
    with contextlib.suppress(OSError):
        words = (folder / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
        return " ".join(word for word in words if word)[:MAX_NAME]
    return "of another user"
