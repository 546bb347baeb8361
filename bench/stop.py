"""`python -m bench stop`: from a client's stop to its first byte on the wire, and to the acknowledgement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench import hand
from bench.figures import Spread, percentile, ratios
from bench.report import Grid, Report
from bench.stop_join import CROSSING_S, OWN_LIMIT_S, QUIET_WAIT_S, Summary, summarize
from bench.stop_window import LATE_LIMIT_S, TIMEOUT_S, Cell, Window, run_window

FULL = "polling at full speed, idle machine"
SUBSCRIBED = "polling at full speed, 50 subscribers"
HUNDRED = "polling at 100 Hz, idle machine"
LOADED = "polling at full speed, two CPU hogs"
SILENT = "silent slave, time-out 100 ms"

OURS, BARE = "gripperd", "bare loop, gap kept"
PEERS = "pymodbus, 1 poller", "pymodbus, 3 pollers", "pymodbus, 10 reads gathered"

CELLS: Mapping[tuple[str, str], Cell] = {
    (FULL, OURS): Cell("ours", FULL),
    (FULL, BARE): Cell("bare", FULL),
    (FULL, PEERS[0]): Cell("pymodbus", FULL),
    (FULL, PEERS[1]): Cell("pymodbus", FULL, pollers=3),
    (FULL, PEERS[2]): Cell("pymodbus", FULL, queued=10),
    (SUBSCRIBED, OURS): Cell("ours", SUBSCRIBED, subscribers=50),
    (SUBSCRIBED, BARE): Cell("bare", SUBSCRIBED, subscribers=50),
    (HUNDRED, OURS): Cell("ours", HUNDRED, rate_hz=100.0),
    (HUNDRED, BARE): Cell("bare", HUNDRED, rate_hz=100.0),
    (LOADED, OURS): Cell("ours", LOADED, hogs=2),
    (LOADED, BARE): Cell("bare", LOADED, hogs=2),
    (SILENT, OURS): Cell("ours", SILENT, silent=True),
    (SILENT, BARE): Cell("bare", SILENT, silent=True),
    (SILENT, PEERS[0]): Cell("pymodbus", SILENT, silent=True),
}
"""Condition and client -> what is run, in this order within each repeat."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run. measure_s: of one window [s]; hand_stops: of one run with a hand, hand_repeats times."""

    repeats: int
    measure_s: float
    hand_repeats: int = 3
    hand_stops: int = 200


QUICK, WHOLE = Plan(2, 1.2, hand_repeats=1, hand_stops=50), Plan(6, 5.0)

Results = Mapping[tuple[str, str], Sequence[tuple[Window, Summary]]]
"""Condition and client -> one per repeat."""


def measure(what: Plan, say: Callable[[str], None], cells: Mapping[tuple[str, str], Cell] = CELLS) -> Results:
    """Run it; the clients take turns within each repeat."""
    results: dict[tuple[str, str], list[tuple[Window, Summary]]] = {key: [] for key in cells}
    for repeat in range(what.repeats):
        say(f"stop: repeat {repeat + 1} of {what.repeats}")
        for key, cell in cells.items():
            window = run_window(cell, what.measure_s, seed=repeat)
            results[key].append((window, summarize(window.stops)))
    return results


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """The whole sub-command."""
    what = QUICK if quick else WHOLE
    report = build(what, measure(what, say))
    grid, measured, data = hand.measure(what.hand_repeats, what.hand_stops, say)
    report.grids.append(grid)
    report.measured |= measured
    report.data["hand"] = data
    report.notes.append(
        "Hand: an object blocks the move; abort: when the simulated hand gets the stop. pylibfranka keeps the "
        "interpreter while a move is pending, so its stop runs when the hand has given the move up, here after 2 s."
    )
    return report


