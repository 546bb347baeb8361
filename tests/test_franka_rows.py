"""The table of users' problems in docs/franka-hand.md and the tests agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "franka-hand.md").read_text(encoding="utf-8")
FILES = [*(ROOT / "tests" / "drivers").glob("test_franka_*.py"), ROOT / "tests" / "e2e" / "test_franka_hand.py"]
TOLD = {
    int(row): here for row, here in re.findall(r"^\| (\d+) \| .+? \(\[.+?\]\(https://.+?\)\) \| (.+) \|$", PAGE, re.M)
}


def _rows_of_tests() -> dict[str, list[int]]:
    rows = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = re.findall(r"\bRows? (\d+(?:, \d+)*)", ast.get_docstring(node) or "")
                rows[f"{path.relative_to(ROOT)}::{node.name}"] = [int(n) for each in named for n in each.split(", ")]
    return rows


ROWS_OF_TESTS = _rows_of_tests()


def test_all_rows_are_told() -> None:
    assert sorted(TOLD) == list(range(1, 34))


@pytest.mark.parametrize("row", sorted(TOLD))
def test_a_row_has_a_test_that_names_it_or_a_reason(row: int) -> None:
    named = re.findall(r"`(tests/[\w./]+::\w+)`", TOLD[row])
    assert named or TOLD[row].startswith("Cannot "), f"row {row} has neither a test nor a reason"
    assert sorted(named) == sorted(test for test, rows in ROWS_OF_TESTS.items() if row in rows)
