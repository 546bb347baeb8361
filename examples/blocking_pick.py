"""Pick up whatever is there, without asyncio: python examples/blocking_pick.py --socket PATH [--gripper NAME]"""

from __future__ import annotations

import argparse

from gripperd.client.blocking import DEFAULT_SOCKET, Client
from gripperd.contract import Activation, CommandRefusedError, Outcome


def main() -> int:
    """0 if something is held at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=DEFAULT_SOCKET)
    parser.add_argument("--gripper")
    options = parser.parse_args()
    with Client.connect(options.socket) as client:
        gripper = client.gripper(options.gripper)
        if gripper.state().activation is not Activation.ACTIVE:
            print("activating: the jaws sweep their whole stroke")
            gripper.activate().outcome()
        try:
            gripper.open().outcome()
            outcome = gripper.grip(relative_speed=0.5).outcome(timeout_s=10.0)
        except CommandRefusedError as refusal:
            print(f"refused: {refusal.code}: {refusal.reply.message}")
            return 1
        print(f"{outcome.outcome}: {outcome.message or outcome.grasp_state.name}")
    return 0 if outcome.outcome is Outcome.CONTACT else 1


if __name__ == "__main__":
    raise SystemExit(main())
