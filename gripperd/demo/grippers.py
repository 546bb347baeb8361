"""Which grippers the demo can show: a table. A new one joins with its simulator, configuration and script."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gripperd.demo.script import SCRIPT, Step


@dataclass(frozen=True, slots=True)
class DemoGripper:
    """One simulated gripper. `{folder}` in simulator and config is the demo's folder.

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

    def command(self, folder: Path) -> list[str]:
        """How the simulator is started."""
        arguments = [argument.format(folder=folder) for argument in self.simulator]
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

GRIPPERS: Mapping[str, DemoGripper] = {each.name: each for each in (_RG75,)}
"""Name -> gripper."""
