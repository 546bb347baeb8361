"""What the bus counts and says of exchanges that went wrong."""

from __future__ import annotations

import random

import pytest

from gripperd.modbus.bus import Ending, Lane
from tests.modbus.bench import SHAPES, STOP, go, wire
from tests.support.sim_line import CHARACTER_S
from tests.support.virtual_time import run_virtual


def test_one_damaged_reply_in_twenty_is_repeated_and_told_by_the_counters() -> None:
    """FRAME 28: the first two bytes are damaged, since the device answers before the adapter has turned round."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            rng = random.Random(3)
            damaged = 0

            def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                nonlocal damaged
                if rng.random() >= 1 / 20:
                    return [(0.0, reply or b"")]
                damaged += 1
                return [(0.0, b"\x00\x00" + (reply or b"")[2:])]

            w.line.fault = fault
            for n in range(400):
                result = await w.submit(Lane.COMMAND, (go(n),), attempts=3, tag=object())
                assert result.ending is Ending.REPLY
            counters = w.bus.counters
            assert damaged > 10
            assert counters.mismatches == counters.retries == damaged
            assert counters.transactions == 401 + damaged
            assert counters.crc_errors == counters.timeouts == 0

    run_virtual(scenario())


def test_an_adapter_that_hears_itself_is_counted_and_harmless() -> None:
    """FRAME: local echo, whole, or a byte short; also of a device that does not answer."""

    async def scenario() -> None:
        async with wire() as w:
            for cut in (slice(None), slice(1, None), slice(None, -1)):
                w.line.fault = lambda request, reply, cut=cut: [(0.0, request[cut] + (reply or b""))]
                for _ in range(10):
                    result = await w.ask()
                    assert result.registers[0] == w.unit.count
                    assert (await w.submit(Lane.STOP, (STOP,), tag=object())).ending is Ending.REPLY
            assert w.bus.counters.echoes == 20
            assert w.bus.counters.noise_bytes == 20 * (7 + 10)
            w.line.fault = lambda request, reply: [(0.0, request)]
            assert (await w.submit(Lane.STOP, (STOP,), tag=object())).ending is Ending.TIMEOUT

    run_virtual(scenario())


def test_round_trips_and_texts_say_what_happened() -> None:
    """DIAG 80: unit, ending, what was received."""

    async def scenario() -> None:
        async with wire() as w:
            good = await w.ask()
            assert good.round_trip_s == pytest.approx(0.001 + 21 * CHARACTER_S)
            assert good.request == SHAPES[0]
            assert w.bus.counters.as_dict()["round_trip_max_s"] == pytest.approx(good.round_trip_s, abs=1e-6)
            w.line.fault = lambda request, reply: [(0.0, (reply or b"")[:-1] + b"\x00")]
            text = (await w.ask((SHAPES[0],))).text
            assert text.startswith("unit 9: reply with a wrong CRC within 0.1")
            assert "received 09 04 08 00 02 00 02 00 02 00 02" in text

    run_virtual(scenario())
