"""`python -m bench.hand_server ADDRESS`: a simulated hand with an object in the way of every move.

Prints one line when it is ready, and the monotonic time [s] of each stop that aborts a motion.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Any

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.wire import STOP, Request
from gripperd_sim.jaw import GraspObject

OBJECT_M = 0.03
STUCK_S = 2.0
"""A blocked move is given up after this time [s], so that a client that cannot stop goes on."""


class TimedHand(FrankaHand):
    """Tells when a stop aborted a motion."""

    def request(self, connection: int, request: Request, now_s: float) -> None:
        """A message of a client."""
        aborts = request.command == STOP and self.motion is not None and self.motion.ended is None
        arrived_s = time.monotonic()
        super().request(connection, request, now_s)
        if aborts:
            sys.stdout.write(f"{arrived_s!r}\n")
            sys.stdout.flush()


async def serve(address: str) -> None:
    """Until SIGTERM."""
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    options: dict[str, Any] = {"homed": True, "command_latency_s": 0.0, "stuck_move_s": STUCK_S}
    hand = TimedHand(HandOptions(**options), loop.time())
    hand.put_object(GraspObject(OBJECT_M), loop.time())
    server = HandServer(hand, address)
    await server.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await end.wait()
    await server.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
