"""The silence before a request: 3.5 characters after a clean exchange, more after anything else, never without end."""

from __future__ import annotations

import asyncio
import random

import pytest

from gripperd.modbus.bus import BusLimits, Ending, Lane
from gripperd.modbus.transaction import READ_INPUT, read_registers
from tests.modbus.bench import CONTROL, SHAPES, STATUS, STOP, Wire, reply_to, wire
from tests.support.sim_line import CHARACTER_S
from tests.support.virtual_time import run_virtual

GAP_S = 3.5 * CHARACTER_S
QUIET_S = 0.02
TINY_S = 1e-9

Deliveries = list[tuple[float, bytes]]


async def fail_over(w: Wire) -> None:
    """As long as the supervisor would wait before it asks again."""
    await asyncio.sleep(w.bus.even_s(SHAPES))


@pytest.mark.parametrize("turnaround_s", [0.0, 0.005, 0.5])
def test_the_gap_is_kept_before_every_request(turnaround_s: float) -> None:
    """FRAME 22: 3.5 characters after the last byte of the reply, or the configured turnaround if that is longer."""

    async def scenario() -> None:
        async with wire(BusLimits(turnaround_s=turnaround_s)) as w:
            for _ in range(500):
                assert (await w.ask()).ending is Ending.REPLY
            gaps = [w.silence_s(index) for index in range(1, 500)]
            wanted_s = max(GAP_S, turnaround_s)
            assert min(gaps) >= wanted_s - TINY_S
            assert max(gaps) < wanted_s + 0.0005

    run_virtual(scenario())


def _damage(rng: random.Random, reply: bytes) -> tuple[bool, Deliveries]:
    """(whether the exchange is clean, what is delivered)."""
    kind = rng.randrange(8)
    if kind < 3:
        return True, [(0.0, reply)]
    if kind == 3:
        return False, [(0.0, reply + rng.randbytes(rng.randrange(1, 4)))]
    if kind == 4:
        return False, [(0.0, reply[:-1] + bytes([reply[-1] ^ 0x10]))]
    if kind == 5:
        return False, [(0.0, reply[: rng.randrange(1, len(reply))])]
    if kind == 6:
        return False, [(0.0, reply_to(read_registers(8, READ_INPUT, STATUS, 4)))]
    return False, []


@pytest.mark.parametrize("seed", range(3))
def test_no_request_comes_too_soon_in_thousands_of_good_and_bad_exchanges(seed: int) -> None:
    """FRAME 22, 26: the gap after a clean exchange; the longer silence after any other."""

    async def scenario() -> None:
        rng = random.Random(seed)
        async with wire(BusLimits(late_reply_limit_s=0.0, resync_quiet_s=QUIET_S)) as w:
            clean: list[bool] = []

            def fault(request: bytes, reply: bytes | None) -> Deliveries:
                told, deliveries = _damage(rng, reply or b"")
                clean.append(told)
                return deliveries

            w.line.fault = fault
            for _ in range(1200):
                await w.ask()
            assert len(clean) == 1200
            for index in range(1, 1200):
                wanted_s = GAP_S if clean[index - 1] else QUIET_S
                assert w.silence_s(index) >= wanted_s - TINY_S, f"request {index}, clean: {clean[index - 1]}"
            after_clean = [w.silence_s(index) for index in range(1, 1200) if clean[index - 1]]
            assert max(after_clean) < GAP_S + 0.0005, "a clean exchange costs no more than the gap"

    run_virtual(scenario())


