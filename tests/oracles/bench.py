"""Which oracles there are, and how one is run with a watchdog: a dead server freezes its interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.vacuum import TCP_PORT as VACUUM_PORT
from gripperd_sim.franka_hand.wire import TCP_PORT
from gripperd_sim.history import History, Kind

PYTHON = os.environ.get("GRIPPERD_ORACLE_PYTHON", sys.executable)
"""Interpreter that has the clients; by default that of the tests."""
WATCHDOG_S = 60.0
CLIENT = Path(__file__).with_name("client.py")


@dataclass(frozen=True, slots=True)
class Oracle:
    """A client library. below: the first Python for which it has no wheel."""

    module: str
    package: str
    below: tuple[int, int]

    def __str__(self) -> str:
        return self.package


PYLIBFRANKA = Oracle("pylibfranka", "pylibfranka", (3, 13))
PANDA = Oracle("panda_py.libfranka", "panda-python", (3, 14))
ORACLES = (PYLIBFRANKA, PANDA)


def require(oracle: Oracle) -> None:
    """Skip where it has no wheel; fail where it has one and is missing: `./run setup` installs it."""
    if platform.machine() != "x86_64" or sys.platform != "linux" or sys.version_info[:2] >= oracle.below:
        version = ".".join(map(str, sys.version_info[:2]))
        pytest.skip(f"{oracle.package} has no wheel for {sys.platform} {platform.machine()}, Python {version}")
    found = subprocess.run([PYTHON, "-c", f"import {oracle.module}"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{oracle.package} is missing; ./run setup installs it: {found.stderr[-300:]}"


def free_address() -> str:
    """A loopback address whose ports 1338 and 1339 are free: libfranka's cannot be chosen."""
    for last in range(100, 255):
        address = f"127.0.0.{last}"
        with socket.socket() as hand, socket.socket() as pump, contextlib.suppress(OSError):
            hand.bind((address, TCP_PORT))
            pump.bind((address, VACUUM_PORT))
            return address
    raise AssertionError(f"port {TCP_PORT} or {VACUUM_PORT} is in use on 127.0.0.100 to 127.0.0.254")


@contextlib.asynccontextmanager
async def served(**options: Any) -> AsyncIterator[HandServer]:
    """A hand on an address of its own, in this event loop."""
    options = {"command_latency_s": 0.1, "homing_s": 0.5, "homed": True} | options
    hand = FrankaHand(HandOptions(**options), asyncio.get_running_loop().time())
    server = HandServer(hand, free_address())
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def play(
    oracle: Oracle, server: HandServer, *calls: Sequence[Any], kind: str = "Gripper"
) -> list[dict[str, Any]]:
    """What a client told, call by call, Connect first. A child that hangs is killed, and the test fails."""
    command = [PYTHON, str(CLIENT), oracle.module, kind, server.address, json.dumps(calls)]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await asyncio.wait_for(child.communicate(), WATCHDOG_S)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, errors.decode()[-2000:]
    return [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]


def sent(server: HandServer) -> list[tuple[str, str]]:
    """(command, bytes) of every message that reached the hand; id and UDP port are masked."""
    return masked(server.hand.history)


def masked(history: History) -> list[tuple[str, str]]:
    """The same of a hand's or a vacuum gripper's history."""
    found = []
    for event in history.of(Kind.REQUEST):
        data = bytearray.fromhex(event.fields["hex"])
        data[2:6] = bytes(4)
        if event.fields["command"] == "connect":
            data[12:14] = bytes(2)
        found.append((event.fields["command"], data.hex()))
    return found
