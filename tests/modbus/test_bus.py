"""The owner of a wire, in virtual time: who goes first, which gap is kept, what a late or damaged reply does."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from structlog.testing import capture_logs

from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request, read_registers, write_registers
from tests.modbus.test_transaction import _reply_to
from tests.support.sim_line import CHARACTER_S, SimLine
from tests.support.virtual_time import VirtualClock, run_virtual, within

UNIT = 9
SHAPES = tuple(read_registers(UNIT, fn, 0x07D0, count) for count in (4, 3, 2) for fn in (READ_INPUT, READ_HOLDING))
STOP = write_registers(UNIT, 0x03E8, (1,))


class Counting:
    """A unit that answers every request with its own number, so that a reply tells which request it answers."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        self.count = (self.count + 1) % 0x10000
        known = [each for each in (*SHAPES, STOP) if each.frame == frame]
        request = known[0] if known else write_registers(frame[0], 0x03E8, (9, 0, 0))
        return _reply_to(request, self.count)


class Wire:
    """A bus over a line in memory; `ask` sends a job and waits for its result."""

    def __init__(self, limits: BusLimits | None = None, units: dict[int, Counting] | None = None) -> None:
        self.unit = Counting()
        self.line = SimLine(units if units is not None else {UNIT: self.unit})
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


