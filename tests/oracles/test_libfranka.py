"""pylibfranka and panda-python, as they come, against the simulator; and our bytes against theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gripperd.clock import SystemClock
from gripperd.contract.requests import Grip, Move
from gripperd.drivers.franka_hand.connection import HandConnection, HandLimits
from gripperd.drivers.franka_hand.driver import HandConfig
from gripperd.drivers.franka_hand.sockets import SocketDialer
from gripperd.drivers.franka_hand.wire import GraspRequest, HomingRequest, MoveRequest, Payload, StopRequest
from gripperd.drivers.registry import driver_specs
from gripperd.drivers.spec import Surroundings
from gripperd.gripper import Gripper
from gripperd.store import Store
from gripperd_sim.franka_hand.operations import HandBench
from gripperd_sim.franka_hand.vacuum import VacuumGripper
from gripperd_sim.franka_hand.vacuum_server import VacuumServer
from gripperd_sim.jaw import GraspObject
from gripperd_sim.operations import Operations
from tests.e2e.processes import eventually
from tests.oracles.bench import ORACLES, PANDA, PYLIBFRANKA, Oracle, masked, play, require, sent, served
from tests.vectors import franka_frames as frames

pytestmark = pytest.mark.e2e


@pytest.fixture(params=ORACLES, ids=str)
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """Every client that has a wheel here."""
    assert isinstance(request.param, Oracle)
    require(request.param)
    return request.param


async def test_a_hand_is_homed_moved_and_read(oracle: Oracle) -> None:
    async with served(homed=False) as server:
        told = await play(
            oracle,
            server,
            ["read_once"],
            ["move", 0.04, 0.1],
            ["homing"],
            ["move", 0.04, 0.1],
            ["move", 0.2, 0.1],
            ["stop"],
            ["read_once"],
        )
    values = [(each["call"], each["value"]) for each in told]
    assert values[0] == ("connect", 3)
    assert values[1] == ("read_once", [0.08, 0.0, False, 30])
    assert "Command failed" in told[2]["error"], "not homed"
    assert values[3:5] == [("homing", True), ("move", True)]
    assert "Command failed" in told[5]["error"], "out of range"
    assert values[6:] == [("stop", True), ("read_once", [0.04, 0.08, False, 30])]


async def test_a_grasp_is_judged_by_its_band(oracle: Oracle) -> None:
    async with served() as server:
        server.hand.put_object(GraspObject(0.03), server.now_s())
        told = await play(
            oracle,
            server,
            ["grasp", 0.02, 0.1, 30.0, 0.005, 0.005],
            ["read_once"],
            ["grasp", 0.028, 0.1, 30.0, 0.005, 0.005],
            ["read_once"],
        )
        assert [each["value"] for each in told if each["call"] == "grasp"] == [False, True]
        outside, inside = [each["value"] for each in told if each["call"] == "read_once"]
        assert (outside[2], outside[0] > 0.0315) == (False, True), "outside of the band the fingers let go"
        assert (inside[2], inside[0]) == (True, pytest.approx(0.03, abs=0.0005))


async def test_a_grasp_of_nothing_fails_unless_its_band_has_the_closed_hand(oracle: Oracle) -> None:
    async with served() as server:
        told = await play(
            oracle,
            server,
            ["grasp", 0.02, 0.1, 30.0, 0.005, 0.005],
            ["grasp", 0.0, 0.1, 30.0, 0.005, 0.005],
            ["read_once"],
        )
    assert [each["value"] for each in told[1:3]] == [False, True]
    assert told[3]["value"][::2] == [pytest.approx(0.0, abs=1e-6), True]


STATES_GONE = "UDP receive: Timeout"


@pytest.mark.parametrize(
    ("fault", "params", "call", "says"),
    [
        ("unknown_status", {}, ["stop"], "Unexpected response"),
        ("lose_states", {"count": 40}, ["read_once"], STATES_GONE),
        ("short_states", {"count": 40}, ["read_once"], "incorrect object size"),
        ("split_answers", {}, ["move", 0.05, 0.1], ""),
        ("delay_answers", {"delay_s": 0.5, "of": "motion"}, ["move", 0.05, 0.1], ""),
        ("double_states", {"count": 40}, ["read_once"], ""),
        ("old_states", {"count": 40}, ["read_once"], ""),
        ("delay_states", {"count": 40}, ["read_once"], ""),
    ],
)
async def test_faults_look_to_libfranka_as_they_do_on_a_network(
    oracle: Oracle, fault: str, params: dict[str, Any], call: list[object], says: str
) -> None:
    """What its clients do then was measured before this simulator was written: its faults must cause the same."""
    async with served() as server:
        operations = Operations(HandBench(server.hand, server).table())
        operations.call(fault, {**params, **({"of": "stop"} if fault == "unknown_status" else {})})
        told = await play(oracle, server, call)
        assert server.faults.struck()[fault] >= 1
    assert says in told[1]["error"] if says else told[1]["error"] == ""
    if fault == "delay_answers":
        assert told[1]["took_s"] >= 0.79, "0.3 s of motion and half a second of delay"


async def test_a_reset_ends_a_pending_move_at_once(oracle: Oracle) -> None:
    async with served() as server:
        server.hand.put_object(GraspObject(0.03), server.now_s())
        moving = asyncio.create_task(play(oracle, server, ["move", 0.0, 0.1]))
        await eventually(lambda: bool(server.hand.state(server.now_s())["stuck"]), "blocked move")
        server.reset_all()
        assert "interrupted" in (await moving)[-1]["error"]


async def test_a_hand_without_power_refuses(oracle: Oracle) -> None:
    async with served() as server:
        server.hand.power_cycle(server.now_s(), 60.0)
        server.pump()
        told = await play(oracle, server)
    assert "refused" in told[0]["error"]


async def test_a_vacuum_gripper_and_the_bytes_of_its_client() -> None:
    """Of the two clients only panda-python can; pylibfranka has no vacuum gripper."""
    require(PANDA)
    async with served() as server:
        pump = VacuumServer(VacuumGripper(server.now_s()), server.address)
        await pump.start()
        try:
            pump.gripper.put_part(server.now_s())
            calls = (["vacuum", 10, 1000], ["read_vacuum"], ["drop_off", 1000], ["read_vacuum"], ["stop"])
            told = await play(PANDA, server, *calls, kind="VacuumGripper")
            pump.gripper.take_part(server.now_s())
            nothing = await play(PANDA, server, ["vacuum", 10, 200], kind="VacuumGripper")
            theirs = masked(pump.gripper.history)
        finally:
            await pump.close()
    assert [each["error"] for each in told] == [""] * 6
    assert [told[n]["value"] for n in (0, 1, 3, 5)] == [1, True, True, True]
    assert told[2]["value"] == [True, False, True, 0, 20, 100]
    assert told[4]["value"][:3] == [False, True, True]
    assert nothing[1]["value"] is False
    ours = {"vacuum": frames.VACUUM, "drop_off": frames.DROP_OFF, "stop": frames.VACUUM_STOP}
    literal = {name: bytearray.fromhex(text) for name, text in ours.items()}
    for each in literal.values():
        each[2:6] = bytes(4)
    assert theirs[1:4] == [(name, data.hex()) for name, data in literal.items()]


async def test_a_stop_of_another_thread_aborts_a_move() -> None:
    """panda-python gives the interpreter away while it waits; pylibfranka does not."""
    require(PANDA)
    async with served() as server:
        server.hand.put_object(GraspObject(0.03), server.now_s())
        told = await play(PANDA, server, ["aside", "move", 0.0, 0.1], ["sleep", 1.0], ["stop"])
    by_call = {each["call"]: each for each in told}
    assert by_call["stop"]["value"] is True
    assert "Command aborted" in by_call["move"]["error"]


async def test_a_stop_of_another_process_aborts_a_move() -> None:
    require(PYLIBFRANKA)
    async with served() as server:
        server.hand.put_object(GraspObject(0.03), server.now_s())
        moving = asyncio.create_task(play(PYLIBFRANKA, server, ["move", 0.0, 0.1]))
        await eventually(lambda: bool(server.hand.state(server.now_s())["stuck"]), "blocked move")
        stopped = await play(PYLIBFRANKA, server, ["stop"])
        assert stopped[-1]["value"] is True
        assert "Command aborted" in (await moving)[-1]["error"]


async def test_another_version_is_told(oracle: Oracle) -> None:
    async with served(protocol_version=2) as server:
        told = await play(oracle, server)
    assert "ncompatible" in told[0]["error"]


async def test_two_hundred_connections_leave_none(oracle: Oracle) -> None:
    async with served() as server:
        told = await play(oracle, server, ["reconnect", 200])
        assert told[-1]["error"] == ""
        await eventually(lambda: not server.connections, "end of all connections")
        assert len(sent(server)) == 201


CALLS: list[tuple[list[object], Payload]] = [
    (["homing"], HomingRequest()),
    (["move", 0.0123, 0.045], MoveRequest(0.0123, 0.045)),
    (["grasp", 0.021, 0.1, 33.0, 0.0011, 0.0022], GraspRequest(0.021, 0.0011, 0.0022, 0.1, 33.0)),
    (["stop"], StopRequest()),
]
"""A client's call, and our message for the same. Theirs and the wire's order of a grasp's numbers differ."""


