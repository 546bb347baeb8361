"""Everything over a real Mosquitto, with a whole daemon in this process behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
import trustme
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from structlog.testing import capture_logs

from gripperd.config import MqttConfig
from gripperd.contract.requests import COMMANDS
from gripperd.transports.mqtt.security import load_security
from gripperd_sim.history import Kind
from tests.e2e.processes import free_port, mosquitto
from tests.support.daemon_bench import Bench, bench, until

BASE = "gripperd/robot/left"
PAYLOADS = 20_000
SEED = 20_262


def request(**given: Any) -> Properties:
    """Properties of a message, by their names in paho."""
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for name, value in given.items():
        setattr(made, name, value)
    return made


class Listener:
    """A client of the broker. messages: topic -> (payload, correlation data, retained)."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self.client = client
        self.messages: dict[str, list[tuple[bytes, bytes | None, bool]]] = {}

    async def listen(self) -> None:
        async for message in self.client.messages:
            correlation = getattr(message.properties, "CorrelationData", None)
            told = (bytes(message.payload), correlation, bool(message.retain))
            self.messages.setdefault(message.topic.value, []).append(told)

    def of(self, topic: str) -> list[Any]:
        return [json.loads(payload) for payload, _, _ in self.messages.get(topic, [])]

    async def send(self, verb: str, payload: str = "{}", correlation: bytes | None = None, **more: Any) -> None:
        given = {"CorrelationData": correlation, "MessageExpiryInterval": more.pop("expiry_s", None)}
        properties = request(ResponseTopic="test/replies", **{k: v for k, v in given.items() if v is not None})
        await self.client.publish(f"{BASE}/command/{verb}", payload, properties=properties, **{"qos": 1, **more})

    async def ask(self, verb: str, payload: str = "{}", correlation: bytes | None = None, **more: Any) -> Any:
        """The next answer."""
        before = len(self.of("test/replies"))
        await self.send(verb, payload, correlation, **more)
        await until(lambda: len(self.of("test/replies")) > before)
        return self.of("test/replies")[before]


@contextlib.asynccontextmanager
async def listener(port: int, **options: Any) -> AsyncIterator[Listener]:
    async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5, **options) as client:
        made = Listener(client)
        for topic in (f"{BASE}/#", "test/replies", "homeassistant/#"):
            await client.subscribe(topic, qos=1)
        task = asyncio.create_task(made.listen())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def online(b: Bench) -> bool:
    return b.daemon.statistics()["mqtt"]["left"]["connects"] > 0


def moved(b: Bench, seq: int) -> bool:
    kinds = (Kind.WRITE, Kind.COMMAND, Kind.MOTION_START)
    return any(each.kind in kinds for each in b.devices[9].history.since(seq))


async def activated(b: Bench) -> None:
    peer = await b.peer()
    assert await peer.outcome("activate") == "reached"
    assert await peer.outcome("grip") == "closed_empty"


async def test_commands_over_the_wire(tmp_path: Path) -> None:
    """REPLAY 110, 113: what the broker keeps is neither asked for nor carried out."""
    port = free_port()
    async with mosquitto(tmp_path, port), listener(port) as told:
        await told.send("open", retain=True)
        async with bench(tmp_path, mqtt={"port": port, "commands": True}) as b:
            await until(lambda: {"state": "online"} in told.of(f"{BASE}/availability"))
            await asyncio.sleep(0.2)
            assert told.of("test/replies") == [], "what the broker keeps is not asked for"
            answer = await told.ask("activate", correlation=b"\x01")
            assert answer["ok"]
            assert told.messages["test/replies"][-1][1] == b"\x01"
            await until(lambda: any(each["verb"] == "activate" for each in told.of(f"{BASE}/outcome")))
            answer = await told.ask("open", retain=True)
            assert (answer["code"], "retain" in answer["message"]) == ("not_permitted", True)
            first = await told.ask("move", '{"opening_width_m":0.02}', b"\x02", expiry_s=5)
            assert first["ok"]
            assert await told.ask("move", '{"opening_width_m":0.02}', b"\x02", expiry_s=5) == first
            assert (await told.ask("move", '{"opening_width_m":0.5}'))["code"] == "unreachable_width"
            assert (await told.ask("stop"))["ok"]
            counters = b.daemon.statistics()["mqtt"]["left"]
            assert (counters["commands"], counters["duplicates"], counters["commands_refused"]) == (6, 1, 2)
            peer = await b.peer()
            [ours] = [each for each in (await peer.ask("client.list"))["clients"] if each["transport"] == "mqtt"]
            assert ours["commanded_last"] == ["left"]
            await peer.ask("client.acquire")
            assert (await told.ask("open"))["code"] == "not_permitted"
            assert (await told.ask("stop"))["ok"]


