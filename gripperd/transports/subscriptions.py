"""One client's subscriptions: who gets which notification, how often, and what was lost.

Rules
1. A slow reader loses states, the oldest first, and is told how many. It never loses an outcome, a fault or a change
   of the link.
2. A state is encoded once for all subscribers of the daemon (`StateEncoder`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pydantic_core import to_json

from gripperd.contract import CommandOutcome, Event, Fault, GripperState, InvalidParamsError, Link
from gripperd.contract.requests import Subscribe
from gripperd.transports.jsonrpc import encode_notification


class StateEncoder:
    """Remembers the last encoded state: all subscribers are told of it in one go."""

    def __init__(self) -> None:
        self._state: GripperState | None = None
        self._encoded = b""

    def encode(self, state: GripperState) -> bytes:
        """JSON of the state."""
        if state is not self._state:
            self._state, self._encoded = state, state.to_json()
        return self._encoded


@dataclass(eq=False, slots=True)
class Subscription:
    """One subscription. period_s: least time between two states of one gripper [s]; 0: every round.

    send: writes a line. room: whether the reader keeps up. monotonic: time [s].
    """

    number: int
    period_s: float
    encoder: StateEncoder
    send: Callable[[bytes], None]
    room: Callable[[], bool]
    monotonic: Callable[[], float]
    _due_s: dict[str, float] = field(default_factory=dict)
    _dropped: dict[str, int] = field(default_factory=dict)

    def listen(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        """The store's listener."""
        if isinstance(item, GripperState):
            if self._is_due(gripper):
                self.send_state(item)
            return
        if event is Event.OUTCOME and isinstance(item, CommandOutcome):
            body = b'"outcome":' + item.to_json()
        elif event is Event.FAULT:
            encoded = item.to_json() if isinstance(item, Fault) else b"null"
            body = b'"gripper":' + to_json(gripper) + b',"fault":' + encoded
        else:
            body = b'"gripper":' + to_json(gripper) + b',"link":' + to_json(item)
        self.send(encode_notification(f"gripper.{event.value}", self._params(body)))

    def send_state(self, state: GripperState) -> None:
        """Send a state, or count it as lost."""
        if not self.room():
            self._dropped[state.gripper] = self._dropped.get(state.gripper, 0) + 1
            return
        dropped = self._dropped.pop(state.gripper, 0)
        body = b'"state":' + self.encoder.encode(state) + b',"dropped":' + str(dropped).encode()
        self.send(encode_notification("gripper.state", self._params(body)))

    def _is_due(self, gripper: str) -> bool:
        if not self.period_s:
            return True
        now_s = self.monotonic()
        due_s = self._due_s.get(gripper, now_s)
        if now_s < due_s:
            return False
        self._due_s[gripper] = max(due_s + self.period_s, now_s)
        return True

    def _params(self, body: bytes) -> bytes:
        return b'{"subscription":' + str(self.number).encode() + b"," + body + b"}"


def check_subscribe(params: Subscribe) -> Collection[Event]:
    """The events asked for. Raises InvalidParamsError."""
    if not math.isfinite(params.max_rate_hz) or params.max_rate_hz < 0:
        raise InvalidParamsError(
            f"max_rate_hz is {params.max_rate_hz}: give a rate in Hz, or leave it out for every round"
        )
    if not params.events:
        raise InvalidParamsError(f"events is empty; valid: {', '.join(event.value for event in Event)}")
    return params.events
