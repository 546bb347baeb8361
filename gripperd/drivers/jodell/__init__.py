"""Jodell RG grippers over Modbus RTU: table (facts), registers, policy and tracking (pure), driver (jobs)."""

from __future__ import annotations

from collections.abc import Mapping

from gripperd.drivers.base import Driver, GripperConfig
from gripperd.drivers.jodell.driver import JodellConfig, JodellDriver
from gripperd.drivers.jodell.table import RG75
from gripperd.drivers.spec import DriverSpec
from gripperd.modbus.bus import Bus


def _build_rg75(config: GripperConfig, buses: Mapping[str, Bus]) -> Driver:
    assert isinstance(config, JodellConfig)
    return JodellDriver(config, RG75, buses[config.bus])


SPECS = (DriverSpec("rg75", JodellConfig, _build_rg75),)
