"""A broker for the demo, on loopback: Mosquitto where it is installed, else an embedded one. Never for a product."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gripperd.demo.children import DemoError, child, free_port, listens

_MOSQUITTO = """listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
"""

_EMBEDDED = """id = 0
[router]
id = 0
max_connections = 100
max_outgoing_packet_count = 200
max_segment_size = 10485760
max_segment_count = 10
[v5.1]
name = "demo"
listen = "127.0.0.1:{port}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = 65536
max_inflight_count = 100
dynamic_filters = true
"""
"""rumqttd's own format. Its default would listen on all interfaces, and without MQTT 5."""

_EMBEDDED_MAIN = (
    "import sys; from iotcore.iotcore import IotCoreBroker; IotCoreBroker(config_path=sys.argv[1]).run_forever()"
)


@dataclass(frozen=True, slots=True)
class DemoBroker:
    """A running broker. name: what it is."""

    host: str
    port: int
    name: str


def mosquitto_program() -> str | None:
    """Where Mosquitto is; Debian puts it beside the administrator's programs."""
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def has_embedded() -> bool:
    """Whether the embedded broker is installed (extra `demo`)."""
    return importlib.util.find_spec("iotcore") is not None


@contextlib.asynccontextmanager
async def demo_broker(folder: Path, embedded: bool | None = None) -> AsyncIterator[DemoBroker]:
    """Run a broker for the time of the block. embedded: None is Mosquitto where there is one. Raises DemoError."""
    port, config = free_port(), folder / "broker.toml"
    program = mosquitto_program()
    if embedded if embedded is not None else program is None:
        if not has_embedded():
            raise DemoError("the demo needs a broker: apt-get install mosquitto, or pip install 'gripperd[demo]'")
        name, text = "embedded broker", _EMBEDDED
        command = [sys.executable, "-c", _EMBEDDED_MAIN, str(config)]
    else:
        if program is None:
            raise DemoError("Mosquitto is not installed: apt-get install mosquitto")
        name, text = "Mosquitto", _MOSQUITTO
        command = [program, "-c", str(config)]
    config.write_text(text.format(port=port))
    async with child(name, command, folder / "broker.log", lambda output: listens(port)):
        yield DemoBroker("127.0.0.1", port, name)
