"""The arguments of gripperctl."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import shtab

from gripperd.client import DEFAULT_SOCKET
from gripperd.contract import Outcome, Verb

EXIT_DONE = 0
EXIT_OTHER_OUTCOME = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNREACHABLE = 4
EXIT_TIMEOUT = 5
EXIT_FILE = 6
EXIT_INTERRUPTED = 130

MOVING = ("activate", "deactivate", "clear-fault", "release", "move", "grip", "open")
"""Verbs that go on when their wait is interrupted."""
DEFAULT_WAIT_S = 30.0
"""Longest wait for an outcome [s]: more than the daemon's own limits for a motion and an activation."""

WISHED = {
    Verb.GRIP: {Outcome.CONTACT},
    Verb.STOP: {Outcome.STOPPED},
}
"""Outcomes that are what was asked for; of all other verbs it is `reached`."""

_EPILOG = """exit codes:
  0    done as asked: reached; for grip contact; for stop acknowledged
  1    the command ended otherwise (closed_empty, width_mismatch, stalled, stopped, ...)
  2    wrong usage
  3    refused by the daemon; the code and the reason are printed
  4    the daemon cannot be reached, or was lost, or speaks another contract
  5    no outcome within --timeout
  6    a file cannot be read or written
  130  interrupted with Ctrl-C; the gripper goes on as after --no-wait, `gripperctl stop` halts it

examples:
  gripperctl activate                     the jaws sweep their whole stroke
  gripperctl move 0.03 --speed 0.2        clear width in metres
  gripperctl grip --expect-width 0.03 && echo held
  gripperctl --json watch | jq .opening_width_m
  gripperctl record pick.mcap --for 60 && gripperctl plot pick.mcap
  gripperctl completion bash > /etc/bash_completion.d/gripperctl
"""


def _not_negative(text: str) -> float:
    """A number for argparse: seconds, or a rate."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give a finite number, 0 or more")
    return number


def _count(text: str) -> int:
    """A number of things for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not possible: give a whole number, 0 for no end")
    return int(text)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gripperctl",
        description="Look at the grippers of gripperd and command them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = os.environ.get("GRIPPERD_SOCKET", DEFAULT_SOCKET)
    parser.add_argument("--socket", default=default, metavar="PATH", help="default: $GRIPPERD_SOCKET or %(default)s")
    parser.add_argument("--gripper", metavar="NAME", help="may be left out where one is configured")
    parser.add_argument("--json", action="store_true", help="messages of the contract, one JSON object a line")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all grippers")
    verbs.add_parser("info", help="what a gripper can do")
    verbs.add_parser("state", help="the latest round")
    verbs.add_parser("stats", help="counters of the daemon")
    look = verbs.add_parser("watch", help="follow the states; a live table on a terminal, else a line each")
    look.add_argument(
        "--rate", type=_not_negative, default=0.0, metavar="HZ", help="at most this many per second and gripper; 0: all"
    )
    look.add_argument("--count", type=_count, default=0, metavar="N", help="end after N states; 0: never")
    told = verbs.add_parser("events", help="follow outcomes, faults and changes of the link; a line each")
    told.add_argument("--count", type=_count, default=0, metavar="N", help="end after N events; 0: never")
    told.add_argument("--for", dest="for_s", type=_not_negative, default=0.0, metavar="S", help="end after S seconds")
    verbs.add_parser("clients", help="who is connected, who may command, who commanded last")
    ended = verbs.add_parser("wait", help="the outcome of a command by its number")
    ended.add_argument("command_seq", type=int, metavar="SEQ")
    ended.add_argument(
        "--timeout", type=_not_negative, default=DEFAULT_WAIT_S, metavar="S", help="default: %(default)s s"
    )
    halt = verbs.add_parser("stop", help="halt; without --gripper all of them")
    halt.add_argument("--all", action="store_true", help="all grippers, also where --gripper is given")
    _add_recording(verbs)
    _add_commands(verbs)
    shells = verbs.add_parser("completion", help="print the completion of a shell")
    shells.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    return parser


def _add_recording(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    record = verbs.add_parser("record", help="write all states and events to an MCAP file, until Ctrl-C")
    file = record.add_argument("file", type=Path, metavar="FILE", help="robotics viewers open it")
    file.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab's way to say what a file is
    record.add_argument("--for", dest="for_s", type=_not_negative, default=0.0, metavar="S", help="end after S seconds")
    record.add_argument("--count", type=_count, default=0, metavar="N", help="end after N states; 0: never")
    record.add_argument("--force", action="store_true", help="overwrite FILE")
    plot = verbs.add_parser("plot", help="draw a recording: width, motion, grasp and commands over time, as PNG")
    file = plot.add_argument("file", type=Path, metavar="FILE", help="what `record` wrote")
    file.complete = shtab.FILE  # type: ignore[attr-defined]
    file = plot.add_argument("-o", "--output", type=Path, metavar="PNG", help="default: FILE with .png")
    file.complete = shtab.FILE  # type: ignore[attr-defined]
    plot.add_argument("--from", dest="from_s", type=_not_negative, default=0.0, metavar="S", help="begin there [s]")
    plot.add_argument("--to", dest="to_s", type=_not_negative, default=math.inf, metavar="S", help="end there [s]")


def _add_commands(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    texts = {
        "activate": "make it ready; MOVES the jaws unless it is active already",
        "deactivate": "disable the drive",
        "clear-fault": "clear the device's faults",
        "release": "slow automatic release",
        "move": "drive to a clear width",
        "grip": "close on what is there",
        "open": "drive to the open end",
    }
    for name, text in texts.items():
        verb = verbs.add_parser(name, help=text)
        verb.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="for the outcome; --no-wait returns when the device has acknowledged",
        )
        verb.add_argument(
            "--timeout", type=_not_negative, default=DEFAULT_WAIT_S, metavar="S", help="default: %(default)s s"
        )
        if name == "move":
            verb.add_argument("width_m", type=float, metavar="WIDTH_M", help="clear width [m]")
        if name in ("move", "grip", "open"):
            verb.add_argument(
                "--speed", type=float, default=0.0, metavar="R", help="above 0 up to 1; default: configured"
            )
        if name == "grip":
            verb.add_argument(
                "--effort", type=float, default=0.0, metavar="R", help="above 0 up to 1; default: configured"
            )
            verb.add_argument("--expect-width", type=float, metavar="M", help="criterion for the outcome [m]")