def test_a_byte_within_the_gap_makes_the_line_be_read_until_it_is_silent() -> None:
    """FRAME 26: the tail of an over-long reply arrives when the reply was accepted already."""

    async def scenario() -> None:
        async with wire(BusLimits(turnaround_s=0.005, resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            w.line.fault = lambda request, reply: [(0.0, reply or b""), (0.003, b"\x55" * 4)]
            assert (await w.ask()).ending is Ending.REPLY
            w.line.fault = None
            resyncs = w.bus.counters.resyncs
            assert (await w.ask()).ending is Ending.REPLY
            assert w.silence_s(len(w.line.seen) - 1) >= QUIET_S - TINY_S
            assert w.bus.counters.resyncs == resyncs + 1
            assert w.bus.counters.noise_bytes == 4

    run_virtual(scenario())


def test_bytes_on_an_idle_line_make_the_next_request_wait_for_silence() -> None:
    async def scenario() -> None:
        async with wire(BusLimits(resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            await asyncio.sleep(1.0)
            w.line.inject(b"\x00\xff")
            await w.ask()
            assert w.silence_s(1) >= QUIET_S - TINY_S

    run_virtual(scenario())


def test_a_line_that_was_just_opened_is_listened_to_before_the_first_request() -> None:
    """What another master, or a device that is late, says then is not ours."""

    async def scenario() -> None:
        opened_s = asyncio.get_running_loop().time()
        async with wire(BusLimits(resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            assert w.line.seen[0].t_s - opened_s >= QUIET_S - TINY_S

    run_virtual(scenario())


def test_a_foreign_frame_shortly_before_the_time_out_is_followed_by_silence() -> None:
    """SLAVE 95: nothing is left over of it, and still the line was not silent."""

    async def scenario() -> None:
        async with wire(BusLimits(resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            w.line.fault = lambda request, reply: [(0.097, reply_to(read_registers(8, READ_INPUT, STATUS, 1)))]
            assert (await w.ask()).ending is Ending.MISMATCH
            w.line.fault = None
            assert (await w.ask()).ending is Ending.REPLY
            assert w.silence_s(2) >= QUIET_S - TINY_S

    run_virtual(scenario())


def test_the_turnaround_counts_from_the_request_where_no_reply_came() -> None:
    async def scenario() -> None:
        async with wire(BusLimits(turnaround_s=0.5)) as w:
            w.line.fault = lambda request, reply: []
            for _ in range(3):
                assert (await w.ask()).ending is Ending.TIMEOUT
            assert min(w.silence_s(1), w.silence_s(2)) >= 0.5 - TINY_S

    run_virtual(scenario())


def test_a_late_reply_in_pieces_is_waited_for_before_the_next_request() -> None:
    """The silence counts from the last piece, as long as the pieces come faster than it."""

    async def scenario() -> None:
        async with wire(BusLimits(resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            w.line.fault = lambda request, reply: [
                (0.095 + 0.015 * n, (reply or b"")[n : n + 1]) for n in range(len(reply or b""))
            ]
            assert (await w.ask()).ending is not Ending.REPLY
            w.line.fault = None
            good = await w.ask()
            assert good.registers[0] == w.unit.count
            assert w.silence_s(2) >= QUIET_S - TINY_S

    run_virtual(scenario())


@pytest.mark.parametrize("lane", list(Lane))
def test_a_line_that_babbles_is_written_to_all_the_same_after_its_limit(lane: Lane) -> None:
    """Also for a stop that arrives in the middle of the waiting of a poll."""

    async def scenario() -> None:
        async with wire(BusLimits(resync_limit_s=0.2)) as w:
            await w.ask()

            async def babble() -> None:
                while True:
                    w.line.inject(b"\x55")
                    await asyncio.sleep(0.003)

            noise = asyncio.create_task(babble())
            await asyncio.sleep(0.05)
            poll = w.submit(Lane.POLL, SHAPES)
            await asyncio.sleep(0.05)
            asked_s, seen = asyncio.get_running_loop().time(), len(w.line.seen)
            await w.submit(lane, (STOP,), tag=object())
            first = next(each for each in w.line.seen[seen:] if each.frame == STOP.frame)
            late_s = first.t_s - asked_s
            assert late_s < (0.16 if lane is not Lane.POLL else 0.5)
            noise.cancel()
            await poll

    run_virtual(scenario())


@pytest.mark.parametrize("limit_s", [0.02, 0.5])
def test_a_stop_on_a_babbling_line_never_waits_longer_than_one_exchange_and_the_limit(limit_s: float) -> None:
    """HANG 103: nothing waits without a limit, whenever the stop comes."""

    async def scenario() -> None:
        async with wire(BusLimits(resync_limit_s=limit_s, late_reply_limit_s=0.0)) as w:
            await w.ask()
            rng = random.Random(7)

            async def babble() -> None:
                while True:
                    w.line.inject(rng.randbytes(2))
                    await asyncio.sleep(0.002)

            async def poll() -> None:
                while True:
                    await w.ask()

            tasks = [asyncio.create_task(babble()), asyncio.create_task(poll())]
            for _ in range(40):
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                asked_s, seen = asyncio.get_running_loop().time(), len(w.line.seen)
                await w.submit(Lane.STOP, (STOP,), tag=object())
                stop = next(each for each in w.line.seen[seen:] if each.frame == STOP.frame)
                assert stop.t_s - asked_s < 0.1 + 0.003 + limit_s
            for task in tasks:
                task.cancel()

    run_virtual(scenario())


def test_the_silence_after_a_time_out_has_passed_already_and_costs_nothing_more() -> None:
    async def scenario() -> None:
        async with wire(BusLimits(response_timeout_s=0.1, resync_quiet_s=QUIET_S)) as w:
            await w.ask()
            w.line.fault = lambda request, reply: []
            assert (await w.ask()).ending is Ending.TIMEOUT
            ended_s = asyncio.get_running_loop().time()
            w.line.fault = None
            assert (await w.ask()).ending is Ending.REPLY
            assert w.silence_s(2) >= QUIET_S
            assert w.line.seen[2].t_s - ended_s < 0.001
            await fail_over(w)

    run_virtual(scenario())


def test_another_masters_frames_are_counted_and_do_not_disturb_ours() -> None:
    """LOCK 154: somebody else talks on our line."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            foreign = read_registers(9, READ_INPUT, CONTROL, 1)
            for _ in range(50):
                await asyncio.sleep(0.1)
                w.line.inject(foreign.frame)
                w.line.inject(reply_to(foreign, 0xDEAD))
                result = await w.ask()
                assert result.ending is Ending.REPLY
                assert result.registers[0] == w.unit.count
            assert w.bus.counters.noise_bytes == 50 * (8 + 7)
            assert w.bus.counters.resyncs == 50 + 1

    run_virtual(scenario())
