"""`gripperd-sim franka-hand` as a process: arguments, readiness, log, scenarios, a clean end; and its manual."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gripperd_sim import scenario_files
from gripperd_sim.control import AsyncControlClient
from gripperd_sim.franka_hand import HandOptions
from gripperd_sim.franka_hand.command import DEVICE
from gripperd_sim.option_table import as_markdown
from gripperd_sim.port_owner import port_owner
from tests.e2e.processes import Process, eventually, process
from tests.sim.franka_net import Served

MANUAL = Path(__file__).parents[2] / "docs" / "simulator.md"
COMMAND = (sys.executable, "-m", "gripperd_sim", "franka-hand")
SERVE = (*COMMAND, "--address", "127.0.0.1", "--port", "0")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)


async def ready(running: Process) -> int:
    """Its port."""
    await eventually(lambda: "ready" in running.output() or running.child.returncode is not None, "readiness")
    found = re.match(r"ready 127\.0\.0\.1:(\d+)", running.output())
    assert found is not None, running.output()
    return int(found[1])


def test_help_options_and_scenarios() -> None:
    told = run("--help")
    assert (told.returncode, "--address 127.0.0.2" in told.stdout) == (0, True)
    assert "command_latency_s=1.0" in run("--list-options").stdout
    assert "half_open\n    After 4 s" in run("--list-scenarios").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--address A is needed"),
        (["--option", "homing=3"], "Did you mean homing_s?"),
        (["--homing-s", "0"], "homing_s = 0.0: give number from 0.1 to 60"),
        (["--command-latency-s", "-1"], "command_latency_s = -1.0"),
        (["--state-rate-hz", "nan"], "state_rate_hz"),
        (["--width-m", "0.09"], "give a width from 0 to 0.08 m"),
        (["--object-width-m", "0.08"], "never fits: the hand opens to 0.08 m"),
        (["--port", "70000"], "port 70000: give 0 (any free one) to 65535"),
        (["--address", "192.0.2.1"], "192.0.2.1 is no address of this machine"),
        (["--address", "::1"], "::1 is no IPv4 address"),
        (["--scenario", "half_opem"], "Did you mean half_open?"),
        (["--scenario", "bad_cable"], "no scenario 'bad_cable'"),
        (["--control", "/nonexistent/sock"], "cannot listen at /nonexistent/sock"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: Sequence[str], says: str) -> None:
    given = list(arguments) if "--address" in arguments or not arguments else ["--address", "127.0.0.1", *arguments]
    told = run(*(["--port", "0"] if "--port" not in given and given else []), *given)
    assert told.returncode == 2
    assert says in told.stderr
    assert len(told.stderr.splitlines()) == 1, "no traceback"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_program_serves_is_controlled_and_ends(tmp_path: Path, number: signal.Signals) -> None:
    control = tmp_path / "c"
    short = ("--homing-s", "0.5", "--command-latency-s", "0", "--state-rate-hz", "50", "--width-m", "0.06")
    arguments = [*SERVE, "--homed", "--control", str(control), "--object-width-m", "0.03", *short]
    async with process(arguments, tmp_path / "log") as running:
        port = await ready(running)
        async with await AsyncControlClient.connect(control) as sim:
            state = (await sim.call("state"))["state"]
            assert (state["homed"], state["object_width_m"], state["width_m"]) == (True, 0.03, 0.06)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            assert await running.end(number) == 0
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert running.output().count("\n") == 1, "nothing but the ready line"
    assert not control.exists()


async def test_a_port_that_is_in_use_is_told_with_its_process(tmp_path: Path) -> None:
    async with process(SERVE, tmp_path / "log") as running:
        port = await ready(running)
        owner = f"process {running.child.pid} ({sys.executable} -m gripperd_sim franka-hand"
        assert port_owner("127.0.0.1", port).startswith(owner)
        told = run("--address", "127.0.0.1", "--port", str(port))
        assert (told.returncode, len(told.stderr.splitlines())) == (2, 1)
        assert f"127.0.0.1:{port} is in use by {owner}" in told.stderr
    assert port_owner("127.0.0.1", port) == ""


def test_a_port_of_every_address_has_an_owner_too() -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        assert port_owner("127.0.0.9", listener.getsockname()[1]).startswith(f"process {os.getpid()} (")


async def test_the_log_has_every_event_also_of_what_ends_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "events"
    async with process([*SERVE, "--homed", "--log", str(log)], tmp_path / "out") as running:
        port = await ready(running)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(bytes.fromhex("0300 07000000 1a000000" + "0" * 16 + "000000000000f03f"))
            await eventually(lambda: "motion_end" in log.read_text(), "end of the motion")
        assert await running.end() == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {each["device"] for each in events} == {"franka-hand"}
    assert [each["kind"] for each in events][:4] == ["connection", "request", "motion_start", "motion_end"]
    assert events[1]["values"] == [0.0, 1.0]


async def test_a_scenario_is_played_from_the_first_request(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'seed = 3\n[[step]]\nat_s = 0\nop = "lose_answers"\nof = "connect"\n'
        '[[step]]\nat_s = 0.1\nop = "power_cycle"\noff_s = 0.1\n[[step]]\nat_s = 0.1\nop = "take_object"\n'
    )
    control = tmp_path / "c"
    arguments = [*SERVE, "--homed", "--scenario", str(mine), "--control", str(control)]
    async with process(arguments, tmp_path / "out") as running:
        port = await ready(running)
        async with await AsyncControlClient.connect(control) as sim:
            assert (await sim.call("state"))["scenario"]["begun"] is False
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.settimeout(10)
                client.sendall(bytes.fromhex("0000 00000000 0e000000 0300 3412"))
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
            state = await sim.call("state")
        assert state["faults"]["struck"] == {"lose_answers": 1}
        assert (state["scenario"]["steps_done"], state["scenario"]["steps_failed"]) == (3, 1)
        assert running.output().splitlines()[1:] == [f"gripperd-sim franka-hand: {mine}, take_object at 0.1 s: "
                                                     "no object is there: put one first"]  # fmt: skip


@pytest.mark.parametrize("name", scenario_files.names(DEVICE))
def test_every_scenario_fits_the_operations_and_is_in_the_manual(name: str) -> None:
    scenario = scenario_files.read(name, DEVICE)
    scenario.check(Served.offline().operations)
    assert f"| `{name}` | {scenario.about} |" in MANUAL.read_text()


def _manual(heading: str) -> str:
    return MANUAL.read_text().split(f"### {heading}")[1]


def test_the_manual_has_the_same_operations() -> None:
    operations: dict[str, Any] = Served.offline().call("help")["ops"]
    rows = []
    for name, op in operations.items():
        params = ", ".join(f"`{p['name']}`" + ("" if p["required"] else "?") for p in op["params"])
        rows.append(f"| `{name}` | {params} | {op['doc']} |")
    text = _manual("Operations of a hand").split("\n\n")[1]
    missing = [row for row in rows if row not in text and "`help`" not in row]
    assert not missing, "put these rows there:\n" + "\n".join(missing)
    assert len([line for line in text.splitlines() if line.startswith("| `")]) == len(operations) - 1


def test_the_manual_has_the_same_options() -> None:
    assert as_markdown(HandOptions) in _manual("Options of a hand"), "put the output of as_markdown() there"