def build(what: Plan, results: Results) -> Report:
    """The report of what was measured."""
    report = Report("stop")
    report.grids = [_grid(condition, results) for condition in (FULL, SUBSCRIBED, HUNDRED, LOADED, SILENT)]
    report.grids += [_own(results), _calibration(results)]
    ours, bare = _column(results, FULL, OURS), _column(results, FULL, BARE)
    subscribed = _column(results, SUBSCRIBED, OURS)
    report.measured = {
        "stop.p50_ratio": Spread.of(ratios(ours("first_p50_s"), bare("first_p50_s"))).median,
        "stop.p99_ratio": Spread.of(ratios(ours("first_p99_s"), bare("first_p99_s"))).median,
        "stop.own_share_max_s": Spread.of(ours("quiet_own_max_s")).greatest,
        "stop.silent_p50_s": Spread.of(_column(results, SILENT, OURS)("first_p50_s")).median,
        "stop.subscribers_ratio": Spread.of(ratios(subscribed("first_p99_s"), ours("first_p99_s"))).median,
    }
    report.data = {
        "repeats": what.repeats,
        "results": {
            f"{condition} / {client}": [asdict(s) for _, s in runs] for (condition, client), runs in results.items()
        },
    }
    realtime = all(window.realtime for runs in results.values() for window, _ in runs)
    report.notes = [
        f"{what.repeats} repeats, clients in turn within each, {what.measure_s} s a window; median [least-greatest].",
        "First byte: when the slave sees the request. All stamps are of one monotonic clock. A stop comes 2 to 12 ms "
        "after the acknowledgement of the one before, at random, seeded (later where reads are gathered, to cover "
        "their round): two that wait at once would share a frame.",
        f"Own share: to the first byte, less the rest of the transaction in flight. A poll that the slave saw within "
        f"{CROSSING_S * 1e3} ms after the client's write crossed with the stop, and counts as in flight.",
        f"Quiet: by the kernel's account the server waited less than {QUIET_WAIT_S * 1e3} ms for a CPU meanwhile.",
        "Silent slave: it falls silent at a random moment; the stop comes 5 to 95 ms later, and is answered. "
        f"gripperd's late_reply_limit_s is {LATE_LIMIT_S} there, so that every stop meets a poll that waits for "
        f"{TIMEOUT_S} s.",
        "gripperd is the real daemon with a real configuration; the others are bench/servers.py: socket, queue, line.",
        f"The slave {'had' if realtime else 'was not permitted'} a real-time priority.",
    ]
    return report


def _column(results: Results, condition: str, client: str) -> Callable[[str], list[float]]:
    """Picks one figure of each repeat."""
    runs = results[condition, client]
    return lambda name: [float(getattr(summary, name)) for _, summary in runs]


def _grid(condition: str, results: Results) -> Grid:
    bare = _column(results, condition, BARE)
    rows = []
    for at, client in results:
        if at != condition:
            continue
        mine = _column(results, condition, client)
        rows.append(
            (
                client,
                Spread.of(mine("first_p50_s")).text(1e3),
                Spread.of(mine("first_p99_s")).text(1e3),
                f"{Spread.of(mine('first_max_s')).greatest * 1e3:.2f}",
                Spread.of(mine("ack_p50_s")).text(1e3),
                Spread.of(mine("ack_p99_s")).text(1e3),
                Spread.of(ratios(mine("first_p50_s"), bare("first_p50_s"))).text(),
                Spread.of(ratios(mine("first_p99_s"), bare("first_p99_s"))).text(),
                f"{sum(mine('stops')):.0f} / {sum(mine('in_flight')):.0f}",
            )
        )
    columns = (
        "ms",
        "first byte p50",
        "p99",
        "max",
        "ack p50",
        "ack p99",
        "p50 / bare",
        "p99 / bare",
        "stops / met one",
    )
    return Grid(f"Stop, {condition}", columns, rows)


def _own(results: Results) -> Grid:
    rows = []
    for (condition, client), runs in results.items():
        if condition == SILENT or client in PEERS[1:]:
            continue
        stops = [stop for window, _ in runs for stop in window.stops if not math.isnan(stop.own_s)]
        own = [stop.own_s for stop in stops]
        quiet = [stop.own_s for stop in stops if stop.waited_s < QUIET_WAIT_S]
        rows.append(
            (
                f"{client}, {condition}",
                " / ".join(f"{each * 1e3:.2f}" for each in (percentile(own, 0.5), percentile(own, 0.99), max(own))),
                f"{sum(each > OWN_LIMIT_S for each in own)} of {len(own)}",
                " / ".join(f"{each * 1e3:.2f}" for each in (percentile(quiet, 0.99), max(quiet, default=math.nan))),
                f"{sum(each > OWN_LIMIT_S for each in quiet)} of {len(quiet)}",
                str(sum(stop.crossed for stop in stops)),
            )
        )
    columns = (
        "all repeats together, ms",
        "own p50 / p99 / max",
        "over 2 ms",
        "quiet p99 / max",
        "quiet over 2 ms",
        "crossed",
    )
    return Grid("Own share of a stop: beside the transaction in flight", columns, rows)


def _calibration(results: Results) -> Grid:
    rows = []
    for (condition, client), runs in results.items():
        windows = [window for window, _ in runs]
        rows.append(
            (
                f"{client}, {condition}",
                Spread.of([w.pings_p50_s for w in windows]).text(1e3),
                Spread.of([w.pings_p99_s for w in windows]).text(1e3),
                Spread.of([w.slave_late_p50_s for w in windows]).text(1e6, 1),
                Spread.of([w.slave_late_p99_s for w in windows]).text(1e6, 1),
                Spread.of([w.slave_late_max_s for w in windows]).text(1e6, 0),
            )
        )
    columns = ("window", "socket p50 ms", "socket p99 ms", "slave late p50 us", "p99 us", "latest us")
    return Grid(
        "Calibration: a question over the socket alone, and how late the slave handed bytes over", columns, rows
    )
