"""Checks of values that mean the same for every driver. Pure."""

from __future__ import annotations

from gripperd.contract import Code
from gripperd.contract.requests import Command
from gripperd.drivers.base import Refusal


def invalid_relative(command: Command) -> Refusal | None:
    """relative_speed and relative_effort: contract, section 1.6."""
    for name in ("relative_speed", "relative_effort"):
        value = getattr(command, name, 0.0)
        if not 0.0 <= value <= 1.0:
            text = f"{name} is {value}: give 0 for the configured default, or more than 0 up to 1"
            return Refusal(Code.INVALID_ARGUMENT, text)
    return None
