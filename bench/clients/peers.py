"""The libraries that a program would use otherwise, each as an asyncio program would use it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable

from pymodbus.client import AsyncModbusSerialClient, ModbusSerialClient
from pymodbus.exceptions import ModbusException

from bench.clients.meter import Meter, Task
from bench.rtu import READ_INPUT, STATUS, STATUS_REGISTERS, UNIT


class NotInstalledError(Exception):
    """A library that is compared is missing; the text says how to get it."""


async def _repeat(meter: Meter, read: Callable[[], Awaitable[bool]]) -> None:
    while meter.count(await read()):
        pass


async def _run_asynchronous(task: Task, meter: Meter) -> None:
    client = AsyncModbusSerialClient(task.port, baudrate=task.baudrate, timeout=task.timeout_s, retries=0)
    if not await client.connect():
        raise RuntimeError(f"pymodbus could not open {task.port}")

    async def read() -> bool:
        try:
            answer = await client.read_input_registers(STATUS, count=STATUS_REGISTERS, device_id=UNIT)
        except ModbusException:
            return False
        return not answer.isError()

    await _repeat(meter, read)
    client.close()


async def _run_synchronous(task: Task, meter: Meter) -> None:
    client = ModbusSerialClient(task.port, baudrate=task.baudrate, timeout=task.timeout_s, retries=0)
    if not client.connect():
        raise RuntimeError(f"pymodbus could not open {task.port}")

    def read_blocking() -> bool:
        try:
            return not client.read_input_registers(STATUS, count=STATUS_REGISTERS, device_id=UNIT).isError()
        except ModbusException:
            return False

    await _repeat(meter, lambda: asyncio.to_thread(read_blocking))
    client.close()  # type: ignore[no-untyped-call]


async def _run_minimalmodbus(task: Task, meter: Meter) -> None:
    try:
        minimalmodbus = importlib.import_module("minimalmodbus")
    except ImportError as error:
        raise NotInstalledError("minimalmodbus is not installed: ./run setup") from error
    instrument = minimalmodbus.Instrument(task.port, UNIT)
    instrument.serial.baudrate = task.baudrate
    instrument.serial.timeout = task.timeout_s

    def read_blocking() -> bool:
        try:
            instrument.read_registers(STATUS, STATUS_REGISTERS, functioncode=READ_INPUT)
        except (OSError, ValueError):  # its exceptions are of these kinds
            return False
        return True

    await _repeat(meter, lambda: asyncio.to_thread(read_blocking))
    instrument.serial.close()


def pymodbus_asynchronous(task: Task, meter: Meter) -> None:
    """pymodbus' asyncio client; its own lock puts one request after the other."""
    asyncio.run(_run_asynchronous(task, meter))


def pymodbus_synchronous(task: Task, meter: Meter) -> None:
    """pymodbus' blocking client, each read in a thread."""
    asyncio.run(_run_synchronous(task, meter))


def minimalmodbus_synchronous(task: Task, meter: Meter) -> None:
    """minimalmodbus, each read in a thread. Raises NotInstalledError."""
    asyncio.run(_run_minimalmodbus(task, meter))
