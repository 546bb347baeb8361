"""The configuration: every mistake is found at once, and named with what would be valid."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from gripperd.config import BusConfig, ConfigError, DaemonConfig, MqttConfig, load_config, parse_config
from gripperd.drivers.base import GripperConfig
from gripperd.drivers.franka_hand.driver import HandConfig
from gripperd.drivers.jodell.driver import JodellConfig
from gripperd.drivers.registry import driver_specs

GOOD: dict[str, Any] = {
    "daemon": {"socket": "/run/gripperd/gripperd.sock"},
    "mqtt": {"host": "localhost"},
    "bus": [{"name": "tool0", "port": "/dev/gripper/tool0"}],
    "gripper": [
        {"name": "left", "driver": "rg75", "bus": "tool0", "unit": 9},
        {"name": "right", "driver": "rg75", "bus": "tool0", "unit": 10},
    ],
}


def _problems(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        parse_config(raw, driver_specs())
    return str(error.value)


def _changed(path: list[str | int], value: object) -> dict[str, Any]:
    raw = copy.deepcopy(GOOD)
    place: Any = raw
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return raw


def test_a_good_configuration_gives_models_with_defaults() -> None:
    config = parse_config(GOOD, driver_specs())
    assert config.mqtt is not None
    assert config.mqtt.commands is False
    assert config.bus[0].baudrate == 115_200
    left = config.gripper[0]
    assert isinstance(left, JodellConfig)
    assert (left.poll_rate_hz, left.moving_poll_rate_hz, left.stroke_m) == (50.0, 100.0, 0.075)
    assert (left.link_down_after_s, left.stop_confirm_limit_s, left.take_up_limit_s) == (0.5, 1.0, 0.15)
    assert (left.empty_width_m, left.activate_on_start) == (0.001, False)


def test_mqtt_is_off_where_its_section_is_absent() -> None:
    raw = copy.deepcopy(GOOD)
    del raw["mqtt"]
    assert parse_config(raw, driver_specs()).mqtt is None


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["deamon"], {}, "did you mean 'daemon'"),
        (["daemon", "sockett"], "x", "did you mean 'socket'"),
        (["bus", 0, "baud_rate"], 9600, "did you mean 'baudrate'"),
        (["gripper", 0, "poll_rate"], 50, "did you mean 'poll_rate_hz'"),
        (["gripper", 0, "driver"], "rg57", "did you mean 'rg75'"),
        (["gripper", 0, "bus"], "tool1", "there is no [[bus]] named 'tool1'; configured: tool0"),
        (["gripper", 0, "unit"], 10, "both unit 10 on bus 'tool0'"),
        (["gripper", 0, "unit"], 0, "unit = 0"),
        (["gripper", 0, "unit"], 248, "unit = 248"),
        (["gripper", 0, "unit"], "nine", "unit = 'nine'"),
        (["gripper", 0, "name"], "right", "two [[gripper]] are named 'right'"),
        (["gripper", 0, "name"], "a/b", "name = 'a/b'"),
        (["gripper", 0, "default_speed"], 1.5, "default_speed = 1.5"),
        (["gripper", 0, "poll_rate_hz"], 1001, "poll_rate_hz = 1001"),
        (["bus", 0, "parity"], "X", "parity = 'X'"),
        (["bus"], {"name": "tool0"}, "write [[bus]]"),
        (["gripper"], [], "no [[gripper]] is configured"),
        (["mqtt", "port"], 70_000, "port = 70000"),
        (["mqtt", "prefix"], "a/#", "prefix = 'a/#'"),
        (["mqtt", "ca_file"], "/ca.pem", "ca_file without tls: set tls = true"),
        (["mqtt", "password_file"], "/secret", "password_file without username"),
        (["mqtt", "password_credential"], "../secret", "password_credential = '../secret'"),
        (["mqtt", "command"], True, "did you mean 'commands'"),
        (["daemon", "socket"], "/" + "x" * 120, "longer than 107 bytes"),
        (["daemon", "socket_mode"], "rw", "socket_mode = 'rw'"),
        (["daemon", "log_level"], "loud", "log_level = 'loud'"),
    ],
)
def test_a_mistake_is_named_with_what_would_be_valid(path: list[str | int], value: object, named: str) -> None:
    assert named in _problems(_changed(path, value))


def test_a_missing_key_is_named() -> None:
    raw = copy.deepcopy(GOOD)
    del raw["bus"][0]["port"]
    del raw["gripper"][0]["driver"]
    text = _problems(raw)
    assert "[[bus]] 'tool0': port is missing" in text
    assert "'left': has no driver; valid: franka_hand, rg75" in text


def test_two_lines_with_one_port_are_refused() -> None:
    raw = copy.deepcopy(GOOD)
    raw["bus"].append({"name": "tool1", "port": "/dev/gripper/tool0"})
    assert "two [[bus]] use the port" in _problems(raw)


def test_one_unit_number_on_two_lines_is_good() -> None:
    raw = copy.deepcopy(GOOD)
    raw["bus"].append({"name": "tool1", "port": "/dev/gripper/tool1"})
    raw["gripper"][1] |= {"bus": "tool1", "unit": 9}
    assert len(parse_config(raw, driver_specs()).gripper) == 2


def test_all_problems_are_told_at_once() -> None:
    raw = _changed(["daemon", "sockett"], "x")
    raw["bus"][0]["baud"] = 1
    raw["gripper"][1]["unitt"] = 3
    text = _problems(raw)
    assert all(word in text for word in ("sockett", "baud", "unitt"))


def test_a_file_that_is_missing_or_no_toml_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(tmp_path / "no.toml", driver_specs())
    (tmp_path / "bad.toml").write_text("[daemon\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(tmp_path / "bad.toml", driver_specs())
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(tmp_path / "binary.toml", driver_specs())


MODELS: dict[str, type[BaseModel]] = {
    "daemon": DaemonConfig,
    "mqtt": MqttConfig,
    "bus": BusConfig,
    "gripper": JodellConfig,
}
KEYS = sorted((section, key) for section, model in MODELS.items() for key in model.model_fields)


@given(st.sampled_from(KEYS), st.data())
def test_any_key_with_a_letter_missing_is_an_error_that_names_the_right_one(
    key: tuple[str, str], data: st.DataObject
) -> None:
    section, name = key
    at = data.draw(st.integers(0, len(name) - 1))
    typo = name[:at] + name[at + 1 :]
    assume(typo and typo not in MODELS[section].model_fields and len(name) > 4)
    raw = copy.deepcopy(GOOD)
    place = raw[section][0] if isinstance(raw[section], list) else raw[section]
    place[typo] = 1
    text = _problems(raw)
    assert typo in text
    assert "did you mean" in text


def test_two_hands_at_one_address_are_refused() -> None:
    hands = [{"name": name, "driver": "franka_hand", "address": "172.16.0.2"} for name in ("left", "right")]
    assert "two [[gripper]] use the address 172.16.0.2:1338" in _problems({"gripper": hands})


@pytest.mark.parametrize(("section", "model"), MODELS.items())
def test_every_key_is_in_the_documentation_with_its_default(section: str, model: type[BaseModel]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    text = next(part for part in page.split("\n## ") if part.lstrip("[").startswith(section))
    for name, info in model.model_fields.items():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), None)
        assert row is not None, f"docs/configuration.md has no row for {name}"
        default = "required" if info.is_required() else _as_toml(info.default)
        assert f"| {default} |" in row, f"{row} should give the default {default}"


def test_every_key_of_a_hand_is_in_the_documentation_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    text = page.split("\nKeys of a Franka Hand")[1]
    for name, info in HandConfig.model_fields.items():
        default = "required" if info.is_required() else _as_toml(info.default)
        if name not in GripperConfig.model_fields:
            row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "no row")
            assert f"| {default} |" in row, f"{name} should have a row with the default {default}: {row}"
        elif default != _as_toml(GripperConfig.model_fields[name].default) and not info.is_required():
            assert f"`{name}` {default}" in text


def _as_toml(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def test_the_example_of_the_documentation_is_good(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    (tmp_path / "example.toml").write_text(example)
    config = load_config(tmp_path / "example.toml", driver_specs())
    assert [each.name for each in config.gripper] == ["left", "right"]
