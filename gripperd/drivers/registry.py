"""Which drivers there are: the built-in ones, and those of other packages (entry point group "gripperd.drivers")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from gripperd.drivers import franka_hand, jodell
from gripperd.drivers.spec import DriverSpec

ENTRY_POINT_GROUP = "gripperd.drivers"


@cache
def driver_specs() -> Mapping[str, DriverSpec]:
    """Driver name -> how to make it. A foreign package cannot replace a built-in driver."""
    foreign = {point.name: _load(point.load()) for point in entry_points(group=ENTRY_POINT_GROUP)}
    return foreign | {spec.name: spec for spec in (*jodell.SPECS, *franka_hand.SPECS)}


def _load(spec: object) -> DriverSpec:
    if not isinstance(spec, DriverSpec):
        raise TypeError(f"entry points of {ENTRY_POINT_GROUP} name a DriverSpec, not {spec!r}")
    return spec
