"""The verbs of the program `gripperd` for a robot's host: scan, doctor, install, uninstall. They print for people."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gripperd.clock import SystemClock
from gripperd.config import DaemonConfig
from gripperd.host.doctor import Finding, Level, examine
from gripperd.host.installing import InstallError, carry_out, plan_install, plan_uninstall, this_program
from gripperd.host.scan import BAUDRATES, UNITS, Found, PortUnusableError, adapters, configuration, scan_port
from gripperd.logs import configure_logging
from gripperd.modbus.line import Line, SerialLine, SerialSettings

EXIT_FAILED = 1
SLOWEST_BAUD, FASTEST_BAUD = 1_200, 4_000_000
"""As a [[bus]] may have."""


def add_verbs(verbs: Any, default_config: Path) -> None:  # noqa: ANN401  # argparse has no public type for it
    """Into the program's parser."""
    look = verbs.add_parser("scan", help="find adapters and the units that answer; reads only, writes nothing")
    look.add_argument(
        "--port", action="append", metavar="PATH", help="this one; may be repeated; default: all USB adapters"
    )
    look.add_argument(
        "--baudrate", action="append", type=_baudrate, metavar="N", help="may be repeated; default: the usual five"
    )
    look.add_argument("--units", type=_units, default=UNITS, metavar="A-B", help="1 to 247; default: 1-16")
    look.add_argument("--json", action="store_true", help="one JSON object for each unit that answers")
    doctor = verbs.add_parser("doctor", help="check configuration, ports, rights, broker, clock, daemon and grippers")
    doctor.add_argument("--config", type=Path, default=default_config, metavar="FILE", help="default: %(default)s")
    doctor.add_argument("--stop", action="store_true", help="send a stop to each gripper, and time it")
    doctor.add_argument("--json", action="store_true", help="one JSON object for each finding")
    for name, text in (
        ("install", "lay out units, udev rules, user and a sample configuration; as root"),
        ("uninstall", "remove what install laid out; as root"),
    ):
        verb = verbs.add_parser(name, help=text, description=f"{text}. Idempotent.")
        verb.add_argument("--dry-run", action="store_true", help="tell what would be done, and do nothing")
        verb.add_argument(
            "--root", type=Path, default=Path("/"), metavar="FOLDER", help="another root, such as an image's"
        )
        if name == "uninstall":
            verb.add_argument("--purge", action="store_true", help="remove /etc/gripperd too")


def carry_out_verb(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    configure_logging(DaemonConfig(log_level="error"))  # what the parts log is told in other words here
    if options.verb == "scan":
        return asyncio.run(_scan(options))
    if options.verb == "doctor":
        return asyncio.run(_doctor(options))
    return _install(options)


def _baudrate(text: str) -> int:
    if not text.isdecimal() or not SLOWEST_BAUD <= int(text) <= FASTEST_BAUD:
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give {SLOWEST_BAUD} to {FASTEST_BAUD} bit/s")
    return int(text)


def _units(text: str) -> range:
    """1-16, or 9."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or not 1 <= int(first) <= int(last or first) <= 247:
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give 1-247, or a part of it")
    return range(int(first), int(last or first) + 1)


async def _scan(options: argparse.Namespace) -> int:
    found: list[Found] = []
    known = {adapter.name: adapter.text for adapter in await asyncio.to_thread(adapters)}
    ports, rates = options.port or list(known), options.baudrate or BAUDRATES
    if not ports:
        print("gripperd: no USB serial adapter is plugged in; name another port with --port", file=sys.stderr)
        return EXIT_FAILED
    failed = False
    for port in ports:
        if port in known and not options.json:
            print(f"{port}: {known[port]}")
        try:
            async for each in scan_port(port, rates, options.units, _plain_line, SystemClock(), _progress):
                found.append(each)
                _progress("")
                _tell_found(each, options.json)
        except PortUnusableError as error:
            failed = True
            _progress("")
            print(f"gripperd: {port}: {error}", file=sys.stderr)
    _progress("")
    if not found and not failed:
        tried = ", ".join(map(str, rates))
        print(f"gripperd: nobody answers: check power, wiring (A and B), units and baudrate ({tried})", file=sys.stderr)
    elif found and not options.json and (text := configuration(found)):
        print(f"\n{text}", end="")
    return 0 if found else EXIT_FAILED


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _plain_line(port: str, baudrate: int) -> Line:
    return SerialLine(SerialSettings(port, baudrate, "N"))


def _tell_found(found: Found, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(found), "kind": found.kind.name.lower()}), flush=True)
        return
    read = " ".join(f"{each:04X}" for each in found.registers) or "an exception"
    print(f"{found.port} at {found.baudrate}, unit {found.unit}: {read}: {found.kind.value}", flush=True)


async def _doctor(options: argparse.Namespace) -> int:
    worst_is_failed = False
    async for finding in examine(options.config, options.stop):
        worst_is_failed |= finding.level is Level.FAILED
        _tell_finding(finding, options.json)
    return EXIT_FAILED if worst_is_failed else 0


def _tell_finding(finding: Finding, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(finding), "level": finding.level.value.lower()}), flush=True)
        return
    print(f"{finding.level.value:<8} {finding.about}: {finding.text}", flush=True)
    if finding.remedy:
        print(f"{'':<8}   -> {finding.remedy}", flush=True)


def _install(options: argparse.Namespace) -> int:
    try:
        if options.verb == "install":
            steps = plan_install(options.root, this_program() if options.root == Path("/") else "/usr/bin/gripperd")
        else:
            steps = plan_uninstall(options.root, options.purge)
        carry_out(steps, options.dry_run, print)
    except InstallError as error:
        print(f"gripperd: {error}", file=sys.stderr)
        return EXIT_FAILED
    if options.verb == "install" and not options.dry_run:
        print(
            "next: `gripperd scan`, put what it prints into /etc/gripperd/gripperd.toml, then\n"
            "      sudo systemctl enable --now gripperd && gripperd doctor"
        )
    elif options.verb == "uninstall" and not options.dry_run:
        print("user and group gripperd stay, since files may be theirs: `sudo userdel gripperd` removes them")
    return 0
