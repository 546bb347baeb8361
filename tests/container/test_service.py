"""The Debian package as an integrator meets it: installed, started, hung, killed, reloaded, stopped, removed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.container.machine import Machine, make_root, run_in

pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]

CHECKOUT = Path(__file__).parent.parent.parent
SECRET = "correct-horse-battery-staple"
CONFIG = """
[daemon]
log_level = "info"
[mqtt]
host = "127.0.0.1"
username = "gripperd"
password_credential = "mqtt"
[[bus]]
name = "tool0"
port = "/run/sim/tool0"
[[gripper]]
name = "left"
driver = "rg75"
bus = "tool0"
poll_rate_hz = {rate}
"""
SIM_CALL = """
import json, sys
sys.path.insert(0, "/usr/lib/gripperd")
from gripperd_sim.control import ControlClient
with ControlClient("/run/sim/sim.sock") as sim:
    print(json.dumps(sim.call(sys.argv[1], **json.loads(sys.argv[2]))))
"""


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two of them, the same: one is booted, in the other the commands of the README run."""
    folder = tmp_path_factory.mktemp("machine")
    make_root(folder / "booted")
    subprocess.run(["cp", "-a", str(folder / "booted"), str(folder / "plain")], check=True, timeout=120)
    return folder / "booted", folder / "plain"


