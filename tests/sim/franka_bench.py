"""A pure hand with a client, in virtual time."""

from __future__ import annotations

import struct
from typing import Any

from gripperd_sim.franka_hand import FrankaHand, HandOptions
from gripperd_sim.franka_hand.motion import Answer
from gripperd_sim.franka_hand.wire import PAYLOADS, STATUS_NAMES
from gripperd_sim.jaw import GraspObject


class Client:
    """Sends to a hand at a time that the test moves, and collects (number, status, when)."""

    def __init__(self, **options: Any) -> None:
        options = {"homed": True, "command_latency_s": 0.0, "homing_s": 2.0} | options
        self.hand = FrankaHand(HandOptions(**options), 0.0)
        self.t_s = 0.0
        self.number = 0
        self.told: dict[int, tuple[str, Any]] = {}

    def send(self, command: int, *values: float) -> int:
        """Returns the request's number."""
        self.number += 1
        body = struct.pack(PAYLOADS[command], *values)
        data = struct.pack("<HII", command, self.number, 10 + len(body)) + body
        self.collect(self.hand.handle(1, data, self.t_s))
        return self.number

    def collect(self, answers: list[Answer] | None = None) -> None:
        for each in self.hand.take_answers() if answers is None else answers:
            command, number, size, status = struct.unpack("<HIIH", each.data)
            assert (command, size) == (each.command, 12)
            assert number not in self.told, "one answer for each"
            self.told[number] = (STATUS_NAMES[status], round(self.t_s, 3))

    def wait(self, duration_s: float) -> None:
        """In steps, so that answers come at their times."""
        end_s = self.t_s + duration_s
        while self.t_s < end_s - 1e-9:
            next_s = self.hand.next_event_s()
            self.t_s = end_s if next_s is None else min(end_s, max(next_s, self.t_s + 1e-6))
            self.hand.advance(self.t_s)
            self.collect()

    def put(self, width_m: float) -> None:
        self.hand.put_object(GraspObject(width_m), self.t_s)

    @property
    def width_m(self) -> float:
        self.hand.advance(self.t_s)
        return self.hand.jaw.width_m

    def state(self) -> tuple[Any, ...]:
        number, width_m, max_m, grasped, temperature_c = struct.unpack("<IddBH", self.hand.datagram(self.t_s))
        return number, width_m, max_m, grasped, temperature_c
