"""`gripperd-sim franka-hand`: the arguments, and the life of the process from ready to a clean end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from gripperd_sim import scenario_files
from gripperd_sim.control_server import ControlServer
from gripperd_sim.event_log import log_file, run_until, write_event
from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.operations import HandBench
from gripperd_sim.franka_hand.options import HandOptions
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.vacuum import TCP_PORT as VACUUM_PORT
from gripperd_sim.franka_hand.vacuum import VacuumGripper
from gripperd_sim.franka_hand.vacuum_server import VacuumServer
from gripperd_sim.franka_hand.wire import TCP_PORT
from gripperd_sim.jaw import GraspObject
from gripperd_sim.operations import Operations
from gripperd_sim.option_table import as_text, parse_assignments
from gripperd_sim.scenario import ScenarioPlay
from gripperd_sim.scenario_driver import ScenarioDriver

DEVICE = "franka-hand"
EXAMPLE = """example:
  gripperd-sim franka-hand --address 127.0.0.2 --object-width-m 0.03 --control /tmp/hand.sock &
  python -c 'import pylibfranka; hand = pylibfranka.Gripper("127.0.0.2"); print(hand.homing(), hand.read_once().width)'
  gripperd-sim control /tmp/hand.sock state

Every simulated hand needs a loopback address of its own, since libfranka's port cannot be chosen.
"""

Say = Callable[[str], None]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "franka-hand",
        help="Franka Hand on a loopback address (libfranka's gripper protocol)",
        description="Simulate a Franka Hand for any client of libfranka's gripper protocol, version 3.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--address", metavar="A", help="address of this machine to listen on, for example 127.0.0.2")
    add("--port", type=int, default=TCP_PORT, help="only gripperd can use another than %(default)s; 0: any free one")
    add("--homed", action="store_true", help="homed at the start; short for --option homed=true")
    add("--object-width-m", type=float, metavar="W", help="a part lies ready whenever the homed hand is open enough")
    add("--control", type=Path, metavar="PATH", help="serve the control socket here")
    add("--command-latency-s", type=float, metavar="S", help="least time of an answer; --option command_latency_s=S")
    add("--homing-s", type=float, metavar="S", help="duration of homing; short for --option homing_s=S")
    add("--state-rate-hz", type=float, metavar="HZ", help="of the states; short for --option state_rate_hz=HZ")
    add("--width-m", type=float, metavar="W", help="width of the fingers at the start (default: fully open)")
    add("--vacuum", action="store_true", help="serve a vacuum gripper, too: port 1339 of the same address")
    add("--scenario", metavar="NAME", help="play a scenario: its name, or the path of a .toml file")
    add("--list-scenarios", action="store_true", help="print the scenarios that come with the simulator, and end")
    add("--seed", type=int, metavar="N", help="of what happens by chance (default: the scenario's, else 0)")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="set a behaviour, may be repeated")
    add("--list-options", action="store_true", help="print all options with their defaults, and end")
    add("--log", metavar="FILE", help="append all events to FILE as JSON lines; - for standard output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, say: Say) -> None:
    """Do what the arguments say; returns at the end of the simulation."""
    if args.list_options:
        say(as_text(HandOptions))
        return
    if args.list_scenarios:
        say(scenario_files.as_text(DEVICE))
        return
    if args.address is None:
        raise ValueError("--address A is needed, for example --address 127.0.0.2")
    options = _options(args)
    with log_file(args.log) as log:
        asyncio.run(_serve(args, options, log, say))


def _options(args: argparse.Namespace) -> HandOptions:
    options = parse_assignments(HandOptions, args.option)
    short = {name: getattr(args, name) for name in ("command_latency_s", "homing_s", "state_rate_hz")}
    given = {name: value for name, value in short.items() if value is not None}
    return replace(options, homed=options.homed or args.homed, **given)


async def _serve(args: argparse.Namespace, options: HandOptions, log: IO[str] | None, say: Say) -> None:
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    hand = FrankaHand(options, loop.time(), args.seed or 0, args.width_m)
    if log is not None:
        hand.history.listener = partial(write_event, log, DEVICE)
    if args.object_width_m is not None:
        hand.supply_object(GraspObject(args.object_width_m), loop.time())
    server = HandServer(hand, args.address, args.port, args.seed or 0)
    pump = VacuumServer(VacuumGripper(loop.time()), args.address, 0 if args.port == 0 else VACUUM_PORT)
    bench = HandBench(hand, server, pump if args.vacuum else None)
    operations = Operations(bench.table())
    control = ControlServer(args.control, operations) if args.control else None
    async with contextlib.AsyncExitStack() as stack:
        scenario = _scenario(args, bench, server, operations, stack)
        stack.push_async_callback(server.close)
        await server.start()
        if args.vacuum:
            stack.push_async_callback(pump.close)
            await pump.start()
        if control is not None:
            stack.push_async_callback(control.close)
            await control.start()
        say(f"ready {server.address}:{server.port}" + (f" vacuum {pump.port}" if args.vacuum else ""))
        if scenario is not None:
            scenario.ready()
        await run_until(end, log, server.pump)


def _scenario(
    args: argparse.Namespace,
    bench: HandBench,
    server: HandServer,
    operations: Operations,
    stack: contextlib.AsyncExitStack,
) -> ScenarioDriver | None:
    """The scenario that was asked for; a wrong one ends the program before it serves."""
    if args.scenario is None:
        return None
    scenario = scenario_files.read(args.scenario, DEVICE)
    if args.seed is None and scenario.seed is not None:
        server.hand.reseed(scenario.seed)
        server.faults.reseed(scenario.seed)
    play = ScenarioPlay(scenario, operations, _complain)
    driver = ScenarioDriver(play)
    stack.callback(driver.close)
    bench.scenario_status = play.status
    server.before_request = driver.heard
    return driver


def _complain(text: str) -> None:
    sys.stderr.write(f"gripperd-sim {DEVICE}: {text}\n")
    sys.stderr.flush()
