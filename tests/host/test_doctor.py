"""gripperd doctor: a finding for each thing that can be wrong, with its remedy; real ports, daemon and broker."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import serial

from gripperd.config import BusConfig, MqttConfig
from gripperd.host import doctor
from gripperd.host.doctor import Finding, Level, examine, examine_broker, examine_clock, examine_port
from gripperd.modbus.adapter import latency_ms, latency_remedy
from gripperd.modbus.line import port_holder
from gripperd_sim.control import AsyncControlClient
from tests.e2e.processes import daemon, free_port, mosquitto, simulator, soon, write_config


def bus(port: Path | str) -> BusConfig:
    return BusConfig(name="tool0", port=str(port))


def one(findings: list[Finding], text: str) -> Finding:
    [found] = [each for each in findings if text in each.text]
    return found


@pytest.fixture
async def port() -> AsyncIterator[str]:
    ours, theirs = pty.openpty()
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def test_a_port_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    [found] = examine_port(bus(tmp_path / "none"), None)
    assert (found.level, "plug the adapter in" in found.remedy) == (Level.FAILED, True)


def test_a_port_that_another_process_holds_is_told_with_its_name(port: str) -> None:
    """DIAG 85, LOCK 152: before the daemon is started."""
    program = (
        f"import serial, time; s = serial.Serial({port!r}, exclusive=True); print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert port_holder(port) == holder.pid
            found = one(list(examine_port(bus(port), None)), "held by process")
            assert (found.level, found.text.endswith(f"{holder.pid} (python)")) == (Level.FAILED, True)
            assert one(list(examine_port(bus(port), holder.pid)), "held by the daemon").level is Level.OK
        finally:
            holder.kill()


def test_a_port_that_is_open_without_a_lock_is_found_too(port: str) -> None:
    program = f"import os, time; os.open({port!r}, os.O_RDWR | os.O_NOCTTY); print('open', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert port_holder(port) == holder.pid
        finally:
            holder.kill()
    assert port_holder(port) is None


def test_a_name_that_changes_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HOTPLUG 127."""
    (tmp_path / "ttyUSB0").touch()
    found = one(list(examine_port(bus(tmp_path / "ttyUSB0"), None)), "another adapter after a replug")
    assert (found.level, "/dev/gripper" in found.remedy) == (Level.WARNING, True)
    (tmp_path / "tool0").symlink_to(tmp_path / "ttyUSB0")
    assert not [each for each in examine_port(bus(tmp_path / "tool0"), None) if "replug" in each.text]


def sysfs(tmp_path: Path, content: str) -> Path:
    folder = tmp_path / "sys" / "ttyUSB0" / "device"
    folder.mkdir(parents=True)
    (folder / "latency_timer").write_text(content)
    (tmp_path / "ttyUSB0").touch()
    return tmp_path / "sys"


@pytest.mark.parametrize(("content", "found_ms", "told"), [("16\n", 16, True), ("1\n", 1, False), ("x", None, False)])
def test_a_latency_timer_that_is_too_long_is_told_with_the_file_to_write(
    tmp_path: Path, content: str, found_ms: int | None, told: bool
) -> None:
    """RATE 149: by the adapter's real name, also if the configured one is a link."""
    sys_tty = sysfs(tmp_path, content)
    (tmp_path / "tool0").symlink_to(tmp_path / "ttyUSB0")
    port = str(tmp_path / "tool0")
    assert latency_ms(port, sys_tty) == found_ms
    remedy = latency_remedy(port, sys_tty)
    assert bool(remedy) is told
    assert not told or f"echo 1 | sudo tee {sys_tty}/ttyUSB0/device/latency_timer" in remedy


