"""The real port on a real pseudo terminal, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import serial
from structlog.testing import capture_logs

from gripperd.clock import SystemClock
from gripperd.modbus import line as line_module
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import PortError, SerialLine, SerialSettings
from tests.modbus.bench import SHAPES, reply_to
from tests.modbus.pseudo_terminal import Pty

WAIT_S = 10.0
"""Longest wait for anything; nothing here needs it."""


@pytest.fixture
def port() -> Iterator[Pty]:
    made = Pty()
    yield made
    made.close()


def _descriptors(path: str) -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.path.islink(link) and os.readlink(link).startswith(path) for link in links)


async def _come_true(condition: Callable[[], bool]) -> None:
    """Look again and again, in real time: what is looked at has no event."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await SystemClock().sleep(0.001)


def _nobody_told(reason: str) -> None:
    raise AssertionError(f"told of a loss: {reason}")


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
    """HOTPLUG 122, 125: no spinning, no open handle that would make the adapter return under another name."""
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


async def test_a_port_without_permission_says_which_group_helps(port: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    """DIAG 85. Root may open everything, so the kernel's refusal is played."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(PortError, match=f"no permission to open {port.path}.*dialout"):
            await SerialLine(SerialSettings(port.path)).open(lambda data: None, _nobody_told)


async def test_something_that_is_no_port_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PortError, match="cannot be"):
        await SerialLine(SerialSettings(str(tmp_path / "file"))).open(lambda data: None, lambda reason: None)


async def test_a_port_that_another_process_holds_names_that_process(port: Pty) -> None:
    """LOCK 152, 155."""
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


async def test_a_refused_or_failed_opening_leaves_no_descriptor_behind(port: Pty, tmp_path: Path) -> None:
    """LOCK 155, HOTPLUG 125: however often it is tried."""
    owner = SerialLine(SerialSettings(port.path))
    await owner.open(lambda data: None, _nobody_told)
    before = len(os.listdir("/proc/self/fd"))
    for path in (port.path, str(tmp_path / "none"), str(tmp_path)):
        for _ in range(5):
            with pytest.raises(PortError):
                await SerialLine(SerialSettings(path)).open(lambda data: None, _nobody_told)
    assert len(os.listdir("/proc/self/fd")) == before
    owner.close()


async def test_a_port_that_this_process_has_open_is_refused_too(port: Pty) -> None:
    """LOCK 152: two buses of one configuration with the same port under two names."""
    owner = SerialLine(SerialSettings(port.path))
    await owner.open(lambda data: None, _nobody_told)
    with pytest.raises(PortError, match=f"in use by process {os.getpid()}"):
        await SerialLine(SerialSettings(port.path)).open(lambda data: None, _nobody_told)
    owner.close()


async def test_the_lock_keeps_out_programs_that_know_of_no_lock(port: Pty) -> None:
    """LOCK 155: TIOCEXCL beside flock. Root is let in by the kernel, so the flag itself is read."""
    owner = SerialLine(SerialSettings(port.path))
    await owner.open(lambda data: None, _nobody_told)
    assert port.is_exclusive()
    owner.close()


@pytest.mark.parametrize("error", [termios.error(5, "Input/output error"), OSError(5, "Input/output error")])
@pytest.mark.parametrize("call", ["ioctl", "tcflush"])
async def test_an_adapter_that_vanishes_in_the_middle_of_opening_is_an_error_like_any_other(
    port: Pty, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    """HOTPLUG 124: the bus goes on trying, and the descriptor is closed."""
    module, fatal = {"ioctl": (fcntl, termios.TIOCEXCL), "tcflush": (termios, termios.TCIOFLUSH)}[call]
    original = getattr(module, call)

    def fails(descriptor: int, request: int, *more: object) -> object:
        if request != fatal:
            return original(descriptor, request, *more)
        raise error

    monkeypatch.setattr(module, call, fails)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PortError, match="Input/output error"):
        await SerialLine(SerialSettings(port.path)).open(lambda data: None, _nobody_told)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_baudrate_that_the_port_cannot_have_is_named(port: Pty) -> None:
    with pytest.raises(PortError, match=f"{port.path} cannot be .*-5"):
        await SerialLine(SerialSettings(port.path, -5)).open(lambda data: None, _nobody_told)


async def test_an_opening_that_is_given_up_closes_what_it_still_opens(
    port: Pty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXIT: the daemon ends while an adapter's driver takes its time."""
    may_open, opened = threading.Event(), list[serial.Serial]()
    original = line_module._open_port

    def slow(settings: SerialSettings) -> serial.Serial:
        may_open.wait(WAIT_S)
        opened.append(original(settings))
        return opened[-1]

    monkeypatch.setattr(line_module, "_open_port", slow)
    opening = asyncio.create_task(SerialLine(SerialSettings(port.path)).open(lambda data: None, _nobody_told))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    may_open.set()
    await _come_true(lambda: bool(opened) and not opened[0].is_open)


async def test_an_adapter_that_takes_no_more_bytes_is_told_and_does_not_block(port: Pty) -> None:
    """HANG 103: the write path."""
    line = SerialLine(SerialSettings(port.path))
    await line.open(lambda data: None, _nobody_told)

    def fill() -> None:
        for _ in range(100_000):
            line.write(b"x" * 256)

    with pytest.raises(PortError, match=f"{port.path}"):
        fill()
    line.close()
    line.close()
    with pytest.raises(PortError, match="is not open"):
        line.write(b"x")


async def test_a_request_that_is_taken_in_part_is_an_error(port: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    line = SerialLine(SerialSettings(port.path))
    await line.open(lambda data: None, _nobody_told)
    monkeypatch.setattr(os, "write", lambda descriptor, data: 3)
    with pytest.raises(PortError, match="took 3 of 8 bytes: the adapter is stuck, replug it"):
        line.write(b"x" * 8)
    line.close()


async def test_a_port_may_be_closed_by_the_one_who_receives_its_bytes(port: Pty) -> None:
    line, closed = SerialLine(SerialSettings(port.path)), asyncio.Event()

    def received(data: bytes) -> None:
        line.close()
        closed.set()

    await line.open(received, _nobody_told)
    os.write(port.master, b"\x01")
    await asyncio.wait_for(closed.wait(), WAIT_S)
    os.write(port.master, b"\x02")
    await asyncio.sleep(0)


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


async def test_a_short_sleep_usually_ends_within_a_millisecond() -> None:
    """asyncio alone rounds up to whole milliseconds, which would halve the rate of a line with a gap of 0.3 ms."""
    clock, late_s = SystemClock(), list[float]()
    for _ in range(200):
        began_s = clock.monotonic()
        await clock.sleep(0.0003)
        late_s.append(clock.monotonic() - began_s - 0.0003)
    assert min(late_s) >= 0.0
    assert sorted(late_s)[20] < 0.001, "one in ten at least, on a machine that is busy with something else"


class Adapter:
    """A USB adapter with an RG75 behind it: a link that comes and goes, and a device that answers every poll."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.answers = 0
        self._pty: Pty | None = None

    def plug(self) -> None:
        self._pty = made = Pty()
        self.link.symlink_to(made.path)
        asyncio.get_running_loop().add_reader(made.master, self._answer)

    def unplug(self) -> None:
        assert self._pty is not None
        asyncio.get_running_loop().remove_reader(self._pty.master)
        self.link.unlink()
        self._pty.close()

    def _answer(self) -> None:
        assert self._pty is not None
        data = os.read(self._pty.master, 4096)
        for request in SHAPES:
            if request.frame == data:
                self.answers += 1
                os.write(self._pty.master, reply_to(request, self.answers))


async def _ask(bus: Bus) -> Result:
    over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    bus.submit(Lane.POLL, Job(lambda: SHAPES, over.set_result))
    return await asyncio.wait_for(over, WAIT_S)


async def _until(bus: Bus, ending: Ending) -> Result:
    async with asyncio.timeout(WAIT_S):
        while (result := await _ask(bus)).ending is not ending:
            await SystemClock().sleep(0.002)
    return result


async def test_an_adapter_unplugged_and_plugged_in_twenty_times_is_used_again_each_time(tmp_path: Path) -> None:
    """HOTPLUG 125, 128: no descriptor is left over; each loss and each return is logged once."""
    adapter = Adapter(tmp_path / "gripper")
    settings = SerialSettings(str(adapter.link))
    limits = BusLimits(reopen_delay_s=0.005, late_reply_limit_s=0.0, response_timeout_s=2.0)
    bus = Bus("bus", SerialLine(settings), limits, SystemClock())
    adapter.plug()
    with capture_logs() as logs:
        owner = asyncio.create_task(bus.run())
        assert (await _until(bus, Ending.REPLY)).registers[0] == adapter.answers
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            adapter.unplug()
            assert str(adapter.link) in (await _until(bus, Ending.PORT)).text
            await _come_true(lambda: "does not exist" in bus.trouble)
            adapter.plug()
            assert (await _until(bus, Ending.REPLY)).registers[0] == adapter.answers
        assert len(os.listdir("/proc/self/fd")) == before
        owner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await owner
    adapter.unplug()
    events = [entry["event"] for entry in logs]
    assert events == ["port_open"] + ["port_lost", "port_not_open", "port_open"] * 20
    assert bus.counters.port_lost == 20


async def test_a_bus_without_its_adapter_does_not_spin(tmp_path: Path) -> None:
    """HOTPLUG 122: less than a tenth of a processor while it looks for the port five times a second."""
    adapter = Adapter(tmp_path / "gripper")
    bus = Bus("bus", SerialLine(SerialSettings(str(adapter.link))), BusLimits(), SystemClock())
    adapter.plug()
    owner = asyncio.create_task(bus.run())
    await _until(bus, Ending.REPLY)
    adapter.unplug()
    await _until(bus, Ending.PORT)
    used_s, began_s = time.process_time(), time.monotonic()
    await asyncio.sleep(0.5)
    share = (time.process_time() - used_s) / (time.monotonic() - began_s)
    assert share < 0.1
    owner.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await owner
