"""docs/operations.md names every message of the daemon, with its cause and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "gripperd").rglob("*.py"))}
CALL = re.compile(r"(?:log\.(?:warning|error|exception|critical)|\btell)\(\s*\"([a-z_]+)\"")
PASSED_ON = {"client_lost", "heartbeat_overdue"}
"""Events that reach the logger through a parameter."""
EVENTS = sorted({event for text in SOURCES.values() for event in CALL.findall(text)} | PASSED_ON)


def test_events_are_found() -> None:
    assert {"port_lost", "mqtt_down", "loop_stalled", "reload_refused"} <= set(EVENTS)
    assert len(EVENTS) > 20


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_that_is_a_trouble_has_its_row(event: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{event}`" in line.split(" | ")[0]]
    assert len(rows) == 1, f"{event} is not in docs/operations.md"
    cells = [cell.strip() for cell in rows[0].strip("|").split(" | ")]
    assert len(cells) == 3
    assert all(cells)


def test_no_row_tells_of_an_event_that_does_not_exist() -> None:
    section = PAGE.split("### In the journal")[1].split("### ")[0]
    told = {
        event
        for line in section.splitlines()
        if line.startswith("| `")
        for event in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    assert told == set(EVENTS)


@pytest.mark.parametrize("name", ["SocketError", "AccessError", "ActivationError", "InstallError"])
def test_every_error_that_ends_a_start_or_a_tool_has_its_row(name: str) -> None:
    """By words of its text that no value stands in."""
    for path, text in SOURCES.items():
        for found in re.findall(rf"{name}\(\s*f?\"([^\"]+)\"", text):
            words = max(re.split(r"\{[^}]*\}", found), key=len).strip(" :,;'")
            start = re.split(r"[:;,]", words)[0].strip()
            assert start[:24] in PAGE, f"{path}: {found!r} is not in docs/operations.md ({start[:24]!r})"


def test_the_drop_in_for_real_time_is_understood(tmp_path: Path) -> None:
    text = (ROOT / "systemd" / "realtime.conf").read_text(encoding="utf-8")
    keys = [line.partition("=")[0] for line in text.splitlines() if "=" in line and not line.startswith("#")]
    assert keys == ["CPUSchedulingPolicy", "CPUSchedulingPriority", "CPUSchedulingResetOnFork"]
