"""One scenario, four ways to the same daemon: asyncio client, blocking client, raw lines, MQTT. All must see the same.

Each way plays the scenario on a fresh simulator, daemon and broker. What it saw is written down without what differs by
chance (stamps, run times, the last digits of a width), and compared with the others and with what is right.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gripperd.client import Client, Gripper, PendingCommand
from gripperd.client.blocking import Client as BlockingClient
from gripperd.client.blocking import Gripper as BlockingGripper
from gripperd.contract import CommandRefusedError, InvalidParamsError, RpcError
from gripperd_sim.control import AsyncControlClient
from tests.e2e.kinds import RG75, write_config
from tests.e2e.processes import daemon, free_port, mosquitto, soon

pytestmark = pytest.mark.e2e

LIMIT_S = 20.0
BASE = "gripperd/robot/left"


class Way(Protocol):
    """How a program talks to the daemon. Answers are the contract's messages as plain JSON."""

    async def tell(self, verb: str, **params: Any) -> dict[str, Any]:
        """A command; its CommandReply, or {"error": ...} where the request itself was wrong."""

    async def outcome(self, reply: dict[str, Any]) -> dict[str, Any]:
        """How that command ended."""

    async def info(self) -> dict[str, Any]:
        """GripperInfo."""

    async def state(self, reply: dict[str, Any]) -> dict[str, Any]:
        """A valid state of a round that began after that command had ended."""


def fits(state: dict[str, Any], reply: dict[str, Any]) -> bool:
    done = state["command_seq"] == reply["command_seq"] and state["command_phase"] == "done"
    return bool(done and state["opening_width_valid"])


class AsyncioWay:
    """gripperd.client"""

    def __init__(self, gripper: Gripper) -> None:
        self.gripper = gripper

    async def tell(self, verb: str, **params: Any) -> dict[str, Any]:
        if "expected_object_width_valid" in params:
            assert params.pop("expected_object_width_valid") is True
        give: Callable[..., Awaitable[PendingCommand]] = getattr(self.gripper, verb)
        try:
            return (await give(**params)).reply.to_dict()
        except CommandRefusedError as refusal:
            return refusal.reply.to_dict()
        except (RpcError, ValueError) as error:
            return {"error": type(error).__name__}

    async def outcome(self, reply: dict[str, Any]) -> dict[str, Any]:
        return (await self.gripper.outcome(reply["command_seq"], LIMIT_S)).to_dict()

    async def info(self) -> dict[str, Any]:
        return (await self.gripper.info()).to_dict()

    async def state(self, reply: dict[str, Any]) -> dict[str, Any]:
        async for state in self.gripper.states():
            if fits(state.to_dict(), reply):
                return state.to_dict()
        raise AssertionError


class BlockingWay:
    """gripperd.client.blocking, each call in a thread"""

    def __init__(self, gripper: BlockingGripper) -> None:
        self.gripper = gripper

    async def tell(self, verb: str, **params: Any) -> dict[str, Any]:
        if "expected_object_width_valid" in params:
            assert params.pop("expected_object_width_valid") is True
        try:
            return (await asyncio.to_thread(getattr(self.gripper, verb), **params)).reply.to_dict()  # type: ignore[no-any-return]
        except CommandRefusedError as refusal:
            return refusal.reply.to_dict()
        except (RpcError, ValueError) as error:
            return {"error": type(error).__name__}

    async def outcome(self, reply: dict[str, Any]) -> dict[str, Any]:
        return (await asyncio.to_thread(self.gripper.outcome, reply["command_seq"], LIMIT_S)).to_dict()

    async def info(self) -> dict[str, Any]:
        return (await asyncio.to_thread(self.gripper.info)).to_dict()

    async def state(self, reply: dict[str, Any]) -> dict[str, Any]:
        def first() -> dict[str, Any]:
            return next(state.to_dict() for state in self.gripper.states() if fits(state.to_dict(), reply))

        return await asyncio.to_thread(first)


