"""record and plot against a real daemon, read back with the library of the format's makers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcap.exceptions import EndOfFile
from mcap.reader import make_reader
from mcap.records import Message
from mcap.stream_reader import StreamReader

from gripperd.client import Client
from gripperd.contract import Event, GripperState
from gripperd.ctl.plotting import read_recording
from gripperd_sim.jaw import GraspObject
from tests.support.daemon_bench import Bench, bench, until

LIMIT_S = 20.0


@dataclass
class Told:
    code: int | None
    out: str
    err: str


async def ctl(b: Bench, *arguments: str) -> Told:
    async with running(b, *arguments) as child:
        return await ended(child)


@contextlib.asynccontextmanager
async def running(b: Bench, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gripperd.ctl", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GRIPPERD_SOCKET": str(b.path)},
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def ended(child: asyncio.subprocess.Process) -> Told:
    out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    assert b"Traceback" not in err, err.decode()
    return Told(child.returncode, out.decode(), err.decode())


def listeners(b: Bench) -> int:
    return b.daemon.socket.fan_out.subscriptions


def content(path: Path) -> list[tuple[str, dict[str, Any], int, int]]:
    """(topic, message, log time, publish time), each checked against the schema in the file."""
    found = []
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages(log_time_order=False):
            assert schema is not None
            assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
            told = json.loads(message.data)
            jsonschema.validate(told, json.loads(schema.data))
            found.append((channel.topic, told, message.log_time, message.publish_time))
    return found


async def test_every_state_and_event_is_in_the_file_with_its_times(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    async with bench(tmp_path) as b:
        sent: list[GripperState] = []
        async with running(b, "record", str(path)) as child:
            await until(lambda: listeners(b) == 1)
            b.daemon.store.subscribe(["left"], [Event.STATE], lambda event, item, name: sent.append(item))  # type: ignore[arg-type]
            peer = await b.peer()
            assert await peer.outcome("activate") == "reached"
            assert await peer.outcome("open", relative_speed=1) == "reached"
            b.devices[9].put_object(GraspObject(0.03), asyncio.get_running_loop().time())
            assert await peer.outcome("grip") == "contact"
            b.line.unplug()
            await until(lambda: b.daemon.crew.grippers["left"].link == "down")
            last = len(sent)
            await until(lambda: len(sent) > last)
            child.send_signal(signal.SIGINT)
            told = await ended(child)
        assert told.code == 0, told.err
        found = content(path)
        told_states = [each for topic, each, _, _ in found if topic == "/left/state"]
        states = [GripperState.model_validate(each, strict=False) for each in told_states]
        assert [each.seq for each in states] == list(range(states[0].seq, states[-1].seq + 1)), "no gap"
        recorded = {each.seq: each for each in states}
        assert all(recorded[each.seq] == each for each in sent[: last - 1])
        outcomes = [each["outcome"] for topic, each, _, _ in found if topic == "/left/outcome"]
        assert outcomes == ["reached", "reached", "contact"]
        assert {"gripper": "left", "link": "down"} in [each for topic, each, _, _ in found if topic == "/left/link"]
        for topic, each, log_ns, publish_ns in found:
            stamp_ns = each.get("stamp", {}).get("sec", 0) * 10**9 + each.get("stamp", {}).get("nanosec", 0)
            assert log_ns == (stamp_ns or publish_ns), topic
            assert log_ns <= publish_ns
        with path.open("rb") as file:
            summary = make_reader(file).get_summary()
            assert summary is not None
            assert summary.statistics is not None
            assert summary.statistics.message_count == len(found)
            metadata = {record.name: record.metadata for record in make_reader(file).iter_metadata()}
        assert metadata["gripperd"]["boot_id"] == b.daemon.store.boot_id
        assert metadata["gripper left"]["max_opening_width_m"] == "0.075"
        assert metadata["recording"] == {"messages": str(len(found)), "states": str(len(states)), "dropped": "0"}


async def test_a_recording_that_is_killed_can_be_read_as_far_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    async with bench(tmp_path) as b:
        async with running(b, "record", str(path)) as child:
            await until(lambda: path.exists() and path.stat().st_size > 6000)
            child.kill()
            await child.wait()
        messages = 0
        with path.open("rb") as file, contextlib.suppress(EndOfFile):
            for record in StreamReader(file).records:
                messages += isinstance(record, Message)
        read = list(read_recording(path))
        assert len(read) > 50
        assert messages >= len(read)
        assert (await ctl(b, "plot", str(path))).code == 0
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(path.read_bytes()[:-100])
        assert len(list(read_recording(cut))) > 0


async def test_it_ends_by_time_by_number_and_when_the_daemon_is_lost(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with bench(tmp_path) as b:
            told = await ctl(b, "--json", "record", str(tmp_path / "n.mcap"), "--count", "20")
            assert (told.code, json.loads(told.out)["dropped"]) == (0, 0)
            assert len([1 for topic, *_ in content(tmp_path / "n.mcap") if topic == "/left/state"]) >= 20
            told = await ctl(b, "record", str(tmp_path / "t.mcap"), "--for", "0.5")
            assert told.code == 0
            assert "states" in told.out
            child = await stack.enter_async_context(running(b, "record", str(tmp_path / "lost.mcap")))
            await until(lambda: listeners(b) == 1)
        told = await ended(child)
        assert told.code == 4
        assert "closed the connection" in told.err
        assert len(content(tmp_path / "lost.mcap")) > 0, "it is finished all the same"


async def test_files_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    there, junk = tmp_path / "there.mcap", tmp_path / "junk.mcap"
    there.write_text("precious")
    junk.write_bytes(os.urandom(1000))
    async with bench(tmp_path) as b:
        cases: Sequence[tuple[Sequence[str], str]] = (
            (("record", str(there)), "exists: give another name, or --force"),
            (("record", str(tmp_path / "no" / "a.mcap")), "cannot be written: No such file or directory"),
            (
                ("record", "/dev/full", "--force", "--for", "0.2"),
                "/dev/full cannot be written: No space left",
            ),
            (("plot", str(tmp_path / "none.mcap")), "cannot be read: No such file or directory"),
            (("plot", str(junk)), "is no recording of gripperctl"),
        )
        for arguments, text in cases:
            told = await ctl(b, *arguments)
            assert told.code == 6, (arguments, told)
            assert text in told.err
            assert told.err.count("\n") == 1
        assert there.read_text() == "precious"
        assert (await ctl(b, "record", str(there), "--force", "--count", "3")).code == 0
        told = await ctl(b, "plot", str(there), "--from", "100", "--to", "200")
        assert (told.code, "no state between 100 and 200 s" in told.err) == (6, True)


async def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    async with bench(tmp_path, {"left": 9, "right": 10}) as b:
        assert (await ctl(b, "record", str(tmp_path / "a.mcap"), "--count", "50")).code == 0
        told = await ctl(b, "plot", str(tmp_path / "a.mcap"), "-o", str(tmp_path / "b.png"))
        assert told.out == f"{tmp_path}/b.png: left, right\n"
        data = (tmp_path / "b.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(data[16:20]) > 1000, "width in pixels"


async def test_events_and_clients(tmp_path: Path) -> None:
    async with (
        bench(tmp_path) as b,
        running(b, "events", "--count", "2") as text,
        running(b, "--json", "events", "--for", "30") as lines,
    ):
        await until(lambda: listeners(b) == 2)
        async with await Client.connect(b.path) as client:
            await client.hello("pick", on_disconnect="stop")
            await (await client.gripper().activate()).outcome(10.0)
            told = await ctl(b, "clients")
        assert "'pick'" in told.out
        assert "stops when lost" in told.out
        assert "'gripperctl events'" in told.out
        assert "last command of left: activate 1 by client" in told.out
        told = await ended(text)
        assert told.code == 0
        assert "left activate 1: reached" in told.out
        lines.send_signal(signal.SIGTERM)
        told = await ended(lines)
        assert told.code == 0
        found = [json.loads(line) for line in told.out.splitlines()]
        assert {"gripper": "left", "fault": None} in found
        assert "reached" in [each.get("outcome") for each in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
async def test_completion_knows_the_verbs(tmp_path: Path, shell: str) -> None:
    async with bench(tmp_path) as b:
        told = await ctl(b, "completion", shell)
        assert told.code == 0
        for verb in ("record", "clients", "clear-fault"):
            assert verb in told.out
    if shell == "bash":
        script = tmp_path / "c.bash"
        script.write_text(
            told.out + '\nCOMP_WORDS=(gripperctl cl)\nCOMP_CWORD=1\n_shtab_gripperctl\necho "${COMPREPLY[@]}"\n'
        )
        child = await asyncio.create_subprocess_exec(
            "bash", str(script), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await child.communicate()
        assert out.split() == [b"clients", b"clear-fault"], err
