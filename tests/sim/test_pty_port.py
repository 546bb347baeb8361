"""The line on a real pty: pymodbus as the master, several frames at once, timing faults, unplugging."""

from __future__ import annotations

import asyncio
import os
import select
import termios
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymodbus.client import ModbusSerialClient
from pymodbus.pdu import ModbusPDU

from gripperd_sim.faults import fault
from gripperd_sim.line import Line
from gripperd_sim.pty_port import PortError, PtyPort
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rtu import IDLE_GAP_S

STATUS_4 = bytes.fromhex("090407D00004F00C")
STATUS_1 = bytes.fromhex("090407D00001300F")
ENABLE = bytes.fromhex("091003E80001020001 2478")
WAIT_S = 5.0
"""Longest wait for anything; nothing here needs it."""


class Wire:
    """A line on a pty, in the loop of the test."""

    def __init__(self, link: Path, paced: bool, check_baudrate: bool = False, **options: float) -> None:
        self.device = Rg75(Rg75Options(**{"reply_delay_s": 0.0, **options}), now_s=time.monotonic())  # type: ignore[arg-type]
        self.other = Rg75(Rg75Options(reply_delay_s=0.0), now_s=time.monotonic(), unit=5)
        self.line = Line([self.device, self.other])
        self.port = PtyPort(self.line, link, paced=paced, check_baudrate=check_baudrate)
        self.port.plug()


class Client:
    """A raw file descriptor on the port, as a serial library would have it."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self.fd)

    def send(self, data: bytes) -> None:
        os.write(self.fd, data)

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        async with asyncio.timeout(WAIT_S):
            while len(data) < count:
                data += await asyncio.to_thread(self._some, count - len(data))
        return data

    def _some(self, count: int) -> bytes:
        ready, _, _ = select.select([self.fd], [], [], WAIT_S)
        return os.read(self.fd, count) if ready else b""

    def close(self) -> None:
        os.close(self.fd)


@pytest.fixture
async def make(tmp_path: Path) -> Iterator[Callable[..., tuple[Wire, Client]]]:  # type: ignore[misc]
    wires: list[Wire] = []
    clients: list[Client] = []

    def build(paced: bool = False, **more: float) -> tuple[Wire, Client]:
        wires.append(Wire(tmp_path / "gripper", paced, **more))  # type: ignore[arg-type]
        clients.append(Client(tmp_path / "gripper"))
        return wires[-1], clients[-1]

    yield build
    for client in clients:
        client.close()
    for wire in wires:
        wire.port.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait for what the port does in this loop."""
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - the port has no event for it
            await asyncio.sleep(0.001)


Make = Callable[..., tuple[Wire, Client]]


def master(path: Path, work: Callable[[ModbusSerialClient], list[ModbusPDU]]) -> list[ModbusPDU]:
    client = ModbusSerialClient(str(path), baudrate=115_200, timeout=WAIT_S, retries=0)
    try:
        assert client.connect()
        return work(client)
    finally:
        client.close()  # type: ignore[no-untyped-call]


async def test_pymodbus_reads_and_writes_with_all_four_functions(make: Make) -> None:
    wire, _ = make(paced=True)

    def work(client: ModbusSerialClient) -> list[ModbusPDU]:
        return [
            client.read_input_registers(0x07D0, count=4, device_id=9),
            client.write_registers(0x03E8, [0x0001, 0x8000, 0xFF40], device_id=9),
            client.read_holding_registers(0x03E8, count=3, device_id=9),
            client.write_register(0x03E9, 0x1200, device_id=9),
            client.read_holding_registers(0x03E9, count=1, device_id=9),
            client.read_input_registers(0x07D0, count=1, device_id=5),
        ]

    replies = await asyncio.to_thread(master, wire.port.link, work)
    assert not any(reply.isError() for reply in replies)
    assert replies[0].registers == [0, 1, 0, 0x1918]
    assert replies[2].registers == [0x0001, 0x8000, 0xFF40]
    assert replies[4].registers == [0x1200]
    assert replies[5].dev_id == 5


async def test_pymodbus_understands_the_exceptions(make: Make) -> None:
    wire, _ = make()

    def work(client: ModbusSerialClient) -> list[ModbusPDU]:
        return [
            client.read_input_registers(0, count=1, device_id=9),
            client.write_registers(0x138D, [0], device_id=9),
            client.read_coils(0, count=1, device_id=9),
        ]

    replies = await asyncio.to_thread(master, wire.port.link, work)
    assert [reply.exception_code for reply in replies] == [2, 3, 1]


async def test_several_frames_in_one_write_are_all_answered_in_order(make: Make) -> None:
    for paced in (False, True):
        _, client = make(paced=paced)
        client.send(STATUS_1 + ENABLE + STATUS_4)
        data = await client.read(7 + 8 + 13)
        assert (data[:3].hex(), data[7:15].hex(), data[15:18].hex()) == ("090402", "091003e8000180f1", "090408")


