"""`gripperd-sim franka-hand`: the arguments, and the life of the process from ready to a clean end."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gripperd_sim.control_server import ControlServer
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
    add("--vacuum", action="store_true", help="serve a vacuum gripper, too: port 1339 of the same address")
    add("--seed", type=int, default=0, metavar="N", help="of what happens by chance (default %(default)s)")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="set a behaviour, may be repeated")
    add("--list-options", action="store_true", help="print all options with their defaults, and end")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, say: Say) -> None:
    """Do what the arguments say; returns at the end of the simulation."""
    if args.list_options:
        say(as_text(HandOptions))
        return
    if args.address is None:
        raise ValueError("--address A is needed, for example --address 127.0.0.2")
    options = parse_assignments(HandOptions, args.option)
    asyncio.run(_serve(args, replace(options, homed=options.homed or args.homed), say))


async def _serve(args: argparse.Namespace, options: HandOptions, say: Say) -> None:
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    hand = FrankaHand(options, loop.time(), args.seed)
    if args.object_width_m is not None:
        hand.supply_object(GraspObject(args.object_width_m), loop.time())
    server = HandServer(hand, args.address, args.port)
    pump = VacuumServer(VacuumGripper(loop.time()), args.address, 0 if args.port == 0 else VACUUM_PORT)
    operations = Operations(HandBench(hand, server, pump if args.vacuum else None).table())
    control = ControlServer(args.control, operations) if args.control else None
    await server.start()
    try:
        if args.vacuum:
            await pump.start()
        if control is not None:
            await control.start()
        say(f"ready {server.address}:{server.port}" + (f" vacuum {pump.port}" if args.vacuum else ""))
        await end.wait()
    finally:
        if control is not None:
            await control.close()
        await pump.close()
        await server.close()
