"""`python -m bench wire`: transactions per second of every client on the same paced pty, and the gaps they keep."""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.children import Stamps, run_client, slave
from bench.clients.meter import Tally
from bench.figures import Spread, percentile, ratios
from bench.report import Grid, Report
from bench.rtu import STATUS_REGISTERS
from bench.wire_time import MAIN, PROFILES, Profile, limit_hz

LABELS = {
    "ours": "gripperd",
    "ours-line": "gripperd, line only",
    "bare-gap": "bare loop, gap kept",
    "bare": "bare loop, no gap",
    "pymodbus": "pymodbus asyncio",
    "pymodbus-sync": "pymodbus in a thread",
    "minimalmodbus": "minimalmodbus in a thread",
}
REFERENCE = "bare-gap"
HANDING_LIMIT_S = 0.0001
"""A gap is judged only where handing over the last bytes took less than this [s]: else nobody knows when it began."""
UNPACED = Profile("no pacing", MAIN.baudrate, MAIN.turnaround_s)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run. Times of one window [s]."""

    repeats: int
    warm_s: float
    measure_s: float
    cells: Sequence[tuple[Profile, str]]
    """What one repeat runs, in this order."""


def plan(quick: bool) -> Plan:
    """All clients on all profiles; quick: all on the main one, the two that are compared on the others."""
    clients = list(LABELS)
    if importlib.util.find_spec("minimalmodbus") is None:
        clients.remove("minimalmodbus")
    few = ["ours", REFERENCE]
    cells = [(each, name) for each in PROFILES for name in (few if quick and each is not MAIN else clients)]
    cells.append((UNPACED, "bare"))
    return Plan(3, 0.2, 0.8, cells) if quick else Plan(6, 0.4, 2.2, cells)


@dataclass(frozen=True, slots=True)
class Figures:
    """One client in one window. Times [s]; gaps_s: the silence the slave saw before each request."""

    rate_hz: float
    share: float
    requests: int
    gaps_violated: int
    least_gap_s: float
    median_gap_s: float
    cpu_s: float
    errors: int
    slave_late_p50_s: float
    slave_late_p99_s: float
    slave_late_max_s: float


def figures(tally: Tally, stamps: Stamps, profile: Profile) -> Figures:
    """From what the client counted and what the slave saw."""
    gaps = [
        arrival_s - delivered_s
        for arrival_s, handing_s, delivered_s in zip(
            stamps.arrival_s[1:], stamps.handing_s, stamps.delivered_s, strict=False
        )
        if tally.began_s <= arrival_s <= tally.ended_s and 0.0 < delivered_s <= handing_s + HANDING_LIMIT_S
    ]
    rate_hz = tally.transactions / (tally.ended_s - tally.began_s)
    late = stamps.lateness_s
    return Figures(
        rate_hz=rate_hz,
        share=rate_hz / limit_hz(profile, STATUS_REGISTERS),
        requests=len(gaps),
        gaps_violated=sum(gap_s < profile.gap_s for gap_s in gaps),
        least_gap_s=min(gaps, default=math.nan),
        median_gap_s=percentile(gaps, 0.5),
        cpu_s=tally.cpu_s / max(1, tally.transactions),
        errors=tally.errors,
        slave_late_p50_s=percentile(late, 0.5),
        slave_late_p99_s=percentile(late, 0.99),
        slave_late_max_s=max(late, default=math.nan),
    )


Results = Mapping[tuple[str, str], Sequence[Figures]]
"""Profile's name and client -> one per repeat."""


