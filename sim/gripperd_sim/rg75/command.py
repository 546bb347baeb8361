"""`gripperd-sim rg75`: the arguments, and the life of the process from ready to a clean end.

The composition root of the RG75 simulator: the only place that joins devices, line, port, control socket and clock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from gripperd_sim import scenario_files
from gripperd_sim.control_server import ControlServer
from gripperd_sim.event_log import log_file, run_until, write_event
from gripperd_sim.history import Event
from gripperd_sim.jaw import GraspObject, Jaw
from gripperd_sim.line import Line
from gripperd_sim.operations import Operations
from gripperd_sim.option_table import as_text, parse_assignments
from gripperd_sim.pty_port import PtyPort
from gripperd_sim.rg75.device import Rg75
from gripperd_sim.rg75.operations import Rg75Bench
from gripperd_sim.rg75.options import Rg75Options
from gripperd_sim.rg75.registers import BAUDRATES, DEFAULT_UNIT
from gripperd_sim.scenario import ScenarioPlay
from gripperd_sim.scenario_driver import ScenarioDriver

EXAMPLE = """example:
  gripperd-sim rg75 --link /tmp/gripper --object-width-m 0.03 --control /tmp/gripper.sock &
  gripperd-sim control /tmp/gripper.sock state
  gripperd-sim control /tmp/gripper.sock take_object
"""

Say = Callable[[str], None]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "rg75",
        help="Jodell RG75 on a pseudo terminal (Modbus RTU)",
        description="Simulate one or more Jodell RG75 grippers on one RS-485 line, at register level.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--link", type=Path, metavar="PATH", help="symlink to the pseudo terminal; give it to the client as its port")
    add("--unit", type=int, action="append", metavar="N", help=f"slave id, may be repeated (default {DEFAULT_UNIT})")
    add("--baudrate", type=int, default=BAUDRATES[0], choices=BAUDRATES, help="of the line (default %(default)s)")
    add("--check-baudrate", action="store_true", help="stay silent when the client's port is set to another baud rate")
    add("--turnaround-s", type=float, metavar="S", help="delay before a reply; short for --option reply_delay_s=S")
    add("--no-pacing", action="store_true", help="bytes take no time on the wire; the turnaround stays")
    add("--width-m", type=float, metavar="W", help="width of the jaws at the start (default: fully open)")
    add(
        "--object-width-m", type=float, metavar="W", help="a part lies ready whenever the active gripper is open enough"
    )
    add("--control", type=Path, metavar="PATH", help="serve the control socket here")
    add("--scenario", metavar="NAME", help="play a scenario: its name, or the path of a .toml file")
    add("--list-scenarios", action="store_true", help="print the scenarios that come with the simulator, and end")
    add("--seed", type=int, metavar="N", help="of the line faults (default: the scenario's, else 0)")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="set a behaviour, may be repeated")
    add("--list-options", action="store_true", help="print all options with their defaults, and end")
    add("--log", metavar="FILE", help="append all events to FILE as JSON lines; - for standard output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, say: Say) -> None:
    """Do what the arguments say; returns at the end of the simulation."""
    if args.list_options:
        say(as_text(Rg75Options))
        return
    if args.list_scenarios:
        say(scenario_files.as_text())
        return
    if args.link is None:
        raise ValueError("--link PATH is needed, for example --link /tmp/gripper")
    with log_file(args.log) as log:
        asyncio.run(_serve(args, log, say))


def build_line(args: argparse.Namespace, now_s: float) -> Line[Rg75]:
    """The line with its devices, as the arguments say."""
    options = parse_assignments(Rg75Options, args.option)
    if args.turnaround_s is not None:
        options = replace(options, reply_delay_s=args.turnaround_s)
    devices = []
    for unit in args.unit or [DEFAULT_UNIT]:
        jaw = Jaw(options.stroke_m, args.width_m, now_s)
        device = Rg75(options, jaw, now_s, unit=unit, baudrate=args.baudrate)
        if args.object_width_m is not None:
            device.supply_object(GraspObject(args.object_width_m), now_s)
        devices.append(device)
    return Line(devices, args.seed or 0)


async def _serve(args: argparse.Namespace, log: IO[str] | None, say: Say) -> None:
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    line = build_line(args, time.monotonic())
    if log is not None:
        for station in line.stations:
            station.device.history.listener = partial(_log_event, log, station.device)
    port = PtyPort(line, args.link, paced=not args.no_pacing, check_baudrate=args.check_baudrate)
    bench = Rg75Bench(line, port, time.monotonic)
    operations = Operations(bench.table())
    control = ControlServer(args.control, operations) if args.control else None
    with contextlib.ExitStack() as stack:
        stack.callback(port.close)
        driver = _scenario(args, line, bench, operations, stack)
        try:
            if control is not None:
                await control.start()
            port.plug()
            say(f"ready {args.link} -> {port.name}")
            if driver is not None:
                driver.ready()
            await run_until(end, log, lambda: line.advance(time.monotonic()))
        finally:
            if control is not None:
                await control.close()


def _scenario(
    args: argparse.Namespace, line: Line[Rg75], bench: Rg75Bench, operations: Operations, stack: contextlib.ExitStack
) -> ScenarioDriver | None:
    """The scenario that was asked for, joined to the line; a wrong one ends the program before it serves."""
    if args.scenario is None:
        return None
    scenario = scenario_files.read(args.scenario)
    if args.seed is None and scenario.seed is not None:
        line.reseed(scenario.seed)
    play = ScenarioPlay(scenario, operations, _complain)
    driver = ScenarioDriver(play)
    stack.callback(driver.close)
    bench.scenario_status = play.status
    line.before_request = driver.heard
    return driver


def _complain(text: str) -> None:
    sys.stderr.write(f"gripperd-sim rg75: {text}\n")
    sys.stderr.flush()


def _log_event(log: IO[str], device: Rg75, event: Event) -> None:
    write_event(log, device.unit, event)
