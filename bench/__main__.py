"""python -m bench: see --help."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench import fanout, goals, late, report, stop, wire
from bench.children import ChildError

COMMANDS = {"wire": wire.run, "stop": stop.run, "late": late.run, "fanout": fanout.run}

DESCRIPTION = """Benchmarks of gripperd on a paced pseudo terminal; no hardware is needed.

  wire   transactions per second, gaps kept, CPU: gripperd, a bare loop, pymodbus, minimalmodbus
  stop   from a client's stop to its first byte on the wire, and to the acknowledgement
  fanout 100 and 500 subscribers at 100 Hz: who gets what, how old, at what cost, beside a bare broadcaster
  late   10,000 late replies, and how many were taken for the answer to another request
"""
EXAMPLES = """examples:
  python -m bench wire --quick
  python -m bench stop --json stop.json
  python -m bench late --check        exit status 1 if a figure to reach is missed
"""


def main() -> int:
    """Run one sub-command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats: about 90 s instead of 10 min")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--check", action="store_true", help="exit status 1 where a figure to reach is missed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the children are ended too
    try:
        result = COMMANDS[options.command](options.quick, _say)
    except ChildError as error:
        _say(f"bench {options.command}: {error}")
        return 2
    verdicts = goals.check(options.command, result.measured)
    report.show(result, verdicts)
    if options.json is not None:
        report.save(result, verdicts, options.json)
    return int(options.check and not all(verdict.met for verdict in verdicts))


def _say(text: str) -> None:
    """Progress goes to standard error, so that standard output is the report alone."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