async def test_a_broker_that_restarts_brings_no_command_again(tmp_path: Path) -> None:
    """REPLAY 109, 112. MQTT 130, 133, 134, 136: five times; states flow again, the gripper notices nothing."""
    port = free_port()
    async with bench(tmp_path, mqtt={"port": port, "commands": True, "state_rate_hz": 100.0}) as b:
        await activated(b)
        seq = b.devices[9].history.last_seq
        for n in range(5):
            async with mosquitto(tmp_path, port), listener(port) as told:
                await until(lambda: told.of(f"{BASE}/state") != [])
                if n == 0:
                    assert (await told.ask("move", '{"opening_width_m":0.02}', b"\x02"))["ok"]
                    await until(lambda: any(each["verb"] == "move" for each in told.of(f"{BASE}/outcome")))
                    seq = b.devices[9].history.last_seq
                assert b.daemon.store.latest("left").link == "up", "the gripper notices nothing"
        assert not moved(b, seq)
        assert b.daemon.statistics()["mqtt"]["left"]["connects"] == 5, "each is counted"


def payload(pick: random.Random) -> bytes:
    """No valid parameters of any command, or too much of them."""
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: pick.randbytes(pick.randrange(1, 60)),
        lambda: b'{"opening_width_m":' + pick.choice((b"NaN", b"1e999", b"-1", b'"0.01"', b"null", b"true")) + b"}",
        lambda: json.dumps({"opening_width_m": 0.01, "x" * pick.randrange(1, 9): 0}).encode(),
        lambda: json.dumps({"gripper": pick.choice(["right", 7, None, {}])}).encode(),
        lambda: b'{"opening_width_m":0.01'[: pick.randrange(1, 23)],
        lambda: b'{"relative_speed":' + pick.choice((b"2", b"-1", b"1e999", b"[]")) + b"}",
        lambda: b"[" * pick.randrange(1, 2000),
        lambda: b'{"opening_width_m":0.01}' + b" " * 5000,
        lambda: b'{"opening_width_m":0.01}{}',
    )
    return pick.choice(kinds)()


async def test_twenty_thousand_bad_payloads_leave_the_daemon_healthy_and_the_gripper_unmoved(tmp_path: Path) -> None:
    """Malformed, truncated, oversized, unknown verbs, retained, without and with reply topics and correlation data."""
    port, pick = free_port(), random.Random(SEED)
    verbs = [verb for verb in COMMANDS if verb != "stop"]
    async with mosquitto(tmp_path, port), bench(tmp_path, mqtt={"port": port, "commands": True}) as b:
        await activated(b)
        await until(lambda: online(b))
        seq = b.devices[9].history.last_seq
        async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            for n in range(PAYLOADS):
                properties = None
                if n % 3 == 0:
                    topic = pick.choice(("test/none", f"{BASE}/command/open", "x" * 2000))
                    properties = request(ResponseTopic=topic, CorrelationData=pick.randbytes(pick.randrange(3)))
                retain = pick.random() < 0.1
                verb = pick.choice([*verbs, "stop!", "close", "x" * 300])
                body = b"" if retain and verb == "open" else payload(pick)
                await client.publish(
                    f"{BASE}/command/{verb}", body, qos=int(n % 100 == 0), retain=retain, properties=properties
                )

        def counters() -> dict[str, int]:
            return {name: int(count) for name, count in b.daemon.statistics()["mqtt"]["left"].items()}

        await until(lambda: counters()["commands"] >= PAYLOADS)
        assert counters()["commands_refused"] + counters()["duplicates"] >= 0.99 * PAYLOADS
        assert not moved(b, seq)
        assert counters()["connects"] == 1
        async with listener(port) as told:
            assert (await told.ask("open"))["ok"]


# paho leaves the socket of a failed handshake to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_tls_and_password(tmp_path: Path) -> None:
    """And a wrong one of each: told once with what to do, tried again, the gripper undisturbed."""
    port, authority, stranger = free_port(), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    stranger.cert_pem.write_to_path(str(tmp_path / "stranger.pem"))
    broker = authority.issue_cert("127.0.0.1")
    broker.private_key_pem.write_to_path(str(tmp_path / "broker.key"))
    broker.cert_chain_pems[0].write_to_path(str(tmp_path / "broker.pem"))
    users = [_program("mosquitto_passwd"), "-c", "-b", str(tmp_path / "users"), "robot", "secret"]
    await asyncio.to_thread(subprocess.run, users, check=True)
    access = (
        f"allow_anonymous false\npassword_file {tmp_path}/users\n"
        f"certfile {tmp_path}/broker.pem\nkeyfile {tmp_path}/broker.key\n"
    )
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    mqtt = {"port": port, "tls": True, "username": "robot", "password_file": str(secret), "reconnect_max_s": 0.5}
    async with mosquitto(tmp_path, port, access):
        with capture_logs() as logs:
            async with bench(tmp_path, mqtt={**mqtt, "ca_file": str(tmp_path / "stranger.pem")}) as b:
                await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 2)
                assert b.daemon.store.latest("left").link == "up"
        [told] = [each for each in logs if each["event"] == "mqtt_down" and each["log_level"] == "warning"]
        assert "ca_file" in told["advice"]
        with capture_logs() as logs:
            async with bench(tmp_path, mqtt={**mqtt, "ca_file": str(tmp_path / "ca.pem")}) as b:
                await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 2)
                secret.write_text("secret\n")
                await until(lambda: online(b))
        told, *others = [each for each in logs if each["event"].startswith("mqtt_") and each["log_level"] != "debug"]
        assert "password_file" in told["advice"]
        assert [each["event"] for each in others] == ["mqtt_up"]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        async with listener(port, tls_context=context, username="robot", password="secret") as heard:
            await until(lambda: heard.of(f"{BASE}/availability") == [{"state": "offline"}])


