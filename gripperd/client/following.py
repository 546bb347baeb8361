"""Subscriptions as asynchronous iterators, and the messages in them. See asyncio_client.py for those who use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pydantic import ValidationError

from gripperd.client.channel import Channel
from gripperd.client.connection import Stream
from gripperd.contract import (
    CONTRACT_VERSION,
    AnswerError,
    CommandOutcome,
    ConnectionLostError,
    Event,
    Fault,
    GripperState,
    Link,
    Message,
)

CALL_TIMEOUT_S = 5.0
"""Longest time that an answer may take [s]; commands are answered within about a second even by a silent device."""

GripperEvent = GripperState | CommandOutcome | tuple[str, Fault | None] | tuple[str, Link]
"""A state, an outcome, or (gripper, fault) or (gripper, link)."""

Item = TypeVar("Item")
Answer = TypeVar("Answer", bound=Message)


class Subscription(AsyncIterator[Item], Generic[Item]):
    """An asynchronous iterator over what the daemon tells. The daemon is asked at the first item.

    It ends with ConnectionLostError when the daemon is lost, after all that came before; on a client that reconnects it
    goes on with the next connection, and what happened in between is missing. Leaving the loop ends the
    subscription; `aclose()` or `async with` do so at once. One task at a time may read it.
    """

    def __init__(
        self,
        channel: Channel,
        params: Mapping[str, Any],
        decode: Callable[[Event, Mapping[str, Any]], Item],
    ) -> None:
        self._stream = Stream()
        # It does not know this object: so it is finalised, and the subscription ended, as soon as nobody holds this.
        self._items = _follow(channel, params, self._stream, decode)

    @property
    def dropped(self) -> int:
        """States lost so far because they were not read in time, here or in the daemon."""
        return self._stream.dropped

    async def __anext__(self) -> Item:
        """The next item."""
        return await anext(self._items)

    async def aclose(self) -> None:
        """End the subscription. A second call does nothing."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        """Use it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        await self.aclose()


async def _follow(
    channel: Channel,
    params: Mapping[str, Any],
    stream: Stream,
    decode: Callable[[Event, Mapping[str, Any]], Item],
) -> AsyncGenerator[Item, None]:
    while True:
        connection = channel.connection
        number = None
        try:
            number = await connection.subscribe(params, stream, CALL_TIMEOUT_S)
            while True:
                yield decode(*await stream.get())
        except ConnectionLostError:
            if connection.lost is None or not channel.reconnecting:
                raise
            await channel.after(connection)
            stream.resume()
        finally:
            if number is not None:
                await connection.unsubscribe(number, CALL_TIMEOUT_S)


def read(model: type[Answer], told: object) -> Answer:
    """The message in an answer. Raises AnswerError."""
    try:
        return model.model_validate(told, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AnswerError(
            f"the daemon's {model.__name__} does not fit contract {CONTRACT_VERSION}: {where}: {first['msg']}; "
            "is gripperd of the same version as this client?"
        ) from None


def decode_state(event: Event, params: Mapping[str, Any]) -> GripperState:
    """The state in a notification. Raises AnswerError."""
    return read(GripperState, params.get("state"))


def decode(event: Event, params: Mapping[str, Any]) -> GripperEvent:
    """What a notification tells. Raises AnswerError."""
    if event is Event.STATE:
        return decode_state(event, params)
    if event is Event.OUTCOME:
        return read(CommandOutcome, params.get("outcome"))
    gripper = str(params.get("gripper"))
    if event is Event.FAULT:
        fault = params.get("fault")
        return gripper, None if fault is None else read(Fault, fault)
    try:
        return gripper, Link(str(params.get("link")))
    except ValueError as error:
        raise AnswerError(f"the daemon tells a link that contract {CONTRACT_VERSION} does not know: {error}") from None
