"""The owner of a wire, in virtual time: who goes first, what is repeated, what a damaged reply does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

import pytest

from gripperd.modbus.bus import BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.transaction import READ_INPUT, Request, read_registers, write_registers
from tests.modbus.bench import SHAPES, STOP, UNIT, go, reply_to, wire
from tests.support.virtual_time import VirtualTimeLoop, run_virtual


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


def test_a_repetition_comes_before_the_next_command() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            lost = iter([True, False, False])
            w.line.fault = lambda request, reply: [] if next(lost) else [(0.0, reply or b"")]
            first = w.submit(Lane.COMMAND, (go(1),), attempts=2, tag=object())
            second = w.submit(Lane.COMMAND, (go(2),), tag=object())
            await asyncio.gather(first, second)
            assert [each.frame for each in w.line.seen[1:]] == [go(1).frame, go(1).frame, go(2).frame]

    run_virtual(scenario())


Damage = Callable[[bytes], list[tuple[float, bytes]]]


@pytest.mark.parametrize(
    ("damage", "ending", "counter"),
    [
        (lambda reply: [], Ending.TIMEOUT, "timeouts"),
        (lambda reply: [(0.0, reply[:-1] + bytes([reply[-1] ^ 1]))], Ending.CRC, "crc_errors"),
        (lambda reply: [(0.0, reply[:5])], Ending.MISMATCH, "mismatches"),
        (lambda reply: [(0.0, reply_to(SHAPES[2], 1))], Ending.MISMATCH, "mismatches"),
        (lambda reply: [(0.0, reply_to(read_registers(8, READ_INPUT, 0, 4), 1))], Ending.MISMATCH, "mismatches"),
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


@pytest.mark.parametrize("gap_s", [0.001, 0.003, 0.007, 0.02])
def test_a_reply_in_pieces_up_to_twenty_milliseconds_apart_is_one_reply(gap_s: float) -> None:
    """FRAME 20: cut at every byte, for reads and acknowledgements; at the smaller gaps also into single bytes."""

    async def scenario() -> None:
        async with wire() as w:

            def cut_at(at: int) -> Callable[[bytes, bytes | None], list[tuple[float, bytes]]]:
                return lambda request, reply: [(0.0, (reply or b"")[:at]), (gap_s, (reply or b"")[at:])]

            for at in range(13):
                w.line.fault = cut_at(at)
                result = await w.ask()
                assert result.ending is Ending.REPLY
                assert result.registers[0] == w.unit.count
                assert (await w.submit(Lane.COMMAND, (go(at),), tag=object())).ending is Ending.REPLY
            if 12 * gap_s < w.bus.limits.response_timeout_s:
                w.line.fault = lambda request, reply: [(gap_s * n, bytes([b])) for n, b in enumerate(reply or b"")]
                assert (await w.ask()).registers[0] == w.unit.count
            assert w.bus.counters.replies == w.bus.counters.transactions

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


def test_a_stop_that_comes_in_the_gap_before_a_poll_goes_out_in_its_place() -> None:
    """The lane is chosen at the last moment."""

    async def scenario() -> None:
        async with wire(BusLimits(turnaround_s=0.01)) as w:
            await w.ask()
            poll = w.submit(Lane.POLL, SHAPES)
            command = w.submit(Lane.COMMAND, (go(1),), tag=object())
            await asyncio.sleep(0.005)
            stop = w.submit(Lane.STOP, (STOP,), tag=object())
            await asyncio.gather(poll, command, stop)
            assert [each.frame for each in w.line.seen[1:]] == [STOP.frame, go(1).frame, SHAPES[0].frame]

    run_virtual(scenario())


def test_a_stop_that_arrives_while_a_round_is_worked_on_goes_before_the_next_poll() -> None:
    """Its bytes wait in a socket: the work took longer than the gap, so nothing has looked at sockets since."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        here, there = socket.socketpair()
        async with wire() as w:
            await w.ask()
            stops: list[asyncio.Future[Result]] = []
            polls: list[asyncio.Future[Result]] = []

            def arrived() -> None:
                here.recv(1)
                stops.append(w.submit(Lane.STOP, (STOP,), tag=object()))

            def work(result: Result) -> None:
                loop.advance(0.001)
                there.send(b"!")
                polls.append(w.submit(Lane.POLL, SHAPES))

            loop.add_reader(here, arrived)
            w.bus.submit(Lane.POLL, Job(lambda: SHAPES, work))
            await asyncio.sleep(0.05)
            assert [seen.frame == STOP.frame for seen in w.line.seen] == [False, False, True, False]
            await asyncio.gather(*stops, *polls)
            loop.remove_reader(here)
        here.close()
        there.close()

    run_virtual(scenario())


def test_a_job_is_asked_at_the_moment_of_sending_and_again_for_every_repetition() -> None:
    """A fence that falls between two attempts ends the job, and nothing more goes out."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.line.fault = lambda request, reply: []
            loop = asyncio.get_running_loop()
            asked_s: list[float] = []
            fenced = False

            def prepare() -> Sequence[Request]:
                asked_s.append(loop.time())
                return () if fenced else (go(1),)

            over: asyncio.Future[Result] = loop.create_future()
            w.bus.submit(Lane.COMMAND, Job(prepare, over.set_result, attempts=3, tag=object()))
            await asyncio.sleep(0.05)
            assert asked_s == [w.line.seen[1].t_s]
            fenced = True
            assert (await over).ending is Ending.WITHDRAWN
            assert len(asked_s) == 2
            assert len(w.line.seen) == 2
            assert w.bus.counters.withdrawn == 1

    run_virtual(scenario())


def test_a_job_that_waits_already_keeps_its_place() -> None:
    """A thousand stops are one job, and one frame."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            poll = w.submit(Lane.POLL, SHAPES)
            await asyncio.sleep(0.001)
            results: list[Result] = []
            job = Job(lambda: (STOP,), results.append, tag=object())
            for _ in range(1000):
                w.bus.submit(Lane.STOP, job)
            await poll
            await asyncio.sleep(0.1)
            assert [result.ending for result in results] == [Ending.REPLY]
            assert [each.frame for each in w.line.seen[2:]] == [STOP.frame]

    run_virtual(scenario())
