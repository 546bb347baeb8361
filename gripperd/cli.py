"""gripperd: run, check-config, scan, demo, schema."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gripperd import __version__
from gripperd.clock import SystemClock
from gripperd.config import Config, ConfigError, load_config
from gripperd.contract import GripperdError
from gripperd.daemon import run_until_signalled
from gripperd.drivers.registry import driver_specs
from gripperd.logs import configure_logging
from gripperd.modbus.line import Line, SerialLine, SerialSettings
from gripperd.scan import BAUDRATES, UNITS, Found, PortUnusableError, adapters, configuration, scan_port

DEFAULT_CONFIG = Path("/etc/gripperd/gripperd.toml")

EXIT_FAILED = 1
EXIT_CONFIG = 2

_EPILOG = """exit codes: 0 ended as asked, 1 failed while running, 2 wrong usage or configuration

example:
  gripperd check-config gripperd.toml && gripperd run --config gripperd.toml
  gripperd scan --port /dev/ttyUSB0
  gripperd schema GripperState
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gripperd",
        description="The one process on a robot host that owns every electric gripper.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gripperd {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run the daemon in the foreground until SIGTERM or Ctrl-C")
    run.add_argument("--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help="default: %(default)s")
    check = verbs.add_parser("check-config", help="check a configuration without touching a device")
    check.add_argument(
        "file", type=Path, nargs="?", default=DEFAULT_CONFIG, metavar="FILE", help="default: %(default)s"
    )
    demo = verbs.add_parser("demo", help="simulated grippers, the daemon, a broker and a live view, on loopback only")
    demo.add_argument("--once", action="store_true", help="run the script once, check every outcome, and exit")
    demo.add_argument("--grippers", default="rg75", metavar="LIST", help="comma-separated; default: %(default)s")
    look = verbs.add_parser("scan", help="find adapters and the units that answer; reads only, writes nothing")
    look.add_argument(
        "--port", action="append", metavar="PATH", help="this one; may be repeated; default: all USB adapters"
    )
    look.add_argument(
        "--baudrate", action="append", type=int, metavar="N", help="may be repeated; default: the usual five"
    )
    look.add_argument("--units", type=_units, default=UNITS, metavar="A-B", help="default: 1-16")
    look.add_argument("--json", action="store_true", help="one JSON object for each unit that answers")
    schemas = verbs.add_parser("schema", help="JSON Schemas of the contract's messages")
    schemas.add_argument("name", nargs="?", metavar="NAME", help="print this one; without a name, list them")
    schemas.add_argument("--all", type=Path, metavar="FOLDER", help="write all of them, and an index, into a folder")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns its exit code."""
    options = _parser().parse_args(arguments)
    if options.verb == "demo":
        from gripperd.demo.main import run_demo  # the demo's parts are not needed by the service

        return run_demo(once=options.once, grippers=[name for name in options.grippers.split(",") if name])
    if options.verb == "scan":
        return asyncio.run(_scan(options))
    if options.verb == "schema":
        return _schema(options.name, options.all)
    path = options.config if options.verb == "run" else options.file
    try:
        config = load_config(path, driver_specs())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    if options.verb == "check-config":
        _report(path, config)
        return 0
    return _run(config)


def _report(path: Path, config: Config) -> None:
    print(f"{path}: good")
    for bus in config.bus:
        users = [each.name for each in config.gripper if getattr(each, "bus", None) == bus.name]
        print(f"  bus {bus.name}: {bus.port}, {bus.baudrate} 8{bus.parity}1, grippers: {', '.join(users) or 'none'}")
        if bus.port.startswith("/dev/ttyUSB") or bus.port.startswith("/dev/ttyACM"):
            print(f"    note: {bus.port} may change when the adapter is replugged; use its name in /dev/serial/by-id")
    for each in config.gripper:
        moves = "; MOVES THE JAWS at start if the device is inactive" if each.activate_on_start else ""
        print(f"  gripper {each.name}: {each.driver}{moves}")
    mqtt = config.mqtt
    print(f"  MQTT: {f'{mqtt.host}:{mqtt.port}' if mqtt is not None else 'off'}; socket: {config.daemon.socket}")


def _units(text: str) -> range:
    """1-16, or 9."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or not 1 <= int(first) <= int(last or first) <= 247:
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give 1-247, or a part of it")
    return range(int(first), int(last or first) + 1)


async def _scan(options: argparse.Namespace) -> int:
    found: list[Found] = []
    known = {adapter.name: adapter.text for adapter in await asyncio.to_thread(adapters)}
    ports = options.port or list(known)
    show = sys.stderr.isatty()

    def progress(text: str) -> None:
        if show:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    if not ports:
        print("gripperd: no USB serial adapter is plugged in; name another port with --port", file=sys.stderr)
        return EXIT_FAILED
    failed = False
    for port in ports:
        if port in known and not options.json:
            print(f"{port}: {known[port]}")
        try:
            scan = scan_port(port, options.baudrate or BAUDRATES, options.units, _plain_line, SystemClock(), progress)
            async for each in scan:
                found.append(each)
                progress("")
                _tell_found(each, options.json)
        except PortUnusableError as error:
            progress("")
            failed = True
            print(f"gripperd: {port}: {error}", file=sys.stderr)
    progress("")
    if not found and not failed:
        rates = ", ".join(map(str, options.baudrate or BAUDRATES))
        print(f"gripperd: nobody answers: check power, wiring (A and B), units and baudrate ({rates})", file=sys.stderr)
    elif found and not options.json and (text := configuration(found)):
        print(f"\n{text}", end="")
    return 0 if found else EXIT_FAILED


def _plain_line(port: str, baudrate: int) -> Line:
    return SerialLine(SerialSettings(port, baudrate, "N"))


def _tell_found(found: Found, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(found), "kind": found.kind.name.lower()}), flush=True)
        return
    read = " ".join(f"{each:04X}" for each in found.registers) or "an exception"
    print(f"{found.port} at {found.baudrate}, unit {found.unit}: {read}: {found.kind.value}", flush=True)


def _schema(name: str | None, folder: Path | None) -> int:
    from gripperd.contract.schema import models, pages, schema

    known = models()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in pages().items():
                (folder / file).write_text(content, encoding="utf-8")
        except OSError as error:
            print(f"gripperd: {folder} cannot be written: {error.strerror}", file=sys.stderr)
            return EXIT_FAILED
        print(f"{folder}: {len(known)} schemas")
    elif name is None:
        print("\n".join(known))
    elif name in known:
        print(json.dumps(schema(known[name]), indent=2, ensure_ascii=False))
    else:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        print(f"gripperd: there is no message {name!r}; {hint}", file=sys.stderr)
        return EXIT_CONFIG
    return 0


def _run(config: Config) -> int:
    configure_logging(config.daemon)
    try:
        asyncio.run(run_until_signalled(config))
    except GripperdError as error:
        print(f"gripperd: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
