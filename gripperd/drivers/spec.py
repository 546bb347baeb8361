"""How a driver is offered: what its folder exports, and what an entry point names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gripperd.clock import Clock
from gripperd.drivers.base import Driver, GripperConfig
from gripperd.modbus.bus import Bus


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the daemon has for its drivers. buses: the serial lines by name."""

    buses: Mapping[str, Bus]
    clock: Clock


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """One driver.

    name: value of `driver` in the configuration. config: model of its [[gripper]].
    build: from that configuration and what the daemon has.
    """

    name: str
    config: type[GripperConfig]
    build: Callable[[GripperConfig, Surroundings], Driver]

    def make(self, config: GripperConfig, surroundings: Surroundings) -> Driver:
        """A driver. Raises TypeError where part of the protocol is missing: what cannot be stopped is no driver."""
        driver = self.build(config, surroundings)
        missing = [name for name in vars(Driver) if not name.startswith("_") and not hasattr(driver, name)]
        if missing:
            raise TypeError(f"driver {self.name!r} lacks {', '.join(missing)}: see Driver in gripperd/drivers/base.py")
        return driver
