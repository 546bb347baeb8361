"""`python -m bench late`: late replies, and how many of them were taken for the answer to another request."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.children import ChildError, child, slave
from bench.late_clients import LATE_LIMIT_S, TIMEOUT_S, TURNAROUND_S, VIRTUAL_LATE_LIMIT_S, VIRTUAL_TIMEOUT_S, Tally
from bench.report import Grid, Report
from bench.slave import Lateness
from bench.wire_time import MAIN, Profile

WANTED = 10_000
CONTROL_WANTED = 500
"""Late replies of the run without protection; enough to see that the count works."""
RUN_LIMIT_S = 300.0
"""A client that has not ended by then has failed [s]."""
PTY = Profile("pty", MAIN.baudrate, TURNAROUND_S)
PTY_LATENESS = Lateness(share=0.05, least_s=TIMEOUT_S, most_s=6 * TIMEOUT_S)
"""Late by up to six time-outs, which is within gripperd's limit there, and within 256 reads of any client."""

VIRTUAL = "gripperd, virtual time"
LABELS = {
    "ours": "gripperd, pty",
    "pymodbus": "pymodbus asyncio, pty",
    "bare": "bare loop that discards old input, pty",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run. measure_s: of one window on the pty [s]."""

    repeats: int
    measure_s: float
    wanted: int = WANTED


QUICK, WHOLE = Plan(2, 3.0), Plan(5, 10.0)


def _run_client(name: str, *options: str) -> Tally:
    with child(["bench.late_clients", name, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"the client {name} did not end within {RUN_LIMIT_S} s") from error
        if process.returncode != 0:
            raise ChildError(f"the client {name} failed: {errors.strip()[-2000:]}")
    return Tally(**json.loads(output.splitlines()[-1]))  # what stands before it are logs


def _on_pty(name: str, measure_s: float, seed: int) -> Tally:
    with (
        tempfile.TemporaryDirectory() as folder,
        slave(Path(folder), PTY, paced=False, lateness=PTY_LATENESS, seed=seed) as device,
    ):
        tally = _run_client(name, "--port", device.port, "--measure-s", str(measure_s))
        tally.late = device.finish().late_replies
    return tally


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """The whole sub-command."""
    what = QUICK if quick else WHOLE
    say(f"late: {what.wanted} late replies in virtual time")
    tallies = {
        VIRTUAL: [_run_client("virtual", "--late", str(what.wanted))],
        f"{VIRTUAL}, protection off": [_run_client("unprotected", "--late", str(CONTROL_WANTED))],
    }
    tallies |= {label: [] for label in LABELS.values()}
    for repeat in range(what.repeats):
        say(f"late: repeat {repeat + 1} of {what.repeats} on the pty")
        for name, label in LABELS.items():
            tallies[label].append(_on_pty(name, what.measure_s, seed=repeat + 1))
    report = Report("late")
    report.grids = [Grid("Late replies", _COLUMNS, [_row(label, runs) for label, runs in tallies.items()])]
    ours = tallies[VIRTUAL] + tallies[LABELS["ours"]]
    report.measured = {
        "late.provoked": float(sum(each.late for each in ours)),
        "late.accepted": float(sum(each.wrong for each in ours)),
    }
    report.data = {label: [asdict(each) for each in runs] for label, runs in tallies.items()}
    report.notes = [
        "Each reply carries the number of its request. Wrong: a value published for another request than the last one.",
        f"Virtual time: the daemon's own limits, time-out {VIRTUAL_TIMEOUT_S} s, late_reply_limit_s "
        f"{VIRTUAL_LATE_LIMIT_S}; replies are late by up to that limit, half of them by less than 0.3 s. "
        "Everything but the port is gripperd's own code.",
        f"Pty: time-out {TIMEOUT_S} s, late_reply_limit_s {LATE_LIMIT_S}; 5 % of the replies are 10 to 60 ms late.",
        "Protection off: gripperd with late_reply_limit_s = 0, which shows that this count can be other than 0.",
    ]
    return report


_COLUMNS = ("client", "reads", "late replies", "published values", "wrong", "wrong %", "published as not known")


def _row(label: str, runs: Sequence[Tally]) -> Sequence[str]:
    values, wrong = sum(each.values for each in runs), sum(each.wrong for each in runs)
    return (
        label,
        str(sum(each.reads for each in runs)),
        str(sum(each.late for each in runs)),
        str(values),
        str(wrong),
        f"{100 * wrong / values:.2f}" if values else "-",
        str(sum(each.invalid for each in runs)),
    )
