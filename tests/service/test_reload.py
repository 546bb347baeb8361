"""A new configuration while the daemon runs: what changed begins anew, everything else goes on undisturbed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gripperd.changes import Parts, changes
from gripperd.config import Config, parse_config
from gripperd.daemon import Daemon
from gripperd.drivers.registry import driver_specs
from gripperd.notify import Notifier
from gripperd_sim.history import Kind
from tests.support.daemon_bench import Bench, Peer, until

RIGHT = {"name": "right", "driver": "rg75", "bus": "tool0", "unit": 10}


class Reloading(Bench):
    """A daemon whose configuration can be changed: `raw` is the file."""

    def __init__(self, folder: Path, **daemon: Any) -> None:
        super().__init__(folder, {"left": 9, "right": 10}, **daemon)
        self.raw: dict[str, Any] = {
            "daemon": {"socket": str(self.path), **daemon},
            "bus": [{"name": "tool0", "port": "/dev/null"}],
            "gripper": [{"name": "left", "driver": "rg75", "bus": "tool0", "unit": 9}],
        }
        self.daemon = Daemon(self.load(), make_line=lambda bus: self.line)

    def load(self) -> Config:
        return parse_config(self.raw, driver_specs(), "file")

    async def reload(self) -> None:
        """And wait for its end."""
        counters = self.daemon.counters
        before = sum(counters.values())
        self.daemon.reload_asked.set()
        await until(lambda: sum(counters.values()) > before)


@contextlib.asynccontextmanager
async def reloading(folder: Path, **daemon: Any) -> AsyncIterator[Reloading]:
    made, stop = Reloading(folder, **daemon), asyncio.Event()
    task = asyncio.create_task(made.daemon.run(stop, made.load))
    try:
        await until(lambda: task.done() or all(each.link == "up" for each in made.daemon.crew.grippers.values()))
        yield made
    finally:
        await made.close_peers()
        stop.set()
        await asyncio.wait_for(task, 10.0)


async def up(b: Reloading, name: str) -> None:
    await until(lambda: b.daemon.crew.grippers[name].link == "up")


def listens(peer: Peer, event: str, gripper: str) -> list[dict[str, Any]]:
    found = [each["params"] for each in peer.notifications if each["method"] == f"gripper.{event}"]
    return [each[event] for each in found if each[event]["gripper"] == gripper]


async def test_a_gripper_that_is_added_disturbs_no_motion_of_the_others(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        peer = await b.peer()
        assert await peer.outcome("activate") == "reached"
        writes = b.writes()
        await peer.ask("gripper.subscribe", events=["state"])
        moving = await peer.ask("gripper.move", gripper="left", opening_width_m=0.01, relative_speed=0.1)
        b.raw["gripper"].append(RIGHT)
        await b.reload()
        await up(b, "right")
        outcome = await peer.ask("gripper.wait", gripper="left", command_seq=moving["command_seq"], timeout_s=10.0)
        assert outcome["outcome"]["outcome"] == "reached"
        assert b.writes() == writes + 1, "the move, and nothing more"
        assert [each["name"] for each in (await peer.ask("gripper.list"))["grippers"]] == ["left", "right"]
        seqs = [each["seq"] for each in listens(peer, "state", "left")]
        assert seqs == list(range(seqs[0], seqs[-1] + 1)), "not one round is missing"
        assert listens(peer, "state", "right"), "who subscribed to all gets the new one too"


async def test_a_gripper_that_is_removed_says_so_and_ends_its_commands(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        b.raw["gripper"].append(RIGHT)
        await b.reload()
        await up(b, "right")
        peer = await b.peer()
        reply = await peer.ask("gripper.activate", gripper="right")
        await peer.ask("gripper.wait", gripper="right", command_seq=reply["command_seq"], timeout_s=10.0)
        await peer.ask("gripper.subscribe", gripper="right", events=["state", "outcome"])
        moving = await peer.ask("gripper.move", gripper="right", opening_width_m=0.0, relative_speed=0.05)
        assert moving["ok"], moving
        writes = b.writes()
        del b.raw["gripper"][1]
        await b.reload()
        refused = await peer.ask("gripper.state", gripper="right")
        assert refused["error"]["code"] == -32602
        assert [each["outcome"] for each in listens(peer, "outcome", "right")] == ["link_lost"]
        last = listens(peer, "state", "right")[-1]
        assert (last["link"], last["opening_width_valid"], last["activation"]) == ("down", False, "unknown")
        assert b.writes() == writes, "the jaws go on with what they do"
        await asyncio.sleep(0.1)
        assert listens(peer, "state", "right")[-1] == last
        assert (await peer.ask("gripper.state", gripper="left"))["link"] == "up"


async def test_a_gripper_that_changed_goes_on_with_its_numbers(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        peer = await b.peer()
        assert await peer.outcome("activate") == "reached"
        await until(lambda: b.daemon.store.latest("left").activation == "active")
        before = b.daemon.store.latest("left")
        writes = b.writes()
        b.raw["gripper"][0]["poll_rate_hz"] = 100.0
        await b.reload()
        await up(b, "left")
        await until(lambda: b.daemon.store.latest("left").opening_width_valid)
        state = b.daemon.store.latest("left")
        assert state.seq > before.seq
        assert state.activation_epoch == before.activation_epoch + 1
        assert state.activation == "active", "adopted"
        assert b.writes() == writes
        reply = await peer.ask("gripper.move", opening_width_m=0.02)
        assert reply["command_seq"] == before.command_seq + 1
        told = await peer.ask("gripper.wait", command_seq=before.command_seq, timeout_s=0.0)
        assert told["outcome"]["verb"] == "activate", "old outcomes are remembered"


@pytest.mark.parametrize("stop_at_exit", [False, True])
async def test_a_gripper_that_leaves_does_what_stop_at_exit_says(tmp_path: Path, stop_at_exit: bool) -> None:
    async with reloading(tmp_path) as b:
        b.raw["gripper"].append(RIGHT | {"stop_at_exit": stop_at_exit})
        await b.reload()
        await up(b, "right")
        peer = await b.peer()
        reply = await peer.ask("gripper.activate", gripper="right")
        await peer.ask("gripper.wait", gripper="right", command_seq=reply["command_seq"], timeout_s=10.0)
        await peer.ask("gripper.move", gripper="right", opening_width_m=0.0, relative_speed=0.05)
        writes = len(b.devices[10].history.of(Kind.WRITE))
        del b.raw["gripper"][1]
        await b.reload()
        assert len(b.devices[10].history.of(Kind.WRITE)) == writes + stop_at_exit


async def test_a_bus_that_changed_takes_its_grippers_along(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        old_bus, old_gripper = b.daemon.crew.buses["tool0"], b.daemon.crew.grippers["left"]
        b.raw["bus"][0]["response_timeout_s"] = 0.2
        await b.reload()
        await up(b, "left")
        assert b.daemon.crew.buses["tool0"] is not old_bus
        assert b.daemon.crew.grippers["left"] is not old_gripper
        assert b.daemon.crew.buses["tool0"].limits.response_timeout_s == 0.2


def unusable(raw: dict[str, Any]) -> None:
    raw["gripper"][0]["pol_rate_hz"] = 1.0


def empty(raw: dict[str, Any]) -> None:
    raw["gripper"].clear()


def other_socket(raw: dict[str, Any]) -> None:
    raw["daemon"]["socket"] = "/elsewhere/g.sock"


def no_such_user(raw: dict[str, Any]) -> None:
    raw["daemon"]["command_users"] = ["nobody-of-this-name"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (unusable, "did you mean 'poll_rate_hz'"),
        (empty, "no \\[\\[gripper\\]\\] is configured"),
        (other_socket, "daemon.socket has changed: that takes a restart"),
        (no_such_user, "there is no user 'nobody-of-this-name'"),
    ],
)
async def test_a_configuration_that_cannot_be_used_changes_nothing(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], None], told: str
) -> None:
    async with reloading(tmp_path) as b:
        gripper, seq = b.daemon.crew.grippers["left"], b.daemon.store.latest("left").seq
        spoil(b.raw)
        with capture_logs() as logs:
            await b.reload()
        [refusal] = [each for each in logs if each["event"] == "reload_refused"]
        assert re.search(told, " ".join(refusal["problems"]))
        assert b.daemon.crew.grippers["left"] is gripper
        await until(lambda: b.daemon.store.latest("left").seq > seq)
        assert b.daemon.counters == {"reloads": 0, "reloads_refused": 1}


async def test_rules_of_access_hold_for_those_who_come_after_the_reload(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        before = await b.peer()
        assert (await before.ask("gripper.activate"))["ok"]
        b.raw["daemon"]["command_users"] = []
        b.raw["daemon"]["command_groups"] = []
        await b.reload()
        after = await b.peer()
        reply = await after.ask("gripper.open")
        assert (reply["code"], b.daemon.counters["reloads"]) == ("not_permitted", 1)
        assert (await after.ask("gripper.stop"))["ok"], "a stop needs no right"


async def test_the_service_manager_is_told_of_every_reload(tmp_path: Path) -> None:
    """RELOADING with the time by which systemd orders it, and READY again, whether it was taken or refused."""
    told: list[str] = []

    class Manager(Notifier):
        def _send(self, lines: str) -> None:
            told.extend(lines.splitlines())

    async with reloading(tmp_path) as b:
        b.daemon.notifier = Manager("/nobody")
        before_s = time.monotonic()
        b.raw["gripper"].append(RIGHT)
        await b.reload()
        await until(lambda: told.count("READY=1") == 1)
        spoilt = b.raw["gripper"][0] | {"unit": 0}
        b.raw["gripper"][0] = spoilt
        await b.reload()
        await until(lambda: told.count("READY=1") == 2)
    kinds = [line.partition("=")[0] for line in told if not line.startswith("STATUS")]
    assert kinds == ["RELOADING", "MONOTONIC_USEC", "READY", "RELOADING", "MONOTONIC_USEC", "READY", "STOPPING"]
    stamp_s = int(told[1].partition("=")[2]) / 1e6
    assert before_s <= stamp_s <= time.monotonic(), "CLOCK_MONOTONIC"
    statuses = [line for line in told if line.startswith("STATUS")]
    assert statuses[1] == f"STATUS=2 grippers on {b.path}"
    assert statuses[3].startswith("STATUS=reload refused: ")


async def test_the_same_configuration_again_does_nothing(tmp_path: Path) -> None:
    async with reloading(tmp_path) as b:
        parts = dict(b.daemon.crew.buses), dict(b.daemon.crew.grippers)
        await b.reload()
        assert (b.daemon.crew.buses, b.daemon.crew.grippers) == parts


def config(**sections: Any) -> Config:
    gripper = {"name": "left", "driver": "rg75", "bus": "a", "unit": 9}
    raw = {"bus": [{"name": "a", "port": "/dev/a"}], "gripper": [gripper]} | sections
    return parse_config(raw, driver_specs())


LEFT = {"name": "left", "driver": "rg75", "bus": "a", "unit": 9}
HAND = {"name": "hand", "driver": "franka_hand", "address": "127.0.0.1"}
BUS = {"name": "a", "port": "/dev/a"}


@pytest.mark.parametrize(
    ("before", "after", "ended", "begun"),
    [
        ({}, {}, Parts(), Parts()),
        ({}, {"gripper": [LEFT, HAND]}, Parts(), Parts(grippers=frozenset({"hand"}))),
        ({"gripper": [LEFT, HAND]}, {}, Parts(grippers=frozenset({"hand"})), Parts()),
        (
            {},
            {"bus": [BUS | {"baudrate": 9600}]},
            Parts(frozenset({"a"}), frozenset({"left"})),
            Parts(frozenset({"a"}), frozenset({"left"})),
        ),
        (
            {},
            {"gripper": [LEFT | {"unit": 10}]},
            Parts(grippers=frozenset({"left"})),
            Parts(grippers=frozenset({"left"})),
        ),
        ({}, {"mqtt": {}}, Parts(), Parts(publishers=frozenset({"left"}))),
        ({"mqtt": {}}, {}, Parts(publishers=frozenset({"left"})), Parts()),
        (
            {"mqtt": {}},
            {"mqtt": {"port": 1884}},
            Parts(publishers=frozenset({"left"})),
            Parts(publishers=frozenset({"left"})),
        ),
        (
            {"mqtt": {}},
            {"mqtt": {}, "gripper": [LEFT | {"unit": 10}, HAND]},
            Parts(grippers=frozenset({"left"})),
            Parts(grippers=frozenset({"left", "hand"}), publishers=frozenset({"hand"})),
        ),
        (
            {"gripper": [LEFT, HAND]},
            {"bus": [BUS | {"port": "/dev/b"}], "gripper": [LEFT, HAND]},
            Parts(frozenset({"a"}), frozenset({"left"})),
            Parts(frozenset({"a"}), frozenset({"left"})),
        ),
        ({}, {"daemon": {"log_level": "debug"}}, Parts(), Parts()),
    ],
)
def test_what_a_change_ends_and_begins(before: Any, after: Any, ended: Parts, begun: Parts) -> None:
    found = changes(config(**before), config(**after))
    assert (found.ended, found.begun, found.restart) == (ended, begun, ())


@pytest.mark.parametrize(
    ("key", "value"), [("socket", "/x"), ("socket_mode", "0600"), ("max_clients", 3), ("stall_limit_s", 1.0)]
)
def test_what_takes_a_restart_is_named(key: str, value: object) -> None:
    assert changes(config(), config(daemon={key: value})).restart == (f"daemon.{key}",)
