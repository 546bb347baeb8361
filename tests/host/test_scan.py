"""gripperd scan against simulated units on a real pty: who answers, what it is, and that nothing is ever written."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pymodbus.framer.rtu import FramerRTU

from gripperd.config import parse_config
from gripperd.drivers.registry import driver_specs
from gripperd.host.scan import Found, Kind, configuration, identify, scan_port
from gripperd_sim.control import AsyncControlClient
from gripperd_sim.rg75 import Rg75
from tests.e2e.processes import simulator
from tests.support.sim_line import SimLine
from tests.support.virtual_time import START_S, VirtualClock, run_virtual


@pytest.mark.parametrize(
    ("registers", "kind"),
    [
        ((0x00F1, 0x8000, 0x4020), Kind.JODELL),
        ((0x0031, 0x0001, 0x0000), Kind.JODELL),
        ((0xF900, 0x00FF, 0xE600), Kind.ROBOTIQ),
        ((0x3100, 0x0000, 0x0300), Kind.ROBOTIQ),
        ((0x0000, 0x0000, 0x0000), Kind.NOT_ENABLED),
        ((0x0000, 0x0001, 0x0000), Kind.NOT_ENABLED),
        ((0x1234, 0x0000, 0x0000), Kind.OTHER),
        ((0x00F1,), Kind.OTHER),
        ((), Kind.OTHER),
    ],
)
def test_a_status_word_tells_a_jodell_from_a_robotiq_or_that_it_cannot(registers: tuple[int, ...], kind: Kind) -> None:
    assert identify(registers) is kind


class Robotiq:
    """As much of one as answers a read: the status stands in the high byte."""

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        if frame[1] not in (3, 4):
            raise AssertionError(f"something was written: {frame.hex()}")
        body = bytes((frame[0], frame[1], 6)) + bytes.fromhex("310000000300")
        return body + FramerRTU.compute_CRC(body).to_bytes(2, "big")


def scanned(line: SimLine, units: range) -> tuple[list[Found], list[str]]:
    told: list[str] = []

    async def play() -> list[Found]:
        scan = scan_port("sim", (115200, 9600), units, lambda port, baudrate: line, VirtualClock(), told.append)
        return [each async for each in scan]

    return run_virtual(play()), told


def test_units_are_found_by_reads_alone_and_the_first_rate_that_answers_is_the_lines() -> None:
    line = SimLine({9: Rg75(now_s=START_S, unit=9), 11: Robotiq()})
    found, told = scanned(line, range(8, 13))
    assert [(each.unit, each.kind, each.baudrate) for each in found] == [
        (9, Kind.NOT_ENABLED, 115200),
        (11, Kind.ROBOTIQ, 115200),
    ]
    assert {each.frame[1] for each in line.seen} <= {3, 4}
    assert all("9600" not in each for each in told)
    text = configuration(found)
    assert "# unit = 9" in text
    assert "unit = 11" not in text, "what gripperd cannot drive is not offered"


def test_silence_ends_at_every_rate_and_a_device_that_knows_function_04_only_is_found() -> None:
    found, told = scanned(SimLine({}), range(9, 11))
    assert found == []
    assert told == [f"sim at {rate}: unit {unit}" for rate in (115200, 9600) for unit in (9, 10)]


def test_the_configuration_that_is_printed_is_good() -> None:
    found = [
        Found("/dev/a", 115200, 9, (0x31, 0, 0), Kind.JODELL),
        Found("/dev/a", 115200, 10, (0x31, 0, 0), Kind.JODELL),
        Found("/dev/b", 9600, 9, (0x31, 0, 0), Kind.JODELL),
    ]
    config = parse_config(tomllib.loads(configuration(found)), driver_specs())
    assert [bus.port for bus in config.bus] == ["/dev/a", "/dev/b"]
    assert [each.name for each in config.gripper] == ["tool0_9", "tool0_10", "tool1_9"]


async def _scan(*arguments: str) -> tuple[int | None, str, str]:
    command = (sys.executable, "-m", "gripperd", "scan", *arguments)
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await asyncio.wait_for(child.communicate(), 30.0)
    return child.returncode, out.decode(), err.decode()


async def test_the_program_on_a_pty(tmp_path: Path) -> None:
    async with simulator(tmp_path):
        port = str(tmp_path / "tool0")
        code, out, err = await _scan("--port", port, "--baudrate", "115200", "--units", "8-10")
        assert code == 0, err
        assert f"{port} at 115200, unit 9: 0000" in out
        code, out, err = await _scan("--json", "--port", port, "--baudrate", "115200", "--units", "9")
        assert json.loads(out)["kind"] == "not_enabled"
        code, out, err = await _scan("--port", port, "--baudrate", "115200", "--units", "3")
        assert (code, out) == (1, "")
        assert "nobody answers" in err
        async with await AsyncControlClient.connect(tmp_path / "sim.sock") as sim:
            log = await sim.call("log")
            assert "write" not in {each["kind"] for each in log["events"]}
    code, _, err = await _scan("--port", str(tmp_path / "none"), "--units", "9")
    assert code == 1
    assert "does not exist" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("units", ["0", "9-3", "1-300", "x", ""])
async def test_units_that_are_not_possible(units: str) -> None:
    code, _, err = await _scan("--units", units)
    assert code == 2
    assert "give 1-247" in err