@contextlib.asynccontextmanager
async def wire(limits: BusLimits | None = None, units: dict[int, Counting] | None = None) -> AsyncIterator[Wire]:
    made = Wire(limits, units)
    task = asyncio.create_task(made.bus.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_a_stop_behind_fifty_polls_and_commands_is_the_next_frame() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            jobs = [w.submit(Lane.POLL, SHAPES) for _ in range(25)]
            jobs += [w.submit(Lane.COMMAND, (write_registers(UNIT, 0x03E8, (9, n, 0)),)) for n in range(25)]
            await asyncio.sleep(0.0015)
            in_flight = len(w.line.seen)
            stop = w.submit(Lane.STOP, (STOP,), tag=object())
            assert (await stop).ending is Ending.REPLY
            assert w.line.seen[in_flight].frame == STOP.frame
            await asyncio.gather(*jobs)

    run_virtual(scenario())


def test_lanes_come_in_order_and_each_lane_in_the_order_of_its_jobs() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            told: list[str] = []
            for name, lane in (("p1", Lane.POLL), ("c1", Lane.COMMAND), ("p2", Lane.POLL), ("c2", Lane.COMMAND)):
                requests = SHAPES if lane is Lane.POLL else (write_registers(UNIT, 0x03E8, (9, 0, 0)),)
                w.submit(lane, requests, tag=object()).add_done_callback(lambda _, name=name: told.append(name))  # type: ignore[misc]
            await asyncio.sleep(1.0)
            assert told == ["c1", "c2", "p1", "p2"]

    run_virtual(scenario())


def test_a_full_lane_refuses_at_once_and_a_stop_is_never_refused() -> None:
    async def scenario() -> None:
        async with wire(BusLimits(queue_jobs=3)) as w:
            await w.ask()
            polls = [w.submit(Lane.POLL, SHAPES) for _ in range(4)]
            assert polls[3].result().ending is Ending.FULL
            stops = [w.submit(Lane.STOP, (STOP,), tag=object()) for _ in range(10)]
            assert all(result.ending is Ending.REPLY for result in await asyncio.gather(*stops))
            assert w.bus.counters.refused_full == 1

    run_virtual(scenario())


def test_a_job_that_withdraws_costs_nothing_on_the_wire() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            seen = len(w.line.seen)
            assert (await w.submit(Lane.COMMAND, ())).ending is Ending.WITHDRAWN
            assert len(w.line.seen) == seen

    run_virtual(scenario())


@pytest.mark.parametrize("turnaround_s", [0.0, 0.005])
def test_the_gap_is_kept_before_every_request(turnaround_s: float) -> None:
    """FRAME 22: 3.5 characters after the last byte of the reply, or the configured turnaround if that is longer."""

    async def scenario() -> None:
        async with wire(BusLimits(turnaround_s=turnaround_s)) as w:
            for _ in range(500):
                await w.ask()
            pairs = zip(w.line.delivered_s, w.line.seen[1:], strict=False)
            gaps = [seen.t_s - end_s for end_s, seen in pairs]
            wanted = max(3.5 * CHARACTER_S, turnaround_s)
            assert min(gaps) >= wanted - 1e-9
            assert max(gaps) < wanted + 0.0005

    run_virtual(scenario())


def test_a_lost_reply_is_repeated_with_a_limit_and_a_stop_goes_between() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.line.fault = lambda request, reply: []
            seen = len(w.line.seen)
            command = w.submit(Lane.COMMAND, (write_registers(UNIT, 0x03E8, (9, 1, 2)),), attempts=3, tag=object())
            await asyncio.sleep(0.05)
            stop = w.submit(Lane.STOP, (STOP,), tag=object())
            assert (await command).ending is Ending.TIMEOUT
            assert (await stop).ending is Ending.TIMEOUT
            lengths = [len(each.frame) for each in w.line.seen[seen:]]
            assert lengths == [15, 11, 15, 15], "the command, the stop, and the command's two repetitions"
            assert w.bus.counters.retries == 2

    run_virtual(scenario())


Damage = Callable[[bytes], list[tuple[float, bytes]]]


@pytest.mark.parametrize(
    ("damage", "ending", "counter"),
    [
        (lambda reply: [], Ending.TIMEOUT, "timeouts"),
        (lambda reply: [(0.0, reply[:-1] + bytes([reply[-1] ^ 1]))], Ending.CRC, "crc_errors"),
        (lambda reply: [(0.0, reply[:5])], Ending.MISMATCH, "mismatches"),
        (lambda reply: [(0.0, _reply_to(SHAPES[2], 1))], Ending.MISMATCH, "mismatches"),
        (lambda reply: [(0.0, _reply_to(read_registers(8, READ_INPUT, 0, 4), 1))], Ending.MISMATCH, "mismatches"),
        (lambda reply: [(0.0, bytes.fromhex("0984024303"))], Ending.EXCEPTION, "exceptions"),
    ],
    ids=["lost", "flipped", "cut", "other count", "other unit", "exception"],
)
def test_a_damaged_exchange_is_told_counted_and_followed_by_a_good_one(
    damage: Damage, ending: Ending, counter: str
) -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.line.fault = lambda request, reply: damage(reply or b"")
            assert (await w.ask((SHAPES[0],))).ending is ending
            assert getattr(w.bus.counters, counter) == 1
            w.line.fault = None
            good = await w.ask()
            assert good.ending is Ending.REPLY
            assert good.registers[0] == w.unit.count

    run_virtual(scenario())


def test_a_reply_in_pieces_up_to_twenty_milliseconds_apart_is_one_reply() -> None:
    """FRAME 20."""

    async def scenario() -> None:
        async with wire() as w:
            for gap_s in (0.001, 0.008, 0.02):
                w.line.fault = lambda request, reply, gap_s=gap_s: (
                    [(gap_s * n, bytes([byte])) for n, byte in enumerate((reply or b"")[:4])]
                    + [(gap_s * 4, (reply or b"")[4:])]
                )
                assert (await w.ask()).ending is Ending.REPLY

    run_virtual(scenario())


def test_what_follows_a_reply_is_read_until_silence_before_the_next_request() -> None:
    """FRAME 26: a reply that is too long, then a normal exchange."""

    async def scenario() -> None:
        async with wire(BusLimits(resync_quiet_s=0.02)) as w:
            await w.ask()
            w.line.fault = lambda request, reply: [(0.0, (reply or b"") + b"\x01\x02"), (0.015, b"\x03\x04")]
            assert (await w.ask()).ending is Ending.REPLY
            ended_s = asyncio.get_running_loop().time()
            w.line.fault = None
            resyncs = w.bus.counters.resyncs
            good = await w.ask()
            assert good.registers[0] == w.unit.count
            assert w.line.seen[-1].t_s - ended_s >= 0.015 + 0.02 - 0.003
            assert w.bus.counters.resyncs == resyncs + 1

    run_virtual(scenario())


def test_a_line_that_babbles_is_written_to_all_the_same_after_its_limit() -> None:
    async def scenario() -> None:
        async with wire(BusLimits(resync_limit_s=0.2)) as w:
            await w.ask()

            async def babble() -> None:
                while True:
                    w.line.inject(b"\x55")
                    await asyncio.sleep(0.003)

            noise = asyncio.create_task(babble())
            await asyncio.sleep(0.05)
            asked_s, seen = asyncio.get_running_loop().time(), len(w.line.seen)
            await w.submit(Lane.STOP, (STOP,), tag=object())
            assert w.line.seen[seen].t_s - asked_s < 0.21
            noise.cancel()

    run_virtual(scenario())


@pytest.mark.parametrize("seed", range(4))
def test_no_late_reply_is_ever_taken_for_another_requests(seed: int) -> None:
    """SLAVE 89, STALE: delays up to 5 s, replies out of order; each carries the number of its own request."""

    async def scenario() -> None:
        rng = random.Random(seed)
        async with wire() as w:

            def late(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                dice = rng.random()
                if dice < 0.2:
                    return []
                delay_s = rng.choice([0.11, 0.3, 1.0, 2.7, 4.8]) if dice < 0.5 else 0.0
                return [(delay_s, reply or b"")]

            w.line.fault = late
            accepted = 0
            for _ in range(600):
                asked = w.unit.count
                result = await w.ask()
                if result.ending is Ending.REPLY:
                    accepted += 1
                    assert result.registers[0] == asked + 1, "it belongs to an earlier request"
                else:
                    await asyncio.sleep(w.bus.spacing_s(SHAPES))
            assert accepted > 100
            w.line.fault = None
            await asyncio.sleep(w.bus.spacing_s(SHAPES))
            assert (await w.ask()).ending is Ending.REPLY

    run_virtual(scenario())


def test_a_caller_that_is_cancelled_disturbs_nobody() -> None:
    """SLAVE 89: at every point of a transaction; the next answer is the next request's."""

    async def scenario() -> None:
        async with wire() as w:
            for n in range(40):
                caller = asyncio.create_task(w.ask())
                await asyncio.sleep(0.0001 * n)
                caller.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await caller
                result = await w.ask()
                assert result.ending is Ending.REPLY
                assert result.registers[0] == w.unit.count
            assert w.bus.counters.timeouts == 0

    run_virtual(scenario())


def test_a_port_that_is_lost_fails_the_job_in_flight_at_once_and_is_opened_again() -> None:
    async def scenario() -> None:
        with capture_logs() as logs:
            async with wire() as w:
                await w.ask()
                job = w.submit(Lane.POLL, SHAPES)
                await asyncio.sleep(0.001)
                lost_s = asyncio.get_running_loop().time()
                w.line.unplug()
                assert (await job).ending is Ending.PORT
                assert asyncio.get_running_loop().time() - lost_s < 0.001
                for _ in range(20):
                    assert (await w.ask()).ending is Ending.PORT
                    await asyncio.sleep(0.1)
                w.line.plugged = True
                await asyncio.sleep(0.25)
                assert (await w.ask()).ending is Ending.REPLY
                assert (w.bus.counters.port_opened, w.bus.counters.port_lost) == (2, 1)
        events = [entry["event"] for entry in logs]
        assert events == ["port_open", "port_lost", "port_not_open", "port_open"]

    run_virtual(scenario())


def test_one_silent_unit_costs_the_other_no_more_than_its_time_outs() -> None:
    """SLAVE 92: unit 8 never answers; unit 9 is asked between its time-outs."""

    async def scenario() -> None:
        unit = Counting()
        async with wire(units={UNIT: unit}) as w:
            silent = tuple(read_registers(8, fn, 0x07D0, n) for n in (4, 3, 2) for fn in (READ_INPUT, READ_HOLDING))
            good = 0

            async def poll_silent() -> None:
                while True:
                    await w.ask(silent)
                    await asyncio.sleep(max(0.02, w.bus.spacing_s(silent)))

            task = asyncio.create_task(poll_silent())
            end_s = asyncio.get_running_loop().time() + 30.0
            while asyncio.get_running_loop().time() < end_s:
                good += (await w.ask()).ending is Ending.REPLY
                await asyncio.sleep(0.017)
            task.cancel()
            assert good > 0.9 * 30.0 / 0.02

    run_virtual(scenario())


def test_the_owner_gives_the_port_back_when_it_ends_in_mid_transaction() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.submit(Lane.POLL, SHAPES)
            await asyncio.sleep(0.001)
        assert not w.bus.is_open
        assert w.line._received is None

    run_virtual(scenario())


def test_a_poll_whose_reply_is_overdue_is_given_up_for_a_stop() -> None:
    """A silent device and a time-out of 100 ms: the stop waits for the usual reply time, and no longer."""

    async def scenario() -> None:
        async with wire() as w:
            for _ in range(20):
                await w.ask()
            waits = []
            for n in range(50):
                w.line.fault = lambda request, reply: []
                poll = w.submit(Lane.POLL, SHAPES)
                await asyncio.sleep(0.0019 * n)
                asked_s, seen = asyncio.get_running_loop().time(), len(w.line.seen)
                w.line.fault = None
                stop = w.submit(Lane.STOP, (STOP,), tag=object())
                assert (await stop).ending is Ending.REPLY
                await poll
                waits.append(w.line.seen[seen].t_s - asked_s)
                await asyncio.sleep(6.0)
            assert sorted(waits)[25] < 0.001
            assert max(waits) < 0.0065, "1.5 times the usual 1 ms, 2 ms of margin, the bytes and the gap"

    run_virtual(scenario())


def test_a_poll_whose_reply_is_due_or_under_way_is_not_torn_off_for_a_stop() -> None:
    async def scenario() -> None:
        async with wire() as w:
            for _ in range(20):
                await w.ask()
            for n in range(30):
                poll = w.submit(Lane.POLL, SHAPES)
                await asyncio.sleep(0.0001 * n)
                stop = w.submit(Lane.STOP, (STOP,), tag=object())
                assert (await poll).ending is Ending.REPLY
                assert (await stop).ending is Ending.REPLY
            w.line.fault = lambda request, reply: (
                [(0.0, (reply or b"")[:3]), (0.05, (reply or b"")[3:])] if request[1] != 0x10 else [(0.0, reply or b"")]
            )
            poll = w.submit(Lane.POLL, SHAPES)
            await asyncio.sleep(0.01)
            stop = w.submit(Lane.STOP, (STOP,), tag=object())
            assert (await poll).ending is Ending.REPLY, "its bytes were coming"
            assert (await stop).ending is Ending.REPLY

    run_virtual(scenario())


def test_a_write_in_flight_is_never_given_up_for_a_stop() -> None:
    """Its acknowledgement must not be taken for the stop's."""

    async def scenario() -> None:
        async with wire() as w:
            for _ in range(20):
                await w.ask()
            w.line.fault = lambda request, reply: [] if len(request) == 15 else [(0.0, reply or b"")]
            sent_s = asyncio.get_running_loop().time()
            command = w.submit(Lane.COMMAND, (write_registers(UNIT, 0x03E8, (9, 0, 0)),), tag=object())
            await asyncio.sleep(0.01)
            stop = w.submit(Lane.STOP, (STOP,), tag=object())
            assert (await command).ending is Ending.TIMEOUT
            assert asyncio.get_running_loop().time() - sent_s > 0.1
            assert (await stop).ending is Ending.REPLY

    run_virtual(scenario())
