"""The grippers that the contract tests run over: how each is simulated, configured, unplugged."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.processes import eventually, process


@dataclass(frozen=True, slots=True)
class Kind:
    """One driver with its simulator. config: of a [[gripper]] named left; {port} is what the simulator's `ready` tells.

    least_states: how many a subscriber gets in the first-day scenario at least.
    """

    driver: str
    simulator: Sequence[str]
    ready: str
    config: str
    max_opening_width_m: float
    least_states: int

    def __str__(self) -> str:
        return self.driver

    @contextlib.asynccontextmanager
    async def simulated(self, folder: Path) -> AsyncIterator[str]:
        """Runs the simulator, its control socket at folder/sim.sock, and gives the [[gripper]]'s configuration."""
        arguments = [each.format(folder=folder) for each in self.simulator]
        command = [sys.executable, "-m", "gripperd_sim", *arguments, "--control", str(folder / "sim.sock")]
        async with process(command, folder / "sim.log") as running:
            await eventually(lambda: "ready" in running.output() or running.child.returncode is not None, "simulator")
            found = re.search(self.ready, running.output())
            assert found is not None, running.output()
            yield self.config.format(folder=folder, port=found[1])


RG75 = Kind(
    driver="rg75",
    simulator=("rg75", "--link", "{folder}/tool0"),
    ready="ready (.+) ->",
    config='[[bus]]\nname = "tool0"\nport = "{port}"\n[[gripper]]\nname = "left"\ndriver = "rg75"\nbus = "tool0"\n',
    max_opening_width_m=0.075,
    least_states=100,
)
HAND = Kind(
    driver="franka_hand",
    simulator=(
        *("franka-hand", "--address", "127.0.0.1", "--port", "0"),
        *("--option", "command_latency_s=0.1", "--option", "homing_s=1"),
    ),
    ready=r"ready 127\.0\.0\.1:(\d+)",
    config='[[gripper]]\nname = "left"\ndriver = "franka_hand"\naddress = "127.0.0.1"\nport = {port}\n',
    max_opening_width_m=0.08,
    least_states=50,
)
KINDS = (RG75, HAND)


def write_config(folder: Path, gripper: str, mqtt_port: int | None = None) -> Path:
    """A configuration with the daemon's socket at folder/g.sock. gripper: what `Kind.simulated` gave."""
    mqtt = ""
    if mqtt_port is not None:
        mqtt = f'[mqtt]\nhost = "127.0.0.1"\nport = {mqtt_port}\nhost_id = "robot"\nstate_rate_hz = 50.0\n'
    path = folder / "gripperd.toml"
    path.write_text(f'[daemon]\nsocket = "{folder}/g.sock"\n{mqtt}{gripper}')
    return path
