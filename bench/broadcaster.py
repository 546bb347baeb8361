"""The limit that the fan-out is compared with: a bare asyncio program that does no more than the job.

At a fixed rate it makes one state, encodes it once, writes it to every subscriber that keeps up, and publishes it to a
broker if there is one. It polls no device, has no commands, no sessions, no outcomes and no counters.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import time

import aiomqtt

from gripperd.contract import Activation, GraspState, GripperState, Link, MotionState, Readings, Stamp

ROOM_BYTES = 262_144
"""A subscriber that owes more loses the state."""
HEAD, TAIL = b'{"jsonrpc":"2.0","method":"gripper.state","params":{"subscription":1,"state":', b',"dropped":0}}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"subscription":1}}\n'


class Broadcaster:
    """The subscribers."""

    def __init__(self) -> None:
        self.subscribed: set[asyncio.Transport] = set()
        self.seq = 0

    def tick(self) -> bytes:
        """One state to everybody. Returns it as JSON."""
        self.seq += 1
        state = GripperState(
            stamp=Stamp.from_ns(time.time_ns()),
            opening_width_valid=True,
            opening_width_m=0.0374,
            grasp_state=GraspState.NOT_HOLDING,
            motion_state=MotionState.STOPPED,
            gripper="left",
            boot_id="0123456789abcdef",
            seq=self.seq,
            link=Link.UP,
            activation=Activation.ACTIVE,
            readings=Readings(effort=0.502, speed=0.502, temperature_c=25.0, voltage_v=24.0),
        )
        encoded = state.to_json()
        line = HEAD + encoded + TAIL
        for transport in self.subscribed:
            if transport.get_write_buffer_size() < ROOM_BYTES:
                transport.write(line)
        return encoded


class Connection(asyncio.Protocol):
    """One subscriber: whatever it says, it gets states."""

    def __init__(self, broadcaster: Broadcaster) -> None:
        self._broadcaster = broadcaster
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """It subscribes."""
        if self._transport is not None and self._transport not in self._broadcaster.subscribed:
            self._transport.write(ANSWER)
            self._broadcaster.subscribed.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self._transport is not None:
            self._broadcaster.subscribed.discard(self._transport)


async def run(path: str, rate_hz: float, mqtt_port: int) -> None:
    """Until SIGTERM."""
    loop, ended, broadcaster = asyncio.get_running_loop(), asyncio.Event(), Broadcaster()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_unix_server(lambda: Connection(broadcaster), path)
    if not mqtt_port:
        await tick(broadcaster, None, rate_hz, ended)
        return
    no_delay = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
    version = aiomqtt.ProtocolVersion.V5
    async with aiomqtt.Client("127.0.0.1", mqtt_port, protocol=version, socket_options=no_delay) as client:
        await tick(broadcaster, client, rate_hz, ended)


async def tick(broadcaster: Broadcaster, client: aiomqtt.Client | None, rate_hz: float, ended: asyncio.Event) -> None:
    """At the rate."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while not ended.is_set():
        encoded = broadcaster.tick()
        if client is not None:
            await client.publish("gripperd/bench/left/state", encoded, qos=0)
        due_s = max(due_s + 1.0 / rate_hz, loop.time())
        await asyncio.sleep(due_s - loop.time())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("--rate-hz", type=float, default=100.0)
    parser.add_argument("--mqtt-port", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(run(options.socket, options.rate_hz, options.mqtt_port))


if __name__ == "__main__":
    main()
