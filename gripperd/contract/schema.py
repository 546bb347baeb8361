"""JSON Schemas of all messages, made from the models, and the pages that show them. Pure.

Rules
1. Every model of messages.py and requests.py has its schema; a new one joins by itself.
2. Parameters refuse unknown names; answers may carry more than a client knows, so their schemas allow it.
3. Enumerations that travel as numbers carry the names of their values.
"""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from gripperd.contract import base, messages, requests
from gripperd.contract.base import CONTRACT_VERSION, Message
from gripperd.contract.requests import Request

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:gripperd:contract:{version}:{name}"

Schema = dict[str, Any]


def models() -> dict[str, type[Message]]:
    """Name -> model of everything that travels, in the order of the source."""
    found: dict[str, type[Message]] = {}
    for module in (messages, requests):
        found |= {
            name: value
            for name, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, Message) and _travels(value, module)
        }
    return found


def _travels(model: type[Message], module: ModuleType) -> bool:
    return model.__module__ == module.__name__ and model not in (Message, Request, requests.Command)


def schema(model: type[Message]) -> Schema:
    """Of one model, complete in itself."""
    asked = issubclass(model, Request)
    made: Schema = model.model_json_schema(mode="validation" if asked else "serialization")
    for name, part in made.get("$defs", {}).items():
        _name_values(name, part)
    if asked:
        for part in made.get("properties", {}).values():
            _refuse_null(part)
    name = ID.format(version=CONTRACT_VERSION, name=model.__name__)
    return {"$schema": DIALECT, "$id": name, "title": model.__name__} | made


def _refuse_null(part: Schema) -> None:
    """A parameter without a value is left out; null is refused."""
    kinds = [kind for kind in part.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del part["anyOf"], part["default"]
        part |= kinds[0]


def _name_values(name: str, part: Schema) -> None:
    """integer enum -> one constant with its name for each value."""
    values = getattr(base, name, None)
    if inspect.isclass(values) and issubclass(values, enum.IntEnum):
        del part["enum"]
        part["oneOf"] = [{"const": value.value, "title": value.name} for value in values]


METHODS: Mapping[str, tuple[type[Message], type[Message] | None]] = {
    "daemon.info": (requests.Empty, messages.DaemonInfo),
    "gripper.list": (requests.Empty, messages.GripperList),
    "gripper.info": (requests.OfGripper, messages.GripperInfo),
    "gripper.state": (requests.OfGripper, messages.GripperState),
    **{
        f"gripper.{verb}": (model, messages.StopReply if verb == "stop" else messages.CommandReply)
        for verb, model in requests.COMMANDS.items()
    },
    "gripper.wait": (requests.Wait, messages.WaitReply),
    "gripper.subscribe": (requests.Subscribe, messages.SubscribeReply),
    "gripper.unsubscribe": (requests.Unsubscribe, None),
    "client.hello": (requests.Hello, messages.HelloReply),
    "client.beat": (requests.Empty, None),
    "client.list": (requests.Empty, messages.ClientList),
    "client.acquire": (requests.OfGripper, messages.CommandReply),
    "client.release": (requests.OfGripper, messages.CommandReply),
}
"""Method -> its parameters and its result; None: an empty object. A stop of one gripper answers a CommandReply."""


def pages() -> dict[str, str]:
    """File name -> content of the folder docs/schema."""
    made = {
        f"{name}.schema.json": json.dumps(schema(model), indent=2, ensure_ascii=False) + "\n"
        for name, model in models().items()
    }
    return {"README.md": _index()} | made


def _index() -> str:
    lines = [
        "# JSON Schemas of all messages",
        "",
        "Made from the models by `gripperd schema --all docs/schema`; `gripperd schema NAME` prints one. Each file is",
        f"complete in itself. Dialect: {DIALECT}.",
        "",
        "| method | params | result |",
        "|---|---|---|",
    ]
    lines += [f"| `{method}` | {_link(params)} | {_link(result)} |" for method, (params, result) in METHODS.items()]
    lines += ["", "| message | |", "|---|---|"]
    lines += [f"| {_link(model)} | {_first_line(model)} |" for model in models().values()]
    return "\n".join(lines) + "\n"


def _link(model: type[Message] | None) -> str:
    return f"[{model.__name__}]({model.__name__}.schema.json)" if model is not None else "{}"


def _first_line(model: type[Message]) -> str:
    return (inspect.getdoc(model) or "").split("\n", 1)[0]
