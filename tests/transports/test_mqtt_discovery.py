"""What Home Assistant is told, and what its templates make of real messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jinja2.sandbox import SandboxedEnvironment

from gripperd.contract import GraspState, GripperInfo, GripperState, Link, MotionState
from gripperd.transports.mqtt.discovery import discovery

INFO = GripperInfo(
    name="left",
    driver="rg75",
    model="Jodell RG75",
    opening_width_range_valid=True,
    min_opening_width_m=0.0,
    max_opening_width_m=0.075,
)
BASE = "gripperd/cell-3.lan/left"


def told(info: GripperInfo = INFO, commands: bool = True) -> dict[tuple[str, str], dict[str, Any]]:
    """(component, name) -> configuration."""
    found = discovery("homeassistant", "cell-3.lan", BASE, info, commands, 5)
    parts = {}
    for topic, payload in found.items():
        prefix, kind, node, name, config = topic.split("/")
        assert (prefix, node, config) == ("homeassistant", "gripperd_cell-3_lan_left", "config")
        parts[kind, name] = dict(payload)
    return parts


def shown(template: str, state: GripperState) -> str:
    """As Home Assistant renders it; the text None is its word for unknown."""
    return SandboxedEnvironment().from_string(template).render(value_json=json.loads(state.to_json()))


def state(**fields: Any) -> GripperState:
    return GripperState(gripper="left", boot_id="b", seq=1, **fields)


def test_every_part_has_what_home_assistant_asks_for() -> None:
    parts = told()
    assert set(parts) == {
        *(("sensor", name) for name in ("width", "grasp", "motion")),
        *(("binary_sensor", name) for name in ("holding", "link")),
        *(("button", name) for name in ("open", "grip", "stop", "activate")),
        ("number", "opening"),
    }
    for (kind, name), part in parts.items():
        assert part["unique_id"] == f"gripperd_cell-3_lan_left_{name}"
        assert part["availability_topic"] == f"{BASE}/availability"
        assert part["device"] == {
            "identifiers": ["gripperd_cell-3_lan_left"],
            "name": "left (cell-3.lan)",
            "model": "Jodell RG75",
        }
        if kind in ("sensor", "binary_sensor"):
            assert (part["state_topic"], part["expire_after"]) == (f"{BASE}/state", 5)
        if kind == "button":
            assert (part["command_topic"], part["payload_press"]) == (f"{BASE}/command/{name}", "{}")
    number = parts["number", "opening"]
    assert (number["min"], number["max"], number["unit_of_measurement"]) == (0.0, 75.0, "mm")
    assert number["command_topic"] == f"{BASE}/command/move"


def test_without_commands_nothing_commands_and_without_a_range_there_is_no_number() -> None:
    assert {kind for kind, _ in told(commands=False)} == {"sensor", "binary_sensor"}
    unknown = INFO.model_copy(update={"opening_width_range_valid": False})
    assert ("number", "opening") not in told(unknown)
    assert ("button", "stop") in told(unknown)


@pytest.mark.parametrize(
    ("part", "fields", "text"),
    [
        (("sensor", "width"), {"opening_width_valid": True, "opening_width_m": 0.02345}, "23.4"),
        (("sensor", "width"), {"opening_width_valid": False, "opening_width_m": 0.02345}, "None"),
        (("number", "opening"), {"opening_width_valid": False}, "None"),
        (("sensor", "grasp"), {"grasp_state": GraspState.UNKNOWN}, "None"),
        (("sensor", "grasp"), {"grasp_state": GraspState.NOT_HOLDING}, "not_holding"),
        (("sensor", "grasp"), {"grasp_state": GraspState.HOLDING}, "holding"),
        (("sensor", "grasp"), {"grasp_state": GraspState.SLIPPING}, "slipping"),
        (("sensor", "motion"), {"motion_state": MotionState.UNKNOWN}, "None"),
        (("sensor", "motion"), {"motion_state": MotionState.MOVING}, "moving"),
        (("sensor", "motion"), {"motion_state": MotionState.STOPPED}, "stopped"),
        (("binary_sensor", "holding"), {"grasp_state": GraspState.UNKNOWN}, "None"),
        (("binary_sensor", "holding"), {"grasp_state": GraspState.NOT_HOLDING}, "OFF"),
        (("binary_sensor", "holding"), {"grasp_state": GraspState.HOLDING}, "ON"),
        (("binary_sensor", "link"), {"link": Link.UP}, "ON"),
        (("binary_sensor", "link"), {"link": Link.DOWN}, "OFF"),
    ],
)
def test_what_is_not_valid_is_shown_as_unknown(part: tuple[str, str], fields: dict[str, Any], text: str) -> None:
    assert shown(told()[part]["value_template"], state(**fields)) == text


@pytest.mark.parametrize(("value", "width_m"), [(30, 0.03), (75.0, 0.075), (0.1, 0.0001)])
def test_the_number_makes_parameters_of_a_move(value: float, width_m: float) -> None:
    template = told()["number", "opening"]["command_template"]
    assert json.loads(SandboxedEnvironment().from_string(template).render(value=value)) == {"opening_width_m": width_m}
