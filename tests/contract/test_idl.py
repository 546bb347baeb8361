"""The interface texts list the base fields of the models: same names, same order, fitting types."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from gripperd.contract import CommandReply, GraspState, GripperInfo, GripperState, Message, MotionState, Stamp
from gripperd.contract.requests import Grip, Move, Open, Stop

FOLDER = Path(str(files("gripperd.contract") / "idl" / "gripper"))
TYPES: dict[object, str] = {
    bool: "bool",
    str: "string",
    float: "float64",
    Stamp: "builtin_interfaces/Time",
    GraspState: "uint8",
    MotionState: "uint8",
}
FIELD = re.compile(r"^([\w/]+) (\w+)$")
CONSTANT = re.compile(r"^uint8 ([A-Z_]+)=(\d+)$")
BASE_STATE = ["stamp", "opening_width_valid", "opening_width_m", "grasp_state", "motion_state"]
BASE_INFO = [
    *("ok", "message", "grip_effort_configurable", "move_speed_configurable", "grip_speed_configurable"),
    *("open_speed_configurable", "opening_width_range_valid", "min_opening_width_m", "max_opening_width_m"),
    *("gripping_force_range_valid", "min_gripping_force_n", "max_gripping_force_n"),
    *("grip_without_expected_width_supported", "grip_with_expected_width_supported"),
]
BASE_REPLY = ["ok", "message"]


def lines(path: str) -> list[str]:
    """Without comments and empty lines."""
    text = (FOLDER / path).read_text(encoding="utf-8")
    return [bare for line in text.splitlines() if (bare := line.split("#")[0].strip())]


def fields(told: list[str]) -> list[tuple[str, str]]:
    """(name, type) of each."""
    found = []
    for line in told:
        match = FIELD.match(line)
        assert match is not None, line
        found.append((match[2], match[1]))
    return found


def parts(path: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Request and response of a service."""
    told = lines(path)
    middle = told.index("---")
    return fields(told[:middle]), fields(told[middle + 1 :])


def of_model(model: type[Message], names: list[str]) -> list[tuple[str, str]]:
    known = {name: TYPES[info.annotation] for name, info in model.model_fields.items() if name in names}
    return list(known.items())


def test_the_state() -> None:
    told = fields(lines("msg/GripperState.msg"))
    assert [name for name, _ in told] == BASE_STATE
    assert told == of_model(GripperState, BASE_STATE)
    assert list(GripperState.model_fields)[: len(BASE_STATE)] == BASE_STATE, "the base comes first"


def test_the_info() -> None:
    request, response = parts("srv/GetGripperInfo.srv")
    assert request == []
    assert [name for name, _ in response] == BASE_INFO
    assert response == of_model(GripperInfo, BASE_INFO)
    assert list(GripperInfo.model_fields)[: len(BASE_INFO)] == BASE_INFO


@pytest.mark.parametrize(("name", "model"), [("Move", Move), ("Grip", Grip), ("Open", Open), ("Stop", Stop)])
def test_the_verbs(name: str, model: type[Message]) -> None:
    request, response = parts(f"srv/{name}.srv")
    own = [field for field in model.model_fields if field != "gripper"]
    assert request == of_model(model, own)
    assert response == of_model(CommandReply, BASE_REPLY)


@pytest.mark.parametrize(("name", "values"), [("GraspState", GraspState), ("MotionState", MotionState)])
def test_the_constants(name: str, values: type[GraspState] | type[MotionState]) -> None:
    found = {}
    for line in lines(f"msg/{name}.msg"):
        match = CONSTANT.match(line)
        assert match is not None, line
        found[match[1]] = int(match[2])
    assert found == {value.name: value.value for value in values}


def test_there_is_no_other_text() -> None:
    assert sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.*")) == [
        *("msg/GraspState.msg", "msg/GripperState.msg", "msg/MotionState.msg"),
        *("srv/GetGripperInfo.srv", "srv/Grip.srv", "srv/Move.srv", "srv/Open.srv", "srv/Stop.srv"),
    ]
