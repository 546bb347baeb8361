"""Python client library: `gripperd.client` for asyncio, `gripperd.client.blocking` with the same names for the rest."""

from gripperd.client.asyncio_client import DEFAULT_SOCKET, Client, Gripper, PendingCommand
from gripperd.client.following import CALL_TIMEOUT_S, GripperEvent, Subscription
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
