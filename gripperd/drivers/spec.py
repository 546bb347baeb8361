"""How a driver is offered: what its folder exports, and what an entry point names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gripperd.drivers.base import Driver, GripperConfig
from gripperd.modbus.bus import Bus


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """One driver.

    name: value of `driver` in the configuration. config: model of its [[gripper]].
    build: from that configuration and the serial lines by name.
    """

    name: str
    config: type[GripperConfig]
    build: Callable[[GripperConfig, Mapping[str, Bus]], Driver]
