"""From a byte on the wire to a state at a subscriber, the same for every driver: real daemon, socket and Mosquitto.

One scenario drives the whole of an integrator's first day, and what was told on the way is checked afterwards: states,
stamps, phases, outcomes, over the socket and over MQTT.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from gripperd.client import Client, Gripper
from gripperd.contract import (
    Activation,
    Code,
    CommandOutcome,
    CommandPhase,
    CommandRefusedError,
    GraspState,
    GripperState,
    Link,
    MotionState,
    Outcome,
)
from gripperd_sim.control import AsyncControlClient
from tests.e2e.kinds import KINDS, Kind, write_config
from tests.e2e.processes import daemon, eventually, free_port, mosquitto, soon

pytestmark = pytest.mark.e2e


class Recorder:
    """Everything that one subscriber was told."""

    def __init__(self) -> None:
        self.states: list[GripperState] = []
        self.arrived_ns: list[int] = []
        self.outcomes: list[CommandOutcome] = []

    async def record_states(self, gripper: Gripper) -> None:
        """Until cancelled."""
        async for state in gripper.states():
            self.states.append(state)
            self.arrived_ns.append(time.time_ns())


class MqttRecorder:
    """Everything under the prefix, by topic."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Any]] = {}
        self.retained: set[str] = set()

    async def record(self, port: int, ready: asyncio.Event) -> None:
        """Until cancelled."""
        async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.subscribe("gripperd/#", qos=1)
            ready.set()
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                self.messages.setdefault(message.topic.value, []).append(json.loads(message.payload))
                if message.retain:
                    self.retained.add(message.topic.value)

    def last(self, name: str) -> Any:
        """The latest message of a topic of the gripper `left`."""
        return self.messages.get(f"gripperd/robot/left/{name}", [None])[-1]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: Unix sockets allow 107 bytes."""
    return tmp_path_factory.mktemp("g")


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every driver."""
    assert isinstance(request.param, Kind)
    return request.param


async def test_the_first_day_of_a_gripper(folder: Path, kind: Kind) -> None:
    """Activate, grip nothing, open, grip an object, lose it, move, stop, unplug and plug; over socket and MQTT."""
    port = free_port()
    mqtt, ready, told = MqttRecorder(), asyncio.Event(), Recorder()
    async with (
        kind.simulated(folder) as gripper_config,
        mosquitto(folder, port),
        daemon(folder, write_config(folder, gripper_config, port)) as running,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
        await Client.connect(folder / "g.sock") as client,
    ):
        gripper = client.gripper("left")
        tasks = [asyncio.create_task(mqtt.record(port, ready)), asyncio.create_task(told.record_states(gripper))]
        await asyncio.wait_for(ready.wait(), 5.0)
        await soon(lambda: _is(gripper, "link", Link.UP), "link")
        outcomes = await _script(gripper, sim)
        await _unplug_and_plug(gripper, sim)
        await eventually(lambda: len(mqtt.messages.get("gripperd/robot/left/outcome", [])) >= len(outcomes), "outcomes")
        assert mqtt.last("availability") == {"state": "online"}
        assert await running.end() == 0
        await eventually(lambda: mqtt.last("availability") == {"state": "offline"}, "offline over MQTT")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    _check_states(told, kind)
    _check_mqtt(mqtt, outcomes, kind)
    assert not (folder / "g.sock").exists()


async def _is(gripper: Gripper, field: str, value: object) -> bool:
    return bool(getattr(await gripper.state(), field) == value)


async def _script(gripper: Gripper, sim: AsyncControlClient) -> list[CommandOutcome]:
    """What the robot does; each step's outcome is checked on the spot."""
    outcomes = []
    with pytest.raises(CommandRefusedError) as refused:
        await gripper.move(0.03)
    assert refused.value.code is Code.NOT_ACTIVE
    outcomes.append(await _done(gripper.activate(), Outcome.REACHED))
    assert (await gripper.state()).activation is Activation.ACTIVE
    outcomes.append(await _done(gripper.open(), Outcome.REACHED))
    outcomes.append(await _done(gripper.grip(), Outcome.CLOSED_EMPTY))
    outcomes.append(await _done(gripper.open(), Outcome.REACHED))
    await sim.call("put_object", width_m=0.03)
    held = await _done(gripper.grip(expected_object_width_m=0.03), Outcome.CONTACT)
    assert held.grasp_state is GraspState.HOLDING
    assert held.opening_width_m == pytest.approx(0.03, abs=0.0005)
    await sim.call("take_object")
    await soon(lambda: _is(gripper, "grasp_state", GraspState.NOT_HOLDING), "lost object")
    outcomes += [held, await _done(gripper.move(0.06), Outcome.REACHED)]
    moving = await gripper.move(0.0, relative_speed=0.1)
    await soon(lambda: _is(gripper, "motion_state", MotionState.MOVING), "motion")
    stop = await gripper.stop()
    assert stop.reply.ok
    outcomes.append(await moving.outcome())
    assert outcomes[-1].outcome is Outcome.STOPPED
    await soon(lambda: _is(gripper, "command_seq", stop.command_seq), "state that knows of the stop")
    await soon(lambda: _is(gripper, "motion_state", MotionState.STOPPED), "standstill")
    assert 0.0 < (await gripper.state()).opening_width_m < 0.06
    return outcomes


async def _done(command: Any, expected: Outcome) -> CommandOutcome:
    outcome: CommandOutcome = await (await command).outcome()
    assert outcome.outcome is expected, outcome
    return outcome


