"""The three sub-commands end to end, for moments: the structure of what they find, not how fast anything is."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench import fanout, goals, hand, late, stop, wire
from bench.children import ROOT
from bench.late import Plan as LatePlan
from bench.report import save, show
from bench.stop import Plan as StopPlan
from bench.wire import Plan as WirePlan
from bench.wire_time import MAIN, PROFILES

pytestmark = pytest.mark.e2e


def quiet(text: str) -> None:
    """Progress nobody needs."""


def test_wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [(profile, name) for profile in PROFILES for name in ("ours", "bare-gap")]
    cells += [(MAIN, "ours-line"), (MAIN, "bare"), (MAIN, "pymodbus"), (wire.UNPACED, "bare")]
    monkeypatch.setattr(wire, "plan", lambda quick: WirePlan(1, 0.05, 0.1, cells))
    report = wire.run(True, quiet)
    verdicts = goals.check("wire", report.measured)
    show(report, verdicts)
    save(report, verdicts, tmp_path / "wire.json")
    saved = json.loads((tmp_path / "wire.json").read_text())
    assert len(saved["tables"]) == len(PROFILES) + 1
    results = saved["data"]["results"]
    assert set(results) == {f"{profile.name} / {name}" for profile, name in cells}
    assert all(found["rate_hz"] > 0 and found["errors"] == 0 for runs in results.values() for found in runs)
    assert results[f"{MAIN.name} / bare"][0]["gaps_violated"] > 0
    assert "To reach" in capsys.readouterr().out


def test_stop() -> None:
    cells = {key: cell for key, cell in stop.CELLS.items() if key[1] in (stop.OURS, stop.BARE, stop.PEERS[2])}
    what = StopPlan(1, 0.1)
    report = stop.build(what, stop.measure(what, quiet, cells))
    grid, of_a_hand, told = hand.measure(1, 3, quiet)
    assert set({**report.measured, **of_a_hand}) == {name for name in goals.GOALS if name.startswith("stop.")}
    assert all(value > 0 for value in {**report.measured, **of_a_hand}.values())
    assert [row[0] for row in grid.rows] == [hand.OURS, *hand.PEERS]
    assert len(told[hand.OURS][0]["abort_s"]) == 3
    results = report.data["results"]
    assert isinstance(results, dict)
    assert len(results) == len(cells)
    assert all(summary["stops"] > 0 for runs in results.values() for summary in runs)


def test_fanout() -> None:
    cells = [
        fanout.Cell(server, count, mqtt=mqtt, deaf=deaf)
        for server, count, mqtt, deaf in (
            (fanout.OURS, 100, True, False),
            (fanout.BARE, 100, True, False),
            (fanout.OURS, 500, False, False),
            (fanout.OURS, 500, False, True),
        )
    ]
    report = fanout.measure(fanout.Plan(1, 0.3, 0.2, cells, (10,)), quiet)
    verdicts = goals.check("fanout", report.measured)
    assert {name for name in goals.GOALS if name.startswith("fanout.")} == set(report.measured)
    assert not any(math.isnan(verdict.value) for verdict in verdicts)
    windows = report.data["windows"]
    assert isinstance(windows, dict)
    assert all(found["states"] > 0 for runs in windows.values() for found in runs)
    assert windows[str(cells[0])][0]["mqtt_states"] > 0
    assert report.measured["fanout.encoded"] <= 1.0


def test_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "WHOLE", LatePlan(1, 0.5, wanted=200))
    report = late.run(False, quiet)
    assert report.measured["late.provoked"] >= 200
    assert report.measured["late.accepted"] == 0
    unprotected = report.data[f"{late.VIRTUAL}, protection off"]
    assert isinstance(unprotected, list)
    assert unprotected[0]["wrong"] > 0


def test_help_has_examples_and_a_wrong_command_is_told_the_right_ones() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "python -m bench stop --json" in said.stdout
    wrong = subprocess.run([sys.executable, "-m", "bench", "wires"], cwd=ROOT, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "wire" in wrong.stderr
