"""Operations a simulator offers to whoever scripts it: names, typed parameters, and the check of what was given.

Pure. The control socket carries them and devices define them; this file knows neither.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

Value = bool | int | float | str


class OperationError(ValueError):
    """An operation that does not exist, or parameters that do not fit; the text lists what is valid."""


class Type(Enum):
    """Kinds of parameters."""

    NUMBER = "number"
    INTEGER = "whole number"
    FLAG = "true or false"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter; its name carries the unit."""

    name: str
    type: Type
    doc: str
    required: bool = False


class Args:
    """Checked parameters of one call."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def number(self, name: str, default: float = math.nan) -> float:
        """A number; the default where it was left out."""
        return float(self._values.get(name, default))

    def integer(self, name: str, default: int = 0) -> int:
        """A whole number."""
        return int(self._values.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self._values.get(name, default))

    def optional_integer(self, name: str) -> int | None:
        """A whole number, or None where it was left out."""
        return self.integer(name) if name in self._values else None


Result = Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. run does it and returns what the answer holds beside ok."""

    doc: str
    run: Callable[[Args], Result]
    params: tuple[Param, ...] = field(default=())

    def check(self, name: str, given: Mapping[str, object]) -> Args:
        """The parameters, or OperationError."""
        table = {param.name: param for param in self.params}
        for key in given:
            if key not in table:
                raise OperationError(f"{name} has no parameter {key!r}; valid: {', '.join(table) or 'none'}")
        values: dict[str, Value] = {}
        for param in self.params:
            value = given.get(param.name)
            if value is not None:
                values[param.name] = _check_value(name, param, value)
            elif param.required:
                raise OperationError(f"{name} needs {param.name} ({param.type.value}): {param.doc}")
        return Args(values)

    def describe(self) -> dict[str, object]:
        """For `help`."""
        rows = [{"name": p.name, "type": p.type.value, "required": p.required, "doc": p.doc} for p in self.params]
        return {"doc": self.doc, "params": rows}


def _check_value(operation: str, param: Param, value: object) -> Value:
    if param.type is Type.FLAG and isinstance(value, bool):
        return value
    if not isinstance(value, bool):
        if param.type is Type.NUMBER and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        if param.type is Type.INTEGER and isinstance(value, int):
            return value
    raise OperationError(f"{operation}: {param.name} = {value!r}: give a {param.type.value}; {param.doc}")


class Operations:
    """The table of operations, with `help` added."""

    def __init__(self, table: Mapping[str, Operation]) -> None:
        self._table = {**table, "help": Operation("List the operations and their parameters.", self._help)}

    def call(self, name: str, given: Mapping[str, object]) -> Result:
        """Do it. Raises OperationError, and what the operation raises."""
        operation = self._table.get(name)
        if operation is None:
            near = difflib.get_close_matches(name, self._table, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise OperationError(f"unknown op {name!r}.{hint} Valid: {', '.join(sorted(self._table))}")
        return operation.run(operation.check(name, given))

    def _help(self, _args: Args) -> Result:
        return {"ops": {name: operation.describe() for name, operation in sorted(self._table.items())}}
