"""One window of stops: starts slave, server, subscribers and hogs, stops again and again, joins the stamps."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.children import ChildError, SlaveProcess, child, hogs, slave, wait_for
from bench.figures import percentile
from bench.rtu import UNIT
from bench.stop_join import Ask, Stop, join
from bench.wire_time import MAIN

TIMEOUT_S = 0.1
"""Time-out of every server's transactions [s]."""
LATE_LIMIT_S = 0.3
"""gripperd's late_reply_limit_s where the slave falls silent [s]: no reply of this slave is late, and a short one lets
it forget a lost reply before the next silence, so that every stop meets a poll in flight.
"""
PAUSE_S = (0.002, 0.012)
"""Between two stops [s], drawn evenly: several polling periods, so that a stop meets every phase of a transaction."""
SILENCE_S = (0.005, 0.095)
"""From the beginning of a silence to the stop [s], drawn evenly: within the first time-out."""
QUEUED_S = 0.0035
"""The pause is longer by this time for each read that is gathered [s], so that it covers the whole round of them."""
ANSWER_LIMIT_S = 5.0
"""Longest wait for an answer [s]."""
WARM_S = 0.3
"""Polling before the first stop that counts [s]."""
PINGS = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """What is run: a server under a condition."""

    server: str
    condition: str
    rate_hz: float = 1000.0
    subscribers: int = 0
    hogs: int = 0
    silent: bool = False
    queued: int = 1
    pollers: int = 1


@dataclass(frozen=True, slots=True)
class Window:
    """What it gave. Times [s]."""

    stops: list[Stop]
    pings_p50_s: float
    pings_p99_s: float
    slave_late_p50_s: float
    slave_late_p99_s: float
    slave_late_max_s: float
    realtime: bool


class Client:
    """One blocking connection."""

    def __init__(self, path: Path, server_id: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_LIMIT_S)
        self._socket.connect(str(path))
        self._account = Path(f"/proc/{server_id}/schedstat")
        self._buffer = b""
        self._number = 0

    def ask(self, method: str) -> Ask:
        """Write, wait for the answer. Raises ChildError for a refusal."""
        waited_s = self._waited_s()
        sent_s = time.monotonic()
        result = self.tell(method)
        answered_s = time.monotonic()
        if not result.get("ok", True):
            raise ChildError(f"{method} was answered {result}")
        return Ask(sent_s, answered_s, self._waited_s() - waited_s)

    def tell(self, method: str) -> dict[str, Any]:
        """Write, wait for the answer, and return its result. Raises ChildError."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": {}}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while b"\n" not in self._buffer:
            data = self._socket.recv(65_536)
            if not data:
                raise ChildError("the server closed the connection")
            self._buffer += data
        answer, self._buffer = self._buffer.split(b"\n", 1)
        told = json.loads(answer)
        if "result" not in told:
            raise ChildError(f"{method} was answered {answer.decode()}")
        result: dict[str, Any] = told["result"]
        return result

    def _waited_s(self) -> float:
        """How long the server has waited for a CPU in its life [s]; 0 where the kernel does not count it."""
        try:
            return int(self._account.read_text(encoding="ascii").split()[1]) / 1e9
        except FileNotFoundError:
            return 0.0

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()


def run_window(cell: Cell, measure_s: float, seed: int) -> Window:
    """See the module. Raises ChildError or TimeoutError."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        device = stack.enter_context(slave(folder, MAIN))
        path, server = stack.enter_context(_server(cell, folder, device.port))
        client = Client(path, server.pid)
        stack.callback(client.close)
        client.ask("gripper.stop")  # answered once the server knows the device
        stack.enter_context(_subscribed(path, cell.subscribers))
        stack.enter_context(hogs(cell.hogs, measure_s + 60.0))
        time.sleep(WARM_S)
        asks = _stop_repeatedly(cell, client, device, measure_s, random.Random(seed))
        pings = [] if cell.silent else [client.ask("daemon.info") for _ in range(PINGS)]
        stamps = device.finish()
    took_s = [ping.acknowledged_s - ping.sent_s for ping in pings]
    late_s = stamps.lateness_s
    return Window(
        stops=join(asks, stamps.function, stamps.arrival_s, stamps.delivered_s, TIMEOUT_S),
        pings_p50_s=percentile(took_s, 0.5),
        pings_p99_s=percentile(took_s, 0.99),
        slave_late_p50_s=percentile(late_s, 0.5),
        slave_late_p99_s=percentile(late_s, 0.99),
        slave_late_max_s=max(late_s),
        realtime=device.realtime,
    )


def _stop_repeatedly(
    cell: Cell, client: Client, device: SlaveProcess, measure_s: float, chance: random.Random
) -> list[Ask]:
    """One stop after the other, each acknowledged before the next: two at once would share one frame."""
    asks, end_s = [], time.monotonic() + measure_s
    while time.monotonic() < end_s:
        if cell.silent:
            device.tell("silent")
            time.sleep(chance.uniform(*SILENCE_S))
        else:
            time.sleep(chance.uniform(PAUSE_S[0], PAUSE_S[1] + (cell.queued - 1) * QUEUED_S))
        asks.append(client.ask("gripper.stop"))
        if cell.silent:
            time.sleep(TIMEOUT_S + LATE_LIMIT_S)
    return asks


@contextlib.contextmanager
def _server(cell: Cell, folder: Path, port: str) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    path = folder / "server.sock"
    if cell.server == "ours":
        arguments = ["gripperd", "run", "--config", str(_configuration(cell, folder, port, path))]
    else:
        arguments = ["bench.servers", cell.server, "--port", port, "--baudrate", str(MAIN.baudrate)]
        arguments += ["--socket", str(path), "--rate-hz", str(cell.rate_hz), "--timeout-s", str(TIMEOUT_S)]
        arguments += ["--queued", str(cell.queued), "--pollers", str(cell.pollers)]
    with (folder / "server.log").open("w", encoding="utf-8") as log, child(arguments, stdout=log, stderr=log) as server:
        wait_for(path, server, log)
        yield path, server


def _configuration(cell: Cell, folder: Path, port: str, socket_path: Path) -> Path:
    late = f"late_reply_limit_s = {LATE_LIMIT_S}\n" if cell.silent else ""
    path = folder / "gripperd.toml"
    path.write_text(
        f'[daemon]\nsocket = "{socket_path}"\nmax_clients = 1000\n\n'
        f'[[bus]]\nname = "wire"\nport = "{port}"\nbaudrate = {MAIN.baudrate}\n'
        f"response_timeout_s = {TIMEOUT_S}\n{late}\n"
        f'[[gripper]]\nname = "left"\ndriver = "rg75"\nbus = "wire"\nunit = {UNIT}\n'
        f"poll_rate_hz = {cell.rate_hz}\nmoving_poll_rate_hz = {cell.rate_hz}\n",
        encoding="utf-8",
    )
    return path


@contextlib.contextmanager
def _subscribed(path: Path, count: int) -> Iterator[None]:
    if not count:
        yield
        return
    arguments = ["bench.subscribers", str(path), str(count)]
    with child(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise ChildError(f"the {count} subscribers could not subscribe")
        yield
