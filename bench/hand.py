"""Stop of a hand whose move is blocked by an object: gripperd beside clients of libfranka. Part of `bench stop`."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.children import ROOT, ChildError, child, wait_for
from bench.figures import Spread, percentile
from bench.report import Grid
from gripperd_sim.franka_hand.wire import TCP_PORT

PYTHON = os.environ.get("GRIPPERD_ORACLE_PYTHON", sys.executable)
"""Interpreter that has the peers."""
OURS = "gripperd, Unix socket"
PEERS: Mapping[str, tuple[str, float]] = {
    "pylibfranka, one process": ("pylibfranka", 0.02),
    "panda-python, one object, two threads": ("panda_py.libfranka", 1.0),
    "franky, one object, two threads": ("franky", 1.0),
}
"""Label -> module, and its share of the stops: pylibfranka's take two seconds each."""
LIMIT_S = 120.0
ANSWER_LIMIT_S = 5.0
BLOCKED_S = (0.06, 0.16)
FIRST_S = 0.6
"""See hand_peer.py."""


@dataclass(frozen=True, slots=True)
class Stops:
    """Of one run: from the wish to the abort at the hand, and to the answer [s]."""

    abort_s: Sequence[float]
    answer_s: Sequence[float]


class Hand:
    """The simulated hand's process."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.address = address
        self._lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()
        if self._line() != "ready":
            raise ChildError("the simulated hand did not start")

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line.strip())

    def _line(self) -> str:
        try:
            return self._lines.get(timeout=ANSWER_LIMIT_S)
        except queue.Empty:
            return ""

    def aborted_s(self) -> float:
        """When the next stop aborted a motion, monotonic [s]. Raises ChildError."""
        line = self._line()
        if not line:
            raise ChildError(f"no stop reached the hand within {ANSWER_LIMIT_S} s")
        return float(line)


def _free_address() -> str:
    for last in range(60, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((f"127.0.0.{last}", TCP_PORT))
            return f"127.0.0.{last}"
    raise ChildError(f"port {TCP_PORT} is in use on 127.0.0.60 to 127.0.0.99")


@contextlib.contextmanager
def hand() -> Iterator[Hand]:
    """A hand for the time of the block."""
    address = _free_address()
    with child(["bench.hand_server", address], stdout=subprocess.PIPE, bufsize=1) as process:
        yield Hand(process, address)


def _ours(stops: int, seed: int) -> Stops:
    with tempfile.TemporaryDirectory() as name, hand() as device:
        folder = Path(name)
        path, config = folder / "server.sock", folder / "gripperd.toml"
        config.write_text(
            f'[daemon]\nsocket = "{path}"\n[[gripper]]\nname = "hand"\ndriver = "franka_hand"\n'
            f'address = "{device.address}"\nstall_after_s = 60\n',
            encoding="utf-8",
        )
        with (folder / "log").open("w", encoding="utf-8") as log:
            arguments = ["gripperd", "run", "--config", str(config)]
            with child(arguments, stdout=log, stderr=log) as server:
                wait_for(path, server, log)
                return _stop_ours(path, device, stops, random.Random(seed))


def _stop_ours(path: Path, device: Hand, stops: int, chance: random.Random) -> Stops:
    abort_s, answer_s = [], []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_LIMIT_S)
        connection.connect(str(path))
        lines = connection.makefile("rb")

        def ask(method: str, **params: float) -> dict[str, Any]:
            request = {"jsonrpc": "2.0", "id": 1, "method": f"gripper.{method}", "params": params}
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(lines.readline())["result"]
            return answer

        deadline_s = time.monotonic() + LIMIT_S
        while ask("state")["link"] != "up":
            if time.monotonic() > deadline_s:
                raise ChildError("gripperd did not find the hand")
            time.sleep(0.05)
        for number in range(stops):
            moved = ask("move", opening_width_m=0.0, relative_speed=1.0)
            if not moved["ok"]:
                raise ChildError(f"the move was answered {moved}")
            time.sleep(chance.uniform(*BLOCKED_S) if number else FIRST_S)
            asked_s = time.monotonic()
            stopped = ask("stop")
            if not stopped["ok"]:
                raise ChildError(f"the stop was answered {stopped}")
            answer_s.append(time.monotonic() - asked_s)
            abort_s.append(device.aborted_s() - asked_s)
    return Stops(abort_s, answer_s)


def _peer(module: str, stops: int, seed: int) -> Stops:
    """A dead server freezes such a client, so it has a watchdog. An abort that never came counts from the wish to the
    return of stop().
    """
    with hand() as device:
        command = [PYTHON, "-m", "bench.hand_peer", module, device.address, str(stops), str(seed)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"{module} did not end within {LIMIT_S} s") from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise ChildError(f"{module} failed: {errors.strip()[-500:]}")
        pairs = [tuple(map(float, line.split())) for line in output.splitlines()]
        returned = [returned_s - wanted_s for wanted_s, returned_s in pairs]
        if module == "pylibfranka":
            return Stops(returned, returned)
        return Stops([device.aborted_s() - wanted_s for wanted_s, _ in pairs], returned)


def _has(module: str) -> bool:
    if sys.executable == PYTHON:
        return importlib.util.find_spec(module.split(".")[0]) is not None
    found = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False)
    return found.returncode == 0


def measure(
    repeats: int, stops: int, say: Callable[[str], None]
) -> tuple[Grid, Mapping[str, float], Mapping[str, Any]]:
    """The table, the figures of goals.py, and everything as measured."""
    runs: dict[str, list[Stops]] = {OURS: []}
    for repeat in range(repeats):
        say(f"stop of a hand: repeat {repeat + 1} of {repeats}")
        runs[OURS].append(_ours(stops, repeat))
        for label, (module, share) in PEERS.items():
            if _has(module):
                runs.setdefault(label, []).append(_peer(module, max(1, round(share * stops)), repeat))
    rows = [_row(label, runs.get(label)) for label in (OURS, *PEERS)]
    ours = runs[OURS]
    measured = {
        "stop.hand_p50_s": Spread.of([percentile(each.abort_s, 0.5) for each in ours]).median,
        "stop.hand_p99_s": Spread.of([percentile(each.abort_s, 0.99) for each in ours]).median,
    }
    columns = ("ms", "abort p50", "p99", "max", "answer p50", "answer p99", "stops")
    data = {
        label: [{"abort_s": list(each.abort_s), "answer_s": list(each.answer_s)} for each in told]
        for label, told in runs.items()
    }
    return Grid("Stop of a hand, its move blocked by an object", columns, rows), measured, data


def _row(label: str, told: Sequence[Stops] | None) -> Sequence[str]:
    if not told:
        return (label, "not installed", *[""] * 5)

    def text(pick: Callable[[Stops], Sequence[float]], share: float) -> str:
        return Spread.of([percentile(pick(each), share) for each in told]).text(1e3)

    greatest_s = max(max(each.abort_s) for each in told)
    return (
        label,
        text(lambda each: each.abort_s, 0.5),
        text(lambda each: each.abort_s, 0.99),
        f"{greatest_s * 1e3:.2f}",
        text(lambda each: each.answer_s, 0.5),
        text(lambda each: each.answer_s, 0.99),
        str(sum(len(each.abort_s) for each in told)),
    )
