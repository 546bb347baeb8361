"""Run by a child: plays calls on a client library and prints one JSON line for each.

    python client.py MODULE CLASS ADDRESS '[["move", 0.04, 0.1], ["sleep", 0.5], ["stop"]]'

["aside", call...]: in a thread, its line comes when it has ended. ["reconnect", n]: connect n times in a row.
["vacuum", 10 mbar, ms], ["drop_off", ms] and ["read_vacuum"] are a vacuum gripper's.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
import threading
import time
from typing import Any


def main(module: str, kind: str, address: str, calls: list[list[Any]]) -> None:
    """Play all of them on one connection."""
    library = importlib.import_module(module)
    lock, threads = threading.Lock(), []

    def told(name: str, run: Any) -> None:
        begin_s = time.monotonic()
        try:
            value, error = run(), ""
        except Exception as problem:
            value, error = None, f"{type(problem).__name__}: {problem}"
        line = {"call": name, "value": value, "error": error, "took_s": round(time.monotonic() - begin_s, 4)}
        with lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    hand: Any = None

    def connect() -> int:
        nonlocal hand
        hand = getattr(library, kind)(address)
        return int(getattr(hand, "server_version", lambda: 3)())

    def read_once() -> list[Any]:
        state = hand.read_once()
        return [state.width, state.max_width, bool(state.is_grasped), int(state.temperature)]

    def read_vacuum() -> list[Any]:
        state = hand.read_once()
        flags = [state.in_control_range, state.part_detached, state.part_present]
        return [*flags, int(state.device_status), state.actual_power, state.vacuum]

    def timed(name: str, *numbers: int) -> Any:
        return getattr(hand, name)(*numbers[:-1], datetime.timedelta(milliseconds=numbers[-1]))

    def play(name: str, arguments: list[Any]) -> None:
        if name == "sleep":
            time.sleep(arguments[0])
        elif name == "reconnect":
            told(name, lambda: [connect() for _ in range(arguments[0])][-1])
        elif name == "read_once":
            told(name, read_once)
        elif name == "read_vacuum":
            told(name, read_vacuum)
        elif name in ("vacuum", "drop_off"):
            told(name, lambda: timed(name, *arguments))
        else:
            told(name, lambda: getattr(hand, name)(*arguments))

    told("connect", connect)
    for name, *arguments in calls:
        if name == "aside":
            thread = threading.Thread(target=play, args=(arguments[0], arguments[1:]))
            thread.start()
            threads.append(thread)
        else:
            play(name, arguments)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