class LinesWay:
    """JSON lines, by hand"""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.id = reader, writer, 0

    async def ask(self, method: str, **params: Any) -> Any:
        self.id += 1
        request = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": {"gripper": "left", **params}}
        self.writer.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), LIMIT_S))
        assert answer["id"] == self.id
        if "error" in answer:
            known = {-32602: InvalidParamsError.__name__}
            return {"error": known[answer["error"]["code"]]}
        return answer["result"]

    async def tell(self, verb: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = await self.ask(f"gripper.{verb}", **params)
        return result

    async def outcome(self, reply: dict[str, Any]) -> dict[str, Any]:
        waited = await self.ask("gripper.wait", command_seq=reply["command_seq"], timeout_s=LIMIT_S)
        assert waited["done"]
        outcome: dict[str, Any] = waited["outcome"]
        return outcome

    async def info(self) -> dict[str, Any]:
        result: dict[str, Any] = await self.ask("gripper.info")
        return result

    async def state(self, reply: dict[str, Any]) -> dict[str, Any]:
        while True:
            state: dict[str, Any] = await self.ask("gripper.state")
            if fits(state, reply):
                return state


class MqttWay:
    """MQTT 5"""

    def __init__(self, client: aiomqtt.Client) -> None:
        self.client, self.number = client, 0
        self.told: dict[str, list[Any]] = {}
        self.news = asyncio.Condition()

    async def listen(self) -> None:
        async for message in self.client.messages:
            async with self.news:
                self.told.setdefault(message.topic.value, []).append(json.loads(bytes(message.payload)))
                self.news.notify_all()

    async def first(self, topic: str, wanted: Callable[[Any], bool], since: int = 0) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S), self.news:
            while True:
                for each in self.told.get(topic, [])[since:]:
                    if wanted(each):
                        found: dict[str, Any] = each
                        return found
                await self.news.wait()

    async def tell(self, verb: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic = "test/replies"
        properties.CorrelationData = self.number.to_bytes(4)
        before = len(self.told.get("test/replies", []))
        await self.client.publish(f"{BASE}/command/{verb}", json.dumps(params), qos=1, properties=properties)
        return await self.first("test/replies", lambda reply: True, before)

    async def outcome(self, reply: dict[str, Any]) -> dict[str, Any]:
        return await self.first(f"{BASE}/outcome", lambda outcome: outcome["command_seq"] == reply["command_seq"])

    async def info(self) -> dict[str, Any]:
        return await self.first(f"{BASE}/info", lambda info: True)

    async def state(self, reply: dict[str, Any]) -> dict[str, Any]:
        return await self.first(f"{BASE}/state", lambda state: fits(state, reply))


def plain(outcome: dict[str, Any]) -> tuple[Any, ...]:
    """What must be the same: number, verb, end, width to half a millimetre, grasp."""
    width_mm = round(outcome["opening_width_m"] * 2000) / 2 if outcome["opening_width_valid"] else None
    return outcome["command_seq"], outcome["verb"], outcome["outcome"], width_mm, outcome["grasp_state"]


def refused(reply: dict[str, Any]) -> tuple[Any, ...]:
    return reply["ok"], reply["code"], reply["command_seq"], reply["message"]


async def play(way: Way, sim: AsyncControlClient) -> list[Any]:
    """The scenario. Returns what was seen."""
    seen: list[Any] = []

    async def whole(verb: str, **params: Any) -> dict[str, Any]:
        reply = await way.tell(verb, **params)
        assert reply["ok"], reply
        assert reply["code"] == "accepted"
        outcome = await way.outcome(reply)
        seen.append(plain(outcome))
        return reply

    seen.append(await way.info())
    seen.append(refused(await way.tell("move", opening_width_m=0.03)))
    await whole("activate")
    await whole("open", relative_speed=1.0)
    seen.append(refused(await way.tell("move", opening_width_m=0.5)))
    seen.append(refused(await way.tell("grip", relative_effort=1.5)))
    reply = await whole("move", opening_width_m=0.03, relative_speed=1.0)
    state = await way.state(reply)
    seen.append(
        (state["motion_state"], state["command_phase"], state["activation"], round(state["opening_width_m"], 3))
    )
    await whole("grip", relative_speed=1.0)
    await whole("open", relative_speed=1.0)
    await sim.call("supply_object", width_m=0.025)
    await whole("grip", relative_speed=1.0, expected_object_width_valid=True, expected_object_width_m=0.025)
    await whole("open", relative_speed=1.0)
    await sim.call("supply_object", width_m=0.025)
    await whole("grip", relative_speed=1.0, expected_object_width_valid=True, expected_object_width_m=0.04)
    await whole("open", relative_speed=1.0)
    slow = await way.tell("move", opening_width_m=0.0, relative_speed=0.01)
    stop = await way.tell("stop")
    assert slow["ok"]
    assert stop["ok"]
    for each in (slow, stop):
        outcome = await way.outcome(each)
        seen.append((outcome["command_seq"], outcome["verb"], outcome["outcome"]))
    await whole("deactivate")
    return seen


EXPECTED = [
    (False, "not_active", 0),
    (1, "activate", "reached"),
    (2, "open", "reached"),
    (False, "unreachable_width", 0),
    (False, "invalid_argument", 0),
    (3, "move", "reached"),
    (2, "done", "active", 0.03),
    (4, "grip", "closed_empty"),
    (5, "open", "reached"),
    (6, "grip", "contact"),
    (7, "open", "reached"),
    (8, "grip", "width_mismatch"),
    (9, "open", "reached"),
    (10, "move", "stopped"),
    (11, "stop", "stopped"),
    (12, "deactivate", "reached"),
]


async def seen_by(folder: Path, name: str) -> list[Any]:
    """Play it one way, with everything fresh."""
    port = free_port()
    async with mosquitto(folder, port), RG75.simulated(folder) as gripper:
        config = write_config(folder, gripper, port)
        config.write_text(config.read_text().replace("[mqtt]\n", "[mqtt]\ncommands = true\n"))
        async with daemon(folder, config), await AsyncControlClient.connect(folder / "sim.sock") as sim:
            path = folder / "g.sock"
            async with await Client.connect(path) as client:

                async def up() -> bool:
                    counters = (await client.statistics())["mqtt"]["left"]
                    return (await client.gripper().state()).link == "up" and counters["connects"] > 0

                await soon(up, "link and broker")
                if name == "asyncio":
                    return await play(AsyncioWay(client.gripper("left")), sim)
            if name == "blocking":
                blocking = await asyncio.to_thread(BlockingClient.connect, path)
                try:
                    return await play(BlockingWay(blocking.gripper("left")), sim)
                finally:
                    await asyncio.to_thread(blocking.close)
            if name == "lines":
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return await play(LinesWay(reader, writer), sim)
                finally:
                    writer.close()
            async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as broker:
                way = MqttWay(broker)
                await broker.subscribe([(f"{BASE}/#", 1), ("test/replies", 1)])
                listening = asyncio.create_task(way.listen())
                try:
                    return await play(way, sim)
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)


async def test_all_ways_to_the_daemon_see_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever asks, whichever way, gets the same numbers, ends and reasons."""
    names = ("asyncio", "blocking", "lines", "mqtt")
    folders = [tmp_path_factory.mktemp("g") for _ in names]
    told = await asyncio.gather(*(seen_by(folder, name) for folder, name in zip(folders, names, strict=True)))
    first, *others = told
    for name, other in zip(names[1:], others, strict=True):
        assert other == first, f"asyncio and {name}"
    assert first[0]["name"] == "left"
    assert [each[:3] if len(each) != 4 or each[1] != "done" else each for each in first[1:]] == EXPECTED
