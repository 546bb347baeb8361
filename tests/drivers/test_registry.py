"""What a driver has to bring: every built-in one does, and one that lacks a part is refused when it is made."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any, cast

import pytest

from gripperd.drivers import registry
from gripperd.drivers.base import Driver, GripperConfig
from gripperd.drivers.registry import driver_specs
from gripperd.drivers.spec import DriverSpec, Surroundings
from gripperd.modbus.bus import Bus, BusLimits
from tests.support.sim_line import SimLine
from tests.support.virtual_time import VirtualClock

CLOCK = VirtualClock()
SURROUNDINGS = Surroundings({"tool0": Bus("tool0", SimLine({}), BusLimits(), CLOCK)}, CLOCK)


def _config(spec: DriverSpec) -> GripperConfig:
    where = {"address": "127.0.0.1"} if "address" in spec.config.model_fields else {"bus": "tool0"}
    return spec.config.model_validate({"name": "left", "driver": spec.name, **where})


@pytest.mark.parametrize("spec", driver_specs().values(), ids=lambda spec: spec.name)
def test_every_driver_can_be_stopped_and_says_so(spec: DriverSpec) -> None:
    """STOP 35."""
    driver = spec.make(_config(spec), SURROUNDINGS)
    assert callable(driver.stop)
    assert driver.info().stop_supported


class _Partial:
    """A driver without some of its parts."""

    def __init__(self, driver: Driver, missing: str) -> None:
        self._driver = driver
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._driver, name)


@pytest.mark.parametrize("missing", ["stop", "stop_kind", "track_stop", "poll", "config"])
def test_a_driver_that_lacks_a_part_is_refused_with_its_name(missing: str) -> None:
    """STOP 35: before anything is polled; a stop that is missing must not be found out when it is needed."""
    whole = driver_specs()["rg75"]

    def build(config: GripperConfig, surroundings: Surroundings) -> Driver:
        return cast(Driver, _Partial(whole.build(config, surroundings), missing))

    spec = DriverSpec("half", whole.config, build)
    with pytest.raises(TypeError, match=rf"driver 'half' lacks {missing}: see Driver in"):
        spec.make(_config(spec), SURROUNDINGS)


def test_an_entry_point_that_is_no_driver_is_refused_and_one_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """STOP 35: of other packages too."""

    def offer(value: str) -> None:
        point = EntryPoint("other", value, registry.ENTRY_POINT_GROUP)
        monkeypatch.setattr(registry, "entry_points", lambda group: [point])
        registry.driver_specs.cache_clear()

    try:
        offer("json:dumps")
        with pytest.raises(TypeError, match="name a DriverSpec, not"):
            driver_specs()
        offer("tests.drivers.test_registry:OTHER")
        assert driver_specs()["other"] is OTHER
    finally:
        monkeypatch.undo()
        registry.driver_specs.cache_clear()


OTHER = DriverSpec("other", driver_specs()["rg75"].config, driver_specs()["rg75"].build)
