"""One supervised hand over a scripted one, in virtual time. The script decides every answer and every datagram.

The hand simulator plays the device as it is; this plays it as a test needs it, also against the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from gripperd.contract import CommandOutcome, CommandReply, Event, Fault, GripperState, Link
from gripperd.contract.requests import Command
from gripperd.drivers.franka_hand.connection import ConnectError, Receiver
from gripperd.drivers.franka_hand.driver import FrankaHandDriver, HandConfig
from gripperd.drivers.franka_hand.wire import Command as HandCommand
from gripperd.drivers.franka_hand.wire import (
    ConnectResponse,
    MessageDecoder,
    State,
    Status,
    encode_response,
)
from gripperd.gripper import Gripper
from gripperd.store import Store
from tests.support.virtual_time import START_S, VirtualClock, within

NAME = "hand"
UDP_PORT = 0x1234


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that reached the hand. at_s: since the start [s]."""

    at_s: float
    command: HandCommand
    number: int
    data: bytes


@dataclass(eq=False)
class ScriptedHand:
    """Both a dialer and the hand behind it. greets: it answers Connect; reachable: it can be dialled."""

    address: str = "10.0.0.2"
    width_m: float = 0.08
    max_width_m: float = 0.08
    grasped: bool = False
    reachable: bool = True
    greets: bool = True
    version: int = 3
    sends_states: bool = True
    udp_port: int = UDP_PORT
    obeys_stop: bool = True
    sent: list[Sent] = field(default_factory=list)
    connects: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        self.receiver: Receiver | None = None
        self._decoder = MessageDecoder()
        self.pending: list[Sent] = []

    # --- the dialer and its link

    async def dial(self, receiver: Receiver, timeout_s: float) -> ScriptedHand:
        """See Dialer."""
        if not self.reachable:
            raise ConnectError("no route")
        self.connects += 1
        self.receiver, self._decoder, self.pending = receiver, MessageDecoder(), []
        return self

    def write(self, data: bytes) -> None:
        """See Link."""
        loop = asyncio.get_running_loop()
        for message in self._decoder.feed(data):
            header = message.header
            sent = Sent(loop.time() - START_S, HandCommand(header.command), header.command_id, data)
            self.sent.append(sent)
            loop.call_later(0.0001, self._take, sent, self.receiver)

    def close(self) -> None:
        """See Link."""
        if self.receiver is not None:
            self.closed += 1
        self.receiver = None

    # --- the hand

    def _take(self, sent: Sent, receiver: Receiver | None) -> None:
        if receiver is None or receiver is not self.receiver:
            return
        if sent.command is HandCommand.CONNECT:
            if self.greets:
                receiver.received(ConnectResponse(int(self.version != 3), self.version).encode(sent.number))
        elif sent.command is HandCommand.STOP:
            if self.obeys_stop:
                for each in list(self.pending):
                    self.answer(each, Status.ABORTED)
                self.grasped = False
                self.answer(sent)
        else:
            self.pending.append(sent)

    def answer(self, sent: Sent | None = None, status: int = Status.SUCCESS) -> None:
        """Answer a message, or the one that is pending."""
        if sent is None:
            (sent,) = self.pending
        if sent in self.pending:
            self.pending.remove(sent)
        if self.receiver is not None:
            self.receiver.received(encode_response(sent.command, sent.number, status))

    def state(self, message_id: int | None = None) -> None:
        """Send a datagram."""
        loop = asyncio.get_running_loop()
        number = round((loop.time() - START_S) * 1000) if message_id is None else message_id
        if self.receiver is not None:
            self.receiver.datagram(State(number, self.width_m, self.max_width_m, self.grasped, 30).encode())

    def commands(self) -> list[HandCommand]:
        """What was sent, Connect left out."""
        return [sent.command for sent in self.sent if sent.command is not HandCommand.CONNECT]

    async def stream(self) -> None:
        """Datagrams in the pattern of a real hand: every 100 ms, and 12 ms after each second one."""
        while True:
            for pause_s in (0.012, 0.088, 0.1):
                if self.sends_states:
                    self.state()
                await asyncio.sleep(pause_s)


class HandRig:
    """`async with HandRig() as rig:` runs a gripper until the end of the block."""

    def __init__(self, hand: ScriptedHand | None = None, **config: Any) -> None:
        self.hand = hand or ScriptedHand()
        self.clock = VirtualClock()
        self.config = HandConfig(name=NAME, driver="franka_hand", address=self.hand.address, **config)
        self.states: list[GripperState] = []
        self.outcomes: list[CommandOutcome] = []
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.store = Store("boot")
        self.driver = FrankaHandDriver(self.config, self.hand, self.clock)
        self.gripper = Gripper(self.driver, self.store, self.clock)
        self.store.subscribe([NAME], list(Event), self._listen)
        parts = (self.driver.wire.run(), self.gripper.run(), self.hand.stream())
        self._tasks = [asyncio.create_task(part) for part in parts]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def _listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        self._news.set()
        if isinstance(item, GripperState):
            self.states.append(item)
        elif isinstance(item, CommandOutcome):
            self.outcomes.append(item)

    @property
    def state(self) -> GripperState:
        """The latest round."""
        return self.store.latest(NAME)

    def now_s(self) -> float:
        """Since the start [s]."""
        return self.clock.monotonic() - START_S

    async def until(self, condition: Callable[[], bool], limit_s: float = 30.0) -> None:
        """Wait until condition() holds, looking after everything that is published."""
        async with asyncio.timeout(limit_s):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def up(self) -> None:
        """Wait for the link."""
        await self.until(lambda: self.state.link is Link.UP)

    async def reply(self, command: Command) -> CommandReply:
        """Give a command."""
        return await within(30.0, self.gripper.command(command))

    async def stop(self) -> CommandReply:
        """Stop."""
        return await within(30.0, self.gripper.stop())

    async def outcome(self, reply: CommandReply) -> CommandOutcome:
        """Wait for the outcome of an accepted command."""
        assert reply.command_seq, reply
        await self.until(lambda: self.gripper.ledger.outcome(reply.command_seq) is not None)
        outcome = self.gripper.ledger.outcome(reply.command_seq)
        assert outcome is not None
        return outcome

    async def moved(self, command: Command, width_m: float, grasped: bool = False) -> CommandOutcome:
        """Give a command that the hand carries out and ends at width_m [m]."""
        reply = await self.reply(command)
        await asyncio.sleep(0.2)
        self.hand.width_m = (self.hand.width_m + width_m) / 2
        await asyncio.sleep(0.2)
        self.hand.width_m, self.hand.grasped = width_m, grasped
        self.hand.answer()
        return await self.outcome(reply)
