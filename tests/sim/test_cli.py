"""`gripperd-sim` as a process: ready, served over a real pty, controlled, and gone without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymodbus.client import ModbusSerialClient

from gripperd_sim import cli
from gripperd_sim.control import ControlClient

WAIT_S = 15.0
"""Longest wait for anything; a loaded machine may need seconds to start a process."""


class Simulator:
    """A running `gripperd-sim rg75`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.link, self.control = folder / "gripper", folder / "control"
        command = [sys.executable, "-m", "gripperd_sim", "rg75", "--link", str(self.link)]
        self.process = subprocess.Popen(
            [*command, "--control", str(self.control), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.ready = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        seen, _, _ = select.select([self.process.stdout], [], [], WAIT_S)
        return self.process.stdout.readline().decode().strip() if seen else ""

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit status and what it wrote to standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, errors.decode()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Simulator]]:
    started: list[Simulator] = []

    def run(*arguments: str) -> Simulator:
        started.append(Simulator(tmp_path, *arguments))
        return started[-1]

    yield run
    for simulator in started:
        if simulator.process.poll() is None:
            simulator.process.kill()
            simulator.process.communicate()


@contextlib.contextmanager
def master(link: Path) -> Iterator[ModbusSerialClient]:
    client = ModbusSerialClient(str(link), baudrate=115_200, timeout=2, retries=2)
    assert client.connect()
    try:
        yield client
    finally:
        client.close()  # type: ignore[no-untyped-call]


def wait_for(client: ModbusSerialClient, status: int) -> list[int]:
    deadline_s = time.monotonic() + WAIT_S
    words: list[int] = []
    while time.monotonic() < deadline_s:
        words = list(client.read_input_registers(0x07D0, count=4, device_id=9).registers)
        if words[0] == status:
            return words
    raise AssertionError(f"no status {status:#04x}; last {words}")


FAST = ("--no-pacing", "--turnaround-s", "0", "--option", "activation_s=0.1")


def test_activate_grip_lose_over_the_pty(start: Callable[..., Simulator]) -> None:
    simulator = start("--object-width-m", "0.03", "--option", "activation_s=0.1")
    assert simulator.ready == f"ready {simulator.link} -> {os.readlink(simulator.link)}"
    with master(simulator.link) as client, ControlClient(simulator.control) as control:
        client.write_registers(0x03E8, [0x0001], device_id=9)
        wait_for(client, 0x31)
        client.write_registers(0x03E8, [0x0009, 0x0000, 0xFFFF], device_id=9)
        wait_for(client, 0xF1)
        client.write_registers(0x03E8, [0x0009, 0xFF00, 0xFFFF], device_id=9)
        wait_for(client, 0xB1)
        state = control.call("state")["state"]
        assert (state["holding"], state["object_width_m"]) == (True, 0.03)
        control.call("take_object")
        assert wait_for(client, 0xF3)[1] >> 8 == 255
        actions = [e["action"] for e in control.call("log")["events"] if e["kind"] == "command"]
        assert actions == ["activate", "go", "go"]
    assert simulator.end() == (0, "")
    assert not simulator.link.is_symlink()
    assert not simulator.control.exists()


def test_several_units_and_the_log(start: Callable[..., Simulator], tmp_path: Path) -> None:
    log = tmp_path / "log"
    simulator = start("--unit", "5", "--unit", "9", "--log", str(log), *FAST)
    with master(simulator.link) as client, ControlClient(simulator.control) as control:
        assert client.read_input_registers(0x07D0, count=1, device_id=9).dev_id == 9
        assert control.call("state")["state"]["unit"] == 5
        assert control.call("state", unit=9)["state"]["unit"] == 9
    assert simulator.end(signal.SIGINT) == (0, "")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(e["device"], e["kind"]) for e in events if e["kind"] in ("request", "reply")] == [
        (9, "request"),
        (9, "reply"),
    ]


def test_unplug_and_plug_over_the_control_socket(start: Callable[..., Simulator]) -> None:
    simulator = start(*FAST)
    old = os.readlink(simulator.link)
    with ControlClient(simulator.control) as control:
        control.call("unplug")
        assert not simulator.link.is_symlink()
        control.call("plug")
        assert os.readlink(simulator.link) != old
    with master(simulator.link) as client:
        assert not client.read_input_registers(0x07D0, count=1, device_id=9).isError()


def test_a_link_that_is_a_file_and_a_socket_in_use_are_refused(start: Callable[..., Simulator], tmp_path: Path) -> None:
    first = start(*FAST)
    second = start(*FAST)
    code, errors = second.end()
    assert (code, second.ready) == (2, "")
    assert "living process" in errors
    assert os.readlink(first.link), "the first one is left alone"
    first.end()
    (tmp_path / "gripper").write_text("precious")
    code, errors = start(*FAST).end()
    assert code == 2
    assert "is not a symlink" in errors
    assert (tmp_path / "gripper").read_text() == "precious"
    assert not (tmp_path / "control").exists()


