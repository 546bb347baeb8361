"""What a person is told where a line is set up wrong: garbage, silence, slow adapters, a time-out that is too short."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from gripperd.modbus.bus import BusLimits, Ending, Lane
from gripperd.modbus.exchange import USUAL_REPLIES
from gripperd.modbus.line import SerialLine, SerialSettings
from tests.modbus.bench import SHAPES, STOP, go, wire
from tests.support.virtual_time import run_virtual

Deliveries = list[tuple[float, bytes]]


def _heard(bits: list[int]) -> bytes:
    """What a receiver set to 8N1 makes of the bits of a line; a character whose stop bit is missing reads as 0."""
    seen, at = bytearray(), 0
    while at + 9 < len(bits):
        if bits[at]:
            at += 1
            continue
        seen.append(bits[at + 9] * sum(bit << n for n, bit in enumerate(bits[at + 1 : at + 9])))
        at += 10
    return bytes(seen)


def _sent(data: bytes, parity: bool) -> list[int]:
    """Start bit, data, even parity if any, stop bit."""
    line: list[int] = []
    for byte in data:
        ones = [byte >> n & 1 for n in range(8)]
        line += [0, *ones, *([sum(ones) % 2] if parity else []), 1]
    return line


def _at_half_the_rate(data: bytes) -> bytes:
    return _heard([bit for bit in _sent(data, parity=False) for _ in range(2)])


def _with_parity(data: bytes) -> bytes:
    return _heard(_sent(data, parity=True))


@pytest.mark.parametrize("garble", [_at_half_the_rate, _with_parity], ids=["baudrate", "parity"])
def test_garbage_instead_of_replies_is_told_with_the_settings_of_the_line(garble: Callable[[bytes], bytes]) -> None:
    """FRAME 25: nothing of it is accepted, and the text says what is set and what to check."""

    async def scenario() -> None:
        async with wire() as w:
            for n in range(50):
                w.line.fault = lambda request, reply: [(0.0, garble(reply or b""))]
                result = await w.submit(Lane.COMMAND, (go(n),), tag=object()) if n % 2 else await w.ask()
                assert result.ending in (Ending.CRC, Ending.MISMATCH)
                assert "on sim at 115200 8N1, received " in result.text
                assert "check baudrate, parity" in result.text
                await asyncio.sleep(5.0)
            w.line.fault = None
            assert (await w.ask()).ending is Ending.REPLY

    run_virtual(scenario())


def test_silence_is_told_with_the_settings_of_the_line() -> None:
    """FRAME 25, DIAG 85: a device at another rate hears noise, and says nothing."""

    async def scenario() -> None:
        async with wire() as w:
            w.line.fault = lambda request, reply: []
            text = (await w.ask()).text
            assert text == (
                "unit 9: no reply within 0.102 s on sim at 115200 8N1; check power, wiring, unit, baudrate and parity"
            )

    run_virtual(scenario())


def test_a_real_port_describes_itself_as_people_write_it() -> None:
    """FRAME 25."""
    assert SerialLine(SerialSettings("/dev/gripper/tool0", 57_600, "E")).describe() == "/dev/gripper/tool0 at 57600 8E1"


@pytest.mark.parametrize(("held_s", "told"), [(0.0, False), (0.008, False), (0.0105, True), (0.016, True)])
def test_an_adapter_that_holds_replies_back_is_told_once_after_each_opening(held_s: float, told: bool) -> None:
    """RATE 145, 149: with what to do about it."""
    rng = random.Random(5)

    async def scenario() -> None:
        async with wire() as w:
            w.line.fault = lambda request, reply: [(held_s - 0.0005 * rng.random() if held_s else 0.0, reply or b"")]
            for _ in range(2):
                for _ in range(2 * USUAL_REPLIES):
                    await w.ask()
                w.line.unplug()
                w.line.plugged = True
                await asyncio.sleep(0.3)

    with capture_logs() as logs:
        run_virtual(scenario())
    slow = [entry for entry in logs if entry["event"] == "slow_replies"]
    assert len(slow) == (2 if told else 0)
    assert all("latency_timer" in entry["hint"] and entry["bus"] == "bus" for entry in slow)


@pytest.mark.parametrize("timeout_s", [0.03, 0.1, 0.5])
def test_a_reply_within_the_time_out_is_never_lost_and_one_behind_it_never_taken(timeout_s: float) -> None:
    """RATE 151: the share of errors over the reply delay is a step at `response_timeout_s`, and no value is wrong."""

    async def scenario() -> None:
        shares = {}
        for factor in (0.1, 0.5, 0.9, 0.98, 1.02, 1.1, 1.5, 3.0):
            async with wire(BusLimits(response_timeout_s=timeout_s)) as w:
                w.line.fault = lambda request, reply, factor=factor: [(factor * timeout_s - 0.001, reply or b"")]
                endings = []
                for _ in range(60):
                    result = await w.ask()
                    endings.append(result.ending)
                    if result.ending is Ending.REPLY:
                        assert result.registers[0] == w.unit.count
                    await asyncio.sleep(w.bus.wait_s(SHAPES))
                assert set(endings) <= {Ending.REPLY, Ending.TIMEOUT, Ending.MISMATCH}
                shares[factor] = endings.count(Ending.REPLY) / 60
        assert shares == {factor: float(factor < 1.0) for factor in shares}

    run_virtual(scenario())


def test_a_stop_is_answered_on_a_line_whose_replies_all_miss_the_time_out() -> None:
    """RATE 151: it is not taken for acknowledged by the late reply to a poll."""

    async def scenario() -> None:
        async with wire() as w:
            w.line.fault = lambda request, reply: [(0.15, reply or b"")]
            for _ in range(20):
                poll = w.submit(Lane.POLL, SHAPES)
                await asyncio.sleep(0.01)
                stop = await w.submit(Lane.STOP, (STOP,), tag=object())
                assert not (stop.ending is Ending.REPLY and stop.proven)
                await poll
                await asyncio.sleep(w.bus.wait_s(SHAPES))

    run_virtual(scenario())
