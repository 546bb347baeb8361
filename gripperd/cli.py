"""gripperd: run, check-config, demo, schema; scan, doctor, install and uninstall are in host/verbs.py."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gripperd import __version__
from gripperd.config import Config, ConfigError, load_config
from gripperd.contract import GripperdError
from gripperd.daemon import run_until_signalled
from gripperd.drivers.registry import driver_specs
from gripperd.host.verbs import add_verbs, carry_out_verb
from gripperd.logs import configure_logging

DEFAULT_CONFIG = Path("/etc/gripperd/gripperd.toml")

EXIT_FAILED = 1
EXIT_CONFIG = 2

_EPILOG = """exit codes: 0 ended as asked, 1 failed while running, 2 wrong usage or configuration

example:
  gripperd check-config gripperd.toml && gripperd run --config gripperd.toml
  gripperd scan && gripperd doctor
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
    add_verbs(verbs, DEFAULT_CONFIG)
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
    if options.verb == "schema":
        return _schema(options.name, options.all)
    if options.verb in ("scan", "doctor", "install", "uninstall"):
        return carry_out_verb(options)
    path = options.config if options.verb == "run" else options.file
    try:
        config = load_config(path, driver_specs())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    if options.verb == "check-config":
        _report(path, config)
        return 0
    return _run(path, config)


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


def _run(path: Path, config: Config) -> int:
    configure_logging(config.daemon)
    try:
        asyncio.run(run_until_signalled(config, lambda: load_config(path, driver_specs())))
    except GripperdError as error:
        print(f"gripperd: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
