"""`gripperd-sim`: gripper simulators for people without hardware, and a client of their control sockets.

Each simulator brings its own subcommand; this file only joins and prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gripperd_sim.control import ControlClient, ControlError
from gripperd_sim.control_server import SocketInUseError
from gripperd_sim.franka_hand.command import add_parser as add_franka_hand
from gripperd_sim.operations import TEXT_TYPES
from gripperd_sim.pty_port import PortError
from gripperd_sim.rg75.command import add_parser as add_rg75

EXPECTED_ERRORS = (ValueError, OSError, PortError, SocketInUseError, ControlError)
"""What is the user's to put right: told in one line, without a traceback."""

CONTROL_EXAMPLE = """examples:
  gripperd-sim control /tmp/gripper.sock help
  gripperd-sim control /tmp/gripper.sock put_object width_m=0.03
  gripperd-sim control /tmp/gripper.sock fault bits=0x08
  gripperd-sim control /tmp/gripper.sock noise_before hex=00ff probability=0.1 of=reads
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit status."""
    args = _parser().parse_args(argv)
    try:
        args.run(args, _say)
    except EXPECTED_ERRORS as error:
        print(f"gripperd-sim {args.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gripperd-sim", description="Simulate grippers over their own wire protocols."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_rg75(subparsers)
    add_franka_hand(subparsers)
    _add_control(subparsers)
    return parser


def _add_control(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "control",
        help="do one operation on a running simulator",
        description="Do one operation on a running simulator and print its answer as JSON.",
        epilog=CONTROL_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="the simulator's --control socket")
    parser.add_argument("op", metavar="OP", help="the operation; `help` lists them")
    parser.add_argument("params", nargs="*", metavar="NAME=VALUE", help="its parameters")
    parser.set_defaults(run=_control)


def _control(args: argparse.Namespace, say: Callable[[str], None]) -> None:
    with ControlClient(args.path) as client:
        texts = _text_params(client.call("help")["ops"], args.op)
        params = dict(_parse_param(given, texts) for given in args.params)
        say(json.dumps(client.call(args.op, **params), indent=2))


def _text_params(ops: Mapping[str, Any], op: str) -> set[str]:
    """Parameters whose values are strings: hex=10 is not a number. The simulator knows them, this program does not."""
    types = [kind.value for kind in TEXT_TYPES]
    return {param["name"] for param in ops.get(op, {}).get("params", ()) if param["type"] in types}


def _parse_param(text: str, texts: Collection[str]) -> tuple[str, bool | int | float | str]:
    name, equals, value = text.partition("=")
    words = {"true": True, "false": False}
    if equals and name in texts:
        return name, value
    if equals and value in words:
        return name, words[value]
    for kind in (lambda word: int(word, 0), float):
        try:
            if equals:
                return name, kind(value)
        except ValueError:
            continue
    raise ValueError(
        f"parameter {text!r}: write NAME=VALUE with a number, true or false, for example width_m=0.03; "
        "`help` tells which parameters are words"
    )


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