def test_the_control_command(start: Callable[..., Simulator], capsys: pytest.CaptureFixture[str]) -> None:
    simulator = start(*FAST)
    path = str(simulator.control)
    assert cli.main(["control", path, "put_object", "width_m=0.03", "internal=false", "unit=0x09"]) == 0
    capsys.readouterr()
    assert cli.main(["control", path, "state"]) == 0
    assert json.loads(capsys.readouterr().out)["state"]["object_width_m"] == 0.03
    assert cli.main(["control", path, "noise_before", "hex=10", "of=reads", "probability=0.5", "count=0x10"]) == 0
    assert json.loads(capsys.readouterr().out)["armed"] == {
        "noise_before": {"hex": "10", "of": "reads", "probability": 0.5, "count": 16}
    }
    assert cli.main(["control", path, "noise_before", "of=some"]) == 2
    assert "give one of reads, writes, all" in capsys.readouterr().err
    assert cli.main(["control", path, "grab"]) == 2
    assert "Valid: " in capsys.readouterr().err
    assert cli.main(["control", path, "put_object", "width_m=wide"]) == 2
    assert "write NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rg75"], "--link PATH is needed"),
        (["rg75", "--link", "x", "--option", "takup_s=1"], "Did you mean takeup_s"),
        (["rg75", "--link", "x", "--unit", "300"], "give 1 to 247"),
        (["rg75", "--link", "x", "--unit", "9", "--unit", "9"], "each once"),
        (["rg75", "--link", "x", "--object-width-m", "-1"], "above 0"),
        (["rg75", "--link", "x", "--turnaround-s", "-1"], "reply_delay_s"),
        (["rg75", "--link", "x", "--scenario", "bad_cabel"], "Did you mean bad_cable"),
        (["rg75", "--link", "x", "--scenario", "./none.toml"], "No such file"),
        (["control", "/nonexistent/socket", "state"], "no simulator at"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    errors = capsys.readouterr().err
    assert says in errors
    assert len(errors.splitlines()) == 1


SCENARIO = """
seed = 3

[[step]]
at_s = 0
op = "noise_after"
probability = 0.5

[[step]]
at_s = 0
op = "take_object"

[[step]]
at_s = 0.01
op = "put_object"
width_m = 0.03
"""


def noise(log: Path) -> list[str]:
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["kind"] == "port"
    return [event["hex"] for event in events if event["kind"] == "line_fault"]


def test_a_scenario_is_played_and_the_seed_decides(start: Callable[..., Simulator], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO)
    heard = []
    for number, seed in enumerate(([], [], ["--seed", "4"])):
        log = tmp_path / f"log{number}"
        simulator = start("--scenario", str(path), "--log", str(log), *seed, *FAST)
        with ControlClient(simulator.control) as control, master(simulator.link) as client:
            assert control.call("state")["scenario"]["begun"] is False
            for _ in range(30):
                client.read_input_registers(0x07D0, count=1, device_id=9)
            status = control.call("state")["scenario"]
            assert (status["ended"], status["steps_done"], status["steps_failed"]) == (True, 3, 1)
            assert control.call("state")["state"]["object_width_m"] == 0.03
        code, errors = simulator.end()
        assert code == 0
        assert errors.count("\n") == 1
        assert f"{path}, take_object at 0 s: " in errors
        heard.append(noise(log))
    assert heard[0] == heard[1] != heard[2]
    assert 5 < len(heard[0]) < 25


def test_a_scenario_that_cannot_be_played_ends_it_before_it_serves(
    start: Callable[..., Simulator], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[step]]\nat_s = 0\nop = "loose"\n')
    simulator = start("--scenario", str(path), *FAST)
    code, errors = simulator.end()
    assert (code, simulator.ready) == (2, "")
    assert errors.startswith(f"gripperd-sim rg75: {path}, step 1 (loose): unknown op 'loose'. Did you mean lose?")
    assert not simulator.link.is_symlink()
    assert not simulator.control.exists()


def test_scenarios_are_listed_and_play_by_name(
    start: Callable[..., Simulator], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rg75", "--list-scenarios"]) == 0
    assert "flapping_port\n    A USB plug" in capsys.readouterr().out
    simulator = start("--scenario", "lost_acks", *FAST)
    with ControlClient(simulator.control) as control:
        assert control.call("state")["scenario"]["name"] == "lost_acks"
    assert simulator.end() == (0, "")


def test_options_are_listed_and_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rg75", "--list-options"]) == 0
    assert "takeup_s=0.01" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        cli.main(["rg75", "--help"])
    assert end.value.code == 0
    assert "gripperd-sim control" in capsys.readouterr().out
