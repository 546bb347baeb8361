"""What the simulator's modules may import: nothing of the daemon, and no clock or port where pure."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import gripperd_sim

ROOT = Path(gripperd_sim.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
WITH_IO = {
    "__main__.py",
    "cli.py",
    "control.py",
    "control_server.py",
    "event_log.py",
    "port_owner.py",
    "pty_port.py",
    "scenario_driver.py",
    "timeline.py",
    "rg75/command.py",
    "franka_hand/command.py",
    "franka_hand/connection.py",
    "franka_hand/server.py",
    "franka_hand/vacuum_server.py",
}
CLOCKS_AND_PORTS = {
    "asyncio",
    "socket",
    "serial",
    "time",
    "threading",
    "select",
    "signal",
    "os",
    "subprocess",
    "datetime",
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_standard_library(path: Path) -> None:
    assert imports(path) - {"gripperd_sim"} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", [p for p in FILES if str(p.relative_to(ROOT)) not in WITH_IO], ids=lambda p: p.name)
def test_pure_modules_know_no_clock_and_no_port(path: Path) -> None:
    assert not imports(path) & CLOCKS_AND_PORTS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_small_and_open_with_what_they_own(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))