async def _unplug_and_plug(gripper: Gripper, sim: AsyncControlClient) -> None:
    moving = await gripper.move(0.07, relative_speed=0.05)
    await sim.call("unplug")
    assert (await moving.outcome()).outcome is Outcome.LINK_LOST
    assert (await gripper.state()).link is Link.DOWN
    with pytest.raises(CommandRefusedError) as refused:
        await gripper.open()
    assert refused.value.code is Code.LINK_DOWN
    await sim.call("plug")
    back_s = time.monotonic()
    await soon(lambda: _is(gripper, "opening_width_valid", True), "valid state")
    assert time.monotonic() - back_s < 2.0
    await _done(gripper.open(), Outcome.REACHED)


def _check_states(told: Recorder, kind: Kind) -> None:
    """Stamps, numbers and phases of everything that one subscriber saw."""
    states = told.states
    assert len(states) > kind.least_states
    numbers = [state.seq for state in states]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "a subscriber that reads loses nothing"
    stamps = [state.stamp.to_ns() for state in states]
    assert stamps == sorted(set(stamps))
    ages_s = [(arrived - stamp) / 1e9 for arrived, stamp in zip(told.arrived_ns, stamps, strict=True)]
    assert min(ages_s) > 0, "a stamp is the start of its round, so it is older than its arrival"
    assert len({state.boot_id for state in states}) == 1
    for state in states:
        if state.command_phase is CommandPhase.PENDING:
            assert (state.grasp_state, state.motion_state) == (GraspState.UNKNOWN, MotionState.UNKNOWN)
        if state.activation is Activation.UNKNOWN:
            assert not state.opening_width_valid
            assert (state.grasp_state, state.motion_state) == (GraspState.UNKNOWN, MotionState.UNKNOWN)
    seqs = [state.command_seq for state in states]
    assert seqs == sorted(seqs)
    phases = [state.command_phase for state in states if state.command_seq == seqs[-1]]
    assert phases == sorted(phases, key=list(CommandPhase).index), "pending, executing, done, in this order"


def _check_mqtt(mqtt: MqttRecorder, outcomes: list[CommandOutcome], kind: Kind) -> None:
    """The same told over MQTT."""
    seen = {message["command_seq"]: message["outcome"] for message in mqtt.messages["gripperd/robot/left/outcome"]}
    for outcome in outcomes:
        assert seen[outcome.command_seq] == outcome.outcome
    info = mqtt.last("info")
    assert (info["name"], info["driver"]) == ("left", kind.driver)
    assert info["max_opening_width_m"] == kind.max_opening_width_m, "also where it is known after homing only"
    states = mqtt.messages["gripperd/robot/left/state"]
    assert len(states) > kind.least_states / 2
    assert {state["grasp_state"] for state in states} >= {int(GraspState.HOLDING), int(GraspState.NOT_HOLDING)}
    assert "gripperd/robot/left/state" not in mqtt.retained


async def test_a_killed_daemon_adopts_the_grip_when_it_is_back(folder: Path, kind: Kind) -> None:
    """START 119: kill -9 while holding; the new one writes nothing and tells HOLDING."""
    async with (
        kind.simulated(folder) as gripper_config,
        await AsyncControlClient.connect(folder / "sim.sock") as sim,
    ):
        config = write_config(folder, gripper_config)
        async with daemon(folder, config) as first, await Client.connect(folder / "g.sock") as client:
            gripper = client.gripper()
            await soon(lambda: _is(gripper, "link", Link.UP), "link")
            await _done(gripper.activate(), Outcome.REACHED)
            await _done(gripper.open(), Outcome.REACHED)
            await sim.call("put_object", width_m=0.04)
            await _done(gripper.grip(), Outcome.CONTACT)
            await first.end(signal.SIGKILL)
        before = await _commands(sim)
        async with daemon(folder, config), await Client.connect(folder / "g.sock") as client:
            gripper = client.gripper()
            await soon(lambda: _is(gripper, "grasp_state", GraspState.HOLDING), "adopted grip")
            state = await gripper.state()
            assert state.opening_width_m == pytest.approx(0.04, abs=0.0005)
            assert state.activation_epoch == 1
        assert await _commands(sim) == before


async def _commands(sim: AsyncControlClient) -> int:
    """How often the device was told to do something."""
    events = (await sim.call("log", limit=100_000))["events"]
    writes = [each for each in events if each["kind"] == "write"]
    requests = [each for each in events if each["kind"] == "request" and each.get("command", "connect") != "connect"]
    return len(writes) + len(requests)


async def test_the_broker_comes_and_goes_and_the_gripper_does_not_notice(folder: Path, kind: Kind) -> None:
    """MQTT 130, 134, 137: down at start, restarted; states flow again, and info is told again."""
    port = free_port()
    async with (
        kind.simulated(folder) as gripper_config,
        daemon(folder, write_config(folder, gripper_config, port)) as running,
        await Client.connect(folder / "g.sock") as client,
    ):
        gripper = client.gripper()
        await soon(lambda: _is(gripper, "link", Link.UP), "link without a broker")
        await _done(gripper.activate(), Outcome.REACHED)
        for _ in range(2):
            mqtt, ready = MqttRecorder(), asyncio.Event()
            async with mosquitto(folder, port):
                task = asyncio.create_task(mqtt.record(port, ready))
                await asyncio.wait_for(ready.wait(), 5.0)
                await eventually(lambda mqtt=mqtt: mqtt.last("state") is not None, "states over MQTT")  # type: ignore[misc]
                assert mqtt.last("availability") == {"state": "online"}
                assert mqtt.last("info")["name"] == "left"
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await _done(gripper.open(), Outcome.REACHED)
        assert running.output().count("mqtt_down") <= 3
        assert running.output().count("link_down") == 0
