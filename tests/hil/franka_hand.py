"""What docs/franka-hand.md lists as not known, as checks on a real hand. Each tells what was found; none judges."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gripperd.drivers.franka_hand.call import Call
from gripperd.drivers.franka_hand.wire import GraspRequest, HomingRequest, MoveRequest, Payload, StopRequest
from tests.hil.probe import Probe, ProbeError

SLOW_M_S, FAST_M_S = 0.02, 0.1
LISTEN_S = 5.0
STOP_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """One question. moves: the jaws move, so a person is asked first."""

    title: str
    run: Callable[[Probe], Awaitable[Sequence[str]]]
    moves: bool


async def _states(probe: Probe) -> Sequence[str]:
    begin = len(probe.heard)
    await asyncio.sleep(LISTEN_S)
    heard = probe.heard[begin:]
    if len(heard) < 2:
        raise ProbeError(f"{len(heard)} state datagrams in {LISTEN_S} s")
    pauses_ms = [(b.at_s - a.at_s) * 1e3 for a, b in pairwise(heard)]
    ids = [b.state.message_id - a.state.message_id for a, b in pairwise(heard)]
    return [
        f"{len(heard) / LISTEN_S:.1f} states/s; pauses {min(pauses_ms):.0f} to {max(pauses_ms):.0f} ms",
        f"the first pauses [ms]: {', '.join(f'{each:.0f}' for each in pauses_ms[:12])}",
        f"message ids grow by {min(ids)} to {max(ids)}",
        f"state: {probe.state}",
    ]


async def _homing(probe: Probe) -> Sequence[str]:
    begin = len(probe.heard)
    told = await probe.do(HomingRequest())
    during = len(probe.heard) - begin
    await probe.next_state()
    return [f"homing: {told}, {during} states meanwhile; max_width {probe.state.max_width_m} m"]


async def _ends(probe: Probe) -> Sequence[str]:
    max_m = (await probe.next_state()).max_width_m
    found = [f"move to half: {await probe.do(MoveRequest(max_m / 2, FAST_M_S))}"]
    found.append(f"the same again: {await probe.do(MoveRequest(max_m / 2, FAST_M_S))}")
    for margin_m in (0.0, 0.0005, 0.001):
        told = await probe.do(MoveRequest(max_m - margin_m, FAST_M_S))
        found.append(f"move to max_width - {margin_m} m: {told}, then {(await probe.next_state()).width_m:.4f} m")
    return found


async def _band(probe: Probe) -> Sequence[str]:
    max_m = (await probe.next_state()).max_width_m
    found = []
    for outer_m in (max_m, 1.0):
        told = await probe.do(GraspRequest(0.0, 0.005, outer_m, FAST_M_S, 30.0))
        state = await probe.next_state()
        found.append(f"grasp of nothing, band {outer_m} m: {told}; {state.width_m:.4f} m, grasped {state.is_grasped}")
        found.append(f"a second grasp: {await probe.do(GraspRequest(0.0, 0.005, outer_m, FAST_M_S, 50.0))}")
        found.append(f"open without a stop before: {await probe.do(MoveRequest(max_m - 0.001, FAST_M_S))}")
    return found


async def _to_and_fro(probe: Probe, number: int) -> Call:
    """A slow motion that is under way."""
    max_m = (await probe.next_state()).max_width_m
    await probe.do(MoveRequest(max_m - 0.001 if number % 2 else 0.001, FAST_M_S))
    call = probe.send(MoveRequest(0.001 if number % 2 else max_m - 0.001, SLOW_M_S))
    begin_m = probe.state.width_m
    await probe.until(lambda: abs(probe.state.width_m - begin_m) > 0.003, 5.0, "motion")
    return call


async def _stops(probe: Probe) -> Sequence[str]:
    count = probe.stops
    orders: dict[str, int] = {}
    times_s, after_m = [], []
    for number in range(count):
        call = await _to_and_fro(probe, number)
        order: list[Call] = []
        at_m = probe.state.width_m
        stop = probe.send(StopRequest(), order)
        await probe.answer(call)
        await probe.answer(stop)
        times_s.append(probe.clock.monotonic() - stop.sent_s)
        first = "the stop" if call.pending or (order and order[0] is stop and call.status is None) else "either"
        status = call.status.name if call.status is not None else "lost"
        orders[f"motion {status}, {first} first"] = orders.get(f"motion {status}, {first} first", 0) + 1
        await probe.next_state()
        await probe.next_state()
        after_m.append(abs(probe.state.width_m - at_m))
    return [
        f"{count} stops: {orders}",
        f"both answered after {statistics.median(times_s):.3f} s (median), {max(times_s):.3f} s (longest)",
        f"the width went on by up to {max(after_m) * 1e3:.1f} mm",
    ]


async def _newer(probe: Probe) -> Sequence[str]:
    found = []
    newer: Sequence[tuple[str, Payload]] = (
        ("move", MoveRequest(0.04, FAST_M_S)),
        ("same move", MoveRequest(0.001, SLOW_M_S)),
    )
    for name, payload in newer:
        call = await _to_and_fro(probe, 1)
        second = probe.send(payload)
        answers = f"the second {await probe.answer(second)}; the first {await probe.answer(call)}"
        found.append(f"a {name} while one is pending: {answers}")
    return found


async def _connections(probe: Probe) -> Sequence[str]:
    async with Probe(probe.address, probe.port) as other:
        await other.next_state()
        call = await _to_and_fro(probe, 1)
        stop = other.send(StopRequest())
        try:
            told = await probe.answer(call, STOP_LIMIT_S)
        except ProbeError as error:
            told = str(error)
        return [
            "a second connection is accepted, and gets states",
            f"a stop on it: {await other.answer(stop)}; the motion of the first: {told}",
        ]


async def _closing(probe: Probe) -> Sequence[str]:
    async with Probe(probe.address, probe.port) as other:
        await _to_and_fro(other, 1)
        at_m = probe.state.width_m
    await asyncio.sleep(0.5)
    await probe.next_state()
    return [
        f"0.5 s after its connection was closed, a motion had gone on by {abs(probe.state.width_m - at_m) * 1e3:.1f} mm"
    ]


CHECKS = (
    Check("states at rest", _states, moves=False),
    Check("homing", _homing, moves=True),
    Check("moves to the very end", _ends, moves=True),
    Check("grasps of nothing, with wide bands", _band, moves=True),
    Check("stops in mid-motion", _stops, moves=True),
    Check("a newer motion while one is pending", _newer, moves=True),
    Check("a second connection", _connections, moves=True),
    Check("closing the connection in mid-motion", _closing, moves=True),
)
