"""Python client library: `gripperd.client` for asyncio, `gripperd.client.blocking` with the same names for the rest."""

from gripperd.client.asyncio_client import DEFAULT_SOCKET, Client, Gripper, GripperEvent, PendingCommand

__all__ = ["DEFAULT_SOCKET", "Client", "Gripper", "GripperEvent", "PendingCommand"]
