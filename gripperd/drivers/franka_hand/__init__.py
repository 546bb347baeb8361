"""Franka Hand over the gripper protocol of libfranka. Pure: table (facts), wire, policy, tracking, call."""

from __future__ import annotations

from gripperd.drivers.base import Driver, GripperConfig
from gripperd.drivers.franka_hand.driver import FrankaHandDriver, HandConfig
from gripperd.drivers.franka_hand.sockets import SocketDialer
from gripperd.drivers.spec import DriverSpec, Surroundings


def _build(config: GripperConfig, surroundings: Surroundings) -> Driver:
    assert isinstance(config, HandConfig)
    return FrankaHandDriver(config, SocketDialer(config.address, config.port), surroundings.clock)


SPECS = (DriverSpec("franka_hand", HandConfig, _build),)
