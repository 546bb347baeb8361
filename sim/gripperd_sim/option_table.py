"""Options of a simulated device as a table: names, types, defaults, ranges and texts, taken from one frozen dataclass.

Pure. The command line, `--list-options` and the manual are made from it; it knows no particular device.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

TRUE_WORDS = ("true", "yes", "on", "1")
FALSE_WORDS = ("false", "no", "off", "0")


class OptionError(ValueError):
    """An option that does not exist or a value it cannot take; the text lists what is valid."""


def option(default: T, doc: str, *, low: float | None = None, high: float | None = None) -> T:
    """A dataclass field with its text and, for numbers, its range."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """One row of the table. type is bool, int, float or str; choices are the valid words of a str, else empty."""

    name: str
    type: type
    default: bool | int | float | str
    doc: str
    choices: tuple[str, ...]
    low: float | None
    high: float | None

    @property
    def valid(self) -> str:
        """What may be given, in words."""
        if self.type is bool:
            return "true, false"
        if self.choices:
            return ", ".join(self.choices)
        noun = "whole number" if self.type is int else "number"
        if self.low is not None and self.high is not None:
            return f"{noun} from {self.low:g} to {self.high:g}"
        return noun if self.low is None else f"{noun}, at least {self.low:g}"

    @property
    def default_text(self) -> str:
        """The default as it would be typed."""
        return str(self.default).lower() if self.type is bool else str(self.default)


def describe(options: type) -> tuple[OptionInfo, ...]:
    """The table of a dataclass whose fields were made with option()."""
    hints = get_type_hints(options)
    return tuple(_describe_field(field, hints[field.name]) for field in dataclasses.fields(options))


def _describe_field(field: dataclasses.Field[Any], hint: type) -> OptionInfo:
    choices = tuple(str(word) for word in get_args(hint)) if get_origin(hint) is Literal else ()
    kind: type = str if choices else hint
    default: Any = field.default
    meta = field.metadata
    return OptionInfo(field.name, kind, default, meta["doc"], choices, meta["low"], meta["high"])


def check(options: object) -> None:
    """Raise OptionError when a value of this dataclass instance is out of its range. For __post_init__."""
    for info in describe(type(options)):
        _check_value(info, getattr(options, info.name))


def _check_value(info: OptionInfo, value: bool | int | float | str) -> None:
    if info.choices:
        good = value in info.choices
    elif info.type is bool:
        good = isinstance(value, bool)
    else:
        good = isinstance(value, int | float) and not isinstance(value, bool) and _in_range(info, value)
    if not good:
        raise OptionError(f"option {info.name} = {value!r}: give {info.valid} (default {info.default_text})")


def _in_range(info: OptionInfo, value: float) -> bool:
    if not math.isfinite(value) or (info.type is int and not isinstance(value, int)):
        return False
    return (info.low is None or value >= info.low) and (info.high is None or value <= info.high)


def parse_assignments(options: type[T], assignments: Iterable[str]) -> T:
    """An instance with the given NAME=VALUE texts set and the rest at their defaults."""
    table = {info.name: info for info in describe(options)}
    values: dict[str, bool | int | float | str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"option {text!r}: write it as NAME=VALUE, for example {_example(table)}")
        if name not in table:
            near = difflib.get_close_matches(name, table, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise OptionError(f"unknown option {name!r}.{hint} Valid names: {', '.join(table)}")
        values[name] = _parse_value(table[name], value)
    return options(**values)


def _example(table: dict[str, OptionInfo]) -> str:
    info = next(iter(table.values()))
    return f"{info.name}={info.default_text}"


def _parse_value(info: OptionInfo, text: str) -> bool | int | float | str:
    if info.choices:
        return text
    try:
        if info.type is bool:
            return {**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(FALSE_WORDS, False)}[text.lower()]
        return int(text, 0) if info.type is int else float(text)
    except (KeyError, ValueError):
        raise OptionError(f"option {info.name} = {text!r}: give {info.valid} (default {info.default_text})") from None


def as_text(options: type) -> str:
    """The table for people at a terminal."""
    rows = [f"{info.name}={info.default_text}\n    {info.doc}\n    valid: {info.valid}" for info in describe(options)]
    return "\n".join(rows)


def as_markdown(options: type) -> str:
    """The table for the manual."""
    rows = [f"| `{i.name}` | `{i.default_text}` | {i.valid} | {i.doc} |" for i in describe(options)]
    return "\n".join(["| option | default | valid | meaning |", "|---|---|---|---|", *rows])
