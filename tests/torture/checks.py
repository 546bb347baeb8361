"""What must hold at the end of an example, whatever happened. The simulator's history is the oracle.

It reads the device's words with its own small decoder, so that one mistake cannot hide on both sides.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from gripperd.contract import Activation, Code, CommandPhase, CommandReply, GraspState, MotionState, Outcome, Verb
from gripperd_sim.history import Kind
from tests.support.sim_line import CHARACTER_S, TURNAROUND_S
from tests.support.virtual_time import EPOCH_NS, START_S
from tests.torture.world import World

STATUS, CONTROL, GO = 0x07D0, 0x03E8, 0x0009
STROKE_M = 0.075
REQUEST_S = 8 * CHARACTER_S
"""From the first byte of a status request to the moment in which the device answers it [s]."""
LOOK_S = 0.012
"""From a look that is not answered to the stop that goes out all the same [s]."""
ON_THE_WAY_S = 15 * CHARACTER_S + TURNAROUND_S + 1e-6
"""A frame whose first byte left before a stop was raised reaches the device at most this much later [s]."""


def check(world: World) -> None:
    """All of them."""
    check_values(world)
    check_stamps(world)
    check_outcomes(world)
    check_fence(world)
    check_sweeps(world)
    check_leftovers(world)


def check_values(world: World) -> None:
    """Every valid value is what the device said to the very request that the state's stamp belongs to.

    While a command is pending nothing is told of motion and grasp.
    """
    history = world.device.history
    requests = {event.seq: event for event in history.of(Kind.REQUEST)}
    said = {}
    for reply in history.of(Kind.REPLY):
        request = requests[reply.fields["request"]]
        if request.fields["address"] == STATUS and reply.fields["exception"] is None:
            said[round(request.t_s * 1e6)] = reply.fields["values"]
    for state in world.states:
        if state.activation is Activation.UNKNOWN:
            assert not state.opening_width_valid
            assert state.readings is None
            assert state.grasp_state is GraspState.UNKNOWN
            assert state.motion_state is MotionState.UNKNOWN
            continue
        at_us = round((START_S + (state.stamp.to_ns() - EPOCH_NS) / 1e9 + REQUEST_S) * 1e6)
        words = next((said[us] for us in range(at_us - 5, at_us + 6) if us in said), None)
        assert words is not None, f"the device answered no request of the stamp of {state}"
        stage = (words[0] >> 4) & 3
        assert (state.activation is Activation.ACTIVE) is (stage == 3), (state, words)
        assert state.activation is not Activation.ACTIVATING or stage == 1, (state, words)
        assert (state.fault.code if state.fault is not None else 0) == words[1] & 0xFF, (state, words)
        if state.opening_width_valid:
            assert abs(state.opening_width_m - STROKE_M * (255 - (words[1] >> 8)) / 255) < 1e-9, (state, words)
        if state.command_phase is CommandPhase.PENDING:
            assert state.motion_state is MotionState.UNKNOWN
            assert state.grasp_state is GraspState.UNKNOWN
        elif state.motion_state is not MotionState.UNKNOWN:
            assert (state.motion_state is MotionState.MOVING) is bool(words[0] & 8), (state, words)


def check_stamps(world: World) -> None:
    """They grow from state to state, and so do the sequence numbers of states; that of commands never goes back.

    Rounds that fail at once, since the port is gone, take no time where time is virtual: two of them may be at one
    moment. A round with an answer is at a moment of its own.
    """
    for before, state in pairwise(world.states):
        at_once = Activation.UNKNOWN is before.activation is state.activation
        least_ns = 0 if at_once else 1
        assert state.stamp.to_ns() - before.stamp.to_ns() >= least_ns, (before, state)
    assert [state.seq for state in world.states] == list(range(world.states[0].seq, world.states[-1].seq + 1))
    commands = [state.command_seq for state in world.states]
    assert commands == sorted(commands)


def check_outcomes(world: World) -> None:
    """Every command that was accepted has exactly one outcome, and no other has any."""
    told = Counter(outcome.command_seq for outcome in world.outcomes)
    assert set(told.values()) <= {1}, told
    accepted = 0
    for future in world.played.replies:
        assert future.done()
        if future.cancelled():
            continue
        reply: CommandReply = future.result()
        assert reply.ok is (reply.code is Code.ACCEPTED), reply
        assert not reply.ok or reply.command_seq, reply
        if reply.command_seq:
            accepted += 1
            assert told[reply.command_seq] == 1, reply
    cancelled = sum(future.cancelled() for future in world.played.replies)
    assert accepted <= len(told) <= accepted + cancelled
    for outcome in world.outcomes:
        assert outcome.outcome is not Outcome.TIMED_OUT or outcome.verb is Verb.RELEASE, outcome


def check_fence(world: World) -> None:
    """No motion word of a command that was accepted before a stop reaches the device after that stop."""
    played = world.played
    for write in world.device.history.of(Kind.WRITE):
        values = write.fields["values"]
        if write.fields["address"] != CONTROL or len(values) != 3 or values[0] != GO:
            continue
        accepted_s = played.accepted_s[values[2] & 0xFF]
        raised_s = [stop_s for stop_s in played.stops_s if accepted_s < stop_s < write.t_s - ON_THE_WAY_S]
        assert not raised_s, f"{write} was accepted at {accepted_s}, stopped at {raised_s}"


def check_sweeps(world: World) -> None:
    """The device homes because somebody asked for it, and for one other reason: a stop went out although nothing was
    seen, and the device's restart had ended between the look and that stop (docs/architecture.md, "Stop").
    """
    history = world.device.history
    powered_s = [each.t_s for each in history.of(Kind.POWER) if each.fields["on"]]
    homings = [each.t_s for each in history.of(Kind.ACTIVATION) if each.fields["stage"] == "homing"]
    known = [at_s for at_s in homings if not any(0 <= at_s - on_s < LOOK_S for on_s in powered_s)]
    asked = world.played.activations
    assert len(known) <= asked, f"{len(known)} homings at {known}, {asked} activations"


def check_leftovers(world: World) -> None:
    """Nothing waits any more: no job, no caller, no stop, no record, no owed reply."""
    stopper, dispatcher = world.gripper._stopper, world.gripper._dispatcher
    assert not stopper._undelivered
    assert not stopper._in_flight
    assert not dispatcher._queue
    assert dispatcher._sending is None
    assert not world.gripper.ledger._open
    assert not world.bus._lanes[0]
    assert not world.bus._lanes[1]
    owed = world.bus.quarantine._owed
    assert sum(map(len, owed.values())) < 500, "a reply that can no longer come is forgotten when its shape is used"
