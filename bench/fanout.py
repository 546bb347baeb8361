"""`python -m bench fanout`: one gripper at 100 Hz and many subscribers, beside a bare broadcaster.

What is compared: the daemon polls a gripper on a serial line, keeps its contract, and tells 100 (500) subscribers of
the Unix socket and one of a broker. The bare broadcaster (bench/broadcaster.py) makes states out of nothing and tells
the same subscribers. Processor time is the kernel's account of all threads of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.children import ChildError, child, slave, wait_for
from bench.figures import Spread, percentile, ratios
from bench.report import Grid, Report
from bench.rtu import UNIT
from bench.stop_window import Cell as StopCell
from bench.stop_window import Client, run_window
from bench.wire_time import MAIN

RATE_HZ = 100.0
OURS, BARE = "gripperd", "bare broadcaster"
BUFFER_BYTES = 262_144
"""The daemon's default `client_buffer_bytes`: what may wait for one slow reader."""
BROKER_LIMIT_S = 10.0
SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Cell:
    """What is run. mqtt: with a broker, and one subscriber of it. deaf: one more that never reads."""

    server: str
    subscribers: int
    mqtt: bool = False
    deaf: bool = False

    def __str__(self) -> str:
        mqtt, deaf = " + 1 over MQTT" if self.mqtt else "", " + 1 that never reads" if self.deaf else ""
        return f"{self.server}, {self.subscribers}{mqtt}{deaf}"


CELLS = (
    Cell(OURS, 100, mqtt=True),
    Cell(BARE, 100, mqtt=True),
    Cell(OURS, 0),
    Cell(OURS, 0, mqtt=True),
    Cell(OURS, 500),
    Cell(BARE, 500),
    Cell(OURS, 500, deaf=True),
)
"""In this order within each repeat."""
STOPS = (0, 100, 500)
"""Subscribers while stops are measured."""


@dataclass(frozen=True, slots=True)
class Found:
    """Of one window. share: the least of all subscribers, of the states between its first and its last. cpu: of one
    core. rss_bytes, growth_bytes: of the server, at the end and over the window. encoded: states encoded per round.
    """

    share: float
    states: int
    dropped: int
    age_p50_s: float
    age_p99_s: float
    age_max_s: float
    cpu: float
    rss_bytes: int
    growth_bytes: int
    encoded: float
    mqtt_states: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run. measure_s: of one window [s]; stop_s: of one window of stops [s]."""

    repeats: int
    measure_s: float
    stop_s: float
    cells: Sequence[Cell] = CELLS
    stops: Sequence[int] = STOPS


QUICK, WHOLE = Plan(2, 3.0, 2.0), Plan(5, 10.0, 6.0)

Results = Mapping[Cell, Sequence[Found]]
Stops = Mapping[int, Sequence[Sequence[float]]]


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure and report."""
    return measure(QUICK if quick else WHOLE, say)


def measure(what: Plan, say: Callable[[str], None]) -> Report:
    """The cells take turns within each repeat."""
    found: dict[Cell, list[Found]] = {cell: [] for cell in what.cells}
    stops: dict[int, list[Sequence[float]]] = {count: [] for count in what.stops}
    for repeat in range(what.repeats):
        say(f"fanout: repeat {repeat + 1} of {what.repeats}")
        for cell in what.cells:
            found[cell].append(window(cell, what.measure_s))
        for count in what.stops:
            busy = StopCell("ours", f"{count} subscribers", rate_hz=RATE_HZ, subscribers=count)
            stops[count].append([stop.first_byte_s for stop in run_window(busy, what.stop_s, repeat).stops])
    return build(found, stops)


