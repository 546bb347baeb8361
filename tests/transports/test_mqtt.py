"""The MQTT publisher against a broker library that fails in every way, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, cast

import aiomqtt
import pytest
from pydantic_core import from_json
from structlog.testing import capture_logs

from gripperd.config import MqttConfig
from gripperd.contract import CommandOutcome, Event, GripperState, Outcome, Verb
from gripperd.contract.service import Listener, Service
from gripperd.transports.mqtt import OUTCOMES_KEPT, MqttPublisher
from tests.support.virtual_time import VirtualClock, run_virtual, within


class Broker:
    """What every fake client talks to. down: connecting fails. swallow: a publish loses one cancellation."""

    def __init__(self) -> None:
        self.down = False
        self.refuse_publishes = False
        self.swallow = False
        self.connects = 0
        self.told: list[tuple[str, Any, int, bool]] = []
        self.clients: list[FakeClient] = []
        self.subscribed: list[object] = []

    def of(self, name: str) -> list[Any]:
        """Payloads of one topic."""
        return [payload for topic, payload, _, _ in self.told if topic == f"gripperd/robot/left/{name}"]


class FakeClient:
    """As much of aiomqtt.Client as the publisher uses."""

    broker: Broker

    def __init__(self, host: str, port: int, **options: Any) -> None:
        self.options = options
        self.broker.clients.append(self)

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0.001)
        if self.broker.down:
            raise aiomqtt.MqttError("connection refused")
        self.broker.connects += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.sleep(0.001)

    async def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: Any = None
    ) -> None:
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            if not self.broker.swallow:
                raise
            self.broker.swallow = False
        if self.broker.refuse_publishes:
            raise aiomqtt.MqttError("not connected")
        self.broker.told.append((topic, from_json(payload), qos, retain))

    async def subscribe(self, topic: object, **options: Any) -> None:
        self.broker.subscribed.append((topic, options))


class FakeService:
    """As much of the service as the publisher uses."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.seq = 0

    def daemon_info(self) -> Any:
        return type("Info", (), {"boot_id": "0123456789"})

    def info(self, gripper: str) -> Any:
        return type("Info", (), {"to_json": lambda self: b'{"name":"left"}'})()

    def subscribe(self, gripper: str, events: object, listener: Listener) -> Any:
        self.listener = listener
        return lambda: None

    def state(self) -> None:
        """A round."""
        self.seq += 1
        assert self.listener is not None
        self.listener(Event.STATE, GripperState(gripper="left", boot_id="b", seq=self.seq), "left")

    def outcome(self, seq: int) -> None:
        """The end of a command."""
        assert self.listener is not None
        told = CommandOutcome(gripper="left", command_seq=seq, verb=Verb.OPEN, outcome=Outcome.REACHED)
        self.listener(Event.OUTCOME, told, "left")


class Bench:
    """A running publisher."""

    def __init__(self, publisher: MqttPublisher, service: FakeService, broker: Broker) -> None:
        self.publisher = publisher
        self.service = service
        self.broker = broker
        self.task = asyncio.create_task(publisher.run())

    async def states(self, duration_s: float, rate_hz: float = 100.0) -> None:
        """Rounds for a while."""
        for _ in range(round(duration_s * rate_hz)):
            self.service.state()
            await asyncio.sleep(1 / rate_hz)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(FakeClient, "broker", made, raising=False)
    monkeypatch.setattr(aiomqtt, "Client", FakeClient)
    return made


@contextlib.asynccontextmanager
async def bench(broker: Broker, **config: Any) -> AsyncIterator[Bench]:
    service = FakeService()
    publisher = MqttPublisher(MqttConfig(**config), "robot", "left", cast(Service, service), VirtualClock())
    made = Bench(publisher, service, broker)
    try:
        await asyncio.sleep(0.1)
        yield made
    finally:
        made.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await within(5.0, made.task)


