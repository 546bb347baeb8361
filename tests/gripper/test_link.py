"""The link: silence, loss and return; what is told meanwhile, and what is not done."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from functools import partial

import pytest
from structlog.testing import capture_logs

from gripperd.contract import Activation, Code, Event, GraspState, GripperState, Link, MotionState, Outcome
from gripperd.contract.requests import Grip, Move, Open
from gripperd_sim.rg75 import Rg75
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual


def _silent(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
    return []


def _is_valid_since(rig: Rig, count: int) -> bool:
    return any(state.opening_width_valid for state in rig.states[count:])


def _is_invalid(state: GripperState) -> bool:
    return (
        not state.opening_width_valid
        and state.opening_width_m == 0.0
        and state.grasp_state is GraspState.UNKNOWN
        and state.motion_state is MotionState.UNKNOWN
        and state.readings is None
        and state.fault is None
    )


def test_it_starts_without_the_device_and_joins_when_it_appears() -> None:
    """HOTPLUG 128, DIAG 86: unplugged at start is a normal start."""

    async def scenario() -> None:
        async with Rig(plugged=False) as rig:
            await asyncio.sleep(3.0)
            assert rig.state.link is Link.DOWN
            assert all(_is_invalid(state) for state in rig.states)
            reply = await rig.reply(Open())
            assert reply.code is Code.LINK_DOWN
            assert "plug the adapter in" in reply.message
            rig.line.plugged = True
            back_s = rig.now_s()
            await rig.until(lambda: rig.state.link is Link.UP)
            assert rig.now_s() - back_s < 1.0
            assert rig.writes() == []

    run_virtual(scenario())


def test_a_port_that_opens_is_no_link() -> None:
    """DIAG 82, 86: the line is open and nobody answers; only a valid status is a link, and a command is told why."""

    async def scenario() -> None:
        rig = Rig()
        rig.line.fault = lambda request, reply: []
        async with rig:
            await asyncio.sleep(2.0)
            assert rig.line.opened == 1
            assert {state.link for state in rig.states} == {Link.DOWN}
            asked_s = rig.now_s()
            reply = await rig.reply(Open())
            assert (reply.code, rig.now_s() - asked_s) == (Code.LINK_DOWN, 0.0)
            assert "unit 9: no reply" in reply.message
            rig.line.fault = None
            await rig.until(lambda: rig.state.link is Link.UP)

    run_virtual(scenario())


BAD_REPLIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "lost": (lambda reply: b"", "timeouts"),
    "flipped": (lambda reply: reply[:3] + bytes([reply[3] ^ 4]) + reply[4:], "crc_errors"),
    "cut": (lambda reply: reply[:6], "mismatches"),
    "foreign": (lambda reply: bytes.fromhex("0884020353"), "mismatches"),
    "exception": (lambda reply: bytes.fromhex("0984024303" if reply[1] == 4 else "0983024133"), "exceptions"),
}


@pytest.mark.parametrize("kind", BAD_REPLIES)
def test_one_bad_reply_makes_one_invalid_state_and_the_command_goes_on(kind: str) -> None:
    """TRANS 61, FRAME 29: it is counted; nothing is repeated as new, nothing is given up."""
    damage, counter = BAD_REPLIES[kind]

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            reply = await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.2)
            losses = [True]

            def spoil_one(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                assert reply is not None
                if losses:
                    losses.pop()
                    return [(0.0, damage(reply))]
                return [(0.0, reply)]

            rig.line.fault = spoil_one
            told = len(rig.states)
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            invalid = [state for state in rig.states[told:] if _is_invalid(state)]
            assert len(invalid) == 1
            assert invalid[0].link is Link.UP
            bad = {name: getattr(rig.bus.counters, name) for _, name in BAD_REPLIES.values()}
            assert bad == {name: int(name == counter) for name in bad}

    run_virtual(scenario())


def test_silence_turns_the_link_down_in_time_and_ends_what_is_pending() -> None:
    async def scenario() -> None:
        async with Rig(link_down_after_s=0.5) as rig:
            await rig.activate()
            moving = await rig.reply(Move(opening_width_m=0.075, relative_speed=0.01))
            await asyncio.sleep(0.2)
            rig.line.fault = _silent
            silent_s = rig.now_s()
            await rig.until(lambda: rig.state.link is Link.DOWN)
            assert 0.45 < rig.now_s() - silent_s < 0.65
            assert (await rig.outcome(moving)).outcome is Outcome.LINK_LOST
            assert rig.state.activation is Activation.UNKNOWN
            links = [item for event, item in rig.events if event is Event.LINK]
            assert links == [Link.UP, Link.DOWN]

    run_virtual(scenario())


@pytest.mark.parametrize("silence_s", [0.3, 0.45, 0.6, 0.9, 1.3, 2.0, 3.3, 4.9, 5.3, 7.1, 11.7, 20.0])
def test_valid_states_follow_within_two_seconds_after_the_device_is_back(silence_s: float) -> None:
    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            rig.line.fault = _silent
            await asyncio.sleep(silence_s)
            rig.line.fault = None
            back_s = rig.now_s()
            await rig.until(lambda: rig.state.opening_width_valid)
            assert rig.now_s() - back_s < 2.0

    run_virtual(scenario())


def test_after_a_return_nothing_is_written_before_a_new_command() -> None:
    """REPLAY 106: the fingers were moved by hand meanwhile, and stay where they are."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            rig.line.unplug()
            await asyncio.sleep(2.0)
            rig.device.move_fingers(0.04, rig.now_s())
            written = len(rig.writes())
            rig.line.plugged = True
            await rig.until(lambda: rig.state.opening_width_valid)
            await asyncio.sleep(3.0)
            assert len(rig.writes()) == written
            assert rig.state.opening_width_m == pytest.approx(0.04, abs=0.0005)

    run_virtual(scenario())


