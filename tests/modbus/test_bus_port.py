"""A port that is missing, lost or back: who is told, what is logged, how often it is tried."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping

import pytest
from structlog.testing import capture_logs

from gripperd.modbus.bus import Bus, BusLimits, Ending, Job, Lane, Result
from gripperd.modbus.line import PortError
from tests.modbus.bench import SHAPES, STOP, Wire, wire
from tests.support.sim_line import SimLine, Unit
from tests.support.virtual_time import VirtualClock, run_virtual


class _WatchedLine(SimLine):
    """Counts the attempts to open it, and can be stuck."""

    def __init__(self, units: Mapping[int, Unit], plugged: bool = True) -> None:
        super().__init__(units, plugged)
        self.attempts_s: list[float] = []
        self.stuck = False

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.attempts_s.append(asyncio.get_running_loop().time())
        await super().open(received, lost)

    def write(self, data: bytes) -> None:
        if self.stuck:
            raise PortError("sim took 3 of 8 bytes: the adapter is stuck, replug it")
        super().write(data)


def _loses_in_flight(w: Wire) -> asyncio.Future[Result]:
    job = w.submit(Lane.POLL, SHAPES)
    asyncio.get_running_loop().call_later(0.001, w.line.unplug)
    return job


def _loses_at_the_write(w: Wire) -> asyncio.Future[Result]:
    w.line.plugged = False
    w.line.close()  # the device is gone; nobody was told yet
    return w.submit(Lane.POLL, SHAPES)


def _loses_while_idle(w: Wire) -> asyncio.Future[Result]:
    w.line.unplug()
    return w.submit(Lane.POLL, SHAPES)


def _loses_in_the_gap(w: Wire) -> asyncio.Future[Result]:
    w.line.inject(b"\x00")
    job = w.submit(Lane.POLL, SHAPES)
    asyncio.get_running_loop().call_later(0.01, w.line.unplug)
    return job


@pytest.mark.parametrize("lose", [_loses_in_flight, _loses_at_the_write, _loses_while_idle, _loses_in_the_gap])
def test_a_port_that_is_lost_fails_its_jobs_at_once_and_is_opened_again(
    lose: Callable[[Wire], asyncio.Future[Result]],
) -> None:
    """HOTPLUG 124, 128, HANG 103: one line of log for the loss, one for the attempts, one for the return."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with capture_logs() as logs:
            async with wire() as w:
                await w.ask()
                began_s = loop.time()
                result = await lose(w)
                assert result.ending is Ending.PORT
                assert "sim" in result.text
                assert loop.time() - began_s < 0.021, "at the latest when the silence before a request is over"
                for _ in range(20):
                    began_s = loop.time()
                    failed = await w.ask()
                    assert failed.ending is Ending.PORT
                    assert failed.text == w.bus.trouble
                    assert loop.time() - began_s < 0.001
                    await asyncio.sleep(0.1)
                w.line.plugged = True
                await asyncio.sleep(0.25)
                assert w.bus.is_open, "also without anybody who asks"
                assert (await w.ask()).ending is Ending.REPLY
                assert (w.bus.counters.port_opened, w.bus.counters.port_lost) == (2, 1)
        assert [entry["event"] for entry in logs] == ["port_open", "port_lost", "port_not_open", "port_open"]

    run_virtual(scenario())


def test_a_port_that_is_missing_from_the_start_is_tried_with_a_pause_and_logged_once() -> None:
    """DIAG 80; the text of the last attempt is kept for those who ask."""

    async def scenario() -> None:
        line = _WatchedLine({}, plugged=False)
        bus = Bus("bus", line, BusLimits(reopen_delay_s=0.2), VirtualClock())
        with capture_logs() as logs:
            owner = asyncio.create_task(bus.run())
            for _ in range(1000):  # somebody asks all the time
                over: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
                bus.submit(Lane.POLL, Job(lambda: SHAPES, over.set_result))
                assert (await over).ending is Ending.PORT
                await asyncio.sleep(0.01)
            owner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await owner
        assert 40 <= len(line.attempts_s) <= 51
        assert min(b - a for a, b in itertools.pairwise(line.attempts_s)) > 0.199
        assert [entry["event"] for entry in logs] == ["port_not_open"]
        assert bus.trouble == "sim does not exist: plug the adapter in"
        assert bus.counters.transactions == 0

    run_virtual(scenario())


def test_twenty_times_unplugged_and_plugged_in_again() -> None:
    """HOTPLUG 128: every loss and every return is told, and the last exchange is as good as the first."""

    async def scenario() -> None:
        with capture_logs() as logs:
            async with wire() as w:
                for _ in range(20):
                    assert (await w.ask()).ending is Ending.REPLY
                    poll = w.submit(Lane.POLL, SHAPES)
                    await asyncio.sleep(0.001)
                    w.line.unplug()
                    assert (await poll).ending is Ending.PORT
                    w.line.plugged = True
                    await asyncio.sleep(max(0.25, w.bus.even_s(SHAPES)))
                assert (await w.ask()).ending is Ending.REPLY
                assert w.bus.counters.port_lost == 20
        assert [entry["event"] for entry in logs] == ["port_open", "port_lost"] * 20 + ["port_open"]

    run_virtual(scenario())


def test_a_port_that_cannot_be_written_to_is_closed_and_opened_again() -> None:
    """An adapter that takes no more bytes."""

    async def scenario() -> None:
        async with wire(line=_WatchedLine) as w:
            line = w.line
            assert isinstance(line, _WatchedLine)
            await w.ask()
            line.stuck = True
            result = await w.ask()
            assert result.ending is Ending.PORT
            assert "stuck" in result.text
            assert w.line._received is None, "closed"
            assert w.bus.counters.port_lost == 1
            line.stuck = False
            await asyncio.sleep(0.25)
            assert (await w.ask()).ending is Ending.REPLY

    run_virtual(scenario())


def test_a_stop_that_meets_a_lost_port_is_told_so_at_once() -> None:
    """Its owner keeps it; the bus does not send old words when the port is back."""

    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.line.unplug()
            stop = await w.submit(Lane.STOP, (STOP,), attempts=3, tag=object())
            assert stop.ending is Ending.PORT
            w.line.plugged = True
            await asyncio.sleep(1.0)
            assert all(each.frame != STOP.frame for each in w.line.seen)

    run_virtual(scenario())


def test_the_owner_gives_the_port_back_when_it_ends_in_mid_transaction() -> None:
    async def scenario() -> None:
        async with wire() as w:
            await w.ask()
            w.submit(Lane.POLL, SHAPES)
            await asyncio.sleep(0.001)
            assert w.bus.is_open
        assert not w.bus.is_open
        assert w.line._received is None

    run_virtual(scenario())
