"""Jodell RG grippers over Modbus RTU: table (facts), registers, policy and tracking (pure), driver (jobs)."""

from __future__ import annotations

from gripperd.drivers.base import Driver, GripperConfig
from gripperd.drivers.jodell.driver import JodellConfig, JodellDriver
from gripperd.drivers.jodell.table import RG75
from gripperd.drivers.spec import DriverSpec, Surroundings


def _build_rg75(config: GripperConfig, surroundings: Surroundings) -> Driver:
    assert isinstance(config, JodellConfig)
    return JodellDriver(config, RG75, surroundings.buses[config.bus])


SPECS = (DriverSpec("rg75", JodellConfig, _build_rg75),)
