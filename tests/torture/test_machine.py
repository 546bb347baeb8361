"""STOP, STALE, FRAME, TRANS, HANG, REPLAY, SLAVE: all promises at once, in thousands of random examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gripperd.gripper.dispatch import Dispatcher
from gripperd.gripper.stopping import Stopper
from gripperd.modbus.transaction import Quarantine
from tests.torture.__main__ import replay
from tests.torture.scenario import Setting, Step, dumps, loads

EXAMPLES = 2000
ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "tests" / "torture" / "scenarios").glob("*.toml"))


@pytest.mark.timeout(400)
def test_the_promises_hold_on_a_bad_line() -> None:
    """In two processes. What fails is printed as a scenario file."""
    command = [sys.executable, "-m", "tests.torture", "--examples", str(EXAMPLES), "--jobs", "2"]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert result.returncode == 0, result.stdout[-6000:]
    assert f"{EXAMPLES} examples, 0 seeds failed" in result.stdout


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_holds(path: Path) -> None:
    """What failed once, or shows a promise."""
    replay(path.read_text())


def _scenario(name: str) -> str:
    return next(path for path in SCENARIOS if path.stem == name).read_text()


def test_the_checks_see_a_late_reply_that_is_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus that forgets what is owed, and asks the same question every time."""
    monkeypatch.setattr(Quarantine, "free", lambda *_: True)
    monkeypatch.setattr(Quarantine, "wait_s", lambda *_: 0.0)
    monkeypatch.setattr(Quarantine, "even_s", lambda *_: 0.0)
    monkeypatch.setattr("gripperd.drivers.jodell.reading.StatusReads.whole", lambda reads: reads._whole[:1])
    with pytest.raises(AssertionError, match="GripperState"):
        replay(_scenario("late_replies"))


def test_the_checks_see_a_command_that_passes_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher, "fence", lambda _: None)
    with pytest.raises(AssertionError, match="was accepted at"):
        replay(_scenario("queued_commands"))


def test_the_checks_see_a_sweep_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that takes the last status for granted."""
    monkeypatch.setattr(Stopper, "_may_go", lambda stopper: bool(stopper._undelivered))
    with pytest.raises(AssertionError, match="homings"):
        replay(_scenario("quick_restart"))


def test_the_checks_see_a_stop_that_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopper, "_deliver", lambda _: None)
    with pytest.raises((AssertionError, TimeoutError)):
        replay(_scenario("queued_commands"))


def test_a_scenario_survives_being_written_and_read() -> None:
    setting = Setting(seed=7, takeup_s=0.06, late_reply_limit_s=0.5)
    steps = [
        Step(0.1, "lose", {"count": 3}),
        Step(1e-9, "noise_before", {"hex": "00ff", "of": "reads"}),
        Step(0.0, "stop"),
    ]
    assert loads(dumps(setting, steps)) == (setting, steps)
