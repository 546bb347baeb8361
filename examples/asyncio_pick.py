"""Pick up whatever is there, with asyncio: python examples/asyncio_pick.py --socket PATH [--gripper NAME]"""

from __future__ import annotations

import argparse
import asyncio

from gripperd.client import DEFAULT_SOCKET, Client
from gripperd.contract import Activation, GraspState, Outcome


async def main() -> int:
    """0 if something is held at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=DEFAULT_SOCKET)
    parser.add_argument("--gripper")
    options = parser.parse_args()
    async with await Client.connect(options.socket) as client:
        gripper = client.gripper(options.gripper)
        if (await gripper.state()).activation is not Activation.ACTIVE:
            print("activating: the jaws sweep their whole stroke")
            await (await gripper.activate()).outcome()
        await (await gripper.open()).outcome()
        outcome = await (await gripper.grip()).outcome()
        print(f"{outcome.outcome}: {outcome.message or outcome.grasp_state.name}")
        async for state in gripper.states():
            if state.command_seq >= outcome.command_seq and state.opening_width_valid:
                print(f"{state.opening_width_m * 1e3:.1f} mm, {state.grasp_state.name}")
                break
    return 0 if outcome.outcome is Outcome.CONTACT and outcome.grasp_state is GraspState.HOLDING else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
