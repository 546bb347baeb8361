"""Logging: structlog to the journal with its fields, or to standard error as text or as JSON lines.

Rules
1. Where standard error is the journal's, every event goes to the journal itself, each of its fields as one of the
   journal's: `journalctl GRIPPER=left`, `journalctl GRIPPERD_EVENT=link_down`. That takes systemd-python; without
   it the text has the journal's priority in front.
2. Secrets are not logged: no part of the daemon hands one to a logger, and what is configured as a secret is a file's
   name. Fields of these names are masked all the same.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import structlog

from gripperd.config import DaemonConfig

PRIORITIES = {"critical": 2, "error": 3, "exception": 3, "warning": 4, "info": 6, "debug": 7}
"""syslog's, which the journal uses."""
SECRET = frozenset({"password", "passwd", "secret", "token", "credential"})
"""Names of fields that are masked."""
MASKED = "***"

Send = Callable[..., object]
"""As systemd.journal.send: a text and fields."""


def configure_logging(config: DaemonConfig) -> None:
    """At the start of the program, and again with a new configuration."""
    shared: list[structlog.typing.Processor] = [structlog.processors.add_log_level, mask_secrets]
    factory: Any = structlog.PrintLoggerFactory(sys.stderr)
    ours = _is_journal()
    if config.log_format == "json":
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        shared += [stamp, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    elif ours and (send := _journal_send()) is not None:
        shared += [structlog.processors.format_exc_info, journal_entry]
        factory = lambda *arguments: JournalLogger(send)  # noqa: E731  # structlog calls it with a logger's name
    elif ours:
        shared += [structlog.processors.format_exc_info, with_priority]
    else:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        plain = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_plain)
        shared += [stamp, structlog.processors.format_exc_info, plain]
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[config.log_level.upper()]),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s", force=True)


_plain = structlog.dev.plain_traceback


def mask_secrets(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No value of a field that is named like a secret."""
    for key in SECRET & event.keys():
        event[key] = MASKED
    return event


def message(event: Mapping[str, Any]) -> str:
    """`link_down gripper=left reason=...`: one line for people."""
    rest = {key: value for key, value in event.items() if key not in ("event", "level", "exception")}
    return " ".join([str(event.get("event", "")), *(f"{key}={value}" for key, value in rest.items())])


def journal_entry(_: object, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, str]]:
    """The text and the journal's fields of an event. Names of fields are letters, digits and underscores there."""
    fields = {
        "PRIORITY": str(PRIORITIES.get(str(event.get("level")), 6)),
        "SYSLOG_IDENTIFIER": "gripperd",
        "GRIPPERD_EVENT": str(event.get("event", "")),
    }
    for key, value in event.items():
        if key not in ("event", "level"):
            name = "".join(each if each.isascii() and each.isalnum() else "_" for each in key.upper()).lstrip("_")
            fields.setdefault(name, str(value))
    text = message(event)
    if "exception" in event:
        text += f"\n{event['exception']}"
    return (text,), fields


class JournalLogger:
    """What structlog hands a rendered event to. send: systemd.journal.send."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def msg(self, text: str, **fields: str) -> None:
        """Into the journal. One that is away loses it: nothing else could be told of that."""
        self._send(text, **fields)

    debug = info = warning = error = critical = exception = msg


def with_priority(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    """sd-daemon(3): the journal takes the priority from the number in front of each line."""
    number = PRIORITIES.get(str(event.get("level")), 6)
    text = message(event) + (f"\n{event['exception']}" if "exception" in event else "")
    return "\n".join(f"<{number}>{line}" for line in text.splitlines())


def _is_journal() -> bool:
    """systemd.exec(5): whether standard error is the stream that systemd connected to the journal."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    if not (device.isdecimal() and inode.isdecimal()):
        return False
    status = os.fstat(sys.stderr.fileno())
    return (status.st_dev, status.st_ino) == (int(device), int(inode))


def _journal_send() -> Send | None:
    try:
        send: Send = importlib.import_module("systemd.journal").send
    except ImportError:
        return None
    return send