@pytest.fixture(scope="module")
def machine(roots: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Booted, with the package, a simulated gripper, a configuration, and the service running."""
    root, output = roots[0], tmp_path_factory.mktemp("package")
    built = subprocess.run(
        [sys.executable, "debian/build.py", "--output", str(output)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    package = Path(built.stdout.strip())
    (root / "opt" / package.name).write_bytes(package.read_bytes())
    with Machine(root, output / "boot.log").booted() as made:
        made.run("dpkg", "-i", f"/opt/{package.name}", limit_s=120)
        made.write("/opt/sim_call.py", SIM_CALL)
        simulator = "gripperd-sim rg75 --link /run/sim/tool0 --control /run/sim/sim.sock"
        service = ("--unit=sim", "--uid=gripperd", "--property=RuntimeDirectory=sim")
        made.run("systemd-run", *service, *simulator.split())
        made.wait_for(lambda: made.run("test", "-e", "/run/sim/tool0", check=False).returncode == 0, "simulator")
        made.write("/etc/gripperd/gripperd.toml", CONFIG.format(rate=50.0))
        made.write("/etc/gripperd/mqtt-password", SECRET)
        made.run("chmod", "600", "/etc/gripperd/mqtt-password")
        made.write(
            "/etc/systemd/system/gripperd.service.d/test.conf",
            "[Service]\nLoadCredential=mqtt:/etc/gripperd/mqtt-password\nWatchdogSec=2\n",
        )
        made.run("useradd", "--groups", "gripperd", "alice")
        made.run("useradd", "bob")
        made.run("systemctl", "daemon-reload")
        made.run("systemctl", "enable", "--now", "gripperd.service")
        yield made


def show(machine: Machine, name: str, unit: str = "gripperd.service") -> str:
    return machine.out("systemctl", "show", "--value", f"--property={name}", unit)


def as_operator(machine: Machine, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return machine.run("runuser", "-u", "alice", "--", "gripperctl", *command, check=check)


def state(machine: Machine) -> dict[str, Any]:
    answer = as_operator(machine, "--json", "state", check=False)
    found: dict[str, Any] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return found


def sim(machine: Machine, op: str, **params: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(machine.out("python3", "/opt/sim_call.py", op, json.dumps(params)))
    return answer


def writes(machine: Machine) -> int:
    return len([each for each in sim(machine, "log", limit=100_000)["events"] if each["kind"] == "write"])


def journal(machine: Machine, *match: str) -> list[dict[str, Any]]:
    lines = machine.out("journalctl", "-o", "json", "--no-pager", *match).splitlines()
    return [json.loads(line) for line in lines]


def restarted(machine: Machine, before: str) -> str:
    def look() -> str:
        pid = show(machine, "MainPID")
        return pid if pid not in (before, "0") and show(machine, "ActiveState") == "active" else ""

    return machine.wait_for(look, "restart", 30.0)


def test_the_service_is_active_when_its_sockets_answer(machine: Machine) -> None:
    assert show(machine, "ActiveState") == "active"
    assert show(machine, "StatusText") == "1 gripper on /run/gripperd/gripperd.sock"
    assert machine.out("stat", "-c", "%U %G %a", "/run/gripperd/gripperd.sock") == "gripperd gripperd 660"


def test_a_grip_over_the_socket_and_who_may(machine: Machine) -> None:
    as_operator(machine, "activate")
    as_operator(machine, "open")
    sim(machine, "put_object", width_m=0.04)
    as_operator(machine, "grip", "--expect-width", "0.04")
    assert state(machine)["grasp_state"] == 2
    refused = machine.run("runuser", "-u", "bob", "--", "gripperctl", "state", check=False)
    assert refused.returncode == 4
    assert "ermission" in refused.stderr


def test_the_process_has_no_rights_that_it_does_not_need(machine: Machine) -> None:
    status = dict(
        line.split(":\t", 1) for line in machine.out("cat", f"/proc/{show(machine, 'MainPID')}/status").splitlines()
    )
    assert status["Uid"].split()[0] == machine.out("id", "-u", "gripperd")
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_the_journal_has_the_fields_of_each_event(machine: Machine) -> None:
    [entry] = journal(machine, "GRIPPERD_EVENT=link_up", "GRIPPER=left")[:1]
    assert entry["PRIORITY"] == "6"
    assert entry["SYSLOG_IDENTIFIER"] == "gripperd"
    assert entry["_SYSTEMD_UNIT"] == "gripperd.service"
    assert "activation" in entry["MESSAGE"]
    assert journal(machine, "GRIPPERD_EVENT=mqtt_down", "PRIORITY=4"), "no broker here: told, and nothing else suffers"


def test_no_secret_is_told(machine: Machine) -> None:
    """Neither in the journal nor in any process's arguments or environment."""
    everything = machine.out("journalctl", "--no-pager", "-o", "json", "-u", "gripperd")
    everything += machine.out("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'")
    everything += machine.out("systemctl", "show", "gripperd.service")
    assert SECRET not in everything


def test_a_hung_daemon_is_restarted_by_the_watchdog_and_adopts_the_grip(machine: Machine) -> None:
    before, commands = show(machine, "MainPID"), writes(machine)
    machine.run("systemctl", "kill", "--signal=STOP", "gripperd.service")
    restarted(machine, before)
    machine.wait_for(lambda: state(machine).get("grasp_state") == 2, "adopted grip")
    assert writes(machine) == commands
    assert any("Watchdog timeout" in each["MESSAGE"] for each in journal(machine, "UNIT=gripperd.service"))


def test_a_killed_daemon_is_back_at_once_and_adopts_the_grip(machine: Machine) -> None:
    before, commands = show(machine, "MainPID"), writes(machine)
    began_s = time.monotonic()
    machine.run("systemctl", "kill", "--signal=KILL", "gripperd.service")
    restarted(machine, before)
    machine.wait_for(lambda: state(machine).get("grasp_state") == 2, "adopted grip")
    assert time.monotonic() - began_s < 15.0
    assert writes(machine) == commands


def test_a_reload_takes_a_good_configuration_and_refuses_a_bad_one(machine: Machine) -> None:
    pid, commands = show(machine, "MainPID"), writes(machine)
    machine.write("/etc/gripperd/gripperd.toml", CONFIG.format(rate=20.0))
    machine.run("systemctl", "reload", "gripperd.service")
    [entry] = machine.wait_for(lambda: journal(machine, "GRIPPERD_EVENT=reloaded"), "reload")
    assert "gripper left" in entry["ENDED"]
    machine.write("/etc/gripperd/gripperd.toml", CONFIG.format(rate='"fast"'))
    machine.run("systemctl", "reload", "gripperd.service")
    [entry] = machine.wait_for(lambda: journal(machine, "GRIPPERD_EVENT=reload_refused"), "refusal")
    assert "poll_rate_hz" in entry["PROBLEMS"]
    assert "reload refused" in show(machine, "StatusText")
    assert (show(machine, "MainPID"), show(machine, "ActiveState")) == (pid, "active")
    machine.wait_for(lambda: state(machine).get("grasp_state") == 2, "grip")
    assert writes(machine) == commands
    machine.write("/etc/gripperd/gripperd.toml", CONFIG.format(rate=50.0))
    machine.run("systemctl", "reload", "gripperd.service")


def test_the_doctor_finds_nothing_but_the_broker(machine: Machine) -> None:
    examined = machine.run("gripperd", "doctor", "--json", "--stop", check=False)
    findings = [json.loads(line) for line in examined.stdout.splitlines()]
    levels = {(each["about"], each["level"]) for each in findings}
    assert ("configuration", "ok") in levels
    assert ("bus tool0", "failed") not in levels, findings
    assert ("broker", "skipped") in levels, "its password is the service's alone"
    assert ("daemon", "ok") in levels
    assert any("a stop was acknowledged after" in each["text"] for each in findings), findings


def test_a_stop_of_the_service_is_clean_and_the_socket_starts_it_again(machine: Machine) -> None:
    commands = writes(machine)
    began_s = time.monotonic()
    machine.run("systemctl", "stop", "gripperd.service")
    assert time.monotonic() - began_s < 5.0
    assert (show(machine, "ActiveState"), show(machine, "Result")) == ("inactive", "success")
    assert writes(machine) == commands, "it holds what it held"
    assert show(machine, "ActiveState", "gripperd.socket") == "active"
    machine.wait_for(lambda: state(machine).get("link") == "up", "service behind its socket")
    assert show(machine, "ActiveState") == "active"


def test_a_configuration_that_cannot_be_used_is_not_tried_again_and_again(machine: Machine) -> None:
    machine.run("systemctl", "stop", "gripperd.socket", "gripperd.service")
    machine.write("/etc/gripperd/gripperd.toml", "[[gripper]]\nname = 'left'\ndriver = 'rg57'\n")
    machine.run("systemctl", "start", "gripperd.service", check=False)
    assert (show(machine, "ActiveState"), show(machine, "ExecMainStatus")) == ("failed", "2")
    assert "did you mean 'rg75'" in machine.out("journalctl", "--no-pager", "-u", "gripperd", "-n", "20")
    machine.run("systemctl", "reset-failed", "gripperd.service")


def test_udev_understands_the_rules(machine: Machine) -> None:
    tested = machine.run("udevadm", "test", "--action=add", "/sys/class/tty/tty0", check=False)
    told = [line for line in (tested.stdout + tested.stderr).splitlines() if "71-gripperd" in line]
    assert any("Reading rules file" in line for line in told), tested.stdout + tested.stderr
    assert not [line for line in told if "Reading rules file" not in line], told


def test_the_package_goes_and_leaves_the_configuration_unless_it_is_purged(machine: Machine) -> None:
    machine.run("dpkg", "--remove", "gripperd", limit_s=120)
    assert (
        show(machine, "LoadState") in ("not-found", "masked", "bad-setting", "error")
        or not (machine.root / "usr/lib/systemd/system/gripperd.service").exists()
    )
    assert not (machine.root / "usr/lib/gripperd").exists()
    assert (machine.root / "etc/gripperd/gripperd.toml").exists()
    machine.run("dpkg", "--purge", "gripperd", limit_s=120)
    assert not (machine.root / "etc/gripperd").exists()


def test_the_two_commands_of_the_readme_do_all_the_set_up(roots: tuple[Path, Path]) -> None:
    """On a Debian with nothing but Python, in a checkout that nobody has touched. The tests are a part of all of them:
    the whole suite is what runs outside of here.
    """
    root = roots[1]
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(root / "opt/checkout")],
        check=True,
        timeout=60,
    )
    demo = run_in(root, "./run", "demo", "--once", network=True, folder="/opt/checkout", limit_s=300)
    assert "11 of 11 steps as expected" in demo.stdout
    test = run_in(root, "./run", "test", "tests/contract", "-q", network=True, folder="/opt/checkout", limit_s=300)
    assert "pytest ok" in test.stdout
