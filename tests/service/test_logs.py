"""Where a log entry goes, with which fields, and what never stands in it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gripperd import logs
from gripperd.config import DaemonConfig


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


class Journal:
    """What systemd.journal.send was given."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def send(self, text: str, **fields: str) -> None:
        self.entries.append({"MESSAGE": text, **fields})


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    made = Journal()
    monkeypatch.setattr(logs, "_is_journal", lambda: True)
    monkeypatch.setattr(logs, "_journal_send", lambda: made.send)
    return made


def test_an_event_is_an_entry_with_its_fields(journal: Journal) -> None:
    logs.configure_logging(DaemonConfig())
    structlog.get_logger("gripperd.x").warning("link_down", gripper="left", reason="no reply", **{"usual-ms": 3})
    structlog.get_logger("gripperd.x").debug("not told")
    assert journal.entries == [
        {
            "MESSAGE": "link_down gripper=left reason=no reply usual-ms=3",
            "PRIORITY": "4",
            "SYSLOG_IDENTIFIER": "gripperd",
            "GRIPPERD_EVENT": "link_down",
            "GRIPPER": "left",
            "REASON": "no reply",
            "USUAL_MS": "3",
        }
    ]


def test_a_field_cannot_take_the_place_of_the_journals_own(journal: Journal) -> None:
    logs.configure_logging(DaemonConfig())
    structlog.get_logger().error("x", priority="7", _pid=1, **{"a b": 2, "ä": 3})
    [entry] = journal.entries
    assert (entry["PRIORITY"], entry["PID"], entry["A_B"]) == ("3", "1", "2")
    assert all(name.isascii() and not name.startswith("_") for name in entry)


def test_a_traceback_stands_behind_the_text(journal: Journal) -> None:
    logs.configure_logging(DaemonConfig())
    try:
        raise ValueError("of this test")
    except ValueError:
        structlog.get_logger().exception("listener_failed")
    [entry] = journal.entries
    assert entry["MESSAGE"].startswith("listener_failed\nTraceback")
    assert "ValueError: of this test" in entry["EXCEPTION"]


def test_without_systemd_python_the_priority_stands_in_front(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "_is_journal", lambda: True)
    monkeypatch.setattr(logs, "_journal_send", lambda: None)
    logs.configure_logging(DaemonConfig())
    structlog.get_logger().error("port_lost", bus="tool0")
    structlog.get_logger().info("ready")
    assert capsys.readouterr().err == "<3>port_lost bus=tool0\n<6>ready\n"


@pytest.mark.parametrize("key", sorted(logs.SECRET))
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_secret_that_somebody_logs_is_masked(key: str, log_format: Any, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging(DaemonConfig(log_format=log_format))
    structlog.get_logger().warning("x", **{key: "hunter2"})
    told = capsys.readouterr().err
    assert "hunter2" not in told
    assert logs.MASKED in told


def test_standard_error_is_the_journals_only_if_systemd_says_so_of_this_very_stream(tmp_path: Path) -> None:
    program = "import os, sys; from gripperd.logs import _is_journal; print(_is_journal())"
    with (tmp_path / "stream").open("w") as stream:
        status = os.fstat(stream.fileno())
        for told, expected in (
            (f"{status.st_dev}:{status.st_ino}", "True"),
            (f"{status.st_dev}:{status.st_ino + 1}", "False"),
            ("x", "False"),
            ("", "False"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | {"JOURNAL_STREAM": told},
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                check=True,
                timeout=30,
            )
            assert done.stdout.strip() == expected, told
