"""Which grippers the demo can show: a table. A new one joins with its simulator, configuration and script."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gripperd.demo.children import DemoError
from gripperd.demo.script import HAND_SCRIPT, SCRIPT, Step

HAND_PORT = 1338
"""libfranka's; it cannot be another, so every simulated hand has an address of its own."""


@dataclass(frozen=True, slots=True)
class DemoGripper:
    """One simulated gripper. `{folder}` in simulator and config is the demo's folder, `{address}` a loopback address
    of its own.

    simulator: arguments of gripperd_sim, without its control socket; config: tables of the daemon's configuration.
    bus: name in the daemon's statistics, empty where the gripper has no bus.
    """

    name: str
    title: str
    simulator: Sequence[str]
    config: str
    bus: str
    script: Sequence[Step]

    def control(self, folder: Path) -> Path:
        """The simulator's control socket."""
        return folder / f"{self.name}.sock"

    def command(self, folder: Path, address: str) -> list[str]:
        """How the simulator is started."""
        arguments = [argument.format(folder=folder, address=address) for argument in self.simulator]
        return [sys.executable, "-m", "gripperd_sim", *arguments, "--control", str(self.control(folder))]


_RG75 = DemoGripper(
    name="rg75",
    title="a simulated RG75 on a pseudo terminal",
    simulator=("rg75", "--link", "{folder}/tool0"),
    config="""[[bus]]
name = "tool0"
port = "{folder}/tool0"
[[gripper]]
name = "rg75"
driver = "rg75"
bus = "tool0"
""",
    bus="tool0",
    script=SCRIPT,
)

_HAND = DemoGripper(
    name="franka_hand",
    title="a simulated Franka Hand on {address}",
    simulator=("franka-hand", "--address", "{address}"),
    config="""[[gripper]]
name = "franka_hand"
driver = "franka_hand"
address = "{address}"
""",
    bus="",
    script=HAND_SCRIPT,
)

GRIPPERS: Mapping[str, DemoGripper] = {each.name: each for each in (_RG75, _HAND)}
"""Name -> gripper."""


def free_address() -> str:
    """A loopback address on which no hand listens yet, so that several demos can run. Raises DemoError."""
    for last in range(2, 255):
        address = f"127.0.0.{last}"
        with socket.socket() as probe:
            try:
                probe.bind((address, HAND_PORT))
            except OSError:
                continue
        return address
    raise DemoError(f"port {HAND_PORT} is in use on 127.0.0.2 to 127.0.0.254: end other simulators of hands")
