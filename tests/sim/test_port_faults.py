"""Faults that are a matter of time or of the port, on a real pty: pieces and their gaps, bursts, echo, replugging."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from pymodbus.client import ModbusSerialClient

from gripperd_sim.faults import fault
from gripperd_sim.line import Line
from gripperd_sim.operations import Operations, Value
from gripperd_sim.pty_port import PtyPort
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rg75.operations import Rg75Bench
from gripperd_sim.scenario import Scenario, ScenarioPlay, Step
from gripperd_sim.scenario_driver import ScenarioDriver
from tests.sim.test_pty_port import ENABLE, STATUS_1, STATUS_4, WAIT_S, Client, until

GAP_S = 0.3
"""Longer than any machine needs to notice the piece before it."""


class Bench:
    """A paced line on a pty, its operations, and a client that notes what each read gave, and when."""

    def __init__(self, folder: Path, baudrate: int = 115_200) -> None:
        self.device = Rg75(Rg75Options(reply_delay_s=0.0), now_s=time.monotonic(), baudrate=baudrate)
        self.line = Line([self.device])
        self.port = PtyPort(self.line, folder / "gripper")
        self.operations = Operations(Rg75Bench(self.line, self.port, time.monotonic).table())
        self.port.plug()
        self.client = Client(self.port.link)

    def call(self, op: str, **params: Value) -> None:
        self.operations.call(op, params)

    async def reads(self, request: bytes, count: int) -> list[tuple[float, bytes]]:
        """What each read gave until so many bytes came, with the time since the request was sent [s]."""
        begin_s = time.monotonic()
        self.client.send(request)
        got: list[tuple[float, bytes]] = []
        while sum(len(data) for _, data in got) < count:
            data = await asyncio.to_thread(self.client._some, 4096)
            assert data, f"only {got}"
            got.append((time.monotonic() - begin_s, data))
        return got

    async def whole(self, request: bytes, count: int) -> bytes:
        return b"".join(data for _, data in await self.reads(request, count))

    def close(self) -> None:
        self.client.close()
        self.port.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path, baudrate=9_600)
    yield made
    made.close()


async def test_pieces_come_apart_by_the_gap(bench: Bench) -> None:
    good = await bench.whole(STATUS_4, 13)
    bench.call("split", at_byte=3, gap_s=GAP_S, count=1)
    first, *rest = await bench.reads(STATUS_4, 13)
    assert first[1] == good[:3]
    assert b"".join(data for _, data in rest) == good[3:]
    wire_s = (8 + 13) * 10 / 115_200
    assert rest[0][0] >= GAP_S + wire_s - 8 * 10 / 115_200
    assert rest[-1][0] >= GAP_S + wire_s


async def test_the_gap_is_silence_on_the_wire_beside_the_time_of_the_bytes(slow: Bench) -> None:
    gap_s = 0.005
    slow.call("split", every_byte=True, gap_s=gap_s, count=1)
    reads = await slow.reads(STATUS_1, 7)
    assert reads[-1][0] >= 6 * gap_s + (8 + 3.5 + 7) * 10 / 9_600


async def test_merged_replies_are_read_as_one(bench: Bench) -> None:
    bench.call("merge", count=1)
    bench.client.send(STATUS_4)
    await until(lambda: len(bench.device.history.of("line_fault")) == 1)
    ((_, data),) = await bench.reads(ENABLE, 13 + 8)
    assert (data[:3].hex(), data[13:].hex()) == ("090408", "091003e8000180f1")


async def test_a_repeated_reply_comes_later_and_whole(bench: Bench) -> None:
    bench.call("repeat", delay_s=GAP_S, count=1)
    reads = await bench.reads(STATUS_1, 14)
    data = b"".join(data for _, data in reads)
    assert data[:7] == data[7:]
    assert reads[-1][0] >= GAP_S


async def test_bursts_hand_over_whole_replies_at_ticks(bench: Bench) -> None:
    burst_s, rounds = 0.03, 8
    bench.call("bursts", burst_s=burst_s)
    begin_s = time.monotonic()
    for _ in range(rounds):
        assert [len(data) for _, data in await bench.reads(STATUS_4, 13)] == [13]
    # Each round waits for a tick of its own.
    assert time.monotonic() - begin_s >= (rounds - 1) * burst_s
    bench.call("bursts", burst_s=0)
    assert bench.port.burst_s == 0
    await bench.reads(STATUS_4, 13)


async def test_what_waits_for_a_tick_is_handed_over_when_bursts_end(bench: Bench) -> None:
    bench.port.set_bursts(60.0)
    bench.client.send(STATUS_4)
    await until(lambda: len(bench.port._held) == 13)
    bench.call("bursts", burst_s=0)
    assert bench.port._held == b""
    assert len(await bench.client.read(13)) == 13


async def test_an_echo_comes_first_and_pymodbus_takes_it_off(bench: Bench) -> None:
    bench.call("echo")
    assert (await bench.whole(STATUS_4, 8 + 13))[: 8 + 3] == STATUS_4 + bytes.fromhex("090408")

    def work() -> list[list[int]]:
        client = ModbusSerialClient(
            str(bench.port.link), baudrate=115_200, timeout=WAIT_S, retries=0, handle_local_echo=True
        )
        try:
            assert client.connect()
            client.write_registers(0x03E9, [0x1200], device_id=9)
            return [
                list(client.read_input_registers(0x07D0, count=4, device_id=9).registers),
                list(client.read_holding_registers(0x03E9, count=1, device_id=9).registers),
            ]
        finally:
            client.close()  # type: ignore[no-untyped-call]

    status, written = await asyncio.to_thread(work)
    assert len(status) == 4
    assert written == [0x1200]
    assert bench.line.station().faults.struck() == {"echo": 4}


async def test_an_echo_takes_no_time_from_the_reply(slow: Bench) -> None:
    """A paced echo would be on the wire for another 8 ms before the reply begins."""
    slow.call("echo")
    times: list[float] = []
    at = slow.port._timeline.at

    def note(due_s: float, call: Callable[[float], None]) -> None:
        times.append(due_s)
        at(due_s, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow.port._timeline, "at", note)
        await slow.whole(STATUS_1, 8 + 7)
    one_s = 10 / 9_600
    assert max(times) - min(times) == pytest.approx(7 * one_s, abs=1e-6)


async def test_replug_hangs_up_and_comes_back_by_itself_under_another_name(bench: Bench) -> None:
    old = bench.port.name
    changes: list[tuple[str, str, float]] = []
    note = bench.port.on_change
    assert note is not None

    def on_change(change: str, name: str) -> None:
        changes.append((change, name, time.monotonic()))
        note(change, name)

    bench.port.on_change = on_change
    bench.call("replug", off_s=0.05)
    poll = select.poll()
    poll.register(bench.client.fd, select.POLLIN)
    assert poll.poll(1000 * WAIT_S)[0][1] & select.POLLHUP
    assert not bench.port.link.is_symlink()
    await until(lambda: bench.port.plugged)
    assert bench.port.name != old
    bench.client.close()
    bench.client = Client(bench.port.link)
    assert (await bench.whole(STATUS_1, 7))[0] == 9
    assert [(change, name) for change, name, _ in changes] == [("unplugged", old), ("plugged", bench.port.name)]
    assert changes[1][2] - changes[0][2] >= 0.05
    events = [(e.fields["change"], e.fields["name"]) for e in bench.device.history.of("port")]
    assert events == [("plugged", old), ("unplugged", old), ("plugged", bench.port.name)]


async def test_plugging_in_by_hand_forestalls_the_replug(bench: Bench) -> None:
    bench.call("replug", off_s=0.02)
    bench.call("plug")
    name = bench.port.name
    await asyncio.sleep(0.06)
    assert bench.port.name == name
    assert [e.fields["change"] for e in bench.device.history.of("port")] == ["plugged", "unplugged", "plugged"]


async def test_a_reply_held_back_is_lost_with_the_port(bench: Bench) -> None:
    bench.call("merge", count=1)
    bench.client.send(STATUS_4)
    await until(lambda: len(bench.device.history.of("line_fault")) == 1)
    bench.call("unplug")
    bench.call("plug")
    bench.client.close()
    bench.client = Client(bench.port.link)
    assert len(await bench.whole(STATUS_1, 7)) == 7


def driven(bench: Bench, scenario: Scenario) -> tuple[ScenarioDriver, ScenarioPlay, list[str]]:
    reports: list[str] = []
    play = ScenarioPlay(scenario, bench.operations, reports.append)
    driver = ScenarioDriver(play)
    bench.line.before_request = driver.heard
    return driver, play, reports


async def test_a_scenario_goes_on_without_requests(bench: Bench) -> None:
    steps = (Step(0.0, "unplug"), Step(0.03, "plug"), Step(0.06, "set", {"voltage_v": 22}))
    driver, play, reports = driven(bench, Scenario(steps, begins="ready"))
    begin_s = time.monotonic()
    driver.ready()
    assert not bench.port.plugged
    await until(lambda: bool(play.status()["ended"]))
    driver.close()
    assert time.monotonic() - begin_s >= 0.06
    assert bench.port.plugged
    assert bench.device.history.of("world")[-1].fields["voltage_v"] == 22
    assert reports == []


async def test_a_port_taken_away_by_the_request_itself_answers_nothing(bench: Bench) -> None:
    """A step at the time of the request comes before the devices hear it, so no reply may reach the new port."""
    driver, _, reports = driven(bench, Scenario((Step(0.0, "unplug"), Step(0.0, "plug"))))
    old = bench.port.name
    bench.client.send(STATUS_4 + STATUS_1)
    await until(lambda: bench.port.name != old)
    bench.client.close()
    bench.client = Client(bench.port.link)
    data = await bench.whole(ENABLE, 8)
    assert data.hex() == "091003e8000180f1"
    driver.close()
    assert reports == []


async def test_a_fault_armed_in_memory_and_over_the_operations_is_the_same(bench: Bench) -> None:
    bench.line.station().faults.arm(fault("lose", count=3), 0.0)
    bench.call("lose", count=3)
    assert bench.line.station().faults.armed(0.0) == {"lose": {"count": 3}}
