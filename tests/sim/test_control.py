"""The control socket in one process: operations, their checks, both clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gripperd_sim.control import AsyncControlClient, ControlClient, ControlError
from gripperd_sim.control_server import ControlServer, SocketInUseError
from gripperd_sim.faults import FaultKind
from gripperd_sim.line import Line
from gripperd_sim.operations import Operation, OperationError, Operations
from gripperd_sim.rg75 import Rg75
from gripperd_sim.rg75.operations import Rg75Bench

STATUS = bytes.fromhex("090407D00001300F")


class FakePort:
    """A port that only counts."""

    name = "/dev/pts/7"
    plugged = True
    burst_s = 0.0

    def __init__(self) -> None:
        self.log: list[str] = []
        self.on_change: Callable[[str, str], None] | None = None

    def plug(self) -> None:
        self.log.append("plug")

    def unplug(self) -> None:
        self.log.append("unplug")

    def replug(self, off_s: float) -> None:
        self.log.append(f"replug {off_s}")

    def set_bursts(self, burst_s: float) -> None:
        self.burst_s = burst_s


class Setup:
    """A line of two devices with its operations, in virtual time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.line = Line([Rg75(), Rg75(unit=5)])
        self.port = FakePort()
        self.operations = Operations(Rg75Bench(self.line, self.port, lambda: self.now_s).table())

    def call(self, op: str, **params: Any) -> dict[str, Any]:
        return dict(self.operations.call(op, params) or {})

    def state(self, **params: Any) -> dict[str, Any]:
        state: dict[str, Any] = self.call("state", **params)["state"]
        return state


@pytest.fixture
def setup() -> Setup:
    return Setup()


@contextlib.asynccontextmanager
async def serving(path: Path, operations: Operations) -> AsyncIterator[ControlServer]:
    server = ControlServer(path, operations)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def test_the_world(setup: Setup) -> None:
    setup.call("put_object", width_m=0.03, stiffness_n_per_m=5e4)
    assert setup.state()["object_width_m"] == 0.03
    assert setup.state(unit=5)["object_width_m"] is None
    setup.call("slip", hold_force_n=10)
    setup.call("take_object")
    setup.call("obstruct", width_m=0.02)
    assert setup.state()["obstruction_m"] == 0.02
    setup.call("clear_obstruction")
    setup.call("move_fingers", width_m=0.01)
    assert setup.state()["width_m"] == 0.01
    setup.call("supply_object", width_m=0.03, internal=False)
    setup.call("take_object")
    assert [e["change"] for e in setup.call("log")["events"] if e["kind"] in ("object", "world")] == [
        "put",
        "slip",
        "taken",
        "obstruct",
        "clear_obstruction",
        "move_fingers",
    ]


def test_electrics(setup: Setup) -> None:
    setup.call("set", temperature_c=90)
    assert (setup.state()["temperature_c"], setup.state()["voltage_v"], setup.state()["faults"]) == (90, 24, 0x41)
    setup.call("set", temperature_c=20, voltage_v=25)
    setup.call("fault", bits=0)
    setup.call("fault", bits=8, unit=5)
    assert setup.state(unit=5)["faults"] == 9
    setup.call("power_cycle", off_s=1.0)
    assert setup.state()["powered"] is False
    setup.now_s = 1.0
    assert setup.state()["powered"] is True


def test_the_wire(setup: Setup) -> None:
    assert setup.call("lose", count=2)["armed"] == {"lose": {"count": 2}}
    setup.call("delay", count=1, delay_s=0.3)
    setup.call("drop_acks", count=1)
    setup.call("corrupt", probability=0.25, of="reads", unit=9)
    assert setup.call("silence", duration_s=2)["armed"] == {
        "silence": {"until_s": 2.0},
        "lose": {"count": 2},
        "drop_acks": {"count": 1},
        "corrupt": {"probability": 0.25, "of": "reads"},
        "delay": {"count": 1, "delay_s": 0.3},
    }
    assert setup.line.station().faults.hears(STATUS, 1.9) is False
    assert setup.line.station(5).faults.hears(STATUS, 1.9) is True
    assert setup.call("state")["line_faults"]["struck"] == {"silence": 1}
    assert setup.call("lose", count=0, unit=5)["armed"] == {}
    assert setup.call("clear_line_faults")["armed"] == {}


