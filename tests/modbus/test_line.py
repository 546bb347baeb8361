"""The real port on a real pseudo terminal, and pymodbus as an independent server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import subprocess
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pymodbus.framer import FramerType
from pymodbus.server import ModbusSerialServer
from pymodbus.simulator import DataType, SimData, SimDevice

from gripperd.clock import SystemClock
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import PortError, SerialLine, SerialSettings
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request, read_registers, write_registers

STATUS_WORDS = [0x00F1, 0xFE04, 0x0100, 0x1918]
REGS = DataType.REGISTERS


class Pty:
    """Both ends of a pseudo terminal."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.path = os.ttyname(self.slave)

    def close(self) -> None:
        for descriptor in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def port() -> Iterator[Pty]:
    made = Pty()
    yield made
    made.close()


def _descriptors(path: str) -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.path.islink(link) and os.readlink(link).startswith(path) for link in links)


async def test_it_moves_bytes_both_ways(port: Pty) -> None:
    line, got, news = SerialLine(SerialSettings(port.path)), bytearray(), asyncio.Event()

    def received(data: bytes) -> None:
        got.extend(data)
        news.set()

    await line.open(received, lambda reason: None)
    line.write(b"\x09\x04")
    assert await asyncio.to_thread(os.read, port.master, 10) == b"\x09\x04"
    os.write(port.master, b"\x01\x02\x03")
    await asyncio.wait_for(news.wait(), 5.0)
    assert bytes(got) == b"\x01\x02\x03"
    line.close()


async def test_a_hang_up_is_told_once_and_the_descriptor_given_back(port: Pty) -> None:
    """HOTPLUG 122 and 125: no spinning, no open handle that would make the adapter return under another name."""
    line, reasons, gone = SerialLine(SerialSettings(port.path)), list[str](), asyncio.Event()

    def lost(reason: str) -> None:
        reasons.append(reason)
        gone.set()

    await line.open(lambda data: None, lost)
    before = _descriptors(port.path)
    os.close(port.master)
    await asyncio.wait_for(gone.wait(), 5.0)
    await asyncio.sleep(0)
    assert len(reasons) == 1
    assert port.path in reasons[0]
    assert _descriptors(port.path) == before - 1
    with pytest.raises(PortError):
        line.write(b"x")
    line.close()


async def test_a_port_that_is_missing_says_what_to_do(tmp_path: Path) -> None:
    """DIAG 80."""
    line = SerialLine(SerialSettings(str(tmp_path / "tool0")))
    with pytest.raises(PortError, match=r"tool0 does not exist: plug the adapter in"):
        await line.open(lambda data: None, lambda reason: None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
async def test_a_port_without_permission_says_which_group_helps(port: Pty) -> None:
    os.chmod(port.path, 0)
    with pytest.raises(PortError, match="dialout"):
        await SerialLine(SerialSettings(port.path)).open(lambda data: None, lambda reason: None)


async def test_something_that_is_no_port_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PortError, match="cannot be"):
        await SerialLine(SerialSettings(str(tmp_path / "file"))).open(lambda data: None, lambda reason: None)


async def test_a_port_that_another_process_holds_names_that_process(port: Pty) -> None:
    """LOCK 152 and 155."""
    code = "import serial, sys; port = serial.Serial(sys.argv[1], exclusive=True); print(1, flush=True); input()"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, port.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    with pytest.raises(PortError, match=f"in use by process {holder.pid}"):
        await SerialLine(SerialSettings(port.path)).open(lambda data: None, lambda reason: None)
    await holder.communicate(b"\n")
    line = SerialLine(SerialSettings(port.path))
    await line.open(lambda data: None, lambda reason: None)
    line.close()


async def test_what_came_before_opening_is_thrown_away(port: Pty) -> None:
    os.write(port.master, b"old")
    line, got = SerialLine(SerialSettings(port.path)), asyncio.Queue[bytes]()
    await line.open(got.put_nowait, lambda reason: None)
    os.write(port.master, b"new")
    assert await asyncio.wait_for(got.get(), 5.0) == b"new"
    line.close()


async def test_the_settings_reach_the_port(port: Pty) -> None:
    line = SerialLine(SerialSettings(port.path, 57_600, "E"))
    await line.open(lambda data: None, lambda reason: None)
    assert termios.tcgetattr(port.slave)[4] == termios.B57600
    assert line.character_s() == 11 / 57_600
    line.close()


async def test_a_short_sleep_is_never_early() -> None:
    clock = SystemClock()
    for duration_s in (0.0, 0.0003, 0.001, 0.004, 0.006):
        began_s = clock.monotonic()
        await clock.sleep(duration_s)
        assert clock.monotonic() - began_s >= duration_s


async def test_sleeps_leave_no_descriptor_behind_when_cancelled() -> None:
    before = len(os.listdir("/proc/self/fd"))
    tasks = [asyncio.create_task(SystemClock().sleep(0.004)) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before


@contextlib.asynccontextmanager
async def _pymodbus_server() -> AsyncIterator[str]:
    """pymodbus' serial server on one pseudo terminal, ours on another, their masters joined byte for byte."""
    ours, theirs = Pty(), Pty()
    device = SimDevice(
        id=9, simdata=[SimData(0x07D0, values=STATUS_WORDS, datatype=REGS), SimData(0x03E8, count=20, datatype=REGS)]
    )
    server = ModbusSerialServer(device, framer=FramerType.RTU, port=theirs.path, baudrate=115_200)
    loop = asyncio.get_running_loop()
    loop.add_reader(ours.master, lambda: os.write(theirs.master, os.read(ours.master, 4096)))
    loop.add_reader(theirs.master, lambda: os.write(ours.master, os.read(theirs.master, 4096)))
    await server.serve_forever(background=True)
    try:
        yield ours.path
    finally:
        await server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus has no type here
        loop.remove_reader(ours.master)
        loop.remove_reader(theirs.master)
        ours.close()
        theirs.close()


async def _ask(bus: Bus, request: Request) -> Result:
    over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    bus.submit(Lane.COMMAND, Job(lambda: (request,), over.set_result))
    return await asyncio.wait_for(over, 10.0)


async def test_an_independent_server_understands_us_and_we_it() -> None:
    """pymodbus as a server: reads, writes, exceptions, and five hundred transactions without an error."""
    async with _pymodbus_server() as path:
        bus = Bus("bus", SerialLine(SerialSettings(path)), BusLimits(response_timeout_s=2.0), SystemClock())
        owner = asyncio.create_task(bus.run())
        try:
            for count in (1, 2, 3, 4):
                for function in (READ_INPUT, READ_HOLDING):
                    result = await _ask(bus, read_registers(9, function, 0x07D0, count))
                    assert result.registers == tuple(STATUS_WORDS[:count]), result
            words = (0x0009, 0xFF00, 0x8040)
            assert (await _ask(bus, write_registers(9, 0x03E8, words))).ending is Ending.REPLY
            assert (await _ask(bus, read_registers(9, READ_HOLDING, 0x03E8, 3))).registers == words
            refused = await _ask(bus, read_registers(9, READ_INPUT, 0x2000, 1))
            assert refused.ending is Ending.EXCEPTION
            assert "exception 2" in refused.text
            for n in range(500):
                assert (await _ask(bus, write_registers(9, 0x03E8, (n, 0, 0)))).ending is Ending.REPLY
            counters = bus.counters
            assert (counters.timeouts, counters.crc_errors, counters.mismatches) == (0, 0, 0)
        finally:
            owner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await owner
