"""`python -m tests.hil`: checks on a real gripper, with a person beside it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

import structlog

from gripperd.drivers.franka_hand.table import TCP_PORT
from tests.hil.franka_hand import CHECKS
from tests.hil.probe import Probe, ProbeError

DESCRIPTION = """Checks on a real gripper. Each tells what it found; none judges. Nothing else may command the gripper.

Before each check that moves the jaws you are asked. Keep your fingers and everything fragile away, and a hand on the
robot's own emergency stop.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a check could not be made."""
    options = _parser().parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        return asyncio.run(_run(options))
    except ProbeError as error:
        _say(f"{options.address}: {error}")
    except KeyboardInterrupt:
        _say("ended")
    return 1


async def _run(options: argparse.Namespace) -> int:
    failed = 0
    async with Probe(options.address, options.port, options.stops) as probe:
        for number, check in enumerate(CHECKS, 1):
            title = f"{number} of {len(CHECKS)}: {check.title}"
            if check.moves and not options.yes and not await _agreed(title):
                _say(f"{title}\n    left out")
                continue
            _say(title)
            try:
                for line in await check.run(probe):
                    _say(f"    {line}")
            except ProbeError as error:
                failed += 1
                _say(f"    could not be made: {error}")
    return int(failed > 0)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _agreed(title: str) -> bool:
    answer = await asyncio.to_thread(input, f"{title}. THE JAWS WILL MOVE. Go on? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hil", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gripper", choices=("franka-hand",))
    parser.add_argument("--address", required=True, help="of the robot's control")
    parser.add_argument("--port", type=int, default=TCP_PORT, help="only simulators have another than %(default)s")
    parser.add_argument("--stops", type=int, default=20, metavar="N", help="how many to try (default %(default)s)")
    parser.add_argument("--yes", action="store_true", help="do not ask before the jaws move")
    return parser


if __name__ == "__main__":
    sys.exit(main())
