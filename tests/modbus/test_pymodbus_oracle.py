"""pymodbus as an independent server: it understands our requests, and we its replies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator

import pytest
from pymodbus.constants import ExcCodes
from pymodbus.framer import FramerType
from pymodbus.server import ModbusSerialServer
from pymodbus.simulator import DataType, SimData, SimDevice

from gripperd.clock import SystemClock
from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import SerialLine, SerialSettings
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request, read_registers, write_registers
from tests.modbus.bench import CONTROL, STATUS, UNIT
from tests.modbus.pseudo_terminal import Pty

STATUS_WORDS = [0x00F1, 0xFE04, 0x0100, 0x1918]
CONTROL_WORDS = 20
"""Registers of the control block; the next one does not exist."""
WAIT_S = 10.0


class Server:
    """pymodbus' serial server, and its store seen from inside."""

    def __init__(self, port: str) -> None:
        status = SimData(STATUS, values=STATUS_WORDS, datatype=DataType.REGISTERS)
        control = SimData(CONTROL, count=CONTROL_WORDS, datatype=DataType.REGISTERS)
        device = SimDevice(id=UNIT, simdata=[status, control])
        self.modbus = ModbusSerialServer(device, framer=FramerType.RTU, port=port, baudrate=115_200)

    async def stored(self, address: int, count: int) -> tuple[int, ...]:
        """What the server holds."""
        values = await self.modbus.context.async_getValues(UNIT, READ_HOLDING, address, count)
        assert not isinstance(values, ExcCodes)
        return tuple(int(value) for value in values)


class Client:
    """Our bus on our line."""

    def __init__(self, port: str) -> None:
        limits = BusLimits(response_timeout_s=2.0)  # a busy machine is no fault of the wire
        self.bus = Bus("bus", SerialLine(SerialSettings(port)), limits, SystemClock())

    async def ask(self, request: Request) -> Result:
        over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.bus.submit(Lane.COMMAND, Job(lambda: (request,), over.set_result))
        return await asyncio.wait_for(over, WAIT_S)


@contextlib.asynccontextmanager
async def _joined() -> AsyncIterator[tuple[Client, Server]]:
    """The server on one pseudo terminal, we on another; their masters are joined byte for byte."""
    ours, theirs = Pty(), Pty()
    server, client = Server(theirs.path), Client(ours.path)
    loop = asyncio.get_running_loop()
    loop.add_reader(ours.master, lambda: os.write(theirs.master, os.read(ours.master, 4096)))
    loop.add_reader(theirs.master, lambda: os.write(ours.master, os.read(theirs.master, 4096)))
    await server.modbus.serve_forever(background=True)
    owner = asyncio.create_task(client.bus.run())
    try:
        yield client, server
    finally:
        owner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await owner
        await server.modbus.shutdown()  # type: ignore[no-untyped-call]  # pymodbus has no type here
        loop.remove_reader(ours.master)
        loop.remove_reader(theirs.master)
        ours.close()
        theirs.close()


async def test_one_to_four_registers_are_read_as_the_server_holds_them() -> None:
    async with _joined() as (client, server):
        for function in (READ_INPUT, READ_HOLDING):
            for count in (1, 2, 3, 4):
                for address in range(STATUS, STATUS + 5 - count):
                    result = await client.ask(read_registers(UNIT, function, address, count))
                    assert result.ending is Ending.REPLY
                    assert result.registers == await server.stored(address, count)
                    assert result.registers == tuple(STATUS_WORDS[address - STATUS :][:count])


@pytest.mark.parametrize(
    "words", [(0x0001,), (0x0009, 0xFF00), (0x0009, 0xFF00, 0x8040), (0xFFFF, 0x0000, 0x1234, 0x00FF)], ids=len
)
async def test_words_that_are_written_are_in_the_servers_store(words: tuple[int, ...]) -> None:
    async with _joined() as (client, server):
        assert (await client.ask(write_registers(UNIT, CONTROL, words))).ending is Ending.REPLY
        assert await server.stored(CONTROL, len(words)) == words
        assert await server.stored(CONTROL + len(words), 1) == (0,)


async def test_refusals_are_told_with_their_code() -> None:
    """Illegal data address, in the middle of a block's end as well as far from any block."""
    async with _joined() as (client, server):
        beyond = CONTROL + CONTROL_WORDS
        for request in (
            read_registers(UNIT, READ_INPUT, 0x2000, 1),
            read_registers(UNIT, READ_HOLDING, beyond - 1, 2),
            write_registers(UNIT, beyond, (1,)),
            write_registers(UNIT, beyond - 1, (1, 2)),
        ):
            result = await client.ask(request)
            assert result.ending is Ending.EXCEPTION, result
            assert result.text.endswith(f"refused function {request.function:02X}h with exception 2")
        assert await server.stored(beyond - 1, 1) == (0,)
        assert (await client.ask(read_registers(UNIT, READ_INPUT, STATUS, 4))).ending is Ending.REPLY
        assert client.bus.counters.exceptions == 4


async def test_five_hundred_transactions_go_by_without_an_error() -> None:
    """Reads and writes at random; a copy of the store is kept here, and every value compared."""
    async with _joined() as (client, server):
        rng = random.Random(500)
        copy = [0] * CONTROL_WORDS
        for _ in range(500):
            count = rng.randint(1, 4)
            offset = rng.randint(0, CONTROL_WORDS - count)
            if rng.random() < 0.5:
                copy[offset : offset + count] = words = [rng.randrange(0x10000) for _ in range(count)]
                result = await client.ask(write_registers(UNIT, CONTROL + offset, words))
                assert result.ending is Ending.REPLY
            else:
                function = rng.choice([READ_HOLDING, READ_INPUT])
                result = await client.ask(read_registers(UNIT, function, CONTROL + offset, count))
                assert list(result.registers) == copy[offset : offset + count]
        assert await server.stored(CONTROL, CONTROL_WORDS) == tuple(copy)
        counters = client.bus.counters
        assert counters.replies == counters.transactions == 500
        assert (counters.timeouts, counters.crc_errors, counters.mismatches, counters.noise_bytes) == (0, 0, 0, 0)
