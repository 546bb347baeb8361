"""Two hundred thousand lines that are no valid command, from several connections at once, against an active gripper.

Everything is seeded. The generators make lines that must not be carried out, whatever they look like; so the device's
own history tells whether one was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import select
import socket
import threading
import time
from pathlib import Path

from gripperd.contract.requests import COMMANDS
from gripperd_sim.history import Kind
from tests.support.daemon_bench import bench

LINES = 200_000
CONNECTIONS = 8
SEED = 20_261
CHUNK = 400
"""Lines that a connection sends before it looks at the answers."""
OVERSIZED = 100
"""Lines of more than 65,536 bytes: each ends its connection."""
LIMIT_S = 50.0

OBSERVING = ("daemon.info", "daemon.statistics", "gripper.list", "gripper.info", "gripper.state", "client.list")
MOVING = tuple(verb for verb in COMMANDS if verb != "stop")
ODD_METHODS = ("gripper.subscribe", "gripper.unsubscribe", "gripper.wait", "client.hello", "client.beat", "")
ODD_PARAMS: tuple[object, ...] = (
    {"events": ["states"]},
    {"subscription": 10**30},
    {"command_seq": -1},
    {"heartbeat_s": -1},
    {"name": 1},
    {"x": 1},
)
BAD_PARAMS: tuple[object, ...] = (
    {"gripper": "lfet"},
    {"gripper": 7},
    {"gripper": None},
    {"gripper": "left", "force": 1},
    {"opening_width_m": "0.01", "relative_speed": {}, "relative_effort": [], "x": 0},
    {"opening_width_m": True, "relative_speed": True, "relative_effort": True, "x": 0},
    {"x" * 300: 1},
    [],
    "left",
    7,
)


def line(pick: random.Random) -> bytes:
    """One line that must not be carried out."""
    return pick.choice(KINDS)(pick).replace(b"\n", b" ") + b"\n"


def _noise(pick: random.Random) -> bytes:
    return pick.randbytes(pick.randrange(60))


def _text(pick: random.Random) -> bytes:
    return "".join(chr(pick.choice((0, 7, 34, 92, 123, 125, 0xE9, 0x4E2D, 0x1F600))) for _ in range(20)).encode()


def _truncated(pick: random.Random) -> bytes:
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "method": f"gripper.{pick.choice(MOVING)}", "params": {}}).encode()
    return whole[: pick.randrange(len(whole))]


def _wrong_params(pick: random.Random) -> bytes:
    request = {"jsonrpc": "2.0", "id": 1, "method": f"gripper.{pick.choice(MOVING)}", "params": pick.choice(BAD_PARAMS)}
    return json.dumps(request).encode()


def _wrong_frame(pick: random.Random) -> bytes:
    good = {"jsonrpc": "2.0", "id": 1, "method": "gripper.open"}
    bad = pick.choice(
        (
            [good],
            {"id": 1, "method": "gripper.open"},
            {**good, "jsonrpc": 2.0},
            {**good, "id": {}},
            {**good, "id": True},
            {**good, "method": "gripper.close"},
            {**good, "method": ["gripper.open"]},
            {**good, "method": "gripper.open "},
            {"jsonrpc": "2.0", "method": "gripper.open"},  # no id: only a stop is carried out without one
        )
    )
    return json.dumps(bad).encode()


def _not_json(pick: random.Random) -> bytes:
    return pick.choice(
        (
            b'{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":NaN}}',
            b'{"jsonrpc":"2.0","id":1,"method":"gripper.open",}',
            b"{'jsonrpc':'2.0','id':1,'method':'gripper.open'}",
            b'{"jsonrpc":"2.0","id":1,"method":"gripper.open"}}',
            b'{"jsonrpc":"2.0","id":1,"method":"gripper.open"}{}',
            b'{"jsonrpc":"2.0","id":1,"method":"gripper.op\xffen"}',
            b"[" * 500,
            b'{"a":' * 500,
            b"\xef\xbb\xbf{}",
            b"",
        )
    )


def _refused(pick: random.Random) -> bytes:
    """Well formed, and not permitted."""
    width = pick.choice(("1e999", "-1", "0.5", "-1e-300", "1e308"))
    speed = pick.choice(("2", "-0.1", "1e999", "1.0000001"))
    return pick.choice(
        (
            '{"jsonrpc":"2.0","id":1,"method":"gripper.move","params":{"opening_width_m":' + width + "}}",
            '{"jsonrpc":"2.0","id":1,"method":"gripper.grip","params":{"relative_speed":' + speed + "}}",
            '{"jsonrpc":"2.0","id":1,"method":"gripper.open","params":{"relative_speed":' + speed + "}}",
        )
    ).encode()


def _observing(pick: random.Random) -> bytes:
    """What changes nothing, with some of its bytes changed."""
    changed = bytearray(json.dumps({"jsonrpc": "2.0", "id": 1, "method": pick.choice(OBSERVING)}).encode())
    for _ in range(pick.randrange(4)):
        changed[pick.randrange(len(changed))] = pick.randrange(256)
    return bytes(changed)


def _other_methods(pick: random.Random) -> bytes:
    request = {"jsonrpc": "2.0", "id": 1, "method": pick.choice(ODD_METHODS), "params": pick.choice(ODD_PARAMS)}
    return json.dumps(request).encode()


KINDS = (
    _noise,
    _text,
    _truncated,
    _wrong_params,
    _wrong_frame,
    _not_json,
    _refused,
    _observing,
    _other_methods,
)


class Attack:
    """The attackers, in a thread of their own."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.pick = random.Random(SEED)
        self.sent = 0
        self.closed = 0
        self.oversized = 0
        self.clients = [self.connect() for _ in range(CONNECTIONS)]

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)
        client.setblocking(False)
        return client

    def run(self) -> None:
        """Chunks of lines, cut anywhere, dealt out to the connections in turn."""
        waiting = [b""] * CONNECTIONS
        ends_s = time.monotonic() + LIMIT_S
        while self.sent < LINES or any(waiting):
            assert time.monotonic() < ends_s
            for index in range(CONNECTIONS):
                if len(waiting[index]) < 4096 and self.sent < LINES:
                    waiting[index] += self.lines()
                waiting[index] = self.exchange(index, waiting[index])
        for client in self.clients:  # an open that lacks its newline is not carried out
            client.setblocking(True)
            with contextlib.suppress(ConnectionError):  # its last line may have been an oversized one
                client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"gripper.open"}')
            client.close()

    def lines(self) -> bytes:
        self.sent += CHUNK
        made = b"".join(line(self.pick) for _ in range(CHUNK))
        if self.oversized * LINES < self.sent * OVERSIZED:
            self.oversized += 1
            made += b'{"jsonrpc":"2.0","id":1,"method":"gripper.open"' + b" " * 66_000 + b"}\n"
        return made

    def exchange(self, index: int, data: bytes) -> bytes:
        """Send a part of it and read what is there. Returns what is left to be sent."""
        client = self.clients[index]
        size = self.pick.randrange(1, 8192)
        try:
            readable, writable, _ = select.select([client], [client], [], 0.01)
            if readable and not client.recv(1 << 20):
                raise ConnectionResetError
            if writable:
                return data[client.send(data[:size]) :]
        except (ConnectionResetError, BrokenPipeError):
            client.close()
            self.closed += 1
            self.clients[index] = self.connect()
            return data[data.find(b"\n") + 1 :]
        except BlockingIOError:
            pass
        return data


async def test_two_hundred_thousand_bad_lines_leave_the_daemon_healthy_and_the_gripper_unmoved(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        peer = await b.peer()
        assert await peer.outcome("activate") == "reached"
        history = b.devices[9].history
        before = history.last_seq
        attack = Attack(b.path)
        thread = threading.Thread(target=attack.run, name="attack")
        thread.start()
        answered = 0
        while thread.is_alive():
            assert (await peer.ask("gripper.state"))["link"] == "up"
            answered += 1
            await asyncio.sleep(0.02)
        thread.join()
        assert answered > 10, "others are served meanwhile"
        counters = b.daemon.socket.counters
        assert attack.closed >= 0.9 * attack.oversized, "each oversized line closed its connection"
        assert counters["lines"] > 0.5 * LINES, counters
        assert counters["errors"] > 0.4 * LINES
        moved = [each for each in history.since(before) if each.kind in (Kind.WRITE, Kind.COMMAND, Kind.MOTION_START)]
        assert not moved
        state = await peer.ask("gripper.state")
        assert (state["link"], state["activation"], state["opening_width_valid"]) == ("up", "active", True)
        assert state["command_seq"] == 1, "nothing was accepted but the activation"
        assert await peer.outcome("open") == "reached"
