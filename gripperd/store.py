"""The only writer of published state. Everybody else gets immutable copies.

Rules
1. Every round of every gripper is published, valid or not, with the next `seq`.
2. Listeners are called synchronously, in the order of their subscriptions. A listener that raises is a defect: it is
   logged and removed, the others go on.
3. The store keeps one state per gripper. What a slow listener misses is the listener's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from gripperd.contract import Activation, CommandOutcome, Event, Fault, GripperState, Link
from gripperd.contract.service import Listener

log = structlog.get_logger("gripperd.store")


@dataclass(eq=False, slots=True)
class _Subscription:
    grippers: frozenset[str] | None
    events: frozenset[Event]
    listener: Listener


class Store:
    """Latest state of every gripper, and who listens."""

    def __init__(self, boot_id: str) -> None:
        self.boot_id = boot_id
        self._latest: dict[str, GripperState] = {}
        self._faults: dict[str, Fault | None] = {}
        self._subscriptions: list[_Subscription] = []

    def add(self, gripper: str) -> None:
        """It will be published. One that was here before goes on with its numbers."""
        self._latest.setdefault(gripper, GripperState(gripper=gripper, boot_id=self.boot_id, seq=0))

    def latest(self, gripper: str) -> GripperState:
        """The latest round."""
        return self._latest[gripper]

    def next_seq(self, gripper: str) -> int:
        """Number of the round that is about to be published."""
        return self._latest[gripper].seq + 1

    def publish_state(self, state: GripperState) -> None:
        """Publish one round. Changes of link and fault against the round before are events of their own."""
        before = self._latest[state.gripper]
        if state.seq != before.seq + 1:
            raise ValueError(f"{state.gripper}: round {state.seq} after round {before.seq}")
        self._latest[state.gripper] = state
        if state.link is not before.link:
            self._tell(Event.LINK, state.link, state.gripper)
        answered = state.activation is not Activation.UNKNOWN
        if answered and state.fault != self._faults.get(state.gripper):
            self._faults[state.gripper] = state.fault
            self._tell(Event.FAULT, state.fault, state.gripper)
        self._tell(Event.STATE, state, state.gripper)

    def publish_outcome(self, outcome: CommandOutcome) -> None:
        """Publish the end of a command."""
        self._tell(Event.OUTCOME, outcome, outcome.gripper)

    def subscribe(
        self, grippers: Collection[str] | None, events: Collection[Event], listener: Listener
    ) -> Callable[[], None]:
        """Call the listener for these events. grippers: None: all, also those that come later. Returns what ends the
        subscription; calling it twice does no harm.
        """
        chosen = None if grippers is None else frozenset(grippers)
        subscription = _Subscription(chosen, frozenset(events), listener)
        self._subscriptions.append(subscription)

        def end() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

        return end

    def _tell(self, event: Event, item: GripperState | CommandOutcome | Fault | Link | None, gripper: str) -> None:
        for subscription in tuple(self._subscriptions):
            if event in subscription.events and (subscription.grippers is None or gripper in subscription.grippers):
                try:
                    subscription.listener(event, item, gripper)
                except Exception:
                    log.exception("listener_failed", gripper=gripper, kind=event.value)
                    self._subscriptions.remove(subscription)
