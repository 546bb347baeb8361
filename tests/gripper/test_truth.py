"""What is published is what the device said, and never about an earlier command.

Random commands at random times against a simulated RG75 with every kind of take-up; the simulator's history is the
oracle. It is read here by its own small decoder, so that one mistake cannot hide on both sides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gripperd.contract import Code, CommandReply, GraspState, GripperState, MotionState
from gripperd.contract.requests import Command, Grip, Move, Open
from gripperd_sim.history import Event, Kind
from gripperd_sim.rg75 import Rg75Options
from tests.support.rig import Rig
from tests.support.sim_line import CHARACTER_S, TURNAROUND_S
from tests.support.virtual_time import EPOCH_NS, START_S, run_virtual

REQUEST_S = 8 * CHARACTER_S + TURNAROUND_S
"""From the first byte of a status request to the moment in which the device forms its reply [s]."""
CONTROL = 0x03E8


@dataclass(frozen=True)
class Op:
    """After a pause [s], do something. verb: a command, "stop", "put", "take". value: width or relative parameter."""

    pause_s: float
    verb: str
    value: float


pauses = st.one_of(
    st.sampled_from([0.0, 0.001, 0.004, 0.011, 0.15, 0.16, 1.2]),
    st.floats(0.0, 0.05),
    st.floats(0.0, 0.7),
)
ops = st.builds(
    Op,
    pauses,
    st.sampled_from(["move", "move", "move", "grip", "grip", "open", "stop", "put", "take"]),
    st.floats(0.0, 1.0),
)
devices = st.builds(
    Rg75Options,
    takeup_s=st.sampled_from([0.0, 0.003, 0.01, 0.02, 0.06, 0.12]),
    stop_object_bits=st.sampled_from(["unchanged", "zero"]),
    regrip_same_force_ignored=st.booleans(),
    unchanged_word_triggers=st.booleans(),
    loss_shows_moving=st.booleans(),
    drive_after_loss=st.booleans(),
    closed_end_count=st.sampled_from([254, 255]),
)


def _command(op: Op) -> Command:
    if op.verb == "move":
        return Move(opening_width_m=round(op.value * 0.075, 4), relative_speed=1.0)
    if op.verb == "grip":
        return Grip(relative_speed=1.0, relative_effort=max(0.01, op.value))
    return Open(relative_speed=1.0)


async def _play(rig: Rig, script: list[Op]) -> list[CommandReply]:
    replies = []
    for op in script:
        await asyncio.sleep(op.pause_s)
        if op.verb == "put":
            width_m = 0.002 + 0.06 * op.value
            empty = rig.device.state(rig.now_s())["object_width_m"] is None
            if empty and rig.width_m() > width_m + 0.001:
                rig.put(width_m)
        elif op.verb == "take":
            if rig.device.state(rig.now_s())["object_width_m"] is not None:
                rig.take()
        elif op.verb == "stop":
            replies.append(rig.gripper.stop())
        else:
            replies.append(rig.gripper.command(_command(op)))
    told = list(await asyncio.gather(*replies))
    accepted = [reply.command_seq for reply in told if reply.command_seq]
    await rig.until(lambda: all(rig.gripper.ledger.outcome(seq) is not None for seq in accepted))
    await asyncio.sleep(0.3)
    return told


class Oracle:
    """The device's own account of what it said when, and of what it had taken up by then."""

    def __init__(self, rig: Rig) -> None:
        history = rig.device.history
        self.requests = {event.seq: event for event in history.of(Kind.REQUEST)}
        self.said: dict[int, Event] = {}
        for reply in history.of(Kind.REPLY):
            request = self.requests[reply.fields["request"]]
            if request.fields["address"] == 0x07D0:
                self.said[round(request.t_s * 1e6)] = reply
        self.taken_up_s = {event.fields["request"]: event.t_s for event in history.of(Kind.COMMAND)}
        self.writes = [event for event in history.of(Kind.WRITE) if event.fields["address"] == CONTROL]

    def reply_to(self, state: GripperState) -> Event:
        """What the device said in the round of this state; its stamp must belong to that very request."""
        began_s = START_S + (state.stamp.to_ns() - EPOCH_NS) / 1e9
        at_us = round((began_s + REQUEST_S) * 1e6)
        near = [self.said[us] for us in range(at_us - 5, at_us + 6) if us in self.said]
        assert len(near) == 1, f"no reply belongs to the stamp of {state}"
        return near[0]

    def in_doubt(self, t_s: float) -> list[Event]:
        """Writes that the device had accepted, but not taken up at t_s."""
        return [
            write
            for write in self.writes
            if write.t_s <= t_s < self.taken_up_s.get(write.fields["request"], float("-inf"))
        ]


