"""Command messages: checked, carried out, answered.

Rules
1. A message is handled at once and inside the library's callback, so a stop waits for no other command.
2. Nothing that may be old is carried out: a message with the retain flag is refused, one that has expired too, and a
   duplicate gets the first one's answer.
3. Every message is answered on its response topic, with its correlation data, by a CommandReply; also one that was not
   understood. Without a response topic the `outcome` topic tells.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from pydantic_core import from_json

from gripperd.clock import Clock
from gripperd.contract import Code, CommandReply, InvalidParamsError
from gripperd.contract.requests import COMMANDS, Command, Stop
from gripperd.contract.service import Session
from gripperd.transports.jsonrpc import nearest, parse_params
from gripperd.transports.mqtt.duplicates import Duplicates, ReusedError

log = structlog.get_logger("gripperd.mqtt")

MAX_PAYLOAD_BYTES = 4096
"""Longest payload of a command; the parameters of the longest verb are some 200 bytes."""
MAX_RESPONSE_TOPIC = 1024
"""Longest response topic [characters]."""
MAX_UNANSWERED = 64
"""Commands of one gripper over MQTT that may wait for their answers. A stop is taken all the same."""
OWN_TOPICS = ("state", "outcome", "info", "availability", "command")
"""Below a gripper's topic; nobody may have an answer sent there."""


@dataclass(frozen=True, slots=True)
class Received:
    """One message. verb: the last level of its topic. expiry_s: what is left of its life [s]; None: it has no end."""

    verb: str
    payload: bytes
    retain: bool = False
    response_topic: str | None = None
    correlation: bytes | None = None
    expiry_s: int | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """An answer that is to be published."""

    topic: str
    payload: bytes
    correlation: bytes | None


Replying = asyncio.Future[CommandReply]