async def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for mqtt, text in (
        ({"username": "u", "password_file": str(tmp_path / "none")}, "password_file: .*none cannot be read"),
        ({"username": "u", "password_credential": "mqtt"}, "CREDENTIALS_DIRECTORY is not set"),
        ({"tls": True, "ca_file": str(tmp_path / "none")}, "ca_file: .*none cannot be used"),
        ({"tls": True, "cert_file": str(tmp_path / "none")}, "cert_file .*none and key_file"),
    ):
        with capture_logs() as logs:
            async with bench(tmp_path, mqtt=mqtt) as b:
                await until(lambda b=b: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 1)  # type: ignore[misc]
        [told] = [each for each in logs if each["event"] == "mqtt_down" and each["log_level"] == "warning"]
        assert re.search(text, told["reason"]), told


def test_a_credential_of_systemd_is_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mqtt").write_text("secret\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert load_security(MqttConfig(username="u", password_credential="mqtt")).password == "secret"


async def test_a_broker_that_hangs_is_noticed_and_delays_neither_stop_nor_exit(tmp_path: Path) -> None:
    """MQTT 134: a half-open connection, seen within two keep-alives, or the time limit of a publish."""
    port = free_port()
    async with mosquitto(tmp_path, port) as broker:
        hang, go_on = (
            partial(broker.child.send_signal, signal.SIGSTOP),
            partial(broker.child.send_signal, signal.SIGCONT),
        )
        try:
            async with bench(tmp_path, mqtt={"port": port, "keepalive_s": 1, "timeout_s": 2.0}) as b:
                await until(lambda: online(b))
                peer = await b.peer()
                await peer.outcome("activate")
                hang()
                began_s = time.monotonic()
                assert (await peer.ask("gripper.stop"))["ok"]
                await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 1)
                assert time.monotonic() - began_s < 4.0
                go_on()
                await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connects"] >= 2)
                hang()
                ends_s = time.monotonic()
            assert time.monotonic() - ends_s < 2.0
        finally:
            go_on()


async def test_a_broker_that_accepts_and_says_nothing_leaves_no_descriptors_behind(tmp_path: Path) -> None:
    """MQTT 131: no CONNACK ever; then it recovers. MQTT 137: the gripper works meanwhile."""
    port = free_port()

    serving: set[asyncio.Task[None]] = set()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    silent = await asyncio.start_server(silence, "127.0.0.1", port)
    mqtt = {"port": port, "keepalive_s": 1, "reconnect_max_s": 0.1, "timeout_s": 0.2}
    async with bench(tmp_path, mqtt=mqtt) as b:
        await activated(b)
        await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 3)
        open_before = len(os.listdir("/proc/self/fd"))
        await until(lambda: b.daemon.statistics()["mqtt"]["left"]["connection_losses"] >= 12)
        assert len(os.listdir("/proc/self/fd")) < open_before + 6
        silent.close()
        async with mosquitto(tmp_path, port):
            await until(lambda: online(b))
        await until(lambda: all(task.done() for task in serving))  # the library gives each up after 1.5 keep-alives


async def test_home_assistant_is_told_of_the_gripper(tmp_path: Path) -> None:
    port = free_port()
    async with (
        mosquitto(tmp_path, port),
        bench(tmp_path, mqtt={"port": port, "commands": True, "discovery": True}) as b,
    ):
        await until(lambda: online(b))
        async with listener(port) as told:
            await until(lambda: len([each for each in told.messages if each.startswith("homeassistant/")]) == 10)
            node = "homeassistant/{}/gripperd_robot_left/{}/config"
            number = told.messages[node.format("number", "opening")][0]
            assert number[2] is True, "retained"
            config = json.loads(number[0])
            assert (config["min"], config["max"], config["unit_of_measurement"]) == (0.0, 75.0, "mm")
            assert config["command_topic"] == f"{BASE}/command/move"


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    assert found is not None, f"{name} comes with Mosquitto"
    return found
