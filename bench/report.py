"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.goals import Verdict

REPORT_COLUMNS = 180
"""Width where standard output is no terminal."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: a title, names of columns, rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(slots=True)
class Report:
    """What one sub-command found. data: every figure of every repeat, as measured, in SI units."""

    command: str
    grids: list[Grid] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    data: dict[str, object] = field(default_factory=dict)


def machine() -> Mapping[str, str]:
    """What the figures depend on, beside the load of others."""
    return {"kernel": platform.release(), "python": platform.python_version(), "machine": platform.machine()}


def show(report: Report, verdicts: Sequence[Verdict]) -> None:
    """Print it."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=REPORT_COLUMNS)
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    console.print(f"python -m bench {report.command} ({told})", highlight=False, markup=False)
    for grid in report.grids:
        _print(console, grid)
    rows = [(v.goal.text, _limit(v), v.goal.show(v.value), "yes" if v.met else "NO") for v in verdicts]
    _print(console, Grid("To reach", ("figure", "limit", "measured", "reached"), rows))
    for note in report.notes:
        console.print(f"- {note}", highlight=False, markup=False)


def _limit(verdict: Verdict) -> str:
    return f"{'at least' if verdict.goal.at_least else 'at most'} {verdict.goal.show(verdict.goal.limit)}"


def _print(console: Console, grid: Grid) -> None:
    table = Table(title=Text(grid.title), title_justify="left", safe_box=True)
    for number, name in enumerate(grid.columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in grid.rows:
        table.add_row(*map(Text, row))
    console.print(table)


def save(report: Report, verdicts: Sequence[Verdict], path: Path) -> None:
    """Write it as JSON."""
    goals = [{"goal": v.goal.text, "limit": v.goal.limit, "measured": v.value, "reached": v.met} for v in verdicts]
    content = {
        "command": report.command,
        "machine": machine(),
        "goals": goals,
        "notes": report.notes,
        "tables": [
            {"title": g.title, "columns": list(g.columns), "rows": [list(r) for r in g.rows]} for g in report.grids
        ],
        "data": report.data,
    }
    path.write_text(json.dumps(content, indent=1, allow_nan=True) + "\n", encoding="utf-8")
