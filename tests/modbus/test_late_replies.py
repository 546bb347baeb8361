"""Late replies: no job ever gets an answer that belongs to another request, and a device that is back is heard."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from gripperd.modbus.bus import BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.transaction import Request, write_registers
from tests.modbus.bench import CONTROL, SHAPES, STOP, UNIT, Wire, go, wire
from tests.support.sim_line import CHARACTER_S
from tests.support.virtual_time import run_virtual, within

LATEST_S = 4.99
"""How late a reply is at most [s]; less than BusLimits.late_reply_limit_s, which counts from the request."""
SAME_MOMENT_S = 2e-6
STOPS = (STOP, write_registers(UNIT, CONTROL, (1, 0x4000)))

Deliveries = list[tuple[float, bytes]]


class Witness:
    """Asks questions, and knows of each reply that arrives which question it answers."""

    def __init__(self, w: Wire) -> None:
        self.w = w
        self._sending: object = None
        self._arrivals: list[tuple[float, object]] = []

    async def ask(self, lane: Lane, requests: Sequence[Request], attempts: int = 1, tag: object = None) -> Result:
        """The result of a job. Fails if an answer that counts as proven is another question's."""
        over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        question = tag if tag is not None else object()

        def prepare() -> Sequence[Request]:
            self._sending = question
            return requests

        self.w.bus.submit(lane, Job(prepare, over.set_result, attempts, tag))
        result = await within(60.0, over)
        if result.ending is Ending.REPLY and result.proven:
            judged_s = result.sent_s + result.round_trip_s
            asked = [other for at_s, other in self._arrivals if abs(at_s - judged_s) < SAME_MOMENT_S]
            assert question in asked, f"{lane.name} sent at {result.sent_s}: its answer is another request's"
        return result

    def deliver(self, reply: bytes | None, delay_s: float) -> Deliveries:
        """The reply to what is in flight now, so much too late."""
        assert reply is not None
        arrives_s = asyncio.get_running_loop().time() + delay_s + len(reply) * CHARACTER_S
        self._arrivals.append((arrives_s, self._sending))
        return [(delay_s, reply)]


@pytest.mark.parametrize("seed", range(8))
def test_no_late_reply_is_ever_taken_for_another_requests(seed: int) -> None:
    """SLAVE 89: polls, commands and stops; replies lost, prompt, or up to 5 s late and out of order."""

    async def scenario() -> None:
        rng = random.Random(seed)
        async with wire() as w:
            witness = Witness(w)

            def late(request: bytes, reply: bytes | None) -> Deliveries:
                dice = rng.random()
                if dice < 0.1:
                    return []
                soon = rng.random() < 0.5
                return witness.deliver(reply, 0.0 if dice < 0.5 else rng.uniform(0.0, 0.4 if soon else LATEST_S))

            w.line.fault = late
            answered = 0
            for n in range(600):
                dice = rng.random()
                if dice < 0.6:
                    result = await witness.ask(Lane.POLL, SHAPES)
                elif dice < 0.85:
                    result = await witness.ask(Lane.COMMAND, (go(n),), rng.choice([1, 3]), tag=object())
                else:
                    result = await witness.ask(Lane.STOP, STOPS, tag=object())
                answered += result.ending is Ending.REPLY
                if result.ending is not Ending.REPLY and rng.random() < 0.5:
                    await asyncio.sleep(w.bus.even_s(SHAPES))
                await asyncio.sleep(rng.choice([0.0, 0.03, rng.uniform(0.0, 0.3)]))
            assert answered > 100
            assert w.bus.counters.transactions > 500
            w.line.fault = lambda request, reply: witness.deliver(reply, 0.0)
            await asyncio.sleep(5.0)
            for _ in range(20):
                assert (await witness.ask(Lane.POLL, SHAPES)).ending is Ending.REPLY

    run_virtual(scenario())


@pytest.mark.parametrize("delay_s", [0.11, 0.15, 0.3, 0.7])
@pytest.mark.parametrize("attempts", [1, 3])
def test_acknowledgements_that_are_always_late_never_shift_by_one(delay_s: float, attempts: int) -> None:
    """SLAVE 89: the reads of a device are prompt, its acknowledgements always miss the time-out; commands never pause
    for as long as a reply can be late.
    """

    async def scenario() -> None:
        async with wire() as w:
            witness = Witness(w)
            w.line.fault = lambda request, reply: witness.deliver(reply, delay_s if request[1] == 0x10 else 0.0)
            end_s = asyncio.get_running_loop().time() + 20.0
            n = 0
            while asyncio.get_running_loop().time() < end_s:
                n += 1
                await witness.ask(Lane.COMMAND, (go(n),), attempts, tag=object())
                assert (await witness.ask(Lane.POLL, SHAPES)).ending is Ending.REPLY
            assert n > 50

    run_virtual(scenario())


