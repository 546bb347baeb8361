"""JSON-RPC 2.0 lines of contract section 4, without I/O: bytes to requests, answers to bytes. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from gripperd.contract import InvalidParamsError, Message, RpcError
from gripperd.contract.errors import INVALID_REQUEST, PARSE_ERROR

Params = TypeVar("Params", bound=Message)

NO_ID = object()
"""Stands for the id of a request that has none."""


@dataclass(frozen=True, slots=True)
class Call:
    """One well-formed request. id: to be echoed, or NO_ID."""

    id: object
    method: str
    params: dict[str, Any]


class BadRequestError(RpcError):
    """A line that is no request. `id` is what could be read of its id."""

    def __init__(self, code: int, message: str, request_id: object = None) -> None:
        super().__init__(code, message)
        self.id = request_id


def parse_line(line: bytes) -> Call:
    """One line, without its newline. Raises BadRequestError."""
    try:
        request = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequestError(PARSE_ERROR, f"not JSON: {error}") from error
    if isinstance(request, list):
        raise BadRequestError(INVALID_REQUEST, "batches are not supported: send one object per line")
    if not isinstance(request, dict):
        raise BadRequestError(INVALID_REQUEST, "a request is a JSON object")
    request_id = request.get("id", NO_ID)
    known_id = request_id if _can_be_an_id(request_id) else None
    if request_id is not NO_ID and request_id is not None and known_id is None:
        raise BadRequestError(INVALID_REQUEST, "id is a string or a number")
    if request.get("jsonrpc") != "2.0":
        raise BadRequestError(INVALID_REQUEST, 'jsonrpc is missing: give "jsonrpc": "2.0"', known_id)
    method, params = request.get("method"), request.get("params", {})
    if not isinstance(method, str):
        raise BadRequestError(INVALID_REQUEST, "method is missing: give its name as a string", known_id)
    if not isinstance(params, dict):
        raise ParamsError("params is an object of named parameters", known_id, request_id is NO_ID, method)
    return Call(request_id, method, params)


def _can_be_an_id(value: object) -> bool:
    """A string or a finite number: 1e400 is read as infinity, which no answer could echo."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (str, int)) and not isinstance(value, bool)


class ParamsError(BadRequestError):
    """params is not an object. silent: the request has no id and gets no answer. method: that was asked for."""

    def __init__(self, message: str, request_id: object, silent: bool, method: str) -> None:
        super().__init__(InvalidParamsError(message).code, message, request_id)
        self.silent = silent
        self.method = method


def parse_params(model: type[Params], params: dict[str, Any]) -> Params:
    """Check the parameters of a method. Raises InvalidParamsError that names each problem and what is valid."""
    try:
        return model.model_validate(params)
    except ValidationError as error:
        problems = [_problem(model, detail["type"], detail["loc"], detail["msg"]) for detail in error.errors()]
        raise InvalidParamsError("; ".join(problems)) from error


def _problem(model: type[Message], kind: str, loc: tuple[int | str, ...], text: str) -> str:
    name = ".".join(str(part) for part in loc)[:64]
    if kind == "extra_forbidden":
        return f"{name} is not a parameter{nearest(name, model.model_fields)}"
    if kind == "missing":
        return f"{name} is missing"
    return f"{name}: {text}" if name else text.removeprefix("Value error, ")


def nearest(given: str, valid: Iterable[str]) -> str:
    """A hint at what was meant."""
    near = difflib.get_close_matches(given, list(valid), 1)
    return f": did you mean {near[0]!r}?" if near else f"; valid: {', '.join(sorted(valid)) or 'none'}"


def encode_result(request_id: object, result: bytes) -> bytes:
    """A whole line with an encoded result."""
    return b'{"jsonrpc":"2.0","id":' + to_json(request_id) + b',"result":' + result + b"}\n"


def encode_error(request_id: object, code: int, message: str) -> bytes:
    """A whole line with an error."""
    body = to_json({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":' + to_json(request_id) + b',"error":' + body + b"}\n"


def encode_notification(method: str, params: bytes) -> bytes:
    """A whole line of a notification with encoded parameters."""
    return b'{"jsonrpc":"2.0","method":' + to_json(method) + b',"params":' + params + b"}\n"
