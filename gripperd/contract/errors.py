"""Errors that a client of the contract can meet. Each says what was given, what is valid, and what to do."""

from __future__ import annotations

from gripperd.contract.base import Code
from gripperd.contract.messages import CommandReply

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class GripperdError(Exception):
    """Root of all errors of this package."""


class RpcError(GripperdError):
    """The request was not understood; nothing was done. `code` is the JSON-RPC number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class InvalidParamsError(RpcError):
    """Unknown gripper, wrong type, missing or unknown parameter."""

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class CommandRefusedError(GripperdError):
    """A well-formed command was refused, or is not confirmed. `reply` tells which and why."""

    def __init__(self, reply: CommandReply) -> None:
        super().__init__(f"{reply.gripper}: {reply.code}: {reply.message}")
        self.reply = reply

    @property
    def code(self) -> Code:
        """The contract's code."""
        return self.reply.code


class ConnectionLostError(GripperdError):
    """The daemon is not reachable, or the connection to it ended."""


class AnswerError(GripperdError):
    """The daemon's answer does not fit the contract: it is of another version, or something else has its socket."""
