"""`python -m bench.hand_peer MODULE ADDRESS STOPS SEED`: a client library stops a move that another thread waits for.

Prints the monotonic time [s] at which each stop was wanted, and that at which it had returned.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import threading
import time

BLOCKED_S = (0.06, 0.16)
"""From the move to the stop [s]: the first one takes as long to reach the object, later ones are blocked at once."""
FIRST_S = 0.6


def main(module: str, address: str, stops: int, seed: int) -> None:
    """Play."""
    hand = importlib.import_module(module).Gripper(address)
    chance = random.Random(seed)

    def move() -> None:
        with contextlib.suppress(Exception):  # aborted
            hand.move(0.0, 0.1)

    for number in range(stops):
        wanted_s = time.monotonic() + (chance.uniform(*BLOCKED_S) if number else FIRST_S)
        mover = threading.Thread(target=move)
        mover.start()
        time.sleep(max(0.0, wanted_s - time.monotonic()))
        late_s = time.monotonic()
        wanted_s = max(wanted_s, late_s if late_s - wanted_s < 0.005 else wanted_s)
        hand.stop()
        sys.stdout.write(f"{wanted_s!r} {time.monotonic()!r}\n")
        sys.stdout.flush()
        mover.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
