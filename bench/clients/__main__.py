"""One client, for a while, on one port; its tally goes to standard output as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping

from bench.clients import bare, ours, peers
from bench.clients.meter import Meter, Task

CLIENTS: Mapping[str, Callable[[Task, Meter], None]] = {
    "ours": ours.daemon,
    "ours-line": ours.line,
    "bare-gap": bare.with_gap,
    "bare": bare.without_gap,
    "pymodbus": peers.pymodbus_asynchronous,
    "pymodbus-sync": peers.pymodbus_synchronous,
    "minimalmodbus": peers.minimalmodbus_synchronous,
}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description="One client of the bench.")
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--port", required=True)
    parser.add_argument("--baudrate", type=int, default=115_200)
    parser.add_argument("--warm-s", type=float, default=0.3)
    parser.add_argument("--measure-s", type=float, default=2.0)
    options = parser.parse_args()
    task = Task(options.port, options.baudrate, options.warm_s, options.measure_s)
    meter = Meter(task)
    try:
        CLIENTS[options.client](task, meter)
    except peers.NotInstalledError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(meter.tally.as_dict()) + "\n")


if __name__ == "__main__":
    main()
