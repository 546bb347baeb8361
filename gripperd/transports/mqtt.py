"""MQTT 5 publishing of contract section 5.

Rules
1. Every gripper has a connection of its own, since a connection has one last will and availability is told per gripper.
2. A new client object for each connection: aiomqtt does not reconnect, and a publish in flight hangs to its time-out.
3. A broker that is down is reported once and tried again with growing pauses. It never disturbs a gripper: what
   cannot be published waits in limits. Of states only the latest is kept, of outcomes the last `OUTCOMES_KEPT`.
4. aiomqtt waits with asyncio.wait_for, which on Python 3.11 loses a cancellation that comes together with the result.
   So the loops ask whether they were cancelled (`_leave_if_cancelled`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import structlog
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gripperd.clock import Clock
from gripperd.config import MqttConfig
from gripperd.contract import Availability, CommandOutcome, Event, Fault, GripperInfo, GripperState, Link
from gripperd.contract.service import Service

log = structlog.get_logger("gripperd.mqtt")

OUTCOMES_KEPT = 256
"""Outcomes that wait for the broker; older ones are counted as lost."""
PUBLISH_TIMEOUT_S = 5.0
"""A publish without its acknowledgement after this time means that the broker is gone [s]."""
FIRST_PAUSE_S = 0.25
"""Pause before the first reconnect [s]; it doubles up to `reconnect_max_s`."""
NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""Without it Nagle and delayed acknowledgements hold small messages back for some 40 ms."""


class MqttPublisher:
    """Publishes one gripper."""

    def __init__(self, config: MqttConfig, host_id: str, gripper: str, service: Service, clock: Clock) -> None:
        self._config = config
        self._gripper = gripper
        self._service = service
        self._clock = clock
        self._base = f"{config.prefix}/{host_id}/{gripper}"
        self._client_id = f"gripperd-{host_id}-{gripper}-{service.daemon_info().boot_id[:8]}"
        self._outcomes: deque[CommandOutcome] = deque()
        self._state: GripperState | None = None
        self._info: GripperInfo | None = None
        self._news = asyncio.Event()
        self._trouble_logged = False
        self.counters = {
            "connects": 0,
            "connection_losses": 0,
            "states_published": 0,
            "outcomes_published": 0,
            "outcomes_lost": 0,
        }

    async def run(self) -> None:
        """Publish until cancelled."""
        end: Callable[[], None] = self._service.subscribe(self._gripper, (Event.STATE, Event.OUTCOME), self._listen)
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                connects = self.counters["connects"]
                try:
                    await self._session()
                except (aiomqtt.MqttError, OSError, TimeoutError) as error:
                    self._report(error)
                _leave_if_cancelled()
                pause_s = FIRST_PAUSE_S if self.counters["connects"] > connects else pause_s
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, self._config.reconnect_max_s)
        finally:
            end()

    def _listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        if isinstance(item, GripperState):
            self._state = item
        elif isinstance(item, CommandOutcome):
            if len(self._outcomes) >= OUTCOMES_KEPT:
                self._outcomes.popleft()
                self.counters["outcomes_lost"] += 1
            self._outcomes.append(item)
        self._news.set()

    def _report(self, error: Exception) -> None:
        self.counters["connection_losses"] += 1
        if not self._trouble_logged:
            self._trouble_logged = True
            broker = f"{self._config.host}:{self._config.port}"
            log.warning("mqtt_down", gripper=self._gripper, broker=broker, reason=str(error) or repr(error))

    async def _session(self) -> None:
        offline = aiomqtt.Will(f"{self._base}/availability", _availability("offline"), qos=1, retain=True)
        password = None
        if self._config.password_file is not None:
            password = (await asyncio.to_thread(Path(self._config.password_file).read_text)).strip()
        client = aiomqtt.Client(
            self._config.host,
            self._config.port,
            identifier=self._client_id,
            username=self._config.username,
            password=password,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=offline,
            keepalive=self._config.keepalive_s,
            timeout=PUBLISH_TIMEOUT_S,
            tls_params=aiomqtt.TLSParameters() if self._config.tls else None,
            socket_options=NO_DELAY,
        )
        async with client:
            self.counters["connects"] += 1
            if self._trouble_logged or self.counters["connects"] == 1:
                log.info("mqtt_up", gripper=self._gripper, broker=f"{self._config.host}:{self._config.port}")
            self._trouble_logged = False
            await client.publish(f"{self._base}/availability", _availability("online"), qos=1, retain=True)
            self._info = None
            try:
                await self._publish_news(client)
            except asyncio.CancelledError:
                await client.publish(f"{self._base}/availability", _availability("offline"), qos=1, retain=True)
                raise

    async def _publish_news(self, client: aiomqtt.Client) -> None:
        due_s = self._clock.monotonic()
        period_s = 1.0 / self._config.state_rate_hz
        while True:
            self._news.clear()
            while self._outcomes:
                _leave_if_cancelled()
                await client.publish(f"{self._base}/outcome", self._outcomes[0].to_json(), qos=1)
                self._outcomes.popleft()
                self.counters["outcomes_published"] += 1
            now_s = self._clock.monotonic()
            await self._publish_info(client)
            if self._state is not None and now_s >= due_s:
                state, self._state = self._state, None
                due_s = max(due_s + period_s, now_s)
                await client.publish(f"{self._base}/state", state.to_json(), qos=0, properties=self._expiry())
                self.counters["states_published"] += 1
            _leave_if_cancelled()
            await self._wait_for_news(due_s)

    async def _publish_info(self, client: aiomqtt.Client) -> None:
        """At the start, and when it has changed: a hand knows its range once it is homed."""
        info = self._service.info(self._gripper)
        if info != self._info:
            await client.publish(f"{self._base}/info", info.to_json(), qos=1, retain=True)
            self._info = info

    async def _wait_for_news(self, due_s: float) -> None:
        """Until there is an outcome, or a state and its time has come."""
        loop = asyncio.get_running_loop()
        while not self._outcomes and (self._state is None or self._clock.monotonic() < due_s):
            self._news.clear()
            wait_s = max(0.0, due_s - self._clock.monotonic())
            alarm = loop.call_later(wait_s, self._news.set) if self._state is not None else None
            try:
                await self._news.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()

    def _expiry(self) -> Properties:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
        properties.MessageExpiryInterval = self._config.state_expiry_s
        return properties


def _leave_if_cancelled() -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _availability(state: str) -> bytes:
    return Availability(state=state).to_json()
