"""Both ends of a pseudo terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import tty

TIOCGEXCL = 0x80045440
"""Whether a terminal is in exclusive mode; the termios module does not name it."""


class Pty:
    """A tool holds the master, the port under test is the slave at `path`."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.path = os.ttyname(self.slave)

    def is_exclusive(self) -> bool:
        """Whether the slave refuses further openings."""
        (flag,) = struct.unpack("i", fcntl.ioctl(self.slave, TIOCGEXCL, b"\0" * 4))
        return bool(flag)

    def close(self) -> None:
        """Both ends; whoever has the slave open meets a hang-up."""
        for descriptor in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)
