"""Scenario files: the text and back, what is refused and how, when steps are done, and every one that comes with it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd_sim import scenario_files
from gripperd_sim.faults import FaultKind
from gripperd_sim.history import Kind
from gripperd_sim.line import Line
from gripperd_sim.memory_port import Arrival, MemoryPort, MemoryPortError
from gripperd_sim.operations import Args, Operation, Operations, Result
from gripperd_sim.rg75 import Rg75
from gripperd_sim.rg75.operations import Rg75Bench
from gripperd_sim.rtu import seal
from gripperd_sim.scenario import Player, Scenario, ScenarioError, ScenarioPlay, Step

READ = seal(bytes.fromhex("090407D00004"))
READ_OTHER = seal(bytes.fromhex("090307D00003"))
ENABLE = seal(bytes.fromhex("091003E80001020001"))
POLL_S = 0.02
LONGEST_S = 40.0
"""No scenario that comes with the simulator needs longer until its last step [s]."""

ONE_STEP = (Step(0.0, "lose"),)
TEXT = """
seed = 7

[[step]]
at_s = 0.5
op = "delay"
count = 1
delay_s = 2.5
"""


class World:
    """A line at a port in virtual time, with its operations, and a scenario that is played on them."""

    def __init__(self, scenario: Scenario) -> None:
        self.now_s = 100.0
        self.line = Line([Rg75(now_s=self.now_s)], scenario.seed or 0)
        self.port = MemoryPort(self.line, lambda: self.now_s)
        bench = Rg75Bench(self.line, self.port, lambda: self.now_s)
        self.reports: list[str] = []
        self.play = ScenarioPlay(scenario, Operations(bench.table()), self.reports.append)
        self.line.before_request = self.play.heard
        self.device = self.line.station().device

    def ask(self, request: bytes = READ) -> list[Arrival]:
        return self.port.exchange(request)

    def master(self, duration_s: float) -> list[list[Arrival]]:
        """Poll, and write now and then."""
        self.play.ready(self.now_s)
        heard = []
        for n in range(round(duration_s / POLL_S)):
            self.play.play(self.now_s)
            heard.append(self.ask((READ, ENABLE, READ_OTHER)[n % 3]))
            self.now_s += POLL_S
        return heard


# --- text


def test_the_example() -> None:
    scenario = Scenario.load(TEXT, "example")
    assert (scenario.seed, scenario.steps) == (7, (Step(0.5, "delay", {"count": 1, "delay_s": 2.5}),))
    assert Scenario.load(scenario.dumps(), "example") == scenario


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80)
PARAMS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda key: key not in ("at_s", "op")),
    st.booleans() | NUMBERS | st.text(max_size=20),
    max_size=3,
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    times = sorted(draw(st.lists(st.floats(0, 1e6), min_size=1, max_size=4)))
    steps = tuple(Step(at_s, draw(st.text(max_size=9)), draw(PARAMS)) for at_s in times)
    every_s = draw(st.none() | st.floats(max(times[-1], 0.001), 1e7))
    return Scenario(
        steps,
        about=draw(st.text(max_size=30)),
        seed=draw(st.none() | st.integers()),
        begins=draw(st.sampled_from(["first_request", "ready"])),
        repeat_every_s=every_s,
        times=None if every_s is None else draw(st.none() | st.integers(1, 10)),
    )


@given(scenarios())
def test_text_and_back(scenario: Scenario) -> None:
    assert Scenario.load(scenario.dumps()) == scenario


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "s: no steps; give at least one"),
        ("seed = x", "s: not TOML: .*line 1"),
        ("seed = 1" + 5000 * "0", "s: not TOML: "),
        (f"repeat_every_s = 1{400 * '0'}", "too large a number"),
        ("[step]\nat_s = 0", r"write each step as a table headed \[\[step\]\]"),
        ("step = [1]", r"headed \[\[step\]\]"),
        ("sed = 7", "s: unknown key 'sed'. Did you mean seed"),
        ('seed = "7"', "seed = '7': give a whole number"),
        ("seed = true", "give a whole number"),
        ("about = 7", "give text in quotes|give a text in quotes"),
        ("[[step]]\nat_s = 1", "s, step 1: give at_s .seconds. and op"),
        ('[[step]]\nat_s = "1"\nop = "lose"', "s, step 1: at_s = '1': give a number of seconds"),
        ("[[step]]\nat_s = 1\nop = 3", "s, step 1: op = 3: give a text"),
        ('[[step]]\nat_s = -1\nop = "lose"', r"s, step 1 \(lose\): at_s = -1.0: give 0 or more"),
        ('[[step]]\nat_s = nan\nop = "lose"', "give 0 or more"),
        ('[[step]]\nat_s = inf\nop = "lose"', "give 0 or more"),
        ('[[step]]\nat_s = 2\nop = "lose"\n[[step]]\nat_s = 1\nop = "plug"', r"step 2 \(plug\): at_s = 1.0: give 2 or"),
        ('[[step]]\nat_s = 0\nop = "lose"\ncount = [1]', r"step 1 \(lose\): count = \[1\]: give a number, true"),
        ('begins = "now"\n[[step]]\nat_s = 0\nop = "lose"', "begins = 'now': give first_request or ready"),
        ('times = 2\n[[step]]\nat_s = 0\nop = "lose"', "beside repeat_every_s"),
        ('times = 0\nrepeat_every_s = 1\n[[step]]\nat_s = 0\nop = "lose"', "times = 0: give 1 or more"),
        ('repeat_every_s = 1\n[[step]]\nat_s = 2\nop = "lose"', "repeat_every_s = 1.0: give at least 2"),
        ('repeat_every_s = 0\n[[step]]\nat_s = 0\nop = "lose"', "more than 0 seconds"),
    ],
)
def test_wrong_texts_name_file_and_step(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        Scenario.load(text, "s")


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Step(0, "looze"), r"s, step 2 \(looze\): unknown op 'looze'. Did you mean lose"),
        (Step(0, "delay", {"count": 1}), r"s, step 2 \(delay\): delay needs delay_s"),
        (Step(0, "lose", {"cuont": 1}), "has no parameter 'cuont'; valid: count"),
        (Step(0, "lose", {"count": 1.5}), "count = 1.5: give a whole number"),
        (Step(0, "split", {"gap_s": 0, "at_byte": 1, "every_byte": True}), "exclude each other"),
    ],
)
def test_wrong_steps_are_told_before_the_start(step: Step, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        World(Scenario((*ONE_STEP, step), "s"))


# --- when


@given(scenarios(), st.lists(st.floats(0, 3e7), max_size=6).map(sorted))
def test_steps_come_once_in_order_and_never_early(scenario: Scenario, times: list[float]) -> None:
    scenario = replace(scenario, times=scenario.times or (None if scenario.repeat_every_s is None else 3))
    player = Player(scenario, 0.0)
    done: list[Step] = []
    for now_s in [*times, math.inf]:
        for step in player.due(now_s):
            rounds, index = divmod(len(done), len(scenario.steps))
            assert step == scenario.steps[index]
            assert rounds * (scenario.repeat_every_s or 0) + step.at_s <= now_s
            done.append(step)
        assert player.next_s is None or player.next_s > now_s
    assert len(done) == len(scenario.steps) * (scenario.times or 1)
    assert player.next_s is None


def test_without_times_it_goes_on_for_ever() -> None:
    player = Player(Scenario(ONE_STEP, repeat_every_s=0.5), 10.0)
    assert len(list(player.due(59.99))) == 100
    assert player.next_s == 60.0


def test_time_counts_from_the_first_request_and_a_step_at_0_meets_it() -> None:
    world = World(Scenario((Step(0.0, "lose", {"count": 1}), Step(0.5, "lose", {"count": 1}))))
    world.play.ready(world.now_s)
    world.now_s += 30
    world.play.play(world.now_s)
    assert world.play.status()["begun"] is False
    assert world.ask() == []
    assert world.ask() != []
    world.now_s = 130.5
    assert world.ask() == []
    assert world.ask() != []
    status = world.play.status()
    assert [status[key] for key in ("begun", "ended", "steps", "steps_done", "round", "next_s", "errors")] == [
        *(True, True, 2, 2, 1, None, [])
    ]


def test_time_counts_from_ready_where_the_scenario_says_so() -> None:
    world = World(Scenario((Step(0.5, "lose", {"count": 1}),), begins="ready"))
    world.play.ready(world.now_s)
    world.now_s += 0.6
    assert world.ask() == []


def test_a_step_that_fails_is_told_once_and_the_others_go_on() -> None:
    steps = (Step(0.0, "take_object"), Step(0.1, "lose", {"count": 1}))
    world = World(Scenario(steps, "s", repeat_every_s=1.0, times=3))
    world.master(3.5)
    assert len(world.reports) == 1
    assert world.reports[0].startswith("s, take_object at 0 s: ")
    assert world.play.status()["steps_failed"] == 3
    assert world.play.status()["errors"] == world.reports
    assert world.line.station().faults.struck() == {"lose": 3}


def test_a_bug_in_an_operation_does_not_end_the_play() -> None:
    def broken(_args: Args) -> Result:
        raise ZeroDivisionError

    reports: list[str] = []
    play = ScenarioPlay(Scenario(ONE_STEP, "s"), Operations({"lose": Operation("Break.", broken)}), reports.append)
    play.heard(0.0)
    assert reports == ["s, lose at 0 s: ZeroDivisionError"]


# --- the port in memory


def test_a_request_meets_an_unplugged_port() -> None:
    world = World(Scenario((Step(0.1, "replug", {"off_s": 0.5}),)))
    name = world.port.name
    assert world.ask() != []
    world.now_s += 0.1
    assert world.ask() == [], "it is taken away before the devices hear this"
    world.now_s += 0.4
    assert world.ask() == []
    with pytest.raises(MemoryPortError, match="unplugged already"):
        world.port.unplug()
    world.now_s += 0.1
    assert world.ask() != []
    assert world.port.name != name
    with pytest.raises(MemoryPortError, match="plugged in already"):
        world.port.plug()
    assert [e.fields["change"] for e in world.device.history.of(Kind.PORT)] == ["unplugged", "plugged"]


def test_bursts_in_memory() -> None:
    world = World(Scenario((Step(0.0, "bursts", {"burst_s": 0.02}), Step(0.5, "bursts", {"burst_s": 0}))))
    (arrival,) = world.ask()
    assert arrival.at_s == pytest.approx(100.02)
    world.now_s += 0.5
    assert world.ask()[0].at_s == pytest.approx(100.501)


# --- those that come with the simulator


def test_their_names() -> None:
    names = scenario_files.names()
    assert {"bad_cable", "late_replies", "flapping_port"} <= set(names)
    assert all(f"{name}\n    {scenario_files.read(name).about}" in scenario_files.as_text() for name in names)


def test_the_manual_lists_them() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    for name in scenario_files.names():
        assert f"| `{name}` | {scenario_files.read(name).about} |" in manual


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bad_cabel", "no scenario 'bad_cabel'. Did you mean bad_cable"),
        ("missing.toml", "missing.toml: No such file"),
        ("/", "Is a directory"),
    ],
)
def test_a_file_that_is_not_there(name: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        scenario_files.read(name)


def test_a_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    assert scenario_files.read(str(path)).name == str(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        scenario_files.read(str(path))


def duration_s(scenario: Scenario) -> float:
    assert scenario.times is not None or scenario.repeat_every_s is None, "it would never end"
    return (scenario.repeat_every_s or 0.0) * ((scenario.times or 1) - 1) + scenario.steps[-1].at_s + 5.0


@pytest.mark.parametrize("name", scenario_files.names())
def test_each_does_what_it_says(name: str) -> None:
    scenario = scenario_files.read(name)
    assert len(scenario.about) > 20
    assert duration_s(scenario) <= LONGEST_S
    assert Scenario.load(scenario.dumps(), name) == scenario
    world = World(scenario)
    first = world.master(duration_s(scenario))
    status = world.play.status()
    assert (status["ended"], status["errors"]) == (True, [])
    struck = world.line.station().faults.struck()
    for step in scenario.steps:
        check_effect(step, world, struck)
    assert World(scenario).master(duration_s(scenario)) == first


def check_effect(step: Step, world: World, struck: dict[str, int]) -> None:
    history = world.device.history
    if step.op in list(FaultKind):
        assert struck[step.op] >= int(step.params.get("count", 1))
        return
    found: dict[str, Any] = {
        "bursts": [e for e in history.of(Kind.PORT) if e.fields["change"].startswith("bursts")],
        "replug": [e for e in history.of(Kind.PORT) if e.fields["change"] == "plugged"],
        "power_cycle": [e for e in history.of(Kind.POWER) if e.fields["on"]],
        "set": [e for e in history.of(Kind.WORLD) if e.fields["change"] == "environment"],
    }
    assert found[step.op], f"add what {step.op} leaves in the history"


def test_late_replies_come_after_later_requests() -> None:
    """What the scenario is for: an old value of the same shape while a newer one was asked for."""
    scenario = scenario_files.read("late_replies")
    heard = World(scenario).master(duration_s(scenario))
    assert sum(arrival.at_s > 100 + n * POLL_S + 0.2 for n, group in enumerate(heard) for arrival in group) == 20