def test_it_tells_that_it_is_there_what_it_can_and_what_it_sees(broker: Broker) -> None:
    async def scenario() -> None:
        async with bench(broker, state_rate_hz=10.0) as b:
            await b.states(2.0)
            b.service.outcome(1)
            await asyncio.sleep(0.1)
        options = broker.clients[0].options
        assert options["protocol"] is aiomqtt.ProtocolVersion.V5
        assert options["will"].topic == "gripperd/robot/left/availability"
        assert options["will"].payload == b'{"state":"offline"}'
        assert (options["will"].qos, options["will"].retain) == (1, True)
        assert broker.told[0] == ("gripperd/robot/left/availability", {"state": "online"}, 1, True)
        assert broker.told[1] == ("gripperd/robot/left/info", {"name": "left"}, 1, True)
        assert 18 <= len(broker.of("state")) <= 22, "thinned to its rate"
        assert broker.of("outcome")[0]["command_seq"] == 1
        states = [(qos, retain) for topic, _, qos, retain in broker.told if topic.endswith("/state")]
        assert set(states) == {(0, False)}
        assert broker.told[-1][1] == {"state": "offline"}, "a clean end is told too, since it triggers no will"

    run_virtual(scenario())


def test_a_broker_that_is_down_is_tried_with_growing_pauses_and_reported_once(broker: Broker) -> None:
    """MQTT 130, 131, 137: a new client object for each try."""

    async def scenario() -> list[str]:
        broker.down = True
        with capture_logs() as logs:
            async with bench(broker, reconnect_max_s=10.0) as b:
                await b.states(60.0, rate_hz=10.0)
                assert 8 <= len(broker.clients) <= 13
                assert len(set(map(id, broker.clients))) == len(broker.clients)
                broker.down = False
                await b.states(11.0, rate_hz=10.0)
                assert broker.connects == 1
                assert broker.of("availability") == [{"state": "online"}]
                assert broker.of("state")[-1]["seq"] >= b.service.seq - 2
        return [entry["event"] for entry in logs if entry["log_level"] != "debug"]

    assert run_virtual(scenario()) == ["mqtt_down", "mqtt_up"]


def test_a_connection_that_breaks_is_made_anew_and_no_outcome_is_lost(broker: Broker) -> None:
    async def scenario() -> None:
        async with bench(broker) as b:
            broker.refuse_publishes = True
            for seq in range(1, 6):
                b.service.outcome(seq)
                await asyncio.sleep(0.5)
            broker.refuse_publishes = False
            await asyncio.sleep(11.0)
            assert [each["command_seq"] for each in broker.of("outcome")] == [1, 2, 3, 4, 5]
            assert broker.of("info"), "told again"
            assert b.publisher.counters["connection_losses"] >= 1

    run_virtual(scenario())


def test_without_commands_it_listens_to_no_topic(broker: Broker) -> None:
    """REPLAY 109, 110, 112, 113: no broker can bring a command at all unless commands are configured."""

    async def scenario() -> None:
        async with bench(broker) as b:
            await b.states(1.0)
            broker.refuse_publishes = True
            await b.states(1.0)
            broker.refuse_publishes = False
            await b.states(11.0, rate_hz=10.0)
            assert broker.connects > 1
            assert broker.subscribed == []

    run_virtual(scenario())


def test_outcomes_that_cannot_wait_any_longer_are_counted(broker: Broker) -> None:
    async def scenario() -> None:
        broker.down = True
        async with bench(broker) as b:
            for seq in range(OUTCOMES_KEPT + 7):
                b.service.outcome(seq)
            assert b.publisher.counters["outcomes_lost"] == 7

    run_virtual(scenario())


@pytest.mark.parametrize("delay_s", [0.0, 0.0005, 0.001, 0.0015, 0.01])
def test_a_cancellation_that_the_library_loses_still_ends_it(broker: Broker, delay_s: float) -> None:
    async def scenario() -> None:
        async with bench(broker) as b:
            broker.swallow = True
            b.service.outcome(1)
            b.service.state()
            await asyncio.sleep(delay_s)
            b.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await within(1.0, b.task)
            assert b.task.done()

    run_virtual(scenario())
