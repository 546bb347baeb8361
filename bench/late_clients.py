"""Clients that publish what they read, and count how often it was the value of another request.

The device answers each read with the read's own number, modulo 256, as its position. What a client publishes must be
the number of the read that it had sent last. `python -m bench.late_clients NAME ...`; the tally goes to standard output
as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pymodbus.client import AsyncModbusSerialClient
from pymodbus.exceptions import ModbusException

from bench.clients.bare import BareLine
from bench.clients.ours import BUS, GRIPPER, STROKE_M, build_gripper
from bench.rtu import READ_HOLDING, READ_INPUT, STATUS, STATUS_REGISTERS, UNIT, read_reply, read_request, reply_bytes
from bench.slave import ACTIVE_AT_REST
from gripperd.clock import Clock, SystemClock
from gripperd.contract import CommandOutcome, Event, Fault, GripperState, Link
from gripperd.modbus.bus import Bus, BusLimits
from gripperd.modbus.line import Line, SerialLine, SerialSettings
from gripperd.store import Store
from tests.support.virtual_time import VirtualClock, run_virtual

POSITIONS = 256
"""Numbers that a position can show: no reply may be late by so many reads."""
CHARACTER_S = 10 / 115_200

TIMEOUT_S = 0.01
LATE_LIMIT_S = 0.2
"""Time-out and gripperd's late_reply_limit_s on the pty [s]: small, so that late replies are many in a short time."""
PTY_POLL_HZ = 1000.0

VIRTUAL_TIMEOUT_S = 0.1
VIRTUAL_LATE_LIMIT_S = 5.0
"""In virtual time: the daemon's own values [s]."""
VIRTUAL_POLL_HZ = 20.0
"""Slower than the daemon's own, since prompt replies prove nothing and cost computing time."""
LATE_SHARE = 0.15
NEARLY_S = 0.3
"""Half of the late replies come within this time after the time-out [s], among the next requests; the others any time
before the limit.
"""
TURNAROUND_S = 0.001


@dataclass(slots=True)
class Tally:
    """values: published as valid; wrong: of these, the answer to another request; invalid: published as not known."""

    reads: int = 0
    late: int = 0
    values: int = 0
    wrong: int = 0
    invalid: int = 0

    def publish(self, position: int | None) -> None:
        """A value for the read that was sent last, or None."""
        if position is None:
            self.invalid += 1
            return
        self.values += 1
        self.wrong += position != self.reads % POSITIONS


class CountingLine:
    """A real port whose reads are counted."""

    def __init__(self, port: str, tally: Tally) -> None:
        self._line = SerialLine(SerialSettings(port))
        self._tally = tally

    def character_s(self) -> float:
        """[s]"""
        return self._line.character_s()

    def describe(self) -> str:
        """Port and settings."""
        return self._line.describe()

    def slow_remedy(self) -> str:
        """What the port says."""
        return self._line.slow_remedy()

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Open it."""
        await self._line.open(received, lost)

    def write(self, data: bytes) -> None:
        """Send and count."""
        self._tally.reads += data[1] in (READ_HOLDING, READ_INPUT)
        self._line.write(data)

    def close(self) -> None:
        """Close it."""
        self._line.close()


class LateLine:
    """A line in virtual time whose device is late at random, seeded. done: called once `wanted` replies were late."""

    def __init__(self, tally: Tally, wanted: int, seed: int, done: Callable[[], None]) -> None:
        self._tally, self._wanted, self._done = tally, wanted, done
        self._random = random.Random(seed)
        self._received: Callable[[bytes], None] = lambda data: None

    def character_s(self) -> float:
        """[s]"""
        return CHARACTER_S

    def describe(self) -> str:
        """For messages."""
        return "late line"

    def slow_remedy(self) -> str:
        """Nothing: lateness is what is measured."""
        return ""

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """At once."""
        self._received = received

    def write(self, data: bytes) -> None:
        """Answer, now or late."""
        tally, chance = self._tally, self._random
        tally.reads += 1
        size = reply_bytes(data)
        registers = (ACTIVE_AT_REST, tally.reads % POSITIONS << 8, 0x8080, 25 << 8 | 24)
        reply = read_reply(data[1], registers[: (size - 5) // 2])
        delay_s = TURNAROUND_S + (len(data) + size) * CHARACTER_S
        late = chance.random() < LATE_SHARE
        if late:
            most_s = VIRTUAL_LATE_LIMIT_S - delay_s - VIRTUAL_TIMEOUT_S
            spread_s = NEARLY_S if chance.random() < 0.5 else most_s
            delay_s += VIRTUAL_TIMEOUT_S + chance.uniform(0.0, spread_s)
        asyncio.get_running_loop().call_later(delay_s, self._arrive, reply, late)

    def _arrive(self, reply: bytes, late: bool) -> None:
        self._received(reply)
        self._tally.late += late
        if self._tally.late >= self._wanted:
            self._done()

    def close(self) -> None:
        """Nothing to give back."""


async def _supervise(
    line: Line, limits: BusLimits, clock: Clock, rate_hz: float, tally: Tally, over: asyncio.Event
) -> None:
    """gripperd's gripper on this line, until `over`."""
    bus, store = Bus(BUS, line, limits, clock), Store("bench")
    gripper = build_gripper(bus, store, clock, rate_hz)

    def listen(event: Event, item: GripperState | CommandOutcome | Fault | Link | None, name: str) -> None:
        assert isinstance(item, GripperState)
        width_m = item.opening_width_m if item.opening_width_valid else None
        tally.publish(None if width_m is None else 255 - round(255 * width_m / STROKE_M))

    store.subscribe([GRIPPER], [Event.STATE], listen)
    tasks = [asyncio.create_task(bus.run()), asyncio.create_task(gripper.run())]
    await over.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _virtual(wanted: int, protected: bool) -> Tally:
    """protected: False takes gripperd's protection away, to see that the count can be other than 0."""
    tally, over = Tally(), asyncio.Event()
    late_limit_s = VIRTUAL_LATE_LIMIT_S if protected else 0.0
    limits = BusLimits(response_timeout_s=VIRTUAL_TIMEOUT_S, late_reply_limit_s=late_limit_s)
    await _supervise(LateLine(tally, wanted, 1, over.set), limits, VirtualClock(), VIRTUAL_POLL_HZ, tally, over)
    return tally