def measure(what: Plan, say: Callable[[str], None]) -> tuple[Results, bool]:
    """Run it; the clients take turns within each repeat. Also whether the slave had a real-time priority."""
    results: dict[tuple[str, str], list[Figures]] = {(profile.name, name): [] for profile, name in what.cells}
    realtime = True
    for repeat in range(what.repeats):
        say(f"wire: repeat {repeat + 1} of {what.repeats}")
        for profile, name in what.cells:
            with (
                tempfile.TemporaryDirectory() as folder,
                slave(Path(folder), profile, paced=profile is not UNPACED) as device,
            ):
                tally = run_client(name, device.port, profile, what.warm_s, what.measure_s)
                results[profile.name, name].append(figures(tally, device.finish(), profile))
                realtime = realtime and device.realtime
    return results, realtime


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """The whole sub-command."""
    what = plan(quick)
    results, realtime = measure(what, say)
    report = Report("wire")
    report.grids += [_grid(profile, results) for profile in PROFILES]
    report.grids.append(_calibration(results))
    ours, reference = results[MAIN.name, "ours"], results[MAIN.name, REFERENCE]
    ratio = Spread.of(ratios([each.rate_hz for each in ours], [each.rate_hz for each in reference]))
    kept = [each for (_, name), runs in results.items() if name.startswith("ours") for each in runs]
    report.measured = {
        "wire.rate_ratio": ratio.median,
        "wire.gaps_violated": float(sum(each.gaps_violated for each in kept)),
    }
    report.data = {
        "repeats": what.repeats,
        "results": {f"{profile} / {name}": [asdict(f) for f in runs] for (profile, name), runs in results.items()},
    }
    report.notes = _notes(what, realtime)
    return report


def _grid(profile: Profile, results: Results) -> Grid:
    reference = [each.rate_hz for each in results[profile.name, REFERENCE]]
    rows = []
    for name, label in LABELS.items():
        runs = results.get((profile.name, name))
        if not runs:
            continue
        rates = [each.rate_hz for each in runs]
        violated, requests = sum(each.gaps_violated for each in runs), sum(each.requests for each in runs)
        rows.append(
            (
                label,
                Spread.of(rates).text(digits=1),
                Spread.of([each.share for each in runs]).text(100, 1),
                Spread.of(ratios(rates, reference)).text(digits=3),
                f"{violated} of {requests}",
                f"{min(each.least_gap_s for each in runs) * 1e6:.0f} / "
                f"{Spread.of([each.median_gap_s for each in runs]).median * 1e6:.0f}",
                Spread.of([each.cpu_s for each in runs]).text(1e6, 0),
                str(sum(each.errors for each in runs)),
            )
        )
    title = (
        f"{profile.name}: limit {limit_hz(profile, STATUS_REGISTERS):.1f} transactions/s, "
        f"gap {profile.gap_s * 1e6:.0f} us"
    )
    columns = (
        "client",
        "per s",
        "% of limit",
        "/ bare with gap",
        "gaps violated",
        "least/median gap us",
        "CPU us",
        "errors",
    )
    return Grid(title, columns, rows)


def _calibration(results: Results) -> Grid:
    """What the slave itself costs."""
    rows = []
    for profile in PROFILES:
        runs = [each for (name, _), windows in results.items() if name == profile.name for each in windows]
        p50, p99 = Spread.of([f.slave_late_p50_s for f in runs]), Spread.of([f.slave_late_p99_s for f in runs])
        greatest = Spread.of([f.slave_late_max_s for f in runs])
        rows.append((profile.name, p50.text(1e6, 1), p99.text(1e6, 1), greatest.text(1e6, 0), "-"))
    free = Spread.of([each.rate_hz for each in results[UNPACED.name, "bare"]])
    rows.append(("no pacing, bare loop without gap", "-", "-", "-", free.text(digits=0)))
    title = "Calibration: how late the slave handed bytes over, and how fast it is without pacing"
    return Grid(title, ("windows", "late p50 us", "late p99 us", "latest us", "per s"), rows)


def _notes(what: Plan, realtime: bool) -> list[str]:
    notes = [
        f"{what.repeats} repeats, clients in turn within each, {what.measure_s} s a window; median [least-greatest].",
        f"Every client reads {STATUS_REGISTERS} registers, as the RG75 driver does. Limit: bytes, two gaps of 3.5 "
        "characters, turnaround.",
        "A gap is from the end of handing over a reply to the slave's sight of the next request.",
        "gripperd: supervisor, driver, store, bus and line, without the socket; polling as fast as it may.",
        f"The slave {'had' if realtime else 'was not permitted'} a real-time priority.",
    ]
    if importlib.util.find_spec("minimalmodbus") is None:
        notes.append("minimalmodbus is not installed, so it is left out: ./run setup")
    return notes
