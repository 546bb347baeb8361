"""docs/field-problems.md and the tests agree: every row has its proof, and every test that names a row stands there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "field-problems.md").read_text(encoding="utf-8")

Row = tuple[str, int]


def _listed() -> list[Row]:
    """Kind and number of every row, from the list at the head of the page."""
    lines = re.findall(r"^\| ([A-Z]+) \| ([\d, ]+) \|$", PAGE, flags=re.MULTILINE)
    return [(kind, int(number)) for kind, numbers in lines for number in numbers.split(", ")]


def _told() -> list[tuple[Row, str, str]]:
    """(row, what others suffer, what is here) of every line of the tables."""
    told = []
    for section in PAGE.split("\n## ")[1:]:
        kind = section.split(":")[0]
        for number, problem, here in re.findall(r"^\| (\d+) \| (.+?) \| (.*) \|$", section, flags=re.MULTILINE):
            told.append(((kind, int(number)), problem, here))
    return told


LISTED, TOLD = _listed(), _told()
KINDS = sorted({kind for kind, _ in LISTED})
ROW = re.compile(rf"\b({'|'.join(KINDS)}) (\d+(?:, \d+)*)(\s*(?:and|to|/) \d+)?")


def _rows_of_tests() -> dict[str, list[Row]]:
    """`path::name` of every test -> the rows that its docstring names."""
    rows: dict[str, list[Row]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                name = f"{path.relative_to(ROOT)}::{node.name}"
                rows[name] = []
                for kind, numbers, rest in ROW.findall(ast.get_docstring(node) or ""):
                    assert not rest, f"{name}: separate rows by commas, as in {kind} {numbers}, ..."
                    rows[name] += [(kind, int(number)) for number in numbers.split(", ")]
    return rows


ROWS_OF_TESTS = _rows_of_tests()


def _tests(here: str) -> list[str]:
    return re.findall(r"`(tests/[\w./]+::\w+)`", here)


def test_every_listed_row_has_one_line_and_no_line_is_not_listed() -> None:
    assert len(LISTED) > 50
    assert len(set(LISTED)) == len(LISTED)
    assert sorted(row for row, _, _ in TOLD) == sorted(LISTED)


@pytest.mark.parametrize(("row", "problem", "here"), TOLD, ids=lambda value: str(value)[:12])
def test_every_row_has_a_thread_and_a_proof(row: Row, problem: str, here: str) -> None:
    """The tests that are named exist, and name the row; where there is none, a sentence says why it cannot happen."""
    assert re.search(r"\(\[[^]]+\]\(https://github\.com/[\w./-]+\)\)$", problem), problem
    named = _tests(here)
    assert named or re.match(r"Cannot happen", here), f"{row} has neither a test nor a reason"
    for test in named:
        assert test in ROWS_OF_TESTS, f"{row} names {test}, which does not exist"
        assert row in ROWS_OF_TESTS[test], f"{row} names {test}, whose docstring does not name the row"


@pytest.mark.parametrize("test", [name for name, rows in ROWS_OF_TESTS.items() if rows])
def test_every_test_that_names_a_row_stands_in_its_line(test: str) -> None:
    lines = {row: _tests(here) for row, _, here in TOLD}
    for row in ROWS_OF_TESTS[test]:
        assert row in lines, f"{test} names {row}, which is not in docs/field-problems.md"
        assert test in lines[row], f"{test} names {row}, whose line does not name the test"