def test_the_port(setup: Setup) -> None:
    setup.call("unplug")
    assert setup.call("plug") == {"port": "/dev/pts/7"}
    setup.call("replug", off_s=0.5)
    assert setup.port.log == ["unplug", "plug", "replug 0.5"]
    setup.call("bursts")
    assert setup.call("state")["port"] == {"name": "/dev/pts/7", "plugged": True, "burst_s": 0.016}
    assert setup.port.on_change is not None
    setup.port.on_change("plugged", "/dev/pts/8")
    for unit in (9, 5):
        events = [e for e in setup.call("log", unit=unit)["events"] if e["kind"] == "port"]
        assert [(e["change"], e["name"]) for e in events] == [
            ("bursts every 0.016 s", "/dev/pts/7"),
            ("plugged", "/dev/pts/8"),
        ]


def test_the_log_can_be_read_on(setup: Setup) -> None:
    setup.call("fault", bits=8)
    setup.call("fault", bits=0)
    everything = setup.call("log")
    assert everything["last_event"] == len(everything["events"])
    first = everything["events"][0]
    assert setup.call("log", since=first["seq"], limit=1)["events"] == everything["events"][1:2]


def test_help_lists_all(setup: Setup) -> None:
    ops = setup.call("help")["ops"]
    assert set(ops) == {
        *("put_object", "supply_object", "take_object", "slip", "obstruct", "clear_obstruction", "move_fingers"),
        *("set", "fault", "power_cycle", "unplug", "plug", "replug", "bursts", "clear_line_faults"),
        *FaultKind,
        *("state", "log", "help"),
    }
    assert all(op["doc"] for op in ops.values())
    delay = {p["name"]: p["valid"] for p in ops["delay"]["params"]}
    assert set(delay) == {"delay_s", "count", "probability", "duration_s", "of", "unit"}
    assert delay["of"] == "one of reads, writes, all"


