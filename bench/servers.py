"""Small servers to compare the daemon's stop with: Unix socket in, one line out, nothing else.

`bare`: the bare loop with its gap; a stop is the next frame after the transaction in flight. `pymodbus`: every request
waits for the client's own lock, a stop too, behind all reads that are queued: `queued` gathered at a time by each of
`pollers` tasks. Both speak the part of the daemon's
protocol that the bench uses: gripper.stop, gripper.subscribe and ping, one JSON object a line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from pymodbus.client import AsyncModbusSerialClient
from pymodbus.exceptions import ModbusException

from bench.clients.bare import BareLine
from bench.rtu import CONTROL, STATUS, STATUS_REGISTERS, STOP_WORD, UNIT, read_request, write_request

FULL_SPEED_HZ = 1000.0
"""From this poll rate on there is no pause between reads [Hz]."""
RETRY_S = 0.02
"""Pause after an unacknowledged stop of pymodbus [s]."""

StopCall = Callable[[Callable[[], None]], None]


class Hub:
    """The clients. Their stops go to `stop`, with what to call after the acknowledgement."""

    def __init__(self, stop: StopCall) -> None:
        self.stop = stop
        self.subscribed: set[asyncio.Transport] = set()
        self._seq = 0

    def publish(self, valid: bool) -> None:
        """One state, encoded once; of about the size of the daemon's."""
        self._seq += 1
        if not self.subscribed:
            return
        state = {
            "stamp": {"sec": 1_700_000_000, "nanosec": 123_456_789},
            "opening_width_valid": valid,
            "opening_width_m": 0.0374,
            "grasp_state": 1,
            "motion_state": 2,
            "gripper": "left",
            "boot_id": "0123456789abcdef",
            "seq": self._seq,
            "link": "up",
            "activation": "active",
            "activation_epoch": 1,
            "command_seq": 0,
            "command_phase": "none",
            "fault": None,
            "readings": {"effort": 0.502, "speed": 0.502, "temperature_c": 25.0, "voltage_v": 24.0},
        }
        params = {"subscription": 1, "state": state, "dropped": 0}
        line = _line({"jsonrpc": "2.0", "method": "gripper.state", "params": params})
        for transport in self.subscribed:
            transport.write(line)


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self._transport is not None:
            self._hub.subscribed.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """Handle every whole line."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            number, method = request["id"], request["method"]
            if method == "gripper.stop":
                self._hub.stop(lambda number=number: self._answer(number))  # type: ignore[misc]
                continue
            if method == "gripper.subscribe" and self._transport is not None:
                self._hub.subscribed.add(self._transport)
            self._answer(number)

    def _answer(self, number: int) -> None:
        if self._transport is not None:
            self._transport.write(_line({"jsonrpc": "2.0", "id": number, "result": {"ok": True}}))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class BareServer:
    """Stops before polls, chosen at the last moment; an unacknowledged stop is sent again."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.hub = Hub(self._stop)
        gap_s = 3.5 * 10 / options.baudrate
        self._line = BareLine(options.port, gap_s, options.timeout_s, self._next_frame, self._done)
        self._period_s = 0.0 if options.rate_hz >= FULL_SPEED_HZ else 1.0 / options.rate_hz
        self._waiting: list[Callable[[], None]] = []
        self._sent: list[Callable[[], None]] = []
        self._stop_frame, self._read_frame = write_request((STOP_WORD,)), read_request()
        self._poll_due = True
        self._loop = asyncio.get_running_loop()
        self._next_poll_s = self._loop.time()
        if self._period_s:
            self._tick()
        self._line.kick()

    def _stop(self, acknowledged: Callable[[], None]) -> None:
        self._waiting.append(acknowledged)
        self._line.kick()

    def _tick(self) -> None:
        self._poll_due = True
        self._next_poll_s += self._period_s
        self._loop.call_at(self._next_poll_s, self._tick)
        self._line.kick()

    def _next_frame(self) -> bytes | None:
        if self._waiting:
            self._sent, self._waiting = self._waiting, []
            return self._stop_frame
        if not self._poll_due:
            return None
        self._poll_due = not self._period_s
        return self._read_frame

    def _done(self, reply: bytes | None) -> None:
        if not self._sent:
            self.hub.publish(reply is not None)
            return
        sent, self._sent = self._sent, []
        if reply is None:
            self._waiting = sent + self._waiting
        else:
            for acknowledged in sent:
                acknowledged()


class PymodbusServer:
    """The client behind its own lock; `queued` reads are asked for at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.hub = Hub(self._stop)
        self._client = AsyncModbusSerialClient(
            options.port, baudrate=options.baudrate, timeout=options.timeout_s, retries=0
        )
        self._queued: int = options.queued
        self._pollers: int = options.pollers
        self._tasks: set[asyncio.Task[None]] = set()

    async def poll(self) -> None:
        """Until cancelled. Raises RuntimeError if the port cannot be opened."""
        if not await self._client.connect():
            raise RuntimeError("pymodbus could not open the port")
        async with asyncio.TaskGroup() as pollers:
            for _ in range(self._pollers):
                pollers.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            await asyncio.gather(*(self._read() for _ in range(self._queued)))

    async def _read(self) -> None:
        self.hub.publish(
            await _succeeds(self._client.read_input_registers(STATUS, count=STATUS_REGISTERS, device_id=UNIT))
        )

    def _stop(self, acknowledged: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._write(acknowledged))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, acknowledged: Callable[[], None]) -> None:
        if await _succeeds(self._client.write_registers(CONTROL, [STOP_WORD], device_id=UNIT)):
            acknowledged()
        else:
            asyncio.get_running_loop().call_later(RETRY_S, self._stop, acknowledged)


async def _succeeds(request: Awaitable[Any]) -> bool:
    try:
        return not (await request).isError()
    except ModbusException:
        return False


async def _serve(options: argparse.Namespace) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    poller: asyncio.Task[None] | None = None
    if options.server == "pymodbus":
        behind_lock = PymodbusServer(options)
        hub, poller = behind_lock.hub, asyncio.create_task(behind_lock.poll())
        poller.add_done_callback(lambda done: over.set())
    else:
        hub = BareServer(options).hub
    listener = await asyncio.get_running_loop().create_unix_server(lambda: Connection(hub), options.socket)
    await over.wait()
    listener.close()
    if poller is not None:
        poller.cancel()
        await asyncio.gather(poller, return_exceptions=True)


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="python -m bench.servers", description="A small server to compare with.")
    parser.add_argument("server", choices=("bare", "pymodbus"))
    parser.add_argument("--port", required=True)
    parser.add_argument("--baudrate", type=int, default=115_200)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--rate-hz", type=float, default=FULL_SPEED_HZ)
    parser.add_argument("--timeout-s", type=float, default=0.1)
    parser.add_argument("--queued", type=int, default=1, help="reads that one poller of pymodbus gathers")
    parser.add_argument("--pollers", type=int, default=1, help="tasks that poll with pymodbus")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
