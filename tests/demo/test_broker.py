"""Both brokers of the demo do what the daemon needs of one: MQTT 5, QoS 1, retained messages, wills; on loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gripperd.demo import broker
from gripperd.demo.broker import demo_broker, has_embedded, mosquitto_program
from gripperd.demo.children import DemoError, listens

END_LIMIT_S = 2.0
"""A broker that takes longer to end was not asked but killed [s]."""

BROKERS = [
    pytest.param(False, id="mosquitto", marks=pytest.mark.skipif(mosquitto_program() is None, reason="no Mosquitto")),
    pytest.param(True, id="embedded", marks=pytest.mark.skipif(not has_embedded(), reason="no wheel for this machine")),
]


def _client(port: int, **options: object) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("embedded", BROKERS)
async def test_a_broker_keeps_retained_messages_and_tells_last_wills(embedded: bool, tmp_path: Path) -> None:
    async with demo_broker(tmp_path, embedded) as running:
        will = aiomqtt.Will("demo/availability", b"offline", qos=1, retain=True)
        async with _client(running.port) as watcher:
            await watcher.subscribe("demo/#", qos=1)
            dying = _client(running.port, will=will)
            await dying.__aenter__()
            await dying.publish("demo/availability", b"online", qos=1, retain=True)
            connection = dying._client.socket()
            assert isinstance(connection, socket.socket)
            connection.shutdown(socket.SHUT_RDWR)
            seen: list[object] = []
            async with asyncio.timeout(10):
                async for message in watcher.messages:
                    seen.append(message.payload)
                    if message.payload == b"offline":
                        break
            assert seen == [b"online", b"offline"]
            await dying.__aexit__(None, None, None)
        async with _client(running.port) as late:
            await late.subscribe("demo/availability", qos=1)
            async with asyncio.timeout(10):
                first = await anext(aiter(late.messages))
            assert (first.payload, first.retain) == (b"offline", True)
        port = running.port
    assert not listens(port), "it is gone with the block"


@pytest.mark.parametrize("embedded", BROKERS)
async def test_a_broker_forgets_a_retained_message_at_its_expiry_and_keeps_its_properties(
    embedded: bool, tmp_path: Path
) -> None:
    async with demo_broker(tmp_path, embedded) as running:
        async with _client(running.port) as client:
            for topic, expiry_s in (("demo/short", 1), ("demo/long", 60)):
                properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
                properties.MessageExpiryInterval = expiry_s
                properties.ContentType = "application/json"
                await client.publish(topic, b"{}", qos=1, retain=True, properties=properties)
        await asyncio.sleep(2.1)  # the broker counts whole seconds of its own clock
        async with _client(running.port) as late:
            await late.subscribe("demo/#", qos=1)
            await late.publish("demo/end", b"", qos=1)
            seen = {}
            async with asyncio.timeout(10):
                async for message in late.messages:
                    seen[message.topic.value] = message.properties
                    if "demo/end" in seen and "demo/long" in seen:
                        break
    assert "demo/short" not in seen
    told = vars(seen["demo/long"])
    assert told["ContentType"] == "application/json"
    assert told["MessageExpiryInterval"] < 60


@pytest.mark.parametrize("embedded", BROKERS)
async def test_a_broker_ends_with_its_block_however_that_ends(embedded: bool, tmp_path: Path) -> None:
    ports: list[int] = []
    starts = asyncio.Event()

    async def hold(error: Exception | None) -> None:
        async with demo_broker(tmp_path, embedded) as running:
            ports.append(running.port)
            starts.set()
            if error is not None:
                raise error
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="mine"):
        await hold(ValueError("mine"))
    assert _processes(tmp_path) == []

    starts.clear()
    holder = asyncio.create_task(hold(None))
    await starts.wait()
    assert _processes(tmp_path) != []
    began_s = time.monotonic()
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    assert time.monotonic() - began_s < END_LIMIT_S
    assert _processes(tmp_path) == []
    assert not any(listens(port) for port in ports)


def _processes(folder: Path) -> list[bytes]:
    """Command lines of the processes that were started with a file of this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if str(folder).encode() in command:
            found.append(command)
    return found


@pytest.mark.parametrize("embedded", BROKERS)
async def test_a_broker_that_cannot_start_says_why(
    embedded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_EMBEDDED", "id = {port} of nothing")
    monkeypatch.setattr(broker, "_MOSQUITTO", "nonsense {port}\n")
    with pytest.raises(DemoError, match=r"did not start:\n.*\S"):
        async with demo_broker(tmp_path, embedded):
            pass
    assert _processes(tmp_path) == []


@pytest.mark.parametrize("embedded", BROKERS)
async def test_a_broker_listens_on_loopback_only(embedded: bool, tmp_path: Path) -> None:
    async with demo_broker(tmp_path, embedded) as running:
        assert _bound(running.port) == [f"0100007F:{running.port:04X}"]


def _bound(port: int) -> list[str]:
    """Local addresses that listen on a port, as the kernel writes them."""
    table = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return [line.split()[1] for line in table.splitlines() if f":{port:04X} " in line and " 0A " in line]


async def test_without_any_broker_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "mosquitto_program", lambda: None)
    monkeypatch.setattr(broker, "has_embedded", lambda: False)
    with pytest.raises(DemoError, match="apt-get install mosquitto"):
        async with demo_broker(tmp_path):
            pass