def test_failure_and_recovery_are_logged_once_each() -> None:
    """DIAG 83: not once per poll."""

    async def scenario() -> list[str]:
        with capture_logs() as logs:
            async with Rig() as rig:
                await rig.activate()
                for _ in range(3):
                    rig.line.unplug()
                    await asyncio.sleep(3.0)
                    rig.line.plugged = True
                    await asyncio.sleep(3.0)
        return [entry["event"] for entry in logs]

    events = run_virtual(scenario())
    assert events.count("link_down") == 3
    assert events.count("link_up") == 4
    assert events.count("port_lost") == 3
    assert events.count("port_open") == 4
    assert events.count("port_not_open") == 3


def test_twenty_unplugs_in_motion_each_end_the_command_and_none_moves_anything() -> None:
    """HOTPLUG 128."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            for n in range(20):
                width_m = 0.075 if n % 2 == 0 else 0.0
                reply = await rig.reply(Move(opening_width_m=width_m, relative_speed=0.1))
                await asyncio.sleep(0.03 * (n % 5))
                rig.line.unplug()
                outcome = await rig.outcome(reply)
                assert outcome.outcome is Outcome.LINK_LOST
                rig.line.plugged = True
                await rig.until(lambda: rig.state.link is Link.UP)
            assert rig.line.opened == 21

    run_virtual(scenario())


def test_a_write_whose_acknowledgements_are_lost_is_not_confirmed_but_followed() -> None:
    """J9: some adapters never return the acknowledgement; the status shows that the device moves."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.outcome(Open())
            rig.line.fault = lambda request, reply: [(0.0, reply)] if reply is not None and request[1] != 0x10 else []
            reply = await rig.reply(Grip())
            assert (reply.ok, reply.code) == (False, Code.NOT_CONFIRMED)
            assert reply.command_seq
            assert (await rig.outcome(reply)).outcome is Outcome.CLOSED_EMPTY

    run_virtual(scenario())


class _LosesWrites:
    """A device that writes do not reach any more."""

    def __init__(self, device: Rg75) -> None:
        self._device = device

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        return None if frame[1] == 0x10 else self._device.handle(frame, now_s)


async def _command_whose_acknowledgements_are_late(rig: Rig) -> None:
    """Its three attempts are acknowledged 0.35 s late: while the next command waits for its own."""
    await rig.activate()
    rig.line.fault = lambda request, reply: [] if reply is None else [(0.35 if request[1] == 0x10 else 0.0, reply)]
    first = await rig.reply(Move(opening_width_m=0.075, relative_speed=0.05))
    assert first.code is Code.NOT_CONFIRMED


def test_a_late_acknowledgement_is_not_taken_for_the_next_commands() -> None:
    """SLAVE 89: the second command never reaches the device; the first one's acknowledgement comes in its place."""

    async def scenario() -> None:
        async with Rig() as rig:
            await _command_whose_acknowledgements_are_late(rig)
            rig.line.units = {9: _LosesWrites(rig.device)}
            second = await rig.reply(Move(opening_width_m=0.07, relative_speed=0.04))
            assert second.code is Code.NOT_CONFIRMED
            assert rig.bus.counters.unproven_replies == 1
            assert (await rig.outcome(second)).outcome is Outcome.UNCONFIRMED

    run_virtual(scenario())


