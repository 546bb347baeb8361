"""How soon a client is told, measured at the client, in real time, on a machine that does other things too."""

from __future__ import annotations

import time
from pathlib import Path

from gripperd.contract import GraspState
from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject
from tests.support.daemon_bench import bench

SLOW_REPLY_S = 0.09
"""Delay of every reply [s]; the time-out is 0.1 s."""


async def test_a_question_for_the_state_never_waits_for_the_wire(tmp_path: Path) -> None:
    """STALE 41: each read of the bus takes 90 ms, and two hundred questions are answered meanwhile."""
    async with bench(tmp_path) as b:
        b.line.fault = lambda request, reply: [(SLOW_REPLY_S, reply or b"")]
        peer = await b.peer()
        took_s, seqs = [], []
        for _ in range(200):
            began_s = time.monotonic()
            state = await peer.ask("gripper.state")
            took_s.append(time.monotonic() - began_s)
            seqs.append(state["seq"])
        assert seqs[-1] - seqs[0] < 50, "one for each would be 200 rounds"
        assert sorted(took_s)[20] < 0.002, "one in ten at least"


async def test_contact_and_its_outcome_reach_a_subscriber_soon(tmp_path: Path) -> None:
    """STALE 44: from the device's contact to the line at the client; the best of ten."""
    async with bench(tmp_path) as b:
        peer, device = await b.peer(), b.devices[9]
        await peer.outcome("activate")
        late_s = []
        for _ in range(10):
            await peer.outcome("open", relative_speed=1)
            device.put_object(GraspObject(0.03), time.monotonic())
            subscriber = await b.peer()
            await subscriber.ask("gripper.subscribe", events=["state", "outcome"])
            reply = await peer.ask("gripper.grip", relative_speed=1)
            held = False
            while True:
                message = await subscriber.line()
                if message["method"] == "gripper.outcome":
                    break
                held = held or message["params"]["state"]["grasp_state"] == GraspState.HOLDING
            arrived_s = time.monotonic()
            assert message["params"]["outcome"]["command_seq"] == reply["command_seq"]
            assert message["params"]["outcome"]["outcome"] == "contact"
            assert held, "the state that shows it comes first"
            late_s.append(arrived_s - device.history.of(Kind.MOTION_END)[-1].t_s)
            device.take_object(time.monotonic())
            subscriber.writer.close()
        assert 0.0 < min(late_s) < 0.02, "a round every 10 ms, and its exchange"