def _expected(reply: Event) -> tuple[float, GraspState, MotionState]:
    word, position = reply.fields["values"][0], reply.fields["values"][1] >> 8
    grasp = {0: GraspState.UNKNOWN, 1: GraspState.HOLDING, 2: GraspState.HOLDING, 3: GraspState.NOT_HOLDING}[word >> 6]
    width_m = 0.075 * (255 - position) / 255
    if word >> 6 == 2 and width_m <= 0.001:
        grasp = GraspState.UNKNOWN
    if word & 2 and grasp is GraspState.HOLDING:
        grasp = GraspState.UNKNOWN
    return width_m, grasp, MotionState.MOVING if word & 8 else MotionState.STOPPED


def _check_states(rig: Rig, oracle: Oracle) -> None:
    for state in rig.states:
        if state.activation != "active":
            continue
        reply = oracle.reply_to(state)
        width_m, grasp, motion = _expected(reply)
        assert state.opening_width_valid
        assert abs(state.opening_width_m - width_m) < 1e-9
        if state.command_phase == "pending":
            assert state.grasp_state is GraspState.UNKNOWN
            assert state.motion_state is MotionState.UNKNOWN
            continue
        assert (state.grasp_state, state.motion_state) == (grasp, motion)
        doubt = oracle.in_doubt(reply.t_s)
        assert not doubt, f"{state} was told while the device had not taken up {doubt}"


def _check_outcomes(rig: Rig, replies: list[CommandReply]) -> None:
    accepted = [reply.command_seq for reply in replies if reply.command_seq]
    told = Counter(outcome.command_seq for outcome in rig.outcomes)
    assert all(told[seq] == 1 for seq in accepted), (accepted, told)
    assert len(accepted) == len(set(accepted))
    for reply in replies:
        assert reply.ok is (reply.code is Code.ACCEPTED)
        assert reply.code in (Code.ACCEPTED, Code.FENCED)
        assert bool(reply.command_seq) is reply.ok
    # activation is the rig's own command
    assert sum(told.values()) == len(accepted) + 1


def _check_order(rig: Rig) -> None:
    numbers = [state.seq for state in rig.states]
    assert numbers == list(range(1, len(numbers) + 1))
    stamps = [state.stamp.to_ns() for state in rig.states]
    assert stamps == sorted(set(stamps))
    seqs = [state.command_seq for state in rig.states]
    assert seqs == sorted(seqs)


PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""All but `explain`, which traces every line and takes minutes."""


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, phases=PHASES
)
@given(
    device=devices,
    script=st.lists(ops, min_size=1, max_size=12),
    poll_rate_hz=st.sampled_from([7.0, 50.0, 100.0]),
    moving_poll_rate_hz=st.sampled_from([20.0, 100.0, 300.0]),
)
def test_no_state_tells_of_an_earlier_command(
    device: Rg75Options, script: list[Op], poll_rate_hz: float, moving_poll_rate_hz: float
) -> None:
    """The whole promise at once: values, stamps, phases, order, one outcome each."""

    async def scenario() -> None:
        async with Rig(device, poll_rate_hz=poll_rate_hz, moving_poll_rate_hz=moving_poll_rate_hz) as rig:
            await rig.activate()
            replies = await _play(rig, script)
            assert all(outcome.outcome != "timed_out" for outcome in rig.outcomes)
        oracle = Oracle(rig)
        _check_states(rig, oracle)
        _check_outcomes(rig, replies)
        _check_order(rig)

    run_virtual(scenario())
