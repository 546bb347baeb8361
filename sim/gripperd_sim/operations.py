"""Operations a simulator offers to whoever scripts it: names, typed parameters, and the check of what was given.

Pure. The control socket carries them and devices define them; this file knows neither.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Value = bool | int | float | str

MAX_HEX_BYTES = 256
"""Longest byte string of one parameter [bytes]: the longest Modbus frame."""


class OperationError(ValueError):
    """An operation that does not exist, or parameters that do not fit; the text lists what is valid."""


class Type(Enum):
    """Kinds of parameters."""

    NUMBER = "number"
    INTEGER = "whole number"
    FLAG = "true or false"
    WORD = "word"
    HEX = "bytes in hex"


TEXT_TYPES = (Type.WORD, Type.HEX)
"""Types whose values are strings, whatever they look like."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter; its name carries the unit. low, high: valid range of a number; choices: the words of a WORD."""

    name: str
    type: Type
    doc: str
    required: bool = False
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def valid(self) -> str:
        """What may be given, in words."""
        if self.type is Type.WORD:
            return f"one of {', '.join(self.choices)}"
        if self.type is Type.HEX:
            return f"1 to {MAX_HEX_BYTES} bytes in hex, such as 00ff"
        if self.low is not None and self.high is not None:
            return f"a {self.type.value} from {self.low:g} to {self.high:g}"
        bound = "" if self.low is None else f", at least {self.low:g}"
        return f"{'' if self.type is Type.FLAG else 'a '}{self.type.value}{bound}"

    def accepts(self, value: object) -> Value | None:
        """The value as it is used, or None where it cannot be."""
        if isinstance(value, str):
            return self._accepts_text(value)
        if isinstance(value, bool) or self.type is Type.FLAG:
            return value if isinstance(value, bool) and self.type is Type.FLAG else None
        fits = (self.type is Type.INTEGER and isinstance(value, int)) or (
            self.type is Type.NUMBER and isinstance(value, int | float) and abs(value) <= sys.float_info.max
        )
        if not fits or not isinstance(value, int | float) or not self._in_range(value):
            return None
        return float(value) if self.type is Type.NUMBER else value

    def _accepts_text(self, text: str) -> str | None:
        if self.type is Type.WORD:
            return text if text in self.choices else None
        if self.type is not Type.HEX:
            return None
        try:
            data = bytes.fromhex(text)
        except ValueError:
            return None
        return data.hex() if 0 < len(data) <= MAX_HEX_BYTES else None

    def _in_range(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True)
class Args:
    """Checked parameters of one call."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def number(self, name: str, default: float = math.nan) -> float:
        """A number; the default where it was left out."""
        return float(self.values.get(name, default))

    def integer(self, name: str, default: int = 0) -> int:
        """A whole number."""
        return int(self.values.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self.values.get(name, default))

    def optional_integer(self, name: str) -> int | None:
        """A whole number, or None where it was left out."""
        return self.integer(name) if name in self.values else None

    def optional_number(self, name: str) -> float | None:
        """A number, or None where it was left out."""
        return self.number(name) if name in self.values else None

    def word(self, name: str, default: str) -> str:
        """A word; the default where it was left out."""
        return str(self.values.get(name, default))

    def optional_bytes(self, name: str) -> bytes | None:
        """Bytes, or None where they were left out."""
        return bytes.fromhex(str(self.values[name])) if name in self.values else None


def check_params(name: str, params: Sequence[Param], given: Mapping[str, object], either: Collection[str] = ()) -> Args:
    """The parameters of `name`, or OperationError. either: of these, at most one may be given."""
    table = {param.name: param for param in params}
    for key in given:
        if key not in table:
            raise OperationError(f"{name} has no parameter {key!r}; valid: {', '.join(table) or 'none'}")
    values: dict[str, Value] = {}
    for param in params:
        value = given.get(param.name)
        if value is not None:
            accepted = param.accepts(value)
            if accepted is None:
                raise OperationError(f"{name}: {param.name} = {value!r}: give {param.valid}; {param.doc}")
            values[param.name] = accepted
        elif param.required:
            raise OperationError(f"{name} needs {param.name} ({param.type.value}): {param.doc}")
    both = [key for key in either if key in values]
    if len(both) > 1:
        raise OperationError(f"{name}: {' and '.join(both)} exclude each other; give one of them")
    return Args(values)


Result = Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. run does it and returns what the answer holds beside ok; either: see check_params."""

    doc: str
    run: Callable[[Args], Result]
    params: tuple[Param, ...] = ()
    either: tuple[str, ...] = ()

    def describe(self) -> dict[str, object]:
        """For `help`."""
        rows = [
            {"name": p.name, "type": p.type.value, "required": p.required, "doc": p.doc, "valid": p.valid}
            for p in self.params
        ]
        return {"doc": self.doc, "params": rows}


class Operations:
    """The table of operations, with `help` added."""

    def __init__(self, table: Mapping[str, Operation]) -> None:
        self._table = {**table, "help": Operation("List the operations and their parameters.", self._help)}

    def call(self, name: str, given: Mapping[str, object]) -> Result:
        """Do it. Raises OperationError, and what the operation raises."""
        operation, args = self._find(name, given)
        return operation.run(args)

    def check(self, name: str, given: Mapping[str, object]) -> None:
        """Raise what call would raise before it does anything."""
        self._find(name, given)

    def _find(self, name: str, given: Mapping[str, object]) -> tuple[Operation, Args]:
        operation = self._table.get(name)
        if operation is None:
            near = difflib.get_close_matches(name, self._table, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise OperationError(f"unknown op {name!r}.{hint} Valid: {', '.join(sorted(self._table))}")
        return operation, check_params(name, operation.params, given, operation.either)

    def _help(self, _args: Args) -> Result:
        return {"ops": {name: operation.describe() for name, operation in sorted(self._table.items())}}