class CommandReceiver:
    """The commands of one gripper over MQTT. root: `<prefix>/<host>`. respond: publishes an answer."""

    def __init__(
        self, session: Session, gripper: str, root: str, respond: Callable[[Response], None], clock: Clock
    ) -> None:
        self._session = session
        self._gripper = gripper
        self._root = root
        self._respond = respond
        self._clock = clock
        self._duplicates: Duplicates[Replying] = Duplicates()
        self._unanswered: set[Replying] = set()
        self._trouble_logged = False
        self.counters = {"commands": 0, "commands_refused": 0, "duplicates": 0}

    def receive(self, message: Received) -> None:
        """Carry it out, or say why not."""
        self.counters["commands"] += 1
        trouble = self._response_trouble(message.response_topic)
        if trouble:
            self._log(message, trouble)
            message = Received(message.verb, message.payload, message.retain, None, None, message.expiry_s)
        refusal = self._old(message)
        if refusal is not None:
            self._refuse(message, Code.NOT_PERMITTED, refusal)
            return
        try:
            command = self._parse(message)
        except InvalidParamsError as error:
            self._refuse(message, Code.INVALID_ARGUMENT, error.message)
            return
        if isinstance(command, Stop):
            self._follow(message, self._stop())
        elif trouble:
            self._refuse(message, Code.INVALID_ARGUMENT, trouble)
        else:
            self._command(message, command)

    def _old(self, message: Received) -> str | None:
        if message.retain:
            return "a command with the retain flag is not carried out: it may be of any age; publish it without"
        if message.expiry_s is not None and message.expiry_s <= 0:
            return "the message has expired"
        return None

    def _parse(self, message: Received) -> Command:
        """Raises InvalidParamsError."""
        model = COMMANDS.get(message.verb)
        if model is None:
            raise InvalidParamsError(f"{message.verb[:64]!r} is not a command{nearest(message.verb[:64], COMMANDS)}")
        if len(message.payload) > MAX_PAYLOAD_BYTES:
            raise InvalidParamsError(f"the payload has {len(message.payload)} bytes; at most {MAX_PAYLOAD_BYTES}")
        try:
            given = from_json(message.payload or b"{}", allow_inf_nan=False)
        except ValueError as error:
            raise InvalidParamsError(f"the payload is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise InvalidParamsError("the payload is a JSON object with the parameters, or empty")
        command = parse_params(model, given)
        if command.gripper not in (None, self._gripper):
            raise InvalidParamsError(f"the topic is of {self._gripper!r}, and gripper is {command.gripper[:64]!r}")
        return command.model_copy(update={"gripper": self._gripper})

    def _command(self, message: Received, command: Command) -> None:
        key = None if message.correlation is None else (message.response_topic, message.correlation)
        content, now_s = (message.verb, message.payload), self._clock.monotonic()
        try:
            first = None if key is None else self._duplicates.find(key, content, now_s)
        except ReusedError:
            text = "its correlation data is that of another command of the last 30 s: give each its own"
            self._refuse(message, Code.INVALID_ARGUMENT, text)
            return
        if first is not None:
            self.counters["duplicates"] += 1
            first.add_done_callback(functools.partial(self._answered, message))
            return
        if len(self._unanswered) >= MAX_UNANSWERED:
            self._refuse(message, Code.INTERNAL, f"{MAX_UNANSWERED} commands wait already: await their answers")
            return
        reply = asyncio.ensure_future(self._session.command(command))
        if key is not None:
            self._duplicates.remember(key, content, reply, now_s)
        self._follow(message, reply)

    def _stop(self) -> Replying:
        stopping = asyncio.ensure_future(self._session.stop(self._gripper))

        async def one() -> CommandReply:
            reply = await stopping
            assert isinstance(reply, CommandReply)
            return reply

        return asyncio.ensure_future(one())

    def _follow(self, message: Received, reply: Replying) -> None:
        self._unanswered.add(reply)
        if message.expiry_s is not None and message.verb != "stop":
            alarm = asyncio.get_running_loop().call_later(message.expiry_s, reply.cancel)
            reply.add_done_callback(lambda _: alarm.cancel())
        reply.add_done_callback(self._unanswered.discard)
        reply.add_done_callback(functools.partial(self._answered, message))

    def _answered(self, message: Received, done: Replying) -> None:
        if done.cancelled():  # it is out of the queue if it was there; what is on the wire already goes on
            self._answer(message, self._reply(Code.NOT_CONFIRMED, "the message expired before the device acknowledged"))
        elif (error := done.exception()) is not None:
            log.error("mqtt_command_failed", gripper=self._gripper, verb=message.verb, error=repr(error))
            self._answer(message, self._reply(Code.INTERNAL, "internal error; see the daemon's log"))
        else:
            self._answer(message, done.result())

    def _refuse(self, message: Received, code: Code, text: str) -> None:
        self._answer(message, self._reply(code, text))

    def _answer(self, message: Received, reply: CommandReply) -> None:
        self.counters["commands_refused"] += not reply.ok
        if message.response_topic is not None:
            self._respond(Response(message.response_topic, reply.to_json(), message.correlation))
        elif not reply.ok:
            self._log(message, reply.message)

    def _reply(self, code: Code, text: str) -> CommandReply:
        return CommandReply(ok=False, message=text, code=code, gripper=self._gripper)

    def _response_trouble(self, topic: str | None) -> str:
        if topic is None:
            return ""
        if not topic or len(topic) > MAX_RESPONSE_TOPIC or "+" in topic or "#" in topic or "\0" in topic:
            return f"the response topic has no wildcards, and 1 to {MAX_RESPONSE_TOPIC} characters"
        levels = topic.removeprefix(f"{self._root}/").split("/")
        if topic.startswith(f"{self._root}/") and len(levels) > 1 and levels[1] in OWN_TOPICS:
            return "the response topic is one of gripperd's own: take another"
        return ""

    def _log(self, message: Received, reason: str) -> None:
        """Whom nobody can tell; once, the counters have the rest."""
        if not self._trouble_logged:
            self._trouble_logged = True
            log.warning("mqtt_command_refused", gripper=self._gripper, verb=message.verb[:64], reason=reason)
