"""Both brokers of the demo do what the daemon needs of one: MQTT 5, QoS 1, retained messages, wills; on loopback."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiomqtt
import pytest

from gripperd.demo import broker
from gripperd.demo.broker import demo_broker, has_embedded, mosquitto_program
from gripperd.demo.children import DemoError, listens

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
