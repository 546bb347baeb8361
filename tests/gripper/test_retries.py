"""What is repeated, how often, and what is never: one budget for all commands, and nothing is sent blindly."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from gripperd.contract import Activation, Code, CommandReply, Outcome
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual

COMMANDS: list[Command] = [
    Move(opening_width_m=0.05),
    Grip(),
    Open(relative_speed=1.0),
    Release(),
    Deactivate(),
    ClearFault(),
    Activate(),
]
commands = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)


def _loses_acknowledgements(count: int) -> Callable[[bytes, bytes | None], list[tuple[float, bytes]]]:
    left = [count]

    def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
        if request[1] == 0x10 and left[0]:
            left[0] -= 1
            return []
        return [(0.0, reply)] if reply is not None else []

    return fault


class _Deaf:
    """A device that the next writes do not reach."""

    def __init__(self, device: Rg75, count: int) -> None:
        self._device = device
        self._left = count

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        if frame[1] == 0x10 and self._left:
            self._left -= 1
            return None
        return self._device.handle(frame, now_s)


async def _give(rig: Rig, command: Command) -> tuple[CommandReply, int]:
    """The reply, and how often its first write was sent."""
    seen = len(rig.line.seen)
    reply = await rig.reply(command)
    writes = [each.frame for each in rig.line.seen[seen:] if each.frame[1] == 0x10]
    return reply, writes.count(writes[0])


async def _make_ready_for(rig: Rig, command: Command) -> None:
    await rig.activate()
    if isinstance(command, Activate):
        await rig.outcome(Deactivate())


@commands
@pytest.mark.parametrize("losses", [0, 1, 2])
def test_every_command_survives_lost_requests_within_the_budget(command: Command, losses: int) -> None:
    """TRANS 64, 65: one policy for all, and each repetition is counted where `gripperctl stats` shows it."""

    async def scenario() -> None:
        async with Rig() as rig:
            await _make_ready_for(rig, command)
            rig.line.units = {9: _Deaf(rig.device, losses)}
            reply, sent = await _give(rig, command)
            assert reply.ok, reply
            assert sent == losses + 1
            assert rig.bus.counters.as_dict()["retries"] == losses

    run_virtual(scenario())


@commands
@pytest.mark.parametrize("write_attempts", [1, 2, 5])
def test_every_command_is_sent_as_often_as_configured_and_not_once_more(command: Command, write_attempts: int) -> None:
    """TRANS 64, 65."""

    async def scenario() -> None:
        async with Rig(write_attempts=write_attempts) as rig:
            await _make_ready_for(rig, command)
            rig.line.units = {9: _Deaf(rig.device, 100)}
            reply, sent = await _give(rig, command)
            assert reply.code is Code.NOT_CONFIRMED
            assert sent == write_attempts
            assert rig.bus.counters.retries == write_attempts - 1

    run_virtual(scenario())


@commands
def test_every_command_whose_acknowledgements_are_lost_is_accepted_by_what_the_status_shows(command: Command) -> None:
    """TRANS 65: what the device has shown to have taken up is not sent again."""

    async def scenario() -> None:
        async with Rig() as rig:
            await _make_ready_for(rig, command)
            rig.line.fault = _loses_acknowledgements(2)
            reply, sent = await _give(rig, command)
            assert reply.ok, reply
            assert sent == 1 + rig.bus.counters.retries <= 3

    run_virtual(scenario())


def test_a_stop_is_repeated_past_the_budget_of_commands_and_counted() -> None:
    """TRANS 65: the one exception."""

    async def scenario() -> None:
        async with Rig(write_attempts=1) as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            rig.line.fault = _loses_acknowledgements(4)
            assert (await rig.stop()).ok
            assert rig.bus.counters.retries == 4
            await rig.reply(Open())
            await rig.stop()
            assert rig.bus.counters.retries == 4, "a new stop is no repetition"

    run_virtual(scenario())


def test_acknowledgements_whose_first_bytes_are_damaged_cost_one_repetition_each() -> None:
    """FRAME 28: the device answers before the adapter has turned round, one time in five."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            acks = itertools.count(1)

            def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                assert reply is not None
                damaged = request[1] == 0x10 and next(acks) % 5 == 0
                return [(0.0, b"\x00\x00" + reply[2:] if damaged else reply)]

            rig.line.fault = fault
            for n in range(40):
                reply = await rig.reply(Move(opening_width_m=0.02 + 0.05 * (n % 2)))
                assert reply.ok
                assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            counters = rig.bus.counters
            assert counters.retries == counters.mismatches == (next(acks) - 1) // 5 > 8

    run_virtual(scenario())


@pytest.mark.parametrize("off_s", [0.0, 0.02, 0.3])
def test_a_command_is_not_resent_to_a_device_that_restarted_meanwhile(off_s: float) -> None:
    """TRANS 67: the second copy would not move it again, it would enable it and start its sweep."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = _loses_acknowledgements(1)
            reply = rig.gripper.command(Move(opening_width_m=0.075))
            await asyncio.sleep(0.05)
            rig.device.power_cycle(rig.now_s(), off_s=off_s)
            assert not (await reply).ok
            await asyncio.sleep(3.0)
            off = rig.device.history.of(Kind.POWER)[0]
            assert [each for each in rig.writes() if each.seq > off.seq] == []
            assert rig.state.activation is Activation.INACTIVE

    run_virtual(scenario())


def test_an_enable_whose_acknowledgement_is_lost_homes_once() -> None:
    """TRANS 67: nothing else on this device is other than absolute; the enable acts on its edge only."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Deactivate())
            lost = [True]

            def lose_the_enables(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                if lost and request[7:9] == b"\x00\x01":
                    lost.pop()
                    return []
                return [(0.0, reply)] if reply is not None else []

            rig.line.fault = lose_the_enables
            assert (await rig.outcome(Activate())).outcome is Outcome.REACHED
            homings = [each for each in rig.device.history.of(Kind.ACTIVATION) if each.fields["stage"] == "homing"]
            assert len(homings) == 2, "the rig's own, and this one"
            assert not lost

    run_virtual(scenario())


def test_what_cannot_be_sent_is_refused_and_not_kept_for_later() -> None:
    """TRANS 67, REPLAY 106: a command that met a dead line never goes out when the line is back."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = lambda request, reply: []
            replies = [rig.gripper.command(Move(opening_width_m=0.01 * n)) for n in range(1, 6)]
            codes = {reply.code for reply in await asyncio.gather(*replies)}
            assert codes <= {Code.LINK_DOWN, Code.NOT_CONFIRMED}
            assert Code.LINK_DOWN in codes
            written = len(rig.writes())
            rig.line.fault = None
            await rig.until(lambda: rig.state.activation is Activation.ACTIVE)
            await asyncio.sleep(6.0)
            assert len(rig.writes()) == written

    run_virtual(scenario())
