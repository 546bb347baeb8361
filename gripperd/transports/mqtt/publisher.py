"""The connection of one gripper to the broker.

Rules
1. Every gripper has a connection of its own, since a connection has one last will and availability is told per gripper.
2. A new client object for each connection: aiomqtt does not reconnect, and a publish in flight hangs to its time-out.
3. A broker that is down is reported once and tried again with growing pauses. It never disturbs a gripper: what
   cannot be published waits in limits. Of states only the latest is kept, of outcomes and answers the last `KEPT`.
4. aiomqtt waits with asyncio.wait_for, which on Python 3.11 loses a cancellation that comes together with the result.
   So the loops ask whether they were cancelled (`_leave_if_cancelled`).
5. A session at the broker ends with its connection, and retained messages are not asked for: no command that waited
   there comes out of the past.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

import aiomqtt
import structlog
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from pydantic_core import to_json

from gripperd.clock import Clock
from gripperd.config import MqttConfig
from gripperd.contract import Activation, Availability, CommandOutcome, Event, Fault, GripperInfo, GripperState, Link
from gripperd.contract.service import Peer, Service
from gripperd.transports.mqtt.commands import CommandReceiver, Received, Response
from gripperd.transports.mqtt.discovery import discovery
from gripperd.transports.mqtt.security import Security, SecurityError, load_security, needs_files

log = structlog.get_logger("gripperd.mqtt")

OUTCOMES_KEPT = 256
"""Outcomes, and answers, that wait for the broker; older ones are counted as lost."""
MAX_PACKET_BYTES = 8_192
"""What the broker may send in one packet; it drops longer ones itself. The library reads topics byte by byte."""
EXIT_LIMIT_S = 0.5
"""Longest wait for the broker at the daemon's end [s], once for "offline" and once for the disconnect."""
FIRST_PAUSE_S = 0.25
"""Pause before the first reconnect [s]; it doubles up to `reconnect_max_s`."""
INFO_CHECK_S = 1.0
"""How often it is looked at whether the info has changed [s]: a version that was read, a range that became known."""
EARLY = 0.2
"""A state may be published this part of a period early, and being late by as much is made up for: rounds jitter, and
the mean rate is kept all the same. Without it every second state would wait for a timer of its own."""
NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""Without it Nagle and delayed acknowledgements hold small messages back for some 40 ms."""
DO_NOT_SEND_RETAINED = 2
"""MQTT 5, 3.8.3.1: retain handling of a subscription."""


class MqttPublisher:
    """Publishes one gripper, and takes its commands if configured."""

    def __init__(self, config: MqttConfig, host_id: str, gripper: str, service: Service, clock: Clock) -> None:
        self._config = config
        self._host_id = host_id
        self._gripper = gripper
        self._service = service
        self._clock = clock
        self._root = f"{config.prefix}/{host_id}"
        self._base = f"{self._root}/{gripper}"
        self._client_id = f"gripperd-{host_id}-{gripper}-{service.daemon_info().boot_id[:8]}"
        self._outcomes: deque[CommandOutcome] = deque()
        self._responses: deque[Response] = deque()
        self._state: GripperState | None = None
        self._info: GripperInfo | None = None
        self._info_due = True
        self._known: tuple[Link, Activation, int] | None = None
        self._news = asyncio.Event()
        self._trouble_logged = False
        self._receiver: CommandReceiver | None = None
        self._counters = {
            "connects": 0,
            "connection_losses": 0,
            "states_published": 0,
            "outcomes_published": 0,
            "outcomes_lost": 0,
            "responses_published": 0,
            "responses_lost": 0,
        }

    @property
    def counters(self) -> dict[str, int]:
        """Of the connection and of the commands."""
        return self._counters | (self._receiver.counters if self._receiver is not None else {})

    async def run(self) -> None:
        """Publish until cancelled."""
        end: Callable[[], None] = self._service.subscribe(self._gripper, (Event.STATE, Event.OUTCOME), self._listen)
        session = None
        if self._config.commands:
            session = self._service.join(Peer("mqtt", name=f"{self._config.host}:{self._config.port}"))
            self._receiver = CommandReceiver(session, self._gripper, self._root, self._respond, self._clock)
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                connects = self._counters["connects"]
                try:
                    secured = needs_files(self._config)
                    security = await asyncio.to_thread(load_security, self._config) if secured else Security()
                    await self._session(security)
                except (aiomqtt.MqttError, SecurityError, OSError, TimeoutError) as error:
                    self._report(error)
                _leave_if_cancelled()
                pause_s = FIRST_PAUSE_S if self._counters["connects"] > connects else pause_s
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, self._config.reconnect_max_s)
        finally:
            end()
            if session is not None:
                session.leave(lost=False)

    def _listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        if isinstance(item, GripperState):
            self._state = item
            known = item.link, item.activation, item.activation_epoch
            if known != self._known:  # a hand knows its range once it is homed, a device its version once it answers
                self._known, self._info_due = known, True
        elif isinstance(item, CommandOutcome):
            if len(self._outcomes) >= OUTCOMES_KEPT:
                self._outcomes.popleft()
                self._counters["outcomes_lost"] += 1
            self._outcomes.append(item)
        self._news.set()

    def _respond(self, response: Response) -> None:
        if len(self._responses) >= OUTCOMES_KEPT:
            self._responses.popleft()
            self._counters["responses_lost"] += 1
        self._responses.append(response)
        self._news.set()

    def _report(self, error: Exception) -> None:
        """Once until the broker is there again; further reasons are for those who look for them."""
        self._counters["connection_losses"] += 1
        tell, self._trouble_logged = (log.debug if self._trouble_logged else log.warning), True
        reason, broker = str(error) or repr(error), f"{self._config.host}:{self._config.port}"
        tell("mqtt_down", gripper=self._gripper, broker=broker, reason=reason, **_advice(reason))

    def _client(self, security: Security) -> aiomqtt.Client:
        limits = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
        limits.MaximumPacketSize = MAX_PACKET_BYTES
        return aiomqtt.Client(
            self._config.host,
            self._config.port,
            identifier=self._client_id,
            username=self._config.username,
            password=security.password,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=True,
            properties=limits,
            will=aiomqtt.Will(f"{self._base}/availability", _availability("offline"), qos=1, retain=True),
            keepalive=self._config.keepalive_s,
            timeout=self._config.timeout_s,
            tls_context=security.tls,
            socket_options=NO_DELAY,
            queue_type=self._inbox(),
        )

    async def _session(self, security: Security) -> None:
        client = self._client(security)
        try:
            await self._connected(client)
        finally:
            # aiomqtt keeps the reason of a loss in a future that only its message iterator looks at. Look at it, or the
            # event loop would complain of it at some later time.
            lost: asyncio.Future[None] | None = getattr(client, "_disconnected", None)
            if lost is not None and lost.done() and not lost.cancelled():
                lost.exception()

    async def _connected(self, client: aiomqtt.Client) -> None:
        async with client:
            self._counters["connects"] += 1
            if self._trouble_logged or self._counters["connects"] == 1:
                log.info("mqtt_up", gripper=self._gripper, broker=f"{self._config.host}:{self._config.port}")
            self._trouble_logged = False
            try:
                if self._receiver is not None:
                    options = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=DO_NOT_SEND_RETAINED)
                    await client.subscribe(f"{self._base}/command/+", options=options)
                await client.publish(f"{self._base}/availability", _availability("online"), qos=1, retain=True)
                self._info, self._info_due = None, True
                await self._publish_news(client)
            except asyncio.CancelledError:
                client.timeout = EXIT_LIMIT_S
                await client.publish(f"{self._base}/availability", _availability("offline"), qos=1, retain=True)
                raise

    async def _publish_news(self, client: aiomqtt.Client) -> None:
        due_s = look_s = self._clock.monotonic()
        period_s = 1.0 / self._config.state_rate_hz
        while True:
            self._news.clear()
            await self._publish_kept(client)
            now_s = self._clock.monotonic()
            if self._info_due or now_s >= look_s:
                self._info_due, look_s = False, now_s + INFO_CHECK_S
                await self._publish_info(client)
            if self._state is not None and now_s >= due_s - EARLY * period_s:
                state, self._state = self._state, None
                due_s = max(due_s, now_s - EARLY * period_s) + period_s
                await client.publish(f"{self._base}/state", state.to_json(), qos=0, properties=self._expiry())
                self._counters["states_published"] += 1
            _leave_if_cancelled()
            await self._wait_for_news(due_s - EARLY * period_s)

    async def _publish_kept(self, client: aiomqtt.Client) -> None:
        """Answers and outcomes; each is forgotten when the broker has it."""
        while self._responses or self._outcomes:
            _leave_if_cancelled()
            if self._responses:
                response = self._responses[0]
                properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
                if response.correlation is not None:
                    properties.CorrelationData = response.correlation
                await client.publish(response.topic, response.payload, qos=1, properties=properties)
                _forget(self._responses, response)
                self._counters["responses_published"] += 1
            else:
                outcome = self._outcomes[0]
                await client.publish(f"{self._base}/outcome", outcome.to_json(), qos=1)
                _forget(self._outcomes, outcome)
                self._counters["outcomes_published"] += 1

    async def _publish_info(self, client: aiomqtt.Client) -> None:
        """If it has changed since it was published on this connection."""
        info = self._service.info(self._gripper)
        if info == self._info:
            return
        await client.publish(f"{self._base}/info", info.to_json(), qos=1, retain=True)
        if self._config.discovery:
            parts = discovery(
                self._config.discovery_prefix,
                self._host_id,
                self._base,
                info,
                self._config.commands,
                self._config.state_expiry_s,
            )
            for topic, payload in parts.items():
                await client.publish(topic, to_json(payload), qos=1, retain=True)
        self._info = info

    async def _wait_for_news(self, due_s: float) -> None:
        """Until there is an outcome or an answer, or a state and its time has come."""
        loop = asyncio.get_running_loop()
        while not self._has_kept() and (self._state is None or self._clock.monotonic() < due_s):
            self._news.clear()
            wait_s = max(0.0, due_s - self._clock.monotonic())
            alarm = loop.call_later(wait_s, self._news.set) if self._state is not None else None
            try:
                await self._news.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()

    def _has_kept(self) -> bool:
        return bool(self._outcomes or self._responses)

    def _inbox(self) -> type[asyncio.Queue[aiomqtt.Message]]:
        """A queue that is none: aiomqtt hands every message to it, inside its callback."""
        receiver = self._receiver

        class Inbox(asyncio.Queue[aiomqtt.Message]):
            def put_nowait(self, item: aiomqtt.Message) -> None:
                if receiver is not None:
                    try:
                        receiver.receive(_received(item))
                    except Exception:  # a defect here must not look like a broken connection
                        log.exception("mqtt_command_failed")

        return Inbox

    def _expiry(self) -> Properties:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.MessageExpiryInterval = self._config.state_expiry_s
        return properties


def _received(message: aiomqtt.Message) -> Received:
    properties = message.properties
    return Received(
        verb=message.topic.value.rpartition("/")[2],
        payload=bytes(message.payload),
        retain=message.retain,
        response_topic=getattr(properties, "ResponseTopic", None),
        correlation=getattr(properties, "CorrelationData", None),
        expiry_s=getattr(properties, "MessageExpiryInterval", None),
    )


def _advice(reason: str) -> dict[str, str]:
    """What to do about it."""
    known = {
        "Bad user name or password": "check username and password_file",
        "Not authorized": "check username and password_file, and what the broker's access list allows",
        "CERTIFICATE_VERIFY_FAILED": "check ca_file, and that host is a name in the broker's certificate",
        "refused": "is the broker running, and are host and port right?",
    }
    found = [advice for text, advice in known.items() if text.lower() in reason.lower()]
    return {"advice": found[0]} if found else {}


def _forget(kept: deque[Response] | deque[CommandOutcome], item: Response | CommandOutcome) -> None:
    """It may have been dropped meanwhile, to make room."""
    if kept and kept[0] is item:
        kept.popleft()


def _leave_if_cancelled() -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _availability(state: str) -> bytes:
    return Availability(state=state).to_json()
