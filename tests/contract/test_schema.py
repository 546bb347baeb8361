"""The schemas against the models, the pages, and what the daemon really says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gripperd import cli
from gripperd.contract import (
    Activation,
    CommandOutcome,
    CommandPhase,
    Event,
    GraspState,
    GripperState,
    Link,
    Message,
    MotionState,
    Outcome,
    Stamp,
    Verb,
)
from gripperd.contract.messages import Fault, Readings
from gripperd.contract.requests import Request
from gripperd.contract.schema import METHODS, models, pages, schema
from tests.support.daemon_bench import bench

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "schema"
MODELS = models()


def valid(model: type[Message], value: object) -> bool:
    return bool(jsonschema.Draft202012Validator(schema(model)).is_valid(value))


def test_the_pages_are_those_of_the_models() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert there == pages(), "run: gripperd schema --all docs/schema, and remove what is no message any more"


@pytest.mark.parametrize("name", MODELS)
def test_each_is_a_schema_with_names_types_and_a_text(name: str) -> None:
    made = schema(MODELS[name])
    jsonschema.Draft202012Validator.check_schema(made)
    assert made["$id"] == f"urn:gripperd:contract:1:{name}"
    assert made["description"]
    assert list(made.get("properties", {})) == list(MODELS[name].model_fields)
    if issubclass(MODELS[name], Request):
        assert made["additionalProperties"] is False
    else:
        assert "additionalProperties" not in made, "a client accepts what a later daemon adds"
        assert made.get("required", []) == list(MODELS[name].model_fields), "the daemon says all of it"


def test_numbers_carry_their_names() -> None:
    made = schema(GripperState)["$defs"]["GraspState"]
    assert made["oneOf"][2] == {"const": 2, "title": "HOLDING"}


widths = st.floats(min_value=0.0, max_value=1.0)
texts = st.text(max_size=20)
stamps = st.builds(Stamp, sec=st.integers(0, 2**31 - 1), nanosec=st.integers(0, 999_999_999))
states = st.builds(
    GripperState,
    stamp=stamps,
    opening_width_valid=st.booleans(),
    opening_width_m=widths,
    grasp_state=st.sampled_from(GraspState),
    motion_state=st.sampled_from(MotionState),
    gripper=texts,
    boot_id=texts,
    seq=st.integers(0),
    link=st.sampled_from(Link),
    activation=st.sampled_from(Activation),
    activation_epoch=st.integers(1),
    command_seq=st.integers(0),
    command_phase=st.sampled_from(CommandPhase),
    fault=st.none() | st.builds(Fault, code=st.integers(), text=texts),
    readings=st.none() | st.builds(Readings, effort=st.none() | widths, temperature_c=st.none() | widths),
)
outcomes = st.builds(
    CommandOutcome,
    gripper=texts,
    command_seq=st.integers(1),
    verb=st.sampled_from(Verb),
    outcome=st.sampled_from(Outcome),
    message=texts,
    opening_width_valid=st.booleans(),
    opening_width_m=widths,
    grasp_state=st.sampled_from(GraspState),
    stamp=stamps,
)
WRONG: tuple[object, ...] = ("x", 17, None, [], {}, -1, 1.5, True)


@settings(max_examples=60)
@given(message=states | outcomes, data=st.data())
def test_every_message_fits_and_a_changed_one_fits_only_if_the_model_takes_it(
    message: GripperState | CommandOutcome, data: st.DataObject
) -> None:
    model, told = type(message), json.loads(message.to_json())
    assert valid(model, told)
    assert valid(model, told | {"of_a_later_contract": 1})
    missing = data.draw(st.sampled_from(list(told)))
    assert not valid(model, {name: value for name, value in told.items() if name != missing})
    changed = told | {missing: data.draw(st.sampled_from(WRONG))}
    if valid(model, changed):
        read = model.model_validate_json(json.dumps(changed))
        assert json.loads(read.to_json())[missing] == changed[missing]


@pytest.mark.parametrize(
    ("name", "params", "fits"),
    [
        ("Move", {"opening_width_m": 0.03}, True),
        ("Move", {}, False),
        ("Move", {"opening_width_m": "0.03"}, False),
        ("Move", {"opening_width_m": 0.03, "speed": 1}, False),
        ("Grip", {}, True),
        ("Grip", {"expected_object_width_valid": 1}, False),
        ("Grip", {"gripper": "left"}, True),
        ("Grip", {"gripper": None}, False),
        ("Subscribe", {"events": ["state", "link"]}, True),
        ("Subscribe", {"events": ["states"]}, False),
        ("Hello", {"name": "x", "on_disconnect": "stop", "heartbeat_s": 1}, True),
        ("Hello", {"on_disconnect": "open"}, False),
        ("Hello", {"name": "x" * 65}, False),
        ("Empty", {}, True),
        ("Empty", {"x": 1}, False),
    ],
)
def test_parameters_that_the_daemon_refuses_do_not_fit(name: str, params: dict[str, Any], fits: bool) -> None:
    assert valid(MODELS[name], params) is fits


async def test_what_the_daemon_says_fits(tmp_path: Path) -> None:
    """Every method that can be asked without harm, and every notification."""
    params: dict[str, dict[str, Any]] = {
        "gripper.move": {"opening_width_m": 0.03},
        "gripper.wait": {"command_seq": 1, "timeout_s": 10},
        "gripper.unsubscribe": {"subscription": 1},
        "gripper.subscribe": {"events": [event.value for event in Event]},
    }
    async with bench(tmp_path) as b:
        peer = await b.peer()
        await peer.ask("gripper.subscribe", events=[event.value for event in Event])
        await peer.outcome("activate")
        b.line.unplug()
        while {each["method"] for each in peer.notifications} != {f"gripper.{event.value}" for event in Event}:
            peer.notifications.append(await peer.line())
        b.line.plugged = True
        for method, (request, result) in METHODS.items():
            given = params.get(method, {})
            assert valid(request, given), method
            answer = await peer.ask(method, **given)
            assert "error" not in answer, (method, answer)
            if result is not None:
                jsonschema.validate(answer, schema(result))
        for each in peer.notifications:
            name = each["method"].removeprefix("gripper.").capitalize() + "Notification"
            jsonschema.validate(each["params"], schema(MODELS[name]))


def test_every_method_of_the_socket_has_its_schemas(tmp_path: Path) -> None:
    from gripperd.transports.connection import Connection

    class Server:
        service = buffer_bytes = None

    known = set(Connection(Server())._methods)  # type: ignore[arg-type]
    assert known - {"daemon.statistics"} == set(METHODS), "statistics are counters whose names are not of the contract"


def test_the_program_prints_lists_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == 0
    assert capsys.readouterr().out.split() == list(MODELS)
    assert cli.main(["schema", "GripperState"]) == 0
    assert json.loads(capsys.readouterr().out) == schema(GripperState)
    assert cli.main(["schema", "GriperState"]) == 2
    assert "did you mean GripperState?" in capsys.readouterr().err
    assert cli.main(["schema", "--all", str(tmp_path / "s")]) == 0
    assert {path.name for path in (tmp_path / "s").iterdir()} == set(pages())