def window(cell: Cell, measure_s: float) -> Found:
    """One server and its subscribers. Raises ChildError."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, heard = stack.enter_context(_broker(folder)) if cell.mqtt else (0, None)
        path, server = stack.enter_context(_server(cell, folder, port))
        listening = stack.enter_context(_listeners(path, cell)) if cell.subscribers else None
        time.sleep(SETTLE_S)
        rss, cpu_s, began_s = _rss_bytes(server.pid), _cpu_s(server.pid), time.monotonic()
        already = _size(heard)
        _tell(listening, "begin")
        time.sleep(measure_s)
        used = (_cpu_s(server.pid) - cpu_s) / (time.monotonic() - began_s)
        told = _told(listening)
        encoded = _encoded(path, server) if cell.server == OURS and cell.subscribers else float("nan")
        return Found(
            share=min((a / b for a, b in zip(told["states"], told["spans"], strict=True) if b), default=float("nan")),
            states=max(told["states"], default=0),
            dropped=sum(told["dropped"]),
            age_p50_s=told["age_p50_s"],
            age_p99_s=told["age_p99_s"],
            age_max_s=told["age_max_s"],
            cpu=used,
            rss_bytes=_rss_bytes(server.pid),
            growth_bytes=_rss_bytes(server.pid) - rss,
            encoded=encoded,
            mqtt_states=_size(heard) - already,
        )


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[tuple[int, Path]]:
    """Mosquitto with one subscriber, which writes a line for each state to a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("mosquitto", "mosquitto_sub")]
    if None in programs:
        raise ChildError("this needs mosquitto and mosquitto-clients")
    config = folder / "broker.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nset_tcp_nodelay true\n")
    heard = folder / "heard"
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(heard.open("wb"))
        for arguments, out in (
            ([programs[0], "-c", str(config)], subprocess.DEVNULL),
            ([programs[1], "-V", "5", "-p", str(port), "-t", "gripperd/bench/left/state", "-F", "%q"], output),
        ):
            process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.DEVNULL)  # type: ignore[arg-type]
            stack.callback(process.wait)
            stack.callback(process.terminate)
            ends_s = time.monotonic() + BROKER_LIMIT_S
            while not _listens(port):
                if time.monotonic() > ends_s:
                    raise ChildError("the broker did not start")
                time.sleep(0.01)
        yield port, heard


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _server(cell: Cell, folder: Path, mqtt_port: int) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    path = folder / "server.sock"
    with contextlib.ExitStack() as stack:
        if cell.server == OURS:
            device = stack.enter_context(slave(folder, MAIN, paced=False))
            arguments = ["gripperd", "run", "--config", str(_configuration(folder, device.port, path, mqtt_port))]
        else:
            arguments = ["bench.broadcaster", str(path), "--rate-hz", str(RATE_HZ), "--mqtt-port", str(mqtt_port)]
        log = stack.enter_context((folder / "server.log").open("w", encoding="utf-8"))
        server = stack.enter_context(child(arguments, stdout=log, stderr=log))
        wait_for(path, server, log)
        yield path, server


def _configuration(folder: Path, port: str, socket_path: Path, mqtt_port: int) -> Path:
    mqtt = f'[mqtt]\nhost = "127.0.0.1"\nport = {mqtt_port}\nhost_id = "bench"\nstate_rate_hz = {RATE_HZ}\n'
    path = folder / "gripperd.toml"
    path.write_text(
        f'[daemon]\nsocket = "{socket_path}"\nmax_clients = 1000\n{mqtt if mqtt_port else ""}'
        f'[[bus]]\nname = "wire"\nport = "{port}"\nbaudrate = {MAIN.baudrate}\n'
        f'[[gripper]]\nname = "left"\ndriver = "rg75"\nbus = "wire"\nunit = {UNIT}\n'
        f"poll_rate_hz = {RATE_HZ}\nmoving_poll_rate_hz = {RATE_HZ}\n",
        encoding="utf-8",
    )
    return path


@contextlib.contextmanager
def _listeners(path: Path, cell: Cell) -> Iterator[subprocess.Popen[str]]:
    arguments = ["bench.listeners", str(path), str(cell.subscribers), *(["--deaf"] if cell.deaf else [])]
    with child(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise ChildError(f"the {cell.subscribers} subscribers could not subscribe")
        yield process


def _tell(process: subprocess.Popen[str] | None, command: str) -> None:
    if process is not None:
        assert process.stdin is not None
        process.stdin.write(f"{command}\n")
        process.stdin.flush()


def _told(process: subprocess.Popen[str] | None) -> dict[str, Any]:
    nan = float("nan")
    nothing = {"states": [], "spans": [], "dropped": [], "age_p50_s": nan, "age_p99_s": nan, "age_max_s": nan}
    if process is None:
        return nothing
    _tell(process, "end")
    assert process.stdout is not None
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def _encoded(path: Path, server: subprocess.Popen[str]) -> float:
    """States that were encoded, by the rounds of the daemon since it had subscribers: at most one each."""
    client = Client(path, server.pid)
    try:
        statistics = client.tell("daemon.statistics")
        state = client.tell("gripper.state")
    finally:
        client.close()
    return float(statistics["socket"]["fan_out"]["states_encoded"]) / float(state["seq"])


def _cpu_s(process_id: int) -> float:
    """Of all its threads so far [s]."""
    tasks = Path(f"/proc/{process_id}/task")
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks.iterdir()) / 1e9


