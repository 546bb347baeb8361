"""Child processes of the demo. Each is ended by its own id on every way out; nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from gripperd.contract import GripperdError

START_LIMIT_S = 20.0
"""A child that is not ready by then has failed [s]."""
END_LIMIT_S = 5.0
"""A child that has not ended by then after SIGTERM is killed [s]."""
LOOK_PERIOD_S = 0.02
"""How often a starting child is looked at [s]."""
LOG_TAIL_LINES = 20


class DemoError(GripperdError):
    """A part of the demo did not start or failed; the text has the end of its log."""


def read(log: Path) -> str:
    """All of a log so far."""
    return log.read_text(errors="replace")


def tail(log: Path) -> str:
    """The end of a log."""
    return "\n".join(read(log).splitlines()[-LOG_TAIL_LINES:])


@contextlib.asynccontextmanager
async def child(
    name: str, arguments: Sequence[str], log: Path, ready: Callable[[str], bool]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program for the time of the block. ready: told all of its output so far. Raises DemoError."""
    with log.open("wb") as output:
        # Of a session of its own: Ctrl-C on the terminal reaches the demo alone, which ends its children in order.
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline_s = time.monotonic() + START_LIMIT_S
        while not ready(read(log)):
            if process.returncode is not None or time.monotonic() > deadline_s:
                raise DemoError(f"{name} did not start:\n{tail(log)}")
            await asyncio.sleep(LOOK_PERIOD_S)
        yield process
    finally:
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    _tell(process, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_LIMIT_S):
                await process.wait()
    finally:
        if process.returncode is None:  # too slow, or nobody has the time to wait for it
            _tell(process, signal.SIGKILL)
            await process.wait()


def _tell(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Not by the process object: that looks first whether the child has ended, and so takes its end from asyncio."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether something takes connections on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
