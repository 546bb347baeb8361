"""gripperctl where things go wrong: one line that says what to do, the documented exit code, and never a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gripperd import ctl
from tests.client.fake_server import STATE, Answer, FakeServer, fake_server

LIMIT_S = 20.0
COMMAND = (sys.executable, "-m", "gripperd.ctl")
REPLY = {"ok": True, "message": "acknowledged", "code": "accepted", "gripper": "left", "command_seq": 7}
ENTRY = {"driver": "rg75", "model": "M", "link": "up", "activation": "active"}


def two_grippers(server: FakeServer, request: dict[str, Any]) -> None:
    """A daemon with two grippers; no command ever ends, and every subscription tells three states."""
    verb = request["method"].removeprefix("gripper.")
    if verb == "client.hello":
        server.result(request, {"client": 1})
    elif verb == "list":
        server.result(request, {"grippers": [ENTRY | {"name": name} for name in ("left", "right")]})
    elif verb == "info":
        server.result(request, {"name": request["params"]["gripper"], "driver": "rg75", "model": "M"})
    elif verb == "subscribe":
        server.result(request, {"subscription": request["id"]})
        for seq in range(3):
            state = STATE | {"gripper": request["params"]["gripper"], "seq": seq}
            server.notify("gripper.state", subscription=request["id"], state=state, dropped=0)
    elif verb == "stop" and "gripper" not in request["params"]:
        server.result(request, {"ok": True, "message": "", "replies": [REPLY, REPLY | {"gripper": "right"}]})
    elif verb == "wait" and request["params"]["timeout_s"] < 1.0:
        server.result(request, {"done": False, "outcome": None})
    elif verb in ("open", "stop", "unsubscribe"):
        server.result(request, REPLY)


@contextlib.asynccontextmanager
async def running(folder: Path, answer: Answer, *arguments: str) -> AsyncIterator[tuple[Any, FakeServer]]:
    """gripperctl as a process, against a server that answers with this function."""
    async with fake_server(folder / "s", answer) as server:
        child = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "GRIPPERD_SOCKET": str(folder / "s")},
        )
        try:
            yield child, server
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def told(child: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Exit code, standard output, standard error."""
    out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    assert b"Traceback" not in err, err.decode()
    return child.returncode, out.decode(), err.decode()


async def test_a_daemon_that_dies_under_a_watch_is_one_line(tmp_path: Path) -> None:
    subscriptions = []

    def dying(server: FakeServer, request: dict[str, Any]) -> None:
        two_grippers(server, request)
        if request["method"] == "gripper.subscribe":
            subscriptions.append(request)
            if len(subscriptions) == 2:
                server.end_politely()

    async with running(tmp_path, dying, "watch") as (child, _):
        code, out, err = await told(child)
    assert code == 4
    assert len(out.splitlines()) == 6
    assert err == f"gripperctl: the daemon closed the connection to {tmp_path}/s\n"


async def test_a_pipe_that_closes_ends_a_watch_quietly(tmp_path: Path) -> None:
    def endless(server: FakeServer, request: dict[str, Any]) -> None:
        two_grippers(server, request)
        if request["method"] == "gripper.subscribe":
            for seq in range(3, 20_000):  # more than a pipe holds
                server.notify("gripper.state", subscription=request["id"], state=STATE | {"seq": seq}, dropped=0)

    async with fake_server(tmp_path / "s", endless):
        shell = f"{sys.executable} -m gripperd.ctl --socket {tmp_path}/s watch | head -n 1"
        child = await asyncio.create_subprocess_shell(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, out, err = await told(child)
    assert out.startswith("left #0 ")
    assert err == ""


@pytest.mark.parametrize("arguments", [(), ("--gripper", "left")], ids=["all", "one named"])
async def test_a_stop_of_all_that_was_not_asked_for_by_name_says_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async with running(tmp_path, two_grippers, *arguments, "stop") as (child, _):
        code, out, err = await told(child)
    assert code == 0
    assert len(out.splitlines()) == (1 if arguments else 2)
    assert err == ("" if arguments else "gripperctl: no --gripper given: all 2 were told to stop\n")


async def test_stop_all_needs_no_remark(tmp_path: Path) -> None:
    async with running(tmp_path, two_grippers, "--gripper", "left", "stop", "--all") as (child, server):
        assert (await told(child))[::2] == (0, "")
    assert server.requests[0]["params"] == {}


async def test_no_outcome_in_time_says_how_to_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, two_grippers, "--gripper", "left", "open", "--wait", "--timeout", "0.05") as (
        child,
        _,
    ):
        code, _, err = await told(child)
    assert code == 5
    assert "`gripperctl --gripper left wait 7` waits again, `gripperctl stop` halts it" in err


async def test_not_confirmed_is_refused_and_names_what_can_be_waited_for(tmp_path: Path) -> None:
    def silent(server: FakeServer, request: dict[str, Any]) -> None:
        if request["method"] == "client.hello":
            server.result(request, {"client": 1})
        else:
            server.result(request, REPLY | {"ok": False, "code": "not_confirmed", "message": "no acknowledgement"})

    async with running(tmp_path, silent, "open") as (child, _):
        code, _, err = await told(child)
    assert code == 3
    assert "not_confirmed: no acknowledgement; `gripperctl --gripper left wait 7`" in err


async def test_an_answer_of_another_contract_is_one_line(tmp_path: Path) -> None:
    async with running(tmp_path, lambda server, request: server.result(request, {"x": 1}), "state") as (child, _):
        code, _, err = await told(child)
    assert code == 4
    assert err.startswith("gripperctl: the daemon's GripperState does not fit contract 1")
    assert err.count("\n") == 1


async def test_an_interrupted_wait_leaves_the_motion_and_says_how_to_halt_it(tmp_path: Path) -> None:
    async with running(tmp_path, two_grippers, "--gripper", "left", "open") as (child, server):
        await server.received(3)
        assert server.requests[2]["method"] == "gripper.wait"
        child.send_signal(signal.SIGINT)
        code, _, err = await told(child)
        assert [request["method"] for request in server.requests][1:] == ["gripper.open", "gripper.wait"]
    assert code == 130
    assert "the gripper goes on: `gripperctl stop` halts it" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "--rate", "-1"),
        ("watch", "--rate", "nan"),
        ("watch", "--count", "-1"),
        ("watch", "--count", "1.5"),
        ("open", "--timeout", "inf"),
        ("wait", "7", "--timeout", "soon"),
    ],
    ids=" ".join,
)
def test_a_number_that_is_not_possible_is_a_usage_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ctl.main(arguments)
    assert ended.value.code == 2
    assert f"argument {arguments[-2]}: '{arguments[-1]}' is not possible: give a" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["list", "info", "stats", "deactivate", "clear-fault", "release"])
def test_the_help_of_the_other_verbs_works(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ctl.main([verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: gripperctl {verb}" in capsys.readouterr().out
