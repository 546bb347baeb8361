"""The promises on a bad line: random commands, stops, cancelled callers, power cycles and unplugs, random faults.

The simulator's history is the oracle. Every motion command has a speed of its own, so that each write tells whose it
is.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gripperd.contract import Activation, Code, CommandReply, Link, Outcome
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75Options
from tests.gripper.test_truth import CONTROL, PHASES, Oracle, pauses
from tests.support.rig import Rig
from tests.support.sim_line import CHARACTER_S, TURNAROUND_S
from tests.support.virtual_time import run_virtual

ON_THE_WAY_S = 15 * CHARACTER_S + TURNAROUND_S + 1e-6
"""A frame whose first byte left before a stop was raised reaches the device at most this much later [s]."""
GO = 0x0009
RECOVERY_LIMIT_S = 2.0
"""How soon after the faults end valid states must follow [s]: contract, section 2."""

VERBS = ["move", "move", "grip", "open", "stop", "stop", "cancel", "activate", "deactivate", "clear_fault", "release"]
WORLD = ["put", "take", "unplug", "plug", "power_cycle", "quiet", "lossy", "late", "dirty", "deaf", "refusing"]


@dataclass(frozen=True)
class Op:
    """After a pause [s], a command or something in the world."""

    pause_s: float
    what: str
    value: float


ops = st.builds(Op, pauses, st.sampled_from(VERBS + WORLD), st.floats(0.0, 1.0))


@dataclass
class Faults:
    """What the line does to replies; `mode` is switched while it runs."""

    rng: random.Random
    mode: str = "quiet"

    def __call__(self, request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
        if reply is None:
            return []
        dice, write = self.rng.random(), request[1] == 0x10
        if self.mode == "lossy" and dice < 0.4:
            return []
        if self.mode == "late" and dice < 0.5:
            return [(self.rng.choice([0.06, 0.11, 0.25, 0.9, 2.5, 4.8]), reply)]
        if self.mode == "dirty" and dice < 0.6:
            return self._dirty(reply)
        if self.mode == "deaf" and write:
            return []
        if self.mode == "refusing" and write:
            return [(0.0, bytes.fromhex("0990038dc3"))]
        return [(0.0, reply)]

    def _dirty(self, reply: bytes) -> list[tuple[float, bytes]]:
        at = self.rng.randrange(len(reply))
        flipped = reply[:at] + bytes([reply[at] ^ (1 << self.rng.randrange(8))]) + reply[at + 1 :]
        noise = bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 6)))
        return self.rng.choice(
            [
                [(0.0, flipped)],
                [(0.0, reply[:at])],
                [(0.0, noise + reply)],
                [(0.0, reply + noise)],
                [(0.0, reply[:at]), (0.015, reply[at:])],
                [(0.0, reply), (0.0015, reply)],  # a copy within the next round; one that is later is not told apart
            ]
        )


@dataclass
class Played:
    """What was asked for, and when."""

    replies: list[asyncio.Future[CommandReply]] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    accepted_s: dict[int, float] = field(default_factory=dict)
    stops_s: list[float] = field(default_factory=list)
    activations: int = 1
    power_cycles: int = 0


def _command(op: Op, number: int) -> Command:
    speed = number / 255
    if op.what == "move":
        return Move(opening_width_m=round(op.value * 0.075, 4), relative_speed=speed)
    if op.what == "grip":
        return Grip(relative_speed=speed)
    if op.what == "open":
        return Open(relative_speed=speed)
    return {"activate": Activate, "deactivate": Deactivate, "clear_fault": ClearFault, "release": Release}[op.what]()


def _world(rig: Rig, faults: Faults, op: Op, played: Played) -> None:
    now_s = rig.now_s()
    truth = rig.device.state(now_s)
    if op.what == "put" and truth["object_width_m"] is None and rig.width_m() > 0.03:
        rig.put(0.025)
    elif op.what == "take" and truth["object_width_m"] is not None:
        rig.take()
    elif op.what == "unplug" and rig.line.plugged:
        rig.line.unplug()
    elif op.what == "plug":
        rig.line.plugged = True
    elif op.what == "power_cycle":
        rig.device.power_cycle(now_s, off_s=0.6 + op.value)
        played.power_cycles += 1
    elif op.what in ("quiet", "lossy", "late", "dirty", "deaf", "refusing"):
        faults.mode = op.what


async def _play(rig: Rig, script: list[Op], faults: Faults) -> Played:
    played = Played()
    for number, op in enumerate(script, 1):
        await asyncio.sleep(op.pause_s)
        if op.what == "stop":
            played.stops_s.append(rig.now_s())
            played.replies.append(rig.gripper.stop())
        elif op.what == "cancel":
            if played.replies and not played.replies[-1].done():
                played.replies[-1].cancel()
                played.cancelled.add(len(played.replies) - 1)
        elif op.what in VERBS:
            played.accepted_s[number] = rig.now_s()
            played.activations += op.what == "activate"
            played.replies.append(rig.gripper.command(_command(op, number)))
        else:
            _world(rig, faults, op, played)
    return played


async def _recover(rig: Rig, faults: Faults, played: Played) -> None:
    """The faults end: the line is healthy soon, and a stop gets through."""
    faults.mode = "quiet"
    rig.line.plugged = True
    ended_s = rig.now_s()
    await rig.until(lambda: rig.state.link is Link.UP and rig.state.activation is not Activation.UNKNOWN)
    powered_late = 1.7 if played.power_cycles else 0.0
    assert rig.now_s() - ended_s < RECOVERY_LIMIT_S + powered_late
    await asyncio.sleep(6.0)
    played.stops_s.append(rig.now_s())
    stop = rig.gripper.stop()
    played.replies.append(stop)
    assert (await stop).ok, await stop
    await asyncio.gather(*played.replies, return_exceptions=True)
    seqs = [reply.result().command_seq for reply in played.replies if not reply.cancelled()]
    await rig.until(lambda: all(rig.gripper.ledger.outcome(seq) for seq in seqs if seq), limit_s=40.0)
    await asyncio.sleep(0.3)


def _check_values(rig: Rig) -> None:
    """A width is what the device said to the request that its stamp belongs to."""
    oracle = Oracle(rig)
    for state in rig.states:
        if state.opening_width_valid:
            position = oracle.reply_to(state).fields["values"][1] >> 8
            assert abs(state.opening_width_m - 0.075 * (255 - position) / 255) < 1e-9, state
        if state.activation is Activation.UNKNOWN:
            assert not state.opening_width_valid
            assert state.readings is None


def _check_outcomes(rig: Rig, played: Played) -> None:
    told = Counter(outcome.command_seq for outcome in rig.outcomes)
    assert set(told.values()) <= {1}, told
    for reply in (each.result() for each in played.replies if not each.cancelled()):
        if reply.ok:
            assert reply.code is Code.ACCEPTED
            assert reply.command_seq
        if reply.command_seq:
            assert told[reply.command_seq] == 1, reply
        else:
            assert not reply.ok


def _check_fence(rig: Rig, played: Played) -> None:
    """No motion word of a command that was accepted before a stop reaches the device after that stop."""
    for write in rig.device.history.of(Kind.WRITE):
        values = write.fields["values"]
        if write.fields["address"] != CONTROL or len(values) != 3 or values[0] != GO:
            continue
        accepted_s = played.accepted_s[values[2] & 0xFF]
        raised_s = [stop_s for stop_s in played.stops_s if accepted_s < stop_s < write.t_s - ON_THE_WAY_S]
        assert not raised_s, f"{write} was accepted at {accepted_s}, stopped at {raised_s}"


def _check_sweeps(rig: Rig, played: Played) -> None:
    """The device homes because somebody asked for it, and for no other reason."""
    homings = [event for event in rig.device.history.of(Kind.ACTIVATION) if event.fields["stage"] == "homing"]
    assert len(homings) <= played.activations


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=PHASES)
@given(
    script=st.lists(ops, min_size=1, max_size=25),
    seed=st.integers(0, 2**32),
    takeup_s=st.sampled_from([0.0, 0.01, 0.06]),
)
def test_the_promises_hold_on_a_bad_line(script: list[Op], seed: int, takeup_s: float) -> None:
    """STOP, STALE, FRAME, TRANS, REPLAY, SLAVE: all at once."""

    async def scenario() -> None:
        async with Rig(Rg75Options(takeup_s=takeup_s), motion_limit_s=20.0) as rig:
            await rig.activate()
            faults = Faults(random.Random(seed))
            rig.line.fault = faults
            played = await _play(rig, script, faults)
            await _recover(rig, faults, played)
            assert all(each.outcome is not Outcome.TIMED_OUT for each in rig.outcomes if each.verb != "release")
        _check_values(rig)
        _check_outcomes(rig, played)
        _check_fence(rig, played)
        _check_sweeps(rig, played)

    run_virtual(scenario())
