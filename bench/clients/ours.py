"""gripperd itself, in this process: the line alone, and the line as the daemon drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.clients.meter import Meter, Task
from bench.rtu import STATUS, UNIT
from gripperd.clock import Clock, SystemClock
from gripperd.contract import CommandOutcome, Event, Fault, GripperState, Link
from gripperd.drivers.registry import driver_specs
from gripperd.drivers.spec import Surroundings
from gripperd.gripper import Gripper
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import SerialLine, SerialSettings
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request, read_registers
from gripperd.store import Store

FASTEST_HZ = 1000.0
"""The highest poll rate that a configuration may ask for [Hz]."""
BUS = "wire"
GRIPPER = "left"
STROKE_M = 0.075


def _bus(task: Task) -> Bus:
    line = SerialLine(SerialSettings(task.port, task.baudrate))
    return Bus(BUS, line, BusLimits(response_timeout_s=task.timeout_s), SystemClock())


def build_gripper(bus: Bus, store: Store, clock: Clock, rate_hz: float) -> Gripper:
    """A gripper as the daemon makes it from a configuration with this poll rate."""
    spec = driver_specs()["rg75"]
    keys = {"name": GRIPPER, "driver": "rg75", "bus": BUS, "unit": UNIT, "stroke_m": STROKE_M}
    rates = {"poll_rate_hz": rate_hz, "moving_poll_rate_hz": rate_hz}
    return Gripper(spec.build(spec.config.model_validate(keys | rates), Surroundings({BUS: bus}, clock)), store, clock)


async def _run_gripper(task: Task, meter: Meter) -> None:
    bus, store = _bus(task), Store("bench")
    gripper = build_gripper(bus, store, SystemClock(), FASTEST_HZ)
    over = asyncio.Event()

    def listen(event: Event, item: GripperState | CommandOutcome | Fault | Link | None, name: str) -> None:
        if isinstance(item, GripperState) and not meter.count(item.opening_width_valid):
            over.set()

    store.subscribe([GRIPPER], [Event.STATE], listen)
    tasks = [asyncio.create_task(bus.run()), asyncio.create_task(gripper.run())]
    await over.wait()
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _run_bus(task: Task, meter: Meter) -> None:
    bus = _bus(task)
    shapes = [read_registers(UNIT, function, STATUS, 4) for function in (READ_INPUT, READ_HOLDING)]
    over = asyncio.Event()

    def prepare() -> Sequence[Request]:
        shapes.reverse()  # as the driver does: the shape that was answered last comes last
        return shapes

    def done(result: Result) -> None:
        if meter.count(result.ending is Ending.REPLY):
            bus.submit(Lane.POLL, Job(prepare, done))
        else:
            over.set()

    bus.submit(Lane.POLL, Job(prepare, done))
    owner = asyncio.create_task(bus.run())
    await over.wait()
    owner.cancel()
    await asyncio.gather(owner, return_exceptions=True)


def daemon(task: Task, meter: Meter) -> None:
    """Supervisor, driver, store, bus and line, as the daemon runs them; only the socket is left out."""
    asyncio.run(_run_gripper(task, meter))


def line(task: Task, meter: Meter) -> None:
    """Bus and line alone, with the driver's requests."""
    asyncio.run(_run_bus(task, meter))
