"""Scenario files: operations of the control socket at given times, so that a failing case is a short text.

Pure: text in, text out, and the time is an argument. It knows operations by their table only; reading files and waiting
are done elsewhere.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gripperd_sim.operations import Operations, Value

BEGINNINGS = ("first_request", "ready")
"""What at_s counts from: the first request the line hears, or the moment the simulator is ready."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class ScenarioError(ValueError):
    """A scenario that cannot be played; the text names the file and the step, and says what is valid."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, at_s after the beginning of its round."""

    at_s: float
    op: str
    params: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in the order of their times. With repeat_every_s they are done so many times, without times for ever."""

    steps: tuple[Step, ...]
    name: str = "scenario"
    about: str = ""
    seed: int | None = None
    begins: str = BEGINNINGS[0]
    repeat_every_s: float | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        if not self.steps:
            raise ScenarioError(f"{self.name}: no steps; give at least one [[step]] with at_s and op")
        if self.begins not in BEGINNINGS:
            raise ScenarioError(f"{self.name}: begins = {self.begins!r}: give {' or '.join(BEGINNINGS)}")
        before_s = 0.0
        for number, step in enumerate(self.steps, 1):
            if not before_s <= step.at_s < math.inf:
                raise ScenarioError(
                    f"{self._step(number)}: at_s = {step.at_s}: give {before_s:g} or more seconds; steps are in the "
                    "order of their times"
                )
            before_s = step.at_s
        self._check_rounds(before_s)

    def _check_rounds(self, last_s: float) -> None:
        every_s = self.repeat_every_s
        if self.times is not None and (every_s is None or self.times < 1):
            raise ScenarioError(f"{self.name}: times = {self.times}: give 1 or more, beside repeat_every_s")
        if every_s is not None and not max(last_s, 0.0) <= every_s < math.inf:
            raise ScenarioError(f"{self.name}: repeat_every_s = {every_s}: give at least {last_s:g}, the last at_s")
        if every_s == 0:
            raise ScenarioError(f"{self.name}: repeat_every_s = 0: give more than 0 seconds")

    def _step(self, number: int) -> str:
        return f"{self.name}, step {number} ({self.steps[number - 1].op})"

    def check(self, operations: Operations) -> None:
        """Raise ScenarioError for a step that names no operation, or whose parameters do not fit."""
        for number, step in enumerate(self.steps, 1):
            try:
                operations.check(step.op, step.params)
            except ValueError as error:
                raise ScenarioError(f"{self._step(number)}: {error}") from error

    @classmethod
    def load(cls, text: str, name: str = "scenario") -> Scenario:
        """From TOML. name: of the file, for errors."""
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise ScenarioError(f"{name}: not TOML: {error}") from error
        _check_keys(name, table, ("about", "seed", "begins", "repeat_every_s", "times", "step"))
        rows = table.get("step", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ScenarioError(f"{name}: step: write each step as a table headed [[step]]")
        return cls(
            tuple(_load_step(f"{name}, step {number}", row) for number, row in enumerate(rows, 1)),
            name,
            _text(name, table, "about") or "",
            _whole(name, table, "seed"),
            _text(name, table, "begins") or BEGINNINGS[0],
            _seconds(name, table, "repeat_every_s"),
            _whole(name, table, "times"),
        )

    def dumps(self) -> str:
        """As TOML; load() makes the same scenario of it."""
        default = BEGINNINGS[0]
        head = {
            "about": self.about or None,
            "seed": self.seed,
            "begins": None if self.begins == default else self.begins,
            "repeat_every_s": self.repeat_every_s,
            "times": self.times,
        }
        blocks = [_lines((key, value) for key, value in head.items() if value is not None)]
        for step in self.steps:
            rows: list[tuple[str, Value]] = [("at_s", step.at_s), ("op", step.op), *step.params.items()]
            blocks.append("[[step]]\n" + _lines(rows))
        return "\n".join(block for block in blocks if block)


def _load_step(where: str, row: Mapping[str, object]) -> Step:
    at_s, op = _seconds(where, row, "at_s"), _text(where, row, "op")
    if op is None or at_s is None:
        raise ScenarioError(f"{where}: give at_s (seconds) and op (an operation of the control socket)")
    params: dict[str, Value] = {}
    for key, value in row.items():
        if not isinstance(value, bool | int | float | str):
            raise ScenarioError(f"{where} ({op}): {key} = {value!r}: give a number, true, false or a text")
        if key not in ("at_s", "op"):
            params[key] = value
    return Step(at_s, op, params)


def _check_keys(name: str, table: Iterable[str], valid: tuple[str, ...]) -> None:
    for key in table:
        if key not in valid:
            near = difflib.get_close_matches(key, valid, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ScenarioError(f"{name}: unknown key {key!r}.{hint} Valid: {', '.join(valid)}")


def _text(where: str, table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ScenarioError(f"{where}: {key} = {value!r}: give a text in quotes")


def _whole(where: str, table: Mapping[str, object], key: str) -> int | None:
    value = table.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ScenarioError(f"{where}: {key} = {value!r}: give a whole number")


def _seconds(where: str, table: Mapping[str, object], key: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScenarioError(f"{where}: {key} = {value!r}: give a number of seconds")
    try:
        return float(value)
    except OverflowError:
        raise ScenarioError(f"{where}: {key} is too large a number; give seconds") from None


def _lines(rows: Iterable[tuple[str, Value]]) -> str:
    return "".join(f"{key if _BARE_KEY.fullmatch(key) else _quoted(key)} = {_toml(value)}\n" for key, value in rows)


def _toml(value: Value) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    # The basic strings of TOML are those of JSON, but for DEL, which must be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class Player:
    """Where a scenario is in time."""

    def __init__(self, scenario: Scenario, begin_s: float) -> None:
        self.scenario = scenario
        self.begin_s = begin_s
        self._done = 0
        endless = scenario.repeat_every_s is not None and scenario.times is None
        self._total = math.inf if endless else len(scenario.steps) * (scenario.times or 1)

    @property
    def steps_done(self) -> int:
        """Steps of all rounds so far."""
        return self._done

    @property
    def next_s(self) -> float | None:
        """When the next step is due; None at the end."""
        if self._done >= self._total:
            return None
        rounds, index = divmod(self._done, len(self.scenario.steps))
        return self.begin_s + rounds * (self.scenario.repeat_every_s or 0.0) + self.scenario.steps[index].at_s

    def due(self, now_s: float) -> Iterator[Step]:
        """The steps that are due and were not given yet."""
        while (next_s := self.next_s) is not None and next_s <= now_s:
            index = self._done % len(self.scenario.steps)
            self._done += 1
            yield self.scenario.steps[index]


class ScenarioPlay:
    """A scenario that is played on a table of operations. report is told of a step that fails, once for each reason."""

    def __init__(self, scenario: Scenario, operations: Operations, report: Callable[[str], None]) -> None:
        scenario.check(operations)
        self._scenario = scenario
        self._operations = operations
        self._report = report
        self._player: Player | None = None
        self._failed = 0
        self._errors: dict[str, None] = {}

    @property
    def next_s(self) -> float | None:
        """When the next step is due; None before the beginning and at the end."""
        return self._player.next_s if self._player else None

    def ready(self, now_s: float) -> None:
        """The simulator is ready."""
        if self._scenario.begins == "ready":
            self._player = Player(self._scenario, now_s)
            self.play(now_s)

    def heard(self, now_s: float) -> None:
        """A request came, and nobody has heard it yet: what is due now still meets it."""
        if self._player is None and self._scenario.begins == "first_request":
            self._player = Player(self._scenario, now_s)
        self.play(now_s)

    def play(self, now_s: float) -> None:
        """Do what is due."""
        for step in self._player.due(now_s) if self._player else ():
            try:
                self._operations.call(step.op, step.params)
            except Exception as error:
                # As on the control socket: whatever a step asks for, the simulator lives on and tells why it failed.
                self._fail(f"{self._scenario.name}, {step.op} at {step.at_s:g} s: {str(error) or type(error).__name__}")

    def _fail(self, text: str) -> None:
        self._failed += 1
        if text not in self._errors:
            self._errors[text] = None
            self._report(text)

    def status(self) -> dict[str, object]:
        """How far it is, for `state`."""
        player, steps = self._player, len(self._scenario.steps)
        done = player.steps_done if player else 0
        return {
            "name": self._scenario.name,
            "begun": player is not None,
            "ended": player is not None and player.next_s is None,
            "steps": steps,
            "steps_done": done,
            "round": done // steps,
            "next_s": self.next_s,
            "steps_failed": self._failed,
            "errors": list(self._errors),
        }