@pytest.mark.parametrize(
    ("op", "params", "says"),
    [
        ("grab", {}, "unknown op 'grab'.*Valid: bursts, clear_line_faults, clear_obstruction, corrupt"),
        ("put_objekt", {}, "Did you mean put_object"),
        ("put_object", {}, "needs width_m"),
        ("put_object", {"width_m": "wide"}, "give a number"),
        ("put_object", {"width_m": True}, "give a number"),
        ("put_object", {"width_m": float("nan")}, "give a number"),
        ("put_object", {"width_m": 0.01, "internal": 1}, "true or false"),
        ("put_object", {"width": 0.01}, "no parameter 'width'; valid: width_m, "),
        ("put_object", {"width_m": 0.09}, "does not fit"),
        ("fault", {"bits": 1.5}, "whole number"),
        ("fault", {"bits": 256}, "1 to 255"),
        ("set", {"voltage_v": 300}, "0..255"),
        ("power_cycle", {"off_s": -1}, "0 or more"),
        ("state", {"unit": 7}, "there are 9, 5"),
        ("help", {"x": 1}, "valid: none"),
        ("lose", {"of": "everything"}, "of = 'everything': give one of reads, writes, all"),
        ("lose", {"count": -1}, "at least 0"),
        ("lose", {"count": "2"}, "give a whole number"),
        ("lose", {"probability": 1.5}, "give a number from 0 to 1"),
        ("delay", {"delay_s": 10**400}, "from 0 to 3600"),
        ("delay", {"count": 1}, "needs delay_s"),
        ("exception", {"code": 256}, "from 1 to 255"),
        ("noise_before", {"hex": "0g"}, "in hex, such as 00ff"),
        ("noise_before", {"hex": 10}, "in hex"),
        ("noise_before", {"hex": ""}, "1 to 256 bytes"),
        ("noise_before", {"hex": "00", "bytes": 2}, "hex and bytes exclude each other"),
        ("split", {"gap_s": 0.1, "at_byte": 1, "every_byte": True}, "exclude each other"),
        ("drop_acks", {"of": "reads"}, "no parameter 'of'"),
        ("bursts", {"burst_s": 16}, "0 to 0.255"),
        ("replug", {"off_s": -1}, "from 0 to 3600"),
    ],
)
def test_wrong_calls_say_what_is_valid(setup: Setup, op: str, params: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        setup.call(op, **params)


async def test_both_clients_over_the_socket(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "control"
    async with serving(path, setup.operations), await AsyncControlClient.connect(path) as client:
        await client.call("put_object", width_m=0.03)
        states = await asyncio.gather(*(client.call("state", unit=unit) for unit in (9, 5)))
        assert [s["state"]["unit"] for s in states] == [9, 5]
        with pytest.raises(ControlError, match="unknown op"):
            await client.call("nonsense")

        def blocking() -> object:
            with ControlClient(path) as sim:
                with pytest.raises(ControlError, match="Valid"):
                    sim.call("nonsense")
                return sim.call("state")["state"]["object_width_m"]

        assert await asyncio.to_thread(blocking) == 0.03


async def raw(path: Path, *lines: bytes) -> list[Any]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(b"".join(lines))
        return [json.loads(await asyncio.wait_for(reader.readline(), 5)) for _ in lines]
    finally:
        writer.close()
        await writer.wait_closed()


async def test_ids_are_echoed_and_nonsense_is_survived(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "control"
    async with serving(path, setup.operations):
        lines = (b"{\n", b"[]\n", b'{"id": 3}\n', b'{"id": "a", "op": "state"}\n', b'{"id": 4, "op": "x"}\n', b"\xff\n")
        answers = await raw(path, *lines)
        assert [(a["id"], a["ok"]) for a in answers] == [
            (None, False),
            (None, False),
            (None, False),
            ("a", True),
            (4, False),
            (None, False),
        ]
        (too_long,) = await raw(path, b'{"op": "' + b"x" * 70_000 + b'"}\n')
        assert "65536" in too_long["error"]
        assert (await raw(path, b'{"id": 1, "op": "state"}\n'))[0]["ok"]


async def test_an_operation_that_breaks_is_an_answer(tmp_path: Path) -> None:
    def broken(_args: object) -> None:
        raise ZeroDivisionError

    path = tmp_path / "control"
    async with serving(path, Operations({"broken": Operation("Break.", broken)})):
        answers = await raw(path, b'{"id": 1, "op": "broken"}\n', b'{"id": 2, "op": "help"}\n')
        assert [(a["id"], a["ok"]) for a in answers] == [(1, False), (2, True)]
        assert answers[0]["error"] == "ZeroDivisionError"


async def test_a_stale_socket_is_replaced_and_a_living_one_is_not(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(path, setup.operations):
        with pytest.raises(SocketInUseError, match="living process"):
            await ControlServer(path, setup.operations).start()
        assert (await raw(path, b'{"op": "help"}\n'))[0]["ok"]
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(SocketInUseError, match="is not a socket"):
        await ControlServer(path, setup.operations).start()
    with pytest.raises(SocketInUseError, match="cannot listen"):
        await ControlServer(tmp_path / "missing" / "control", setup.operations).start()


async def test_clients_say_when_nobody_is_there(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with pytest.raises(ControlError, match="no simulator at"):
        ControlClient(path)
    with pytest.raises(ControlError, match="no simulator at"):
        await AsyncControlClient.connect(path)
    server = ControlServer(path, setup.operations)
    await server.start()
    client = await AsyncControlClient.connect(path)
    await client.call("state")
    await server.close()
    with pytest.raises(ControlError):
        await client.call("state")
    with contextlib.suppress(OSError):
        await client.close()


def test_operation_errors_are_value_errors() -> None:
    call: Callable[[], object] = lambda: Operations({}).call("x", {})  # noqa: E731
    with pytest.raises(OperationError):
        call()


def test_the_manual_lists_every_operation(setup: Setup) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    for name, op in setup.call("help")["ops"].items():
        params = ", ".join(f"`{p['name']}`" + ("" if p["required"] else "?") for p in op["params"])
        assert f"| `{name}` | {params} | {op['doc']} |" in manual
