"""Several grippers on one line: fair rounds, a silent one that costs little, and a stop for all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from gripperd.contract import Activation, GripperState, Link, StopReply
from gripperd.contract.requests import Move
from gripperd_sim.history import Kind
from tests.support.crew import Crew
from tests.support.sim_line import CHARACTER_S, TURNAROUND_S
from tests.support.virtual_time import run_virtual

EIGHT = range(9, 17)
TIMEOUT_S = 0.1
BACK_OFF_S = 5.0 / 6
"""Six shapes of the status read, each out of use for 5 s after a loss."""
WRITE_S = (11 + 8) * CHARACTER_S + TURNAROUND_S
"""One stop: request, turnaround, acknowledgement."""
ROUND_S = (8 + 13) * CHARACTER_S + TURNAROUND_S
GAP_S = 3.5 * CHARACTER_S


def _valid(states: Sequence[GripperState]) -> list[float]:
    """When valid rounds began [s of wall time]."""
    return [state.stamp.to_ns() / 1e9 for state in states if state.activation is not Activation.UNKNOWN]


def _is_stop(frame: bytes) -> bool:
    return frame[1] == 0x10 and frame[7:9] == b"\0\1"


@pytest.mark.parametrize("rate_hz", [20.0, 1000.0])
def test_eight_units_get_equal_shares_of_the_line(rate_hz: float) -> None:
    """SLAVE 97: at a rate that the line can serve, and at one that it cannot."""

    async def scenario() -> None:
        async with Crew(EIGHT, poll_rate_hz=rate_hz, moving_poll_rate_hz=rate_hz) as crew:
            await crew.activate()
            before = {name: len(states) for name, states in crew.states.items()}
            await asyncio.sleep(20.0)
            rates_hz = [(len(states) - before[name]) / 20.0 for name, states in crew.states.items()]
            assert min(rates_hz) > 0.98 * max(rates_hz)
            possible_hz = 1.0 / (ROUND_S + 2 * GAP_S) / len(EIGHT)
            assert min(rates_hz) > 0.95 * min(rate_hz, possible_hz)

    run_virtual(scenario())


@pytest.mark.parametrize("trouble", ["silent", "damaged", "refusing"])
def test_one_bad_unit_of_eight_costs_the_others_one_time_out_per_round_of_its_own(trouble: str) -> None:
    """SLAVE 91, 92. It backs off: a few rounds quickly, then one in a while."""

    async def scenario() -> None:
        async with Crew(EIGHT, poll_rate_hz=30.0, moving_poll_rate_hz=30.0) as crew:
            await crew.activate()

            def fault(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                if reply is None or (request[0] == 12 and trouble == "silent"):
                    return []
                if request[0] == 12 and trouble == "damaged":
                    return [(0.0, reply[:-1] + bytes([reply[-1] ^ 1]))]
                return [(0.0, reply)]

            if trouble == "refusing":
                crew.line.units = {**crew.devices, 12: _Refusing()}
            crew.line.fault = fault
            began_s, seen = crew.now_s(), len(crew.line.seen)
            await asyncio.sleep(30.0)
            asked_s = [each.t_s - began_s for each in crew.line.seen[seen:] if each.frame[0] == 12]
            later = [t_s for t_s in asked_s if t_s > 1.0]
            if trouble != "refusing":  # a refusal costs no time-out
                assert len(later) <= 29.0 / BACK_OFF_S
            for unit in set(EIGHT) - {12}:
                valid_s = [t_s for t_s in _valid(crew.states[f"g{unit}"]) if t_s > _wall_s(began_s)]
                gaps_s = [b - a for a, b in itertools.pairwise(valid_s)]
                assert max(gaps_s) < TIMEOUT_S + 0.02 + 1 / 30.0 + 8 * (ROUND_S + 2 * GAP_S)
                assert len(valid_s) > 0.9 * 30.0 * 30.0
            assert crew.grippers["g12"].link is Link.DOWN

    run_virtual(scenario())


class _Refusing:
    def handle(self, frame: bytes, now_s: float) -> bytes:
        body = bytes([frame[0], frame[1] | 0x80, 4])
        return body + _crc(body)


def _crc(body: bytes) -> bytes:
    value = 0xFFFF
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0xA001 if value & 1 else 0)
    return value.to_bytes(2, "little")


def _wall_s(monotonic_s: float) -> float:
    return 1_700_000_000 + monotonic_s - 1000.0


@pytest.mark.parametrize("phase_s", [0.0, 0.001, 0.002, 0.003, 0.004])
def test_a_stop_for_all_is_one_frame_for_each_unit_back_to_back_before_anything_else(phase_s: float) -> None:
    """With commands for all of them queued, and rounds as fast as the line can."""

    async def scenario() -> None:
        async with Crew(EIGHT, poll_rate_hz=1000.0, moving_poll_rate_hz=1000.0) as crew:
            await crew.activate()
            for gripper in crew.grippers.values():
                assert (await gripper.command(Move(opening_width_m=0.075, relative_speed=0.1))).ok
            await asyncio.sleep(0.3 + phase_s)
            for gripper in crew.grippers.values():
                for n in range(20):
                    gripper.command(Move(opening_width_m=0.002 * n))
            await asyncio.sleep(0.0)
            asked_s, seen = crew.now_s(), len(crew.line.seen)
            reply = await crew.session.stop(None)
            assert isinstance(reply, StopReply)
            assert reply.ok, reply
            assert [each.gripper for each in reply.replies] == list(crew.grippers)
            frames = crew.line.seen[seen : seen + 8]
            assert sorted(each.frame[0] for each in frames) == list(EIGHT)
            assert all(_is_stop(each.frame) for each in frames)
            assert frames[0].t_s - asked_s < ROUND_S + WRITE_S, "the transaction in flight"
            pauses_s = [b.t_s - a.t_s for a, b in itertools.pairwise(frames)]
            assert max(pauses_s) < WRITE_S + GAP_S + 1e-4
            go = [e for d in crew.devices.values() for e in d.history.of(Kind.WRITE) if e.fields["values"][0] == 9]
            assert max(each.t_s for each in go) < frames[0].t_s + WRITE_S

    run_virtual(scenario())


@pytest.mark.parametrize("silent", [9, 12, 16])
def test_a_stop_for_all_reaches_those_that_answer_before_the_one_that_is_silent(silent: int) -> None:
    async def scenario() -> None:
        async with Crew(EIGHT, poll_rate_hz=20.0, moving_poll_rate_hz=20.0) as crew:
            await crew.activate()
            crew.line.units = {unit: device for unit, device in crew.devices.items() if unit != silent}
            await asyncio.sleep(0.3)
            assert crew.grippers[f"g{silent}"].link is Link.UP, "nobody knows yet"
            asked_s, seen = crew.now_s(), len(crew.line.seen)
            stopping = crew.session.stop(None)
            await asyncio.sleep(0.2)
            stops = [each for each in crew.line.seen[seen:] if _is_stop(each.frame)]
            first = {each.frame[0]: each.t_s - asked_s for each in reversed(stops)}
            assert sorted(first) == list(EIGHT)
            others_s = [t_s for unit, t_s in first.items() if unit != silent]
            assert max(others_s) < 0.01 + 7 * (WRITE_S + GAP_S)
            assert first[silent] > max(others_s)
            assert not (await stopping).ok

    run_virtual(scenario())


def test_a_stop_does_not_wait_for_the_time_out_of_another_units_stop() -> None:
    """Its acknowledgement is overdue, by what is usual for writes on this line."""

    async def scenario() -> None:
        async with Crew((9, 10), poll_rate_hz=20.0) as crew:
            await crew.activate()
            for _ in range(8):  # so that it is known what is usual
                assert (await crew.grippers["g10"].stop()).ok
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            crew.line.units = {10: crew.devices[10]}
            unanswered = crew.grippers["g9"].stop()
            await asyncio.sleep(0.002)
            assert _is_stop(crew.line.seen[-1].frame)
            asked_s, seen = crew.now_s(), len(crew.line.seen)
            assert (await crew.grippers["g10"].stop()).ok
            assert crew.line.seen[seen].frame[0] == 10
            assert crew.line.seen[seen].t_s - asked_s < 0.01
            unanswered.cancel()

    run_virtual(scenario())


@pytest.mark.parametrize("delay_s", [0.02 * n for n in range(20)])
def test_a_stop_for_all_of_devices_that_are_heard_no_more_disables_no_active_drive(delay_s: float) -> None:
    """The wire pair of the replies is broken; what is written still arrives."""

    async def scenario() -> None:
        async with Crew((9, 10)) as crew:
            await crew.activate()
            for gripper in crew.grippers.values():
                assert (await gripper.command(Move(opening_width_m=0.075, relative_speed=0.05))).ok
            await asyncio.sleep(0.2)
            broken_s = crew.now_s()
            crew.line.fault = lambda request, reply: []
            await asyncio.sleep(delay_s)
            await crew.session.stop(None)
            await asyncio.sleep(0.5)
            for device in crew.devices.values():
                words = [e.fields["values"] for e in device.history.of(Kind.WRITE) if e.t_s > broken_s]
                assert all(word[0] == 1 for word in words), words

    run_virtual(scenario())