async def test_our_bytes_are_theirs(oracle: Oracle) -> None:
    async with served() as server:
        await play(oracle, server, *(call for call, _ in CALLS))
        theirs = sent(server)
    async with served() as server:
        connection = HandConnection(SocketDialer(server.address), HandLimits(), SystemClock())
        task = asyncio.create_task(connection.run())
        await eventually(lambda: connection.ready, "connection")
        for _, payload in CALLS:
            call = connection.call(payload, lambda call: None)
            await eventually(lambda call=call: not call.pending, "answer")  # type: ignore[misc]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert sent(server) == theirs


async def test_the_driver_s_bytes_are_theirs(oracle: Oracle) -> None:
    """The numbers that a configuration makes of relative speed and effort, and the band that takes everything."""
    async with served() as server:
        await play(
            oracle, server, ["move", 0.05, 0.1 * 0.25], ["grasp", 0.0, 0.1 * 0.5, 30.0 + 0.75 * 40.0, 0.005, 0.08]
        )
        theirs = sent(server)
    async with served() as server:
        config = HandConfig(name="hand", driver="franka_hand", address=server.address)
        clock, store = SystemClock(), Store("boot")
        driver = driver_specs()["franka_hand"].make(config, Surroundings({}, clock))
        gripper = Gripper(driver, store, clock)
        assert driver.wire is not None
        tasks = [asyncio.create_task(driver.wire.run()), asyncio.create_task(gripper.run())]
        await eventually(lambda: store.latest("hand").opening_width_valid, "state")
        for command in (
            Move(opening_width_m=0.05, relative_speed=0.25),
            Grip(relative_speed=0.5, relative_effort=0.75),
        ):
            reply = await gripper.command(command)
            assert reply.ok, reply
            await eventually(lambda reply=reply: gripper.ledger.outcome(reply.command_seq) is not None, "outcome")  # type: ignore[misc]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sent(server) == theirs