def _rss_bytes(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _size(heard: Path | None) -> int:
    """States that the broker's subscriber has got: two bytes each."""
    return heard.stat().st_size // 2 if heard is not None else 0


def build(found: Results, stops: Stops) -> Report:
    """Tables and figures."""
    report = Report("fanout")
    report.grids.append(_subscribers(found))
    report.grids.append(_cost(found))
    report.grids.append(_stops(stops))
    report.measured.update(_figures(found))
    report.notes += [
        f"a subscriber that never reads may owe {BUFFER_BYTES // 1024} KiB (client_buffer_bytes) and one line; beyond "
        "it states are dropped, so the daemon's memory is bounded by that times max_clients",
        "the bare broadcaster polls nothing; the daemon's polling is in the row without subscribers",
        "stops: from the client's write to the first byte on the wire, gripperd polling at 100 Hz",
    ]
    report.data["windows"] = {str(cell): [asdict(each) for each in runs] for cell, runs in found.items()}
    report.data["stops_s"] = {str(count): runs for count, runs in stops.items()}
    return report


def _subscribers(found: Results) -> Grid:
    rows = []
    for cell, runs in found.items():
        if cell.subscribers:
            rows.append(
                (
                    str(cell),
                    Spread.of([each.share * 100 for each in runs]).text(1.0, 3),
                    *(
                        Spread.of([getattr(each, name) for each in runs]).text(1e3)
                        for name in ("age_p50_s", "age_p99_s", "age_max_s")
                    ),
                    str(sum(each.dropped for each in runs)),
                    Spread.of([each.mqtt_states / each.states * 100 for each in runs]).text(1.0, 1)
                    if cell.mqtt
                    else "",
                )
            )
    columns = ("subscribers", "least share %", "age ms p50", "p99", "max", "dropped", "over MQTT %")
    return Grid("States at the subscribers, 100 Hz", columns, rows)


def _cost(found: Results) -> Grid:
    rows = [
        (
            str(cell),
            Spread.of([each.cpu * 100 for each in runs]).text(1.0, 1),
            Spread.of([each.rss_bytes / 1e6 for each in runs]).text(1.0, 1),
            Spread.of([each.growth_bytes / 1e6 for each in runs]).text(1.0, 2),
            Spread.of([each.encoded for each in runs]).text(1.0, 3) if cell.server == OURS and cell.subscribers else "",
        )
        for cell, runs in found.items()
    ]
    columns = ("server", "CPU % of a core", "RSS MB", "growth MB", "encoded / rounds")
    return Grid("What it costs the server", columns, rows)


def _stops(stops: Stops) -> Grid:
    rows = [
        (
            str(count),
            *(Spread.of([percentile(run, share) for run in runs]).text(1e3) for share in (0.5, 0.99)),
            Spread.of([max(run) for run in runs]).text(1e3),
            str(sum(len(run) for run in runs)),
        )
        for count, runs in stops.items()
    ]
    return Grid("Stop while everybody is told", ("subscribers", "first byte ms p50", "p99", "max", "stops"), rows)


def _figures(found: Results) -> dict[str, float]:
    def of(cell: Cell, name: str) -> list[float]:
        return [getattr(each, name) for each in found[cell]]

    hundred, bare = Cell(OURS, 100, mqtt=True), Cell(BARE, 100, mqtt=True)
    many, deaf = Cell(OURS, 500), Cell(OURS, 500, deaf=True)
    return {
        "fanout.share": min(of(hundred, "share")),
        "fanout.age_p99_s": Spread.of(of(hundred, "age_p99_s")).median,
        "fanout.cpu_ratio": Spread.of(ratios(of(hundred, "cpu"), of(bare, "cpu"))).median,
        "fanout.share_500": min(of(many, "share")),
        "fanout.share_deaf": min(of(deaf, "share")),
        "fanout.age_deaf_ratio": Spread.of(ratios(of(deaf, "age_p99_s"), of(many, "age_p99_s"))).median,
        "fanout.growth_deaf_bytes": max(of(deaf, "growth_bytes")),
        "fanout.encoded": max(of(hundred, "encoded") + of(many, "encoded")),
    }
