"""The gap and the rate on a real pseudo terminal, with the real clock, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from gripperd.clock import SystemClock
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import SerialLine, SerialSettings
from gripperd.modbus.transaction import Request
from tests.modbus.bench import SHAPES, go, reply_to
from tests.modbus.pseudo_terminal import Pty

GAP_CHARACTERS = 3.5
BITS_PER_CHARACTER = 10
HIDDEN_WAIT_S = 0.016
"""What one adapter timer, or one poll of a sleepy loop, would add to a cycle [s]."""


@pytest.fixture
def port() -> Iterator[Pty]:
    made = Pty()
    yield made
    made.close()


class Device:
    """Answers every request after delay_s, and keeps the times at both ends of the silence between two frames."""

    def __init__(self, port: Pty, delay_s: float = 0.0) -> None:
        self._port = port
        self._delay_s = delay_s
        self._buffer = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked_s: list[float] = []
        self.answered_s: list[float] = []
        asyncio.get_running_loop().add_reader(port.master, self._read)

    def _read(self) -> None:
        self._buffer += os.read(self._port.master, 4096)
        for request in (*SHAPES, go(1)):
            if request.frame == self._buffer:
                self._buffer = b""
                self.asked_s.append(time.monotonic())
                task = asyncio.ensure_future(self._answer(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        await SystemClock().sleep(self._delay_s)
        self.answered_s.append(time.monotonic())  # before the bytes leave: so no gap is measured shorter than it was
        os.write(self._port.master, reply_to(request))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._port.master)


@contextlib.asynccontextmanager
async def _running(port: Pty, baudrate: int, limits: BusLimits) -> AsyncIterator[Bus]:
    bus = Bus("bus", SerialLine(SerialSettings(port.path, baudrate)), limits, SystemClock())
    owner = asyncio.create_task(bus.run())
    yield bus
    owner.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await owner


def _submit(bus: Bus, lane: Lane, *requests: Request) -> asyncio.Future[Result]:
    over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    bus.submit(lane, Job(lambda: requests, over.set_result, tag=object()))
    return over


@pytest.mark.parametrize(("baudrate", "turnaround_s"), [(115_200, 0.0), (19_200, 0.0), (9_600, 0.0), (115_200, 0.004)])
async def test_the_silence_before_a_request_is_kept_on_a_real_port(
    port: Pty, baudrate: int, turnaround_s: float
) -> None:
    """FRAME 22: measured where the device hears it."""
    device = Device(port)
    limits = BusLimits(turnaround_s=turnaround_s, response_timeout_s=5.0)
    async with _running(port, baudrate, limits) as bus:
        for _ in range(100):
            assert (await _submit(bus, Lane.POLL, *SHAPES)).ending is Ending.REPLY
    device.close()
    gaps_s = [asked - answered for answered, asked in zip(device.answered_s, device.asked_s[1:], strict=False)]
    wanted_s = max(GAP_CHARACTERS * BITS_PER_CHARACTER / baudrate, turnaround_s)
    assert len(gaps_s) == 99
    assert min(gaps_s) >= wanted_s
    assert min(gaps_s) < wanted_s + 0.002, "and no more than it must be"


async def test_twelve_transactions_take_as_long_as_their_replies_and_gaps(port: Pty) -> None:
    """RATE 146, 148: a device that answers after 1 ms; the best of 30 cycles, as the machine does other things too."""
    delay_s, gap_s = 0.001, GAP_CHARACTERS * BITS_PER_CHARACTER / 115_200
    device = Device(port, delay_s)
    cycles_s = []
    async with _running(port, 115_200, BusLimits(response_timeout_s=5.0)) as bus:
        await _submit(bus, Lane.POLL, *SHAPES)
        for _ in range(30):
            began_s = time.monotonic()
            for _ in range(6):
                assert (await _submit(bus, Lane.POLL, *SHAPES)).ending is Ending.REPLY
                assert (await _submit(bus, Lane.COMMAND, go(1))).ending is Ending.REPLY
            cycles_s.append(time.monotonic() - began_s)
        median_s = bus.counters.as_dict()["round_trip_p50_s"]
    device.close()
    sum_s = 12 * (delay_s + gap_s)
    assert min(cycles_s) >= sum_s
    assert min(cycles_s) < sum_s + HIDDEN_WAIT_S - 0.002, "not even one hidden wait of an adapter's or a loop's timer"
    assert median_s < HIDDEN_WAIT_S
    assert all(later > earlier for earlier, later in itertools.pairwise(device.asked_s))