def test_a_repeated_command_may_be_acknowledged_twice_and_the_second_is_nobody_elses() -> None:
    """The first attempt's reply is late and ends the second attempt; the second's own reply is still to come."""

    async def scenario() -> None:
        async with wire() as w:
            witness = Witness(w)
            began_s = asyncio.get_running_loop().time()
            delays_s = iter([0.2, 4.99, 0.6])
            w.line.fault = lambda request, reply: witness.deliver(reply, next(delays_s))
            first = await witness.ask(Lane.COMMAND, (go(1),), attempts=2, tag=object())
            assert (first.ending, first.proven) == (Ending.REPLY, True)
            await asyncio.sleep(began_s + 5.05 - asyncio.get_running_loop().time())
            second = await witness.ask(Lane.COMMAND, (go(2),), tag=object())
            assert not (second.ending is Ending.REPLY and second.proven)

    run_virtual(scenario())


def test_what_was_in_flight_when_the_port_was_lost_is_still_owed_when_it_is_back() -> None:
    """The adapter comes back sooner than the reply."""

    async def scenario() -> None:
        async with wire(BusLimits(reopen_delay_s=0.2)) as w:
            witness = Witness(w)
            w.line.fault = lambda request, reply: witness.deliver(reply, 1.0)
            asking = asyncio.create_task(witness.ask(Lane.POLL, SHAPES))
            await asyncio.sleep(0.025)
            assert len(w.line.seen) == 1
            w.line.unplug()
            assert (await asking).ending is Ending.PORT
            w.line.plugged = True
            await asyncio.sleep(0.98)
            assert w.bus.is_open
            w.line.fault = lambda request, reply: witness.deliver(reply, 0.05)
            assert (await witness.ask(Lane.POLL, SHAPES)).ending is Ending.REPLY

    run_virtual(scenario())


def test_a_device_that_is_back_is_heard_at_once_while_its_old_replies_are_still_coming() -> None:
    """All replies 0.5 s late for a while, then prompt ones: the first poll after that succeeds."""

    async def scenario() -> None:
        async with wire() as w:
            witness = Witness(w)
            w.line.fault = lambda request, reply: witness.deliver(reply, 0.5)
            for _ in range(6):
                assert (await witness.ask(Lane.POLL, SHAPES)).ending is Ending.TIMEOUT
                await asyncio.sleep(w.bus.even_s(SHAPES))
            w.line.fault = lambda request, reply: witness.deliver(reply, 0.0)
            for _ in range(5):
                assert (await witness.ask(Lane.POLL, SHAPES)).ending is Ending.REPLY

    run_virtual(scenario())


def test_one_loss_some_seconds_ago_does_not_blind_the_bus_to_a_device_that_was_away_for_a_moment() -> None:
    """A reply is lost; 4.6 s later the device is silent for half a second. It is heard within 2 s of its return."""

    async def scenario() -> None:
        async with wire() as w:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            silent = [(0.0, 0.001), (4.6, 5.1)]
            w.line.fault = lambda request, reply: (
                [] if any(a <= loop.time() - began_s - 0.02 < b for a, b in silent) else [(0.0, reply or b"")]
            )
            heard_s: list[float] = []
            while loop.time() < began_s + 15.0:
                if (await w.ask()).ending is Ending.REPLY:
                    heard_s.append(loop.time() - began_s)
                await asyncio.sleep(max(0.02, w.bus.wait_s(SHAPES)))
            assert w.bus.counters.timeouts > 1
            assert min(t_s for t_s in heard_s if t_s > 5.1) < 7.1

    run_virtual(scenario())


def test_an_exception_that_is_late_is_not_taken_for_another_requests() -> None:
    """An exception names neither address nor count, so any of its function may be meant."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            refusal = bytes.fromhex("09 84 02 43 03")
            w.line.fault = lambda request, reply: [(0.15, refusal)]
            assert (await w.ask((SHAPES[0],))).ending is Ending.TIMEOUT
            w.line.fault = lambda request, reply: [(0.06, reply or b"")]
            second = await w.ask((SHAPES[2],))
            assert second.ending is Ending.REPLY, "the refusal of the first came in between"
            assert second.registers[0] == w.unit.count
            w.line.fault = lambda request, reply: [(0.0, refusal)]
            assert (await w.ask((SHAPES[2],))).ending is Ending.MISMATCH, "it cannot be told whose it is"
            await asyncio.sleep(5.0)
            assert (await w.ask((SHAPES[2],))).ending is Ending.EXCEPTION

    run_virtual(scenario())