def test_a_port_asks_its_adapter_for_low_latency(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    from gripperd.modbus import line

    asked: list[bool] = []
    monkeypatch.setattr(serial.Serial, "set_low_latency_mode", lambda self, on: asked.append(on))
    line._open_port(line.SerialSettings(port)).close()
    assert asked == [True]

    def refuse(self: object, on: bool) -> None:
        raise ValueError("Failed to update ASYNC_LOW_LATENCY flag")

    monkeypatch.setattr(serial.Serial, "set_low_latency_mode", refuse)
    line._open_port(line.SerialSettings(port)).close()


async def test_a_broker_that_takes_us_and_one_that_does_not(tmp_path: Path) -> None:
    number = free_port()
    assert (await examine_broker(MqttConfig(host="127.0.0.1", port=number))).level is Level.FAILED
    async with mosquitto(tmp_path, number):
        assert (await examine_broker(MqttConfig(host="127.0.0.1", port=number))).level is Level.OK
    (tmp_path / "nobody").mkdir()
    (tmp_path / "passwords").touch()
    number = free_port()
    async with mosquitto(tmp_path / "nobody", number, f"password_file {tmp_path}/passwords\n"):
        found = await examine_broker(MqttConfig(host="127.0.0.1", port=number))
        assert (found.level, "user and password" in found.remedy) == (Level.FAILED, True)


async def test_a_credential_of_the_service_is_not_ours_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    found = await examine_broker(MqttConfig(username="gripperd", password_credential="mqtt"))
    assert (found.level, "journalctl" in found.remedy) == (Level.SKIPPED, True)


@pytest.mark.parametrize(
    ("answer", "level"), [("yes", Level.OK), ("no", Level.WARNING), (None, Level.SKIPPED), ("?", Level.SKIPPED)]
)
async def test_a_clock(monkeypatch: pytest.MonkeyPatch, answer: str | None, level: Level) -> None:
    async def output(*command: str) -> str | None:
        return answer

    monkeypatch.setattr(doctor, "_output", output)
    assert (await examine_clock()).level is level


async def test_a_tool_that_hangs_or_fails_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ASK_LIMIT_S", 0.1)
    assert await doctor._output("sleep", "60") is None
    assert await doctor._output("false") is None
    assert await doctor._output("gripperd-no-such-tool") is None


async def findings(config: Path, stop: bool = False) -> list[Finding]:
    return [each async for each in examine(config, stop)]


async def test_a_configuration_with_faults_is_told_with_all_of_them(tmp_path: Path) -> None:
    """DIAG 88."""
    config = tmp_path / "gripperd.toml"
    config.write_text('[[bus]]\nname = "a"\n[[gripper]]\nname = "x"\ndriver = "rg57"\n')
    found = await findings(config)
    assert [each.level for each in found] == [Level.FAILED] * 2
    assert any("did you mean 'rg75'" in each.text for each in found)


async def test_the_whole_way_to_a_gripper(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("g")
    config = write_config(folder)
    found = await findings(config)
    assert one(found, "does not exist").level is Level.FAILED
    assert one(found, "g.sock").level is Level.FAILED, "no daemon yet"
    async with simulator(folder), daemon(folder, config):

        async def healthy() -> bool:
            return not [each for each in await findings(config) if each.level is Level.FAILED]

        await soon(healthy, "health")
        found = await findings(config)
        assert one(found, "held by the daemon").level is Level.OK
        assert one(found, "activate MOVES THE JAWS").level is Level.OK
        assert one(found, "stop path not tried").level is Level.SKIPPED
        found = await findings(config, stop=True)
        assert one(found, "a stop was acknowledged after").level is Level.OK
        async with await AsyncControlClient.connect(folder / "sim.sock") as sim:
            assert "write" not in {each["kind"] for each in (await sim.call("log"))["events"]}, "it was inactive"
            await sim.call("unplug")

            async def ill() -> bool:
                return any("does not answer" in each.text for each in await findings(config))

            await soon(ill, "finding")


async def test_the_program(tmp_path: Path) -> None:
    config = tmp_path / "gripperd.toml"
    config.write_text(
        f'[daemon]\nsocket = "{tmp_path}/g.sock"\n[[gripper]]\nname = "hand"\ndriver = "franka_hand"\n'
        'address = "127.0.0.1"\n'
    )
    command = (sys.executable, "-m", "gripperd", "doctor", "--config", str(config))
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await asyncio.wait_for(child.communicate(), 30.0)
    assert child.returncode == 1
    lines = out.decode().splitlines()
    assert lines[0].startswith("ok       configuration:")
    assert any(line.startswith("FAILED   daemon:") for line in lines)
    assert any(line.strip().startswith("-> systemctl status gripperd") for line in lines)
    child = await asyncio.create_subprocess_exec(*command, "--json", stdout=subprocess.PIPE)
    out, _ = await asyncio.wait_for(child.communicate(), 30.0)
    assert {json.loads(line)["level"] for line in out.decode().splitlines()} >= {"ok", "failed"}


def test_a_terminal_is_left_as_it_was(port: str) -> None:
    """It opens no port: settings that somebody else made stay."""
    number = os.open(port, os.O_RDWR | os.O_NOCTTY)
    try:
        before = termios.tcgetattr(number)
        list(examine_port(bus(port), None))
        assert termios.tcgetattr(number) == before
    finally:
        os.close(number)
