"""Python client library: `gripperd.client` for asyncio, `gripperd.client.blocking` with the same names for the rest."""

from gripperd.client.asyncio_client import (
    CALL_TIMEOUT_S,
    DEFAULT_SOCKET,
    Client,
    Gripper,
    GripperEvent,
    PendingCommand,
    Subscription,
)
from gripperd.contract import AnswerError

__all__ = [
    "CALL_TIMEOUT_S",
    "DEFAULT_SOCKET",
    "AnswerError",
    "Client",
    "Gripper",
    "GripperEvent",
    "PendingCommand",
    "Subscription",
]
