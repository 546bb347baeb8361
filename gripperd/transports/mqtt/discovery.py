"""What Home Assistant's MQTT discovery is told of one gripper. Pure.

Rules
1. An observation that is not valid is shown as unknown: templates give None for it, and states expire.
2. What commands is told only where commands over MQTT are on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gripperd.contract import GripperInfo

WIDTH = "{{ (value_json.opening_width_m * 1000) | round(1) if value_json.opening_width_valid else None }}"
GRASP = "{{ [None, 'not_holding', 'holding', 'slipping'][value_json.grasp_state] }}"
MOTION = "{{ [None, 'moving', 'stopped'][value_json.motion_state] }}"
HOLDING = "{{ [None, 'OFF', 'ON', 'ON'][value_json.grasp_state] }}"
LINK = "{{ 'ON' if value_json.link == 'up' else 'OFF' }}"
MOVE = '{"opening_width_m": {{ value / 1000 }} }'

Component = Mapping[str, Any]


def discovery(
    prefix: str, host: str, base: str, info: GripperInfo, commands: bool, expire_after_s: int
) -> dict[str, Component]:
    """Topic -> payload. prefix: Home Assistant's. base: the gripper's own topic. expire_after_s: of a state [s]."""
    node = f"gripperd_{_plain(host)}_{_plain(info.name)}"
    common = {
        "availability_topic": f"{base}/availability",
        "availability_template": "{{ value_json.state }}",
        "device": {
            "identifiers": [node],
            "name": f"{info.name} ({host})",
            "model": info.model,
            "sw_version": info.device_version or None,
        },
        "origin": {"name": "gripperd"},
    }
    common["device"] = {key: value for key, value in common["device"].items() if value is not None}  # type: ignore[attr-defined]

    def reading(name: str, template: str, **more: object) -> Component:
        return {"name": name, "state_topic": f"{base}/state", "value_template": template, **more}

    def button(verb: str) -> Component:
        return {"name": verb, "command_topic": f"{base}/command/{verb}", "payload_press": "{}"}

    expires = {"expire_after": expire_after_s}
    parts: dict[tuple[str, str], Component] = {
        ("sensor", "width"): reading(
            "width", WIDTH, unit_of_measurement="mm", device_class="distance", state_class="measurement", **expires
        ),
        ("sensor", "grasp"): reading(
            "grasp", GRASP, device_class="enum", options=["not_holding", "holding", "slipping"], **expires
        ),
        ("sensor", "motion"): reading("motion", MOTION, device_class="enum", options=["moving", "stopped"], **expires),
        ("binary_sensor", "holding"): reading("holding", HOLDING, **expires),
        ("binary_sensor", "link"): reading("link", LINK, device_class="connectivity", **expires),
    }
    if commands:
        parts |= {("button", verb): button(verb) for verb in ("open", "grip", "stop", "activate")}
    if commands and info.opening_width_range_valid:
        parts["number", "opening"] = reading(
            "opening",
            WIDTH,
            command_topic=f"{base}/command/move",
            command_template=MOVE,
            min=round(info.min_opening_width_m * 1000, 1),
            max=round(info.max_opening_width_m * 1000, 1),
            step=0.1,
            unit_of_measurement="mm",
            mode="slider",
        )
    return {
        f"{prefix}/{kind}/{node}/{name}/config": {**common, **part, "unique_id": f"{node}_{name}"}
        for (kind, name), part in parts.items()
    }


def _plain(text: str) -> str:
    """Discovery topics allow letters, digits, - and _."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "-_") else "_" for each in text)
