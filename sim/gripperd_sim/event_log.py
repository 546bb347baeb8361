"""The events of simulated devices as JSON lines in a file or on standard output, while a simulator runs. asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from gripperd_sim.history import Event

LOG_TICK_S = 0.05
"""How often devices are brought up to date for the log when nobody asks them [s]."""


@contextlib.contextmanager
def log_file(name: str | None) -> Iterator[IO[str] | None]:
    """Opened for appending; - is standard output, None is no log."""
    if name is None or name == "-":
        yield sys.stdout if name else None
        return
    with Path(name).open("a", encoding="utf-8") as file:
        yield file


def write_event(log: IO[str], device: int | str, event: Event) -> None:
    """One line."""
    log.write(json.dumps({"device": device, **event.as_json()}) + "\n")


async def run_until(end: asyncio.Event, log: IO[str] | None, advance: Callable[[], None]) -> None:
    """Wait for the end; with a log, keep the devices up to date by advance()."""
    if log is None:
        await end.wait()
        return
    while not end.is_set():
        advance()
        log.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOG_TICK_S):
                await end.wait()
    log.flush()