async def test_garbage_is_survived_and_a_pause_brings_the_line_back(make: Make) -> None:
    wire, client = make()
    client.send(b"\xff\x00\x09\x10garbage" + STATUS_1)
    await until(lambda: wire.port.heard_bytes == 19)
    await asyncio.sleep(2 * IDLE_GAP_S)
    client.send(STATUS_1)
    assert (await client.read(7))[:3].hex() == "090402"
    assert wire.device.history.of("write") == []


async def test_pacing_takes_at_least_the_time_on_the_wire(make: Make) -> None:
    wire, client = make(paced=True)
    wire.device.baudrate = 9_600
    begin_s = time.monotonic()
    client.send(STATUS_4)
    await client.read(13)
    assert time.monotonic() - begin_s >= (8 + 3.5 + 13) * 10 / 9_600


async def test_a_status_shows_the_time_at_which_the_reply_is_formed(make: Make) -> None:
    wire, client = make(paced=True, takeup_s=0.0)
    client.send(ENABLE + STATUS_4)
    data = await client.read(8 + 13)
    assert data[8 + 4] == 0x11
    request = wire.device.history.of("request")[1]
    reply = wire.device.history.of("reply")[1]
    assert request.t_s == reply.t_s


async def test_a_delayed_reply_comes_after_later_ones(make: Make) -> None:
    wire, client = make()
    wire.line.station().faults.arm(fault("delay", count=1, delay_s=0.1), time.monotonic())
    client.send(STATUS_4)
    client.send(STATUS_1)
    data = await client.read(7 + 13)
    assert (data[2], data[7 + 2]) == (2, 8)


async def test_the_port_outlives_a_client_that_comes_back(make: Make) -> None:
    wire, first = make()
    name = wire.port.name
    first.send(STATUS_1)
    await first.read(7)
    os.close(first.fd)
    first.fd = os.open(wire.port.link, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    first.send(STATUS_1)
    assert (await first.read(7))[0] == 9
    assert wire.port.name == name


async def test_unplug_hangs_up_and_plug_comes_back_under_another_name(make: Make) -> None:
    wire, client = make()
    old = wire.port.name
    assert str(wire.port.link.readlink()) == old
    wire.port.unplug()
    assert not wire.port.link.is_symlink()
    poll = select.poll()
    poll.register(client.fd, select.POLLIN)
    assert poll.poll(1000 * WAIT_S)[0][1] & select.POLLHUP
    with pytest.raises(PortError, match="unplugged already"):
        wire.port.unplug()
    wire.port.plug()
    assert wire.port.name != old
    with pytest.raises(PortError, match="plugged in already"):
        wire.port.plug()
    second = Client(wire.port.link)
    second.send(STATUS_1)
    assert (await second.read(7))[0] == 9
    second.close()


async def test_replies_nobody_reads_are_dropped_in_the_end(make: Make) -> None:
    wire, client = make()
    for _ in range(60):
        client.send(STATUS_4 * 20)
        await asyncio.sleep(0)
    await until(lambda: len(wire.device.history.of("request")) >= 400)
    termios.tcflush(client.fd, termios.TCIOFLUSH)


async def test_a_client_at_another_baud_rate_is_not_understood(make: Make) -> None:
    wire, client = make(check_baudrate=True)
    set_speed(client.fd, termios.B9600)
    client.send(STATUS_1)
    await until(lambda: wire.port.heard_bytes == len(STATUS_1))
    await asyncio.sleep(2 * IDLE_GAP_S)
    assert wire.device.history.of("request") == []
    set_speed(client.fd, termios.B115200)
    client.send(STATUS_1)
    assert (await client.read(7))[0] == 9


def set_speed(fd: int, speed: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[4] = attributes[5] = speed
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


async def test_a_link_path_that_is_no_symlink_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gripper"
    path.write_text("precious")
    port = PtyPort(Line([Rg75()]), path)
    with pytest.raises(PortError, match="is not a symlink"):
        port.plug()
    port.close()
    assert path.read_text() == "precious"
    nowhere = PtyPort(Line([Rg75()]), tmp_path / "missing" / "gripper")
    with pytest.raises(PortError, match="cannot make the symlink"):
        nowhere.plug()
    assert not nowhere.plugged
    nowhere.close()


async def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = open_descriptors()
    for _ in range(3):
        port = PtyPort(Line([Rg75()]), tmp_path / "gripper")
        port.plug()
        old = port.name
        port.unplug()
        port.plug()
        assert port.name != old
        port.close()
    assert open_descriptors() == before
    assert os.listdir(tmp_path) == []


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
