"""Who gets which notification, how often, in which order, and what was lost. Pure: time and turns are handed in.

Rules
1. A slow reader loses states, the oldest first, and is told how many. It never loses an outcome, a fault or a change
   of the link.
2. A notification is encoded once, whoever gets it: only the number of the subscription differs.
3. Telling everybody takes time, and the wires share the event loop. So nothing is written inside the store's call, and
   then `WRITES_PER_TURN` at a time: between two turns the loop sees what has come, a stop first of all.
4. Every subscription gets everything in the order in which it happened.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pydantic_core import to_json

from gripperd.contract import CommandOutcome, Event, Fault, GripperState, InvalidParamsError, Link
from gripperd.contract.requests import Subscribe

WRITES_PER_TURN = 32
"""Notifications that are written before the event loop turns; each costs about 10 us."""
TELLINGS_KEPT = 64
"""States that wait until everybody was told of earlier ones; beyond it the oldest are dropped, and counted for each
subscription. The loop is overloaded then."""

ALL = ""
"""In the place of a gripper's name: all of them, also those that come later."""

Item = GripperState | CommandOutcome | Fault | Link | None


@dataclass(eq=False, slots=True)
class Subscription:
    """One subscription. period_s: least time between two states of one gripper [s]; 0: every round.

    grippers: their names, or ALL. send: writes a line. offer: the same if the reader keeps up, else False.
    monotonic: time [s].
    """

    number: int
    grippers: frozenset[str]
    events: frozenset[Event]
    period_s: float
    send: Callable[[bytes], None]
    offer: Callable[[bytes], bool]
    monotonic: Callable[[], float]
    ended: bool = False
    _due_s: dict[str, float] = field(default_factory=dict)
    _dropped: dict[str, int] = field(default_factory=dict)
    _heads: dict[Event, bytes] = field(default_factory=dict)
    _state_head: bytes = b""

    def __post_init__(self) -> None:
        for event in Event:
            head = f'{{"jsonrpc":"2.0","method":"gripper.{event.value}","params":{{"subscription":{self.number},'
            self._heads[event] = head.encode()
        self._state_head = self._heads[Event.STATE]

    def tell(self, telling: Telling) -> None:
        """Send it, or count a state as lost."""
        if telling.event is not Event.STATE:
            self.send(self._heads[telling.event] + telling.body + b"}}\n")
            return
        gripper = telling.gripper
        if self.period_s and not self._is_due(gripper):
            return
        dropped = self._dropped.get(gripper, 0) if self._dropped else 0
        rest = telling.whole if not dropped else telling.body + b',"dropped":%d}}\n' % dropped
        if not self.offer(self._state_head + rest):
            self.lose(gripper)
        elif dropped:
            del self._dropped[gripper]

    def lose(self, gripper: str) -> None:
        """A state of this gripper was not sent."""
        self._dropped[gripper] = self._dropped.get(gripper, 0) + 1

    def _is_due(self, gripper: str) -> bool:
        now_s = self.monotonic()
        due_s = self._due_s.get(gripper, now_s)
        if now_s < due_s:
            return False
        self._due_s[gripper] = max(due_s + self.period_s, now_s)
        return True


@dataclass(eq=False, slots=True)
class Telling:
    """One event on its way to those who subscribed to it when it happened. told: how many have it."""

    event: Event
    gripper: str
    body: bytes
    targets: tuple[Subscription, ...] = ()
    told: int = 0
    whole: bytes = b""

    @classmethod
    def of(cls, event: Event, item: Item, gripper: str, targets: tuple[Subscription, ...] = ()) -> Telling:
        """Encode it."""
        if isinstance(item, GripperState):
            body = b'"state":' + item.to_json()
            return cls(event, gripper, body, targets, whole=body + b',"dropped":0}}\n')
        if isinstance(item, CommandOutcome):
            return cls(event, gripper, b'"outcome":' + item.to_json(), targets)
        name = b'"gripper":' + to_json(gripper)
        if event is Event.FAULT:
            return cls(event, gripper, name + b',"fault":' + to_json(item), targets)
        return cls(event, gripper, name + b',"link":' + to_json(item), targets)


class FanOut:
    """All subscriptions of the daemon's sockets. call_soon: runs a function in the event loop's next turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._subscriptions: dict[tuple[Event, str], tuple[Subscription, ...]] = {}
        self._waiting: deque[Telling] = deque()
        self._states_waiting = 0
        self._scheduled = False
        self.counters = {"states_encoded": 0, "states_shed": 0}

    @property
    def subscriptions(self) -> int:
        """How many there are."""
        return len({id(each) for targets in self._subscriptions.values() for each in targets})

    def add(self, subscription: Subscription) -> None:
        """It gets what happens from now on."""
        for event in subscription.events:
            for gripper in subscription.grippers:
                self._subscriptions[event, gripper] = (*self._subscriptions.get((event, gripper), ()), subscription)

    def remove(self, subscription: Subscription) -> None:
        """It gets nothing more, also of what happened already."""
        subscription.ended = True
        for event in subscription.events:
            for gripper in subscription.grippers:
                left = tuple(each for each in self._subscriptions.pop((event, gripper)) if each is not subscription)
                if left:
                    self._subscriptions[event, gripper] = left

    def listen(self, event: Event, item: Item, gripper: str) -> None:
        """The store's listener."""
        targets = self._subscriptions.get((event, gripper), ()) + self._subscriptions.get((event, ALL), ())
        if not targets:
            return
        if event is Event.STATE:
            self.counters["states_encoded"] += 1
            self._states_waiting += 1
            if self._states_waiting > TELLINGS_KEPT:
                self._shed()
        self._waiting.append(Telling.of(event, item, gripper, targets))
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Tell the next ones."""
        left = WRITES_PER_TURN
        try:
            while self._waiting and left > 0:
                telling = self._waiting[0]
                now = telling.targets[telling.told : telling.told + left]
                left -= len(now)
                telling.told += len(now)
                if telling.told == len(telling.targets):
                    self._waiting.popleft()
                    self._states_waiting -= telling.event is Event.STATE
                for subscription in now:
                    if not subscription.ended:
                        subscription.tell(telling)
        finally:  # also if telling fails: that is a defect, but the others want to be told
            self._scheduled = bool(self._waiting)
            if self._scheduled:
                self._call_soon(self._turn)

    def _shed(self) -> None:
        """The oldest state is lost to those who do not have it yet."""
        oldest = next(each for each in self._waiting if each.event is Event.STATE)
        self._waiting.remove(oldest)
        self._states_waiting -= 1
        self.counters["states_shed"] += 1
        for subscription in oldest.targets[oldest.told :]:
            if not subscription.period_s:
                subscription.lose(oldest.gripper)


def check_subscribe(params: Subscribe) -> Collection[Event]:
    """The events asked for. Raises InvalidParamsError."""
    if not math.isfinite(params.max_rate_hz) or params.max_rate_hz < 0:
        raise InvalidParamsError(
            f"max_rate_hz is {params.max_rate_hz}: give a rate in Hz, or leave it out for every round"
        )
    if not params.events:
        raise InvalidParamsError(f"events is empty; valid: {', '.join(event.value for event in Event)}")
    return params.events
