"""Which read asks for the status, and what a bad line changes about it."""

from __future__ import annotations

import asyncio

import pytest

from gripperd.contract import Activation, Link
from gripperd.contract.requests import Move
from gripperd.drivers.jodell.reading import StatusReads
from gripperd.modbus.bus import Bus, BusLimits, Ending, Result
from gripperd.modbus.transaction import READ_HOLDING, READ_INPUT, Request
from tests.support.rig import Rig
from tests.support.sim_line import SimLine
from tests.support.virtual_time import VirtualClock, run_virtual


def _reads() -> tuple[Bus, StatusReads]:
    bus = Bus("bus", SimLine({}), BusLimits(), VirtualClock())
    return bus, StatusReads(bus, 9)


def _functions(reads: StatusReads) -> set[int]:
    return {each.function for each in [*reads.whole(), *reads.brief()]}


def _lose(bus: Bus, request: Request) -> None:
    bus.quarantine.owe(request.shape, None, VirtualClock().monotonic())


@pytest.mark.parametrize(("code", "left"), [(1, {READ_INPUT}), (2, {READ_INPUT, READ_HOLDING}), (6, {3, 4})])
def test_only_an_illegal_function_ends_the_use_of_that_function(code: int, left: set[int]) -> None:
    """A device that is busy, or fails for a moment, knows the function all the same."""

    async def scenario() -> None:
        _, reads = _reads()
        holding = next(each for each in reads.whole() if each.function == READ_HOLDING)
        reads.learn(Result(Ending.EXCEPTION, request=holding, code=code))
        assert _functions(reads) == left
        reads.forget()
        assert _functions(reads) == {READ_INPUT, READ_HOLDING}

    run_virtual(scenario())


def test_a_brief_read_is_made_only_while_a_whole_one_must_wait() -> None:
    async def scenario() -> None:
        bus, reads = _reads()
        for count, request in enumerate(reads.whole()):
            assert {each.shape[2] for each in reads.now()} == ({2} if count > 3 else {4, 6, 8})
            _lose(bus, request)
        assert reads.spacing_s(limit_s=0.2) == 0.2, "a brief one, before the link is called down"
        for request in reads.brief():
            _lose(bus, request)
        assert reads.spacing_s(limit_s=0.2) > 4.9
        await asyncio.sleep(5.1)
        assert {each.shape[2] for each in reads.now()} == {4, 6, 8}
        assert reads.spacing_s(limit_s=0.2) == 0.0

    run_virtual(scenario())


def test_the_shape_that_was_answered_last_is_the_last_choice() -> None:
    """STALE: its reply may come a second time."""

    async def scenario() -> None:
        _, reads = _reads()
        first = reads.whole()[0]
        reads.learn(Result(Ending.REPLY, request=first))
        assert reads.whole()[0] is not first
        assert reads.whole()[-1] is first

    run_virtual(scenario())


def test_a_device_that_answers_brief_reads_only_keeps_its_link_and_shows_nothing() -> None:
    """TRANS 61: long replies are damaged by a bad cable, short ones get through. Nothing is published as valid."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Move(opening_width_m=0.03))
            await asyncio.sleep(0.2)
            rig.line.fault = lambda request, reply: [(0.0, reply)] if reply is not None and request[5] == 1 else []
            told = len(rig.states)
            await asyncio.sleep(3.0)
            assert all(state.link is Link.UP for state in rig.states[told:])
            assert all(not state.opening_width_valid for state in rig.states[told + 1 :])
            assert all(state.activation is Activation.UNKNOWN for state in rig.states[told + 1 :])
            rig.line.fault = None
            returned_s = rig.now_s()
            await rig.until(lambda: rig.state.opening_width_valid)
            assert rig.now_s() - returned_s < 2.0

    run_virtual(scenario())
