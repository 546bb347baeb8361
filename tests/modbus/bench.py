"""What the tests of this folder are made of: replies by shape, a unit that numbers its replies, a bus over a line in
memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

from pymodbus.framer import FramerRTU

from gripperd.modbus.bus import Bus, BusLimits, Job, Lane, Result
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request, read_registers, write_registers
from tests.support.sim_line import CHARACTER_S, SimLine
from tests.support.sim_line import Unit as SimUnit
from tests.support.virtual_time import VirtualClock, within

UNIT = 9
STATUS = 0x07D0
CONTROL = 0x03E8
SHAPES = tuple(read_registers(UNIT, fn, STATUS, count) for count in (4, 3, 2) for fn in (READ_INPUT, READ_HOLDING))
STOP = write_registers(UNIT, CONTROL, (1,))


def seal(body: bytes) -> bytes:
    """The body with its CRC."""
    return body + FramerRTU.compute_CRC(body).to_bytes(2, "big")


def reply_to(request: Request, value: int = 0) -> bytes:
    """The reply a unit gives; a read brings `value` in every register."""
    if request.function == 0x10:
        return seal(request.frame[:6])
    return seal(request.shape + value.to_bytes(2, "big") * (request.shape[2] // 2))


def go(value: int) -> Request:
    """A command of three words."""
    return write_registers(UNIT, CONTROL, (9, value & 0xFFFF, 0))


class Counting:
    """A unit that answers every request with its own number, so that a reply tells which request it answers."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        self.count = (self.count + 1) % 0x10000
        if frame[1] == 0x10:
            return seal(frame[:6])
        registers = int.from_bytes(frame[4:6], "big")
        return seal(frame[:2] + bytes([2 * registers]) + self.count.to_bytes(2, "big") * registers)


class Wire:
    """A bus over a line in memory; `ask` sends a job and waits for its result."""

    def __init__(
        self,
        limits: BusLimits | None = None,
        units: Mapping[int, SimUnit] | None = None,
        line: type[SimLine] = SimLine,
    ) -> None:
        self.unit = Counting()
        self.line = line(units if units is not None else {UNIT: self.unit})
        self.bus = Bus("bus", self.line, limits or BusLimits(), VirtualClock())

    def submit(
        self, lane: Lane, requests: Sequence[Request], attempts: int = 1, tag: object = None
    ) -> asyncio.Future[Result]:
        over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if not over.done():
                over.set_result(result)

        self.bus.submit(lane, Job(lambda: requests, done, attempts, tag))
        return over

    async def ask(self, requests: Sequence[Request] = SHAPES) -> Result:
        return await within(30.0, self.submit(Lane.POLL, requests))

    def silence_s(self, index: int) -> float:
        """How long the line was silent before the request of this index [s]."""
        sent_s = self.line.seen[index].t_s
        busy_s = [end_s for end_s in self.line.delivered_s if end_s <= sent_s]
        if index:
            before = self.line.seen[index - 1]
            busy_s.append(before.t_s + len(before.frame) * CHARACTER_S)
        return sent_s - max(busy_s)


@contextlib.asynccontextmanager
async def wire(
    limits: BusLimits | None = None, units: Mapping[int, SimUnit] | None = None, line: type[SimLine] = SimLine
) -> AsyncIterator[Wire]:
    """A wire whose bus runs until the end of the block."""
    made = Wire(limits, units, line)
    task = asyncio.create_task(made.bus.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
