"""What only a gripper on a serial line can suffer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gripperd.client import Client
from gripperd.contract import Link
from tests.e2e.processes import daemon, eventually, simulator, soon, write_config

pytestmark = pytest.mark.e2e


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: Unix sockets allow 107 bytes."""
    return tmp_path_factory.mktemp("g")


async def test_two_daemons_cannot_own_one_line(folder: Path) -> None:
    """LOCK 152: the second one lives, says who holds the port, and touches nothing."""
    async with simulator(folder), daemon(folder, write_config(folder)) as first:
        other = folder / "second"
        other.mkdir()
        (other / "tool0").symlink_to((folder / "tool0").resolve())
        async with daemon(other, write_config(other)) as second, await Client.connect(other / "g.sock") as client:
            await eventually(lambda: "in use by" in second.output(), "refusal")
            assert f"process {first.child.pid}" in second.output()
            assert (await client.gripper().state()).link is Link.DOWN
        async with await Client.connect(folder / "g.sock") as client:

            async def up() -> bool:
                return (await client.gripper().state()).link is Link.UP

            await soon(up, "link of the first")