def test_where_an_acknowledgement_proves_nothing_the_status_can() -> None:
    """TRANS: one lost acknowledgement must not make every command of the next seconds fail."""

    async def scenario() -> None:
        async with Rig() as rig:
            await _command_whose_acknowledgements_are_late(rig)
            rig.line.fault = None
            await rig.stop()
            await asyncio.sleep(0.3)
            for width_m in (0.01, 0.07, 0.02, 0.06):
                reply = await rig.reply(Move(opening_width_m=width_m, relative_speed=1.0))
                assert reply.ok, reply
                assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            assert rig.bus.counters.unproven_replies >= 3

    run_virtual(scenario())


def test_the_link_of_a_chattering_line_stays_up_at_one_percent_loss() -> None:
    """TRANS 61, 62: ten minutes with evenly spread losses: no command fails, every failed round is told as invalid."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            count = itertools.count(1)

            def lose_some(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                return [(0.0, reply)] if reply is not None and next(count) * 7919 % 101 else []

            rig.line.fault = lose_some
            end_s, n = rig.now_s() + 600.0, 0
            while rig.now_s() < end_s:
                outcome = await rig.outcome(Move(opening_width_m=0.075 if n % 2 == 0 else 0.0))
                assert outcome.outcome is Outcome.REACHED
                await asyncio.sleep(1.0)
                n += 1
            assert n > 200
            assert all(state.link is Link.UP for state in rig.states[1:])
            failed = [state for state in rig.states if state.activation is Activation.UNKNOWN]
            assert len(failed) + rig.bus.counters.retries >= rig.bus.counters.timeouts > 250

    run_virtual(scenario())


@pytest.mark.parametrize("silent", [True, False])
def test_a_device_that_knows_function_04_only_is_read_with_that(silent: bool) -> None:
    """Whether function 03 reads the status is not documented. It costs a few rounds at the start, and no more."""

    async def scenario() -> None:
        async with Rig() as rig:
            refusal = [] if silent else [(0.0, bytes.fromhex("0983010132"))]
            rig.line.fault = lambda request, reply: (
                list(refusal) if request[1] == 0x03 else [(0.0, reply)] if reply is not None else []
            )
            await rig.activate()
            await asyncio.sleep(10.0)
            told = len(rig.states)
            await asyncio.sleep(10.0)
            assert all(state.opening_width_valid for state in rig.states[told:])
            assert len(rig.states) - told == pytest.approx(500, abs=5)

    run_virtual(scenario())


def test_a_reply_that_comes_twice_is_not_taken_for_the_next_rounds() -> None:
    """STALE: the copy arrives while the next request waits for its own reply."""

    async def scenario() -> None:
        async with Rig(poll_rate_hz=1000.0, moving_poll_rate_hz=1000.0) as rig:
            await rig.activate()
            rig.line.fault = lambda request, reply: [(0.0, reply), (0.0026, reply)] if reply is not None else []
            reply = await rig.reply(Move(opening_width_m=0.075, relative_speed=1.0))
            told = len(rig.states)
            assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            widths = [state.opening_width_m for state in rig.states[told:] if state.opening_width_valid]
            assert widths == sorted(widths)
            assert rig.bus.counters.replies > 50

    run_virtual(scenario())


def test_the_stamps_of_rounds_never_go_back() -> None:
    """A reply that is still waited for when the link is called down belongs to a round that was told already."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            late_from_s = rig.now_s() + 0.46
            rig.line.fault = lambda request, reply: (
                [(0.05, reply)] if reply is not None and rig.now_s() > late_from_s else []
            )
            await asyncio.sleep(1.0)
            stamps = [state.stamp.to_ns() for state in rig.states]
            assert any(state.link is Link.DOWN for state in rig.states)
            assert stamps == sorted(set(stamps))

    run_virtual(scenario())


@pytest.mark.parametrize("loss", [0.03, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_valid_states_follow_within_two_seconds_after_random_losses(loss: float, seed: int) -> None:
    """However the losses fell: they may not use up all shapes of the status read."""

    async def scenario() -> None:
        rng = random.Random(seed)
        async with Rig() as rig:
            await rig.activate()
            for _ in range(10):
                rig.line.fault = lambda request, reply: [] if reply is None or rng.random() < loss else [(0.0, reply)]
                await asyncio.sleep(3.0 + 4.0 * rng.random())
                rig.line.fault = None
                ended_s, before = rig.now_s(), len(rig.states)
                await rig.until(partial(_is_valid_since, rig, before))
                assert rig.now_s() - ended_s < 2.0

    run_virtual(scenario())
