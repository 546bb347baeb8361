"""The programs as a person or a script meets them: help, exit codes, one clear line for each error."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gripperd import cli, ctl
from tests.client.fake_server import STATE, FakeServer, fake_server
from tests.e2e.processes import daemon, eventually, write_config

REPLY = {"ok": True, "message": "acknowledged", "code": "accepted", "gripper": "left", "command_seq": 7}


async def _ctl(*arguments: str) -> tuple[int, str, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gripperd.ctl", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(child.communicate(), 20.0)
    assert child.returncode is not None
    return child.returncode, out.decode(), err.decode()


def _answers(outcome: str = "reached", **changed: object) -> Any:
    def answer(server: FakeServer, request: dict[str, Any]) -> None:
        verb = request["method"].removeprefix("gripper.")
        told = {
            "gripper": "left",
            "command_seq": 7,
            "verb": "grip" if outcome in ("contact", "closed_empty") else "open",
            "outcome": outcome,
            "message": "",
            "opening_width_valid": True,
            "opening_width_m": 0.03,
            "grasp_state": 2,
            "stamp": {"sec": 1, "nanosec": 0},
        }
        if verb == "client.hello":
            server.result(request, {"client": 1})
        elif verb == "wait":
            done = outcome != "none"
            server.result(request, {"done": done, "outcome": told if done else None})
        elif verb == "state":
            server.result(request, STATE)
        elif verb == "list":
            entry = {"name": "left", "driver": "rg75", "model": "M", "link": "up", "activation": "active"}
            server.result(request, {"grippers": [entry]})
        elif verb == "info":
            server.result(request, {"name": "left", "driver": "rg75", "model": "M"})
        elif verb == "daemon.statistics":
            server.result(request, {"bus": {"tool0": {"transactions": 3}}})
        elif verb == "subscribe":
            server.result(request, {"subscription": 1})
            for seq in range(5):
                server.notify("gripper.state", subscription=1, state=STATE | {"seq": seq}, dropped=0)
        elif verb == "stop":
            server.result(request, REPLY | {"replies": [REPLY]})
        else:
            server.result(request, REPLY | changed)

    return answer


@pytest.mark.parametrize(
    ("arguments", "outcome", "code"),
    [
        (["open"], "reached", 0),
        (["grip"], "contact", 0),
        (["grip"], "closed_empty", 1),
        (["open"], "stalled", 1),
        (["move", "0.03", "--speed", "0.2"], "reached", 0),
        (["open", "--no-wait"], "none", 0),
        (["open", "--timeout", "0.05"], "none", 5),
        (["wait", "7"], "reached", 0),
        (["state"], "", 0),
        (["list"], "", 0),
        (["info"], "", 0),
        (["stats"], "", 0),
        (["stop"], "", 0),
        (["watch", "--count", "3"], "", 0),
        (["move"], "", 2),
        (["move", "wide"], "", 2),
        (["jump"], "", 2),
        (["move", "nan"], "", 2),
    ],
)
async def test_gripperctl_exits_with_the_documented_code(
    tmp_path: Path, arguments: list[str], outcome: str, code: int
) -> None:
    async with fake_server(tmp_path / "s", _answers(outcome)):
        told, out, err = await _ctl("--socket", str(tmp_path / "s"), *arguments)
        assert told == code, err
        assert "Traceback" not in err
        assert out or code in (2, 5)


async def test_a_refusal_is_printed_with_its_code_and_reason(tmp_path: Path) -> None:
    answer = _answers(ok=False, code="not_active", message="activate it first", command_seq=0)
    async with fake_server(tmp_path / "s", answer):
        code, out, err = await _ctl("--socket", str(tmp_path / "s"), "--json", "open")
        assert code == 3
        assert "not_active: activate it first" in err
        assert json.loads(out)["code"] == "not_active"


async def test_no_daemon_is_exit_code_4(tmp_path: Path) -> None:
    code, out, err = await _ctl("--socket", str(tmp_path / "none"), "state")
    assert (code, out) == (4, "")
    assert "start gripperd" in err


async def test_json_is_one_message_of_the_contract_a_line(tmp_path: Path) -> None:
    async with fake_server(tmp_path / "s", _answers("contact")):
        path = str(tmp_path / "s")
        _, out, _ = await _ctl("--socket", path, "--json", "watch", "--count", "3")
        assert [json.loads(line)["seq"] for line in out.splitlines()] == [0, 1, 2]
        _, out, err = await _ctl("--socket", path, "--json", "grip")
        assert json.loads(out)["outcome"] == "contact"
        assert err == ""
        _, out, _ = await _ctl("--socket", path, "--json", "stats")
        assert json.loads(out)["bus"]["tool0"]["transactions"] == 3


@pytest.mark.parametrize("verb", ["", "move", "grip", "open", "stop", "watch", "wait", "activate", "state"])
def test_every_help_of_gripperctl_works(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ctl.main([verb, "--help"] if verb else ["--help"])
    assert ended.value.code == 0
    assert "usage: gripperctl" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["", "run", "check-config", "demo"])
def test_every_help_of_gripperd_works(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, "--help"] if verb else ["--help"])
    assert ended.value.code == 0
    assert "usage: gripperd" in capsys.readouterr().out


def test_check_config_says_what_is_good_and_what_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_config(tmp_path, gripper="activate_on_start = true")
    assert cli.main(["check-config", str(good)]) == 0
    assert "MOVES THE JAWS" in capsys.readouterr().out
    assert cli.main(["check-config", str(write_config(tmp_path, gripper="unitt = 3"))]) == 2
    assert "did you mean 'unit'" in capsys.readouterr().err
    assert cli.main(["run", "--config", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_name_that_changes_at_replug_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HOTPLUG 127."""
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace(f"{tmp_path}/tool0", "/dev/ttyUSB0"))
    assert cli.main(["check-config", str(path)]) == 0
    assert "/dev/serial/by-id" in capsys.readouterr().out


async def test_a_socket_that_cannot_be_opened_ends_the_daemon_with_one_line(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("g.sock", "no/g.sock"))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gripperd", "run", "--config", str(path), stderr=subprocess.PIPE
    )
    _, err = await asyncio.wait_for(child.communicate(), 20.0)
    assert child.returncode == 1
    assert b"Traceback" not in err
    assert b"does not exist; create" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_daemon_lives_without_its_device_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    async with daemon(tmp_path, write_config(tmp_path)) as running:
        await eventually(lambda: "port_not_open" in running.output(), "report")
        code, out, _ = await _ctl("--socket", str(tmp_path / "g.sock"), "--json", "state")
        assert code == 0
        assert json.loads(out)["link"] == "down"
        code, _, err = await _ctl("--socket", str(tmp_path / "g.sock"), "open")
        assert code == 3
        assert "link_down" in err
        assert await running.end(number) == 0
        assert "Traceback" not in running.output()
    assert not (tmp_path / "g.sock").exists()