async def _ours(port: str, measure_s: float) -> Tally:
    tally, over = Tally(), asyncio.Event()
    limits = BusLimits(response_timeout_s=TIMEOUT_S, late_reply_limit_s=LATE_LIMIT_S)
    asyncio.get_running_loop().call_later(measure_s, over.set)
    await _supervise(CountingLine(port, tally), limits, SystemClock(), PTY_POLL_HZ, tally, over)
    return tally


async def _bare(port: str, measure_s: float) -> Tally:
    """Throws away what came before each request, as a careful loop does."""
    tally, over = Tally(), asyncio.Event()
    request = read_request()

    def next_frame() -> bytes | None:
        if over.is_set():
            return None
        tally.reads += 1
        return request

    asyncio.get_running_loop().call_later(measure_s, over.set)
    line = BareLine(
        port, 3.5 * CHARACTER_S, TIMEOUT_S, next_frame, lambda reply: tally.publish(None if reply is None else reply[5])
    )
    line.kick()
    await over.wait()
    line.close()
    return tally


async def _pymodbus(port: str, measure_s: float) -> Tally:
    client = AsyncModbusSerialClient(port, baudrate=115_200, timeout=TIMEOUT_S, retries=0)
    if not await client.connect():
        raise RuntimeError(f"pymodbus could not open {port}")
    tally, end_s = Tally(), time.monotonic() + measure_s
    while time.monotonic() < end_s:
        tally.reads += 1
        try:
            answer = await client.read_input_registers(STATUS, count=STATUS_REGISTERS, device_id=UNIT)
        except ModbusException:
            tally.publish(None)
        else:
            tally.publish(None if answer.isError() else answer.registers[1] >> 8)
    client.close()
    return tally


def main() -> None:
    """Run one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.late_clients", description="Counts values of other requests."
    )
    parser.add_argument("client", choices=("virtual", "unprotected", "ours", "bare", "pymodbus"))
    parser.add_argument("--port", default="")
    parser.add_argument("--measure-s", type=float, default=5.0)
    parser.add_argument("--late", type=int, default=10_000, help="late replies to wait for, in virtual time")
    options = parser.parse_args()
    on_pty = {"ours": _ours, "bare": _bare, "pymodbus": _pymodbus}
    if options.client in ("virtual", "unprotected"):
        tally = run_virtual(_virtual(options.late, protected=options.client == "virtual"))
    else:
        tally = asyncio.run(on_pty[options.client](options.port, options.measure_s))
    sys.stdout.write(json.dumps(asdict(tally)) + "\n")


if __name__ == "__main__":
    main()
