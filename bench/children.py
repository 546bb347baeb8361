"""The processes of a run: slave, clients, servers, hogs. Each is ended by its own id, whatever happens."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.clients.meter import Tally
from bench.slave import Lateness
from bench.wire_time import Profile

ROOT = Path(__file__).parent.parent
START_LIMIT_S = 30.0
"""A process that is not ready by then has failed [s]; a loaded machine takes some seconds."""
END_LIMIT_S = 10.0
"""Longest time to end after it was asked to [s]."""


class ChildError(Exception):
    """A process of the bench failed; the text has what it said."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """A slave's record, as slave.Record describes it."""

    function: list[int]
    arrival_s: list[float]
    planned_s: list[float]
    handing_s: list[float]
    delivered_s: list[float]
    lateness_s: list[float]
    late_replies: int
    collisions: int
    bad_frames: int


class SlaveProcess:
    """A running slave. stamps: its record, once the block is over."""

    def __init__(self, child: subprocess.Popen[str], record: Path) -> None:
        self._child, self._record = child, record
        self.stamps: Stamps | None = None
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise ChildError(f"the slave ended at once with {child.wait(END_LIMIT_S)}")
        ready = json.loads(line)
        self.port: str = ready["port"]
        self.realtime: bool = ready["realtime"]

    def tell(self, command: str) -> None:
        """A command of its standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(command + "\n")
        self._child.stdin.flush()

    def finish(self) -> Stamps:
        """End it and take its record."""
        if self.stamps is None:
            self.tell("dump")
            self._child.wait(END_LIMIT_S)
            self.stamps = Stamps(**json.loads(self._record.read_text(encoding="ascii")))
        return self.stamps


@contextlib.contextmanager
def child(arguments: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[str]]:  # noqa: ANN401 (Popen's own)
    """`python -m ...` for the time of the block."""
    process = subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, text=True, **how)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def slave(
    folder: Path, profile: Profile, *, paced: bool = True, lateness: Lateness | None = None, seed: int = 1
) -> Iterator[SlaveProcess]:
    """A slave with its pty."""
    late = lateness or Lateness()
    record = folder / "record.json"
    arguments = ["bench.slave", "--baudrate", str(profile.baudrate), "--turnaround-s", str(profile.turnaround_s)]
    arguments += ["--burst-s", str(profile.burst_s), "--record", str(record), "--seed", str(seed)]
    arguments += ["--late-share", str(late.share), "--late-least-s", str(late.least_s)]
    arguments += ["--late-most-s", str(late.most_s), *([] if paced else ["--unpaced"])]
    with child(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield SlaveProcess(process, record)


def run_client(name: str, port: str, profile: Profile, warm_s: float, measure_s: float) -> Tally:
    """One client for one window. Raises ChildError."""
    arguments = ["bench.clients", name, "--port", port, "--baudrate", str(profile.baudrate)]
    arguments += ["--warm-s", str(warm_s), "--measure-s", str(measure_s)]
    with child(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=START_LIMIT_S + warm_s + 10 * measure_s)
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"the client {name} did not end") from error
        if process.returncode != 0:
            raise ChildError(f"the client {name} failed: {errors.strip()[-2000:]}")
    return Tally(**json.loads(output.splitlines()[-1]))  # what stands before it are logs


@contextlib.contextmanager
def hogs(count: int, limit_s: float) -> Iterator[None]:
    """Processes that use all CPU they get. limit_s: they end by themselves after this time [s], whatever happens."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(child(["bench.hog", str(limit_s)]))
        yield


def wait_for(path: Path, process: subprocess.Popen[str], log: IO[str] | None = None) -> None:
    """Until a server accepts; its socket's file is there before that. Raises ChildError."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while not _accepts(path):
        if process.poll() is not None or time.monotonic() > deadline_s:
            text = Path(log.name).read_text(encoding="utf-8")[-2000:] if log is not None else ""
            raise ChildError(f"no socket {path.name}: {text}")
        time.sleep(0.01)


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
