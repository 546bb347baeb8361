"""`python -m tests.torture`: more examples than the test suite has time for, or one scenario again."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.virtual_time import run_virtual
from tests.torture.checks import check
from tests.torture.machine import STEPS, TortureMachine
from tests.torture.scenario import loads
from tests.torture.world import World

CHUNK = 2500
"""Examples of one process: Hypothesis remembers every one of them, and grows slower."""

EPILOG = """examples:
  python -m tests.torture --examples 50000 --seed 1 --jobs 2
  python -m tests.torture --replay failing.toml
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a promise was broken."""
    options = _parser().parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if options.replay is not None:
        replay(options.replay.read_text())
        return 0
    if options.jobs == 1 and options.examples <= CHUNK:
        _run(options.examples, options.seed)
        return 0
    return _run_all(options)


def replay(text: str) -> World:
    """Play one scenario and check it."""
    setting, steps = loads(text)

    async def play() -> World:
        async with World(setting) as world:
            for step in steps:
                await world.step(step)
            await world.recover()
        check(world)
        return world

    return run_virtual(play())


def _run(examples: int, number: int) -> None:
    machine = seed(number)(type(f"TortureMachine{number}", (TortureMachine,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )


def _run_all(options: argparse.Namespace) -> int:
    """In processes of at most CHUNK examples each, with the seeds from --seed on."""
    began_s = time.monotonic()
    chunk = min(CHUNK, math.ceil(options.examples / options.jobs))
    sizes = [min(chunk, options.examples - at) for at in range(0, options.examples, chunk)]
    waiting = list(enumerate(sizes, options.seed))
    running: dict[subprocess.Popen[bytes], tuple[int, int]] = {}
    done = failed = 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            number, size = waiting.pop(0)
            command = [sys.executable, "-m", "tests.torture", "--examples", str(size), "--seed", str(number)]
            command += ["--jobs", "1"]
            running[subprocess.Popen(command)] = number, size
        for child in [each for each in running if each.poll() is not None]:
            number, size = running.pop(child)
            done += size
            failed += child.returncode != 0
            verdict = "ok" if child.returncode == 0 else "FAILED"
            print(f"seed {number}: {verdict}; {done} of {options.examples}, {time.monotonic() - began_s:.0f} s")
        time.sleep(0.2)
    print(f"{done} examples, {failed} seeds failed, {time.monotonic() - began_s:.0f} s")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--examples", type=int, default=2000, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first process (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default %(default)s)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play one scenario file, and nothing else")
    return parser


if __name__ == "__main__":
    sys.exit(main())
