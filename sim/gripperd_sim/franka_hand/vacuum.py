"""The vacuum gripper (cobot-pump) of libfranka's protocol, version 1, and its physics. Pure.

Same header and statuses as the hand's. Vacuum: u8 in 10 mbar, u8 profile, i64 timeout [ms]; drop off: i64 timeout. [S]
The physics is simple and its numbers are ours: no pump was measured [?].
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.wire import ABORTED, FAIL, SUCCESS, UNSUCCESSFUL, Request
from gripperd_sim.history import History, Kind

VERSION = 1
TCP_PORT = 1339
CONNECT, VACUUM, DROP_OFF, STOP = range(4)
NAMES = ("connect", "vacuum", "drop_off", "stop")
PAYLOADS = {CONNECT: "<HH", VACUUM: "<BBq", DROP_OFF: "<q", STOP: "<"}
GREEN, YELLOW, ORANGE, RED = range(4)
MBAR_PER_STEP = 10
RATE_MBAR_S = 800.0
"""How fast vacuum builds up on a part, and goes [mbar/s]. [?]"""
MAX_MBAR = 850
"""A pump reaches no more. [?]"""
MAX_PROFILE = 3
STATE_RATE_HZ = 15.0
"""[?]; the hand's."""


@dataclass(slots=True)
class _Pending:
    connection: int
    request: Request
    target_mbar: float
    deadline_s: float


class VacuumGripper:
    """A pump and its part. answers: (connection, bytes)."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.history = History()
        self.answers: list[tuple[int, bytes]] = []
        self.part_present = False
        self.part_detached = False
        self.vacuum_mbar = 0.0
        self._target_mbar = 0.0
        self._pending: _Pending | None = None
        self._now_s = self._booted_s = now_s
        self._last_id = 0

    def request(self, connection: int, request: Request, now_s: float) -> None:
        """A message of a client, Connect excepted."""
        self.advance(now_s)
        values: tuple[float, ...] = request.values
        self.history.add(
            now_s, Kind.REQUEST, connection=connection, command=request.name, number=request.number,
            values=tuple(int(each) for each in values), hex=request.data.hex(),
        )  # fmt: skip
        if request.command not in (VACUUM, DROP_OFF, STOP):
            self._answer(connection, request, FAIL)
            return
        self._abort()
        if request.command == STOP:
            self._target_mbar = 0.0
            self._answer(connection, request, SUCCESS)
        elif not values or values[-1] < 0 or (request.command == VACUUM and values[1] > MAX_PROFILE):
            self._answer(connection, request, FAIL)
        else:
            target_mbar = min(values[0] * MBAR_PER_STEP, MAX_MBAR) if request.command == VACUUM else 0.0
            self._target_mbar = target_mbar
            self._pending = _Pending(connection, request, target_mbar, now_s + values[-1] / 1000)
            self.advance(now_s)

    def _abort(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._answer(pending.connection, pending.request, ABORTED)

    def _answer(self, connection: int, request: Request, status: int) -> None:
        self.answers.append((connection, wire.answer(request.command, request.number, status)))
        told = wire.STATUS_NAMES[status]
        self.history.add(self._now_s, Kind.REPLY, connection=connection, command=request.name, status=told)

    def _reached_s(self) -> float:
        """When the vacuum is where it is to be; never without a part that it could hold on to."""
        if self._target_mbar > self.vacuum_mbar and not self.part_present:
            return math.inf
        return self._now_s + abs(self._target_mbar - self.vacuum_mbar) / RATE_MBAR_S

    def next_event_s(self) -> float | None:
        """When a pending command will be answered; None: nothing is pending."""
        return None if self._pending is None else min(self._reached_s(), self._pending.deadline_s)

    def advance(self, now_s: float) -> None:
        """Let time pass."""
        while (next_s := self.next_event_s()) is not None and next_s <= now_s:
            reached = self._reached_s() <= next_s
            self._flow(next_s)
            pending, self._pending = self._pending, None
            assert pending is not None
            if reached and pending.request.command == DROP_OFF:
                self.part_detached = self.part_present
            if not reached:
                self._target_mbar = 0.0
            self._answer(pending.connection, pending.request, SUCCESS if reached else UNSUCCESSFUL)
        self._flow(now_s)

    def _flow(self, now_s: float) -> None:
        step_mbar = RATE_MBAR_S * max(0.0, now_s - self._now_s)
        self._now_s = max(self._now_s, now_s)
        target_mbar = self._target_mbar if self.part_present else 0.0
        gap_mbar = target_mbar - self.vacuum_mbar
        self.vacuum_mbar += math.copysign(min(step_mbar, abs(gap_mbar)), gap_mbar)

    def put_part(self, now_s: float) -> None:
        """A part is under the cups."""
        self.advance(now_s)
        self.part_present, self.part_detached = True, False

    def take_part(self, now_s: float) -> None:
        """It is gone, held or not."""
        self.advance(now_s)
        self.part_detached, self.part_present = self.vacuum_mbar > 0, False
        self.vacuum_mbar = 0.0

    def datagram(self, now_s: float) -> bytes:
        """16 bytes: `<I???Bii`."""
        self.advance(now_s)
        self._last_id = max(self._last_id + 1, round((now_s - self._booted_s) * 1000))
        pumping = self._target_mbar > 0
        in_range = pumping and abs(self.vacuum_mbar - self._target_mbar) < MBAR_PER_STEP
        flags = (in_range, self.part_detached, self.part_present)
        power = 100 if pumping and not in_range else 20 if pumping else 0
        return struct.pack("<I???Bii", self._last_id & 0xFFFFFFFF, *flags, GREEN, power, round(self.vacuum_mbar))

    def state(self, now_s: float) -> dict[str, object]:
        """The truth, for people and tests."""
        self.advance(now_s)
        return {
            "vacuum_mbar": self.vacuum_mbar,
            "part_present": self.part_present,
            "part_detached": self.part_detached,
            "pending": self._pending.request.name if self._pending is not None else None,
        }
