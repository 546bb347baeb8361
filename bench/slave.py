"""The slave of the bench: one gripper on a paced pty, in a process of its own, which stamps what it sees.

Rules
1. A pty has no bits: a request is there as a whole as soon as it is written. "First byte on the wire" is the moment
   at which this process sees it. From then its bytes take their time, then 3.5 characters, then the turnaround; then
   the reply's bytes are handed over when they would be complete, in groups as an adapter does, or in its bursts.
2. Stamps are CLOCK_MONOTONIC, which all processes of the machine share. They stay in memory until the end.
3. It must not be what is measured: it asks for a real-time priority, sleeps with exact timers, spins the last
   microseconds before each deadline, and reports how late it was.
4. Commands on its standard input, one a line: `silent` (answer nothing until a write comes), `dump` (write the record
   and end). It ends when its input does, so that it outlives nobody.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import heapq
import json
import os
import random
import select
import sys
import time
import tty
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from bench.rtu import CONTROL, WRITE_MULTIPLE, is_whole, read_reply, reply_bytes, request_bytes, write_reply
from bench.timer import spin_until
from bench.wire_time import Profile

SPIN_S = 100e-6
"""Before a deadline it does not sleep [s]: more than a wake-up usually takes on a small machine."""
GROUP_S = 0.0005
"""Bytes are handed over in groups of this long [s], at the time of the last one: never early. USB is coarser."""
PRIORITY = 10
"""Real-time priority, where permitted."""
PR_SET_TIMERSLACK = 29
ACTIVE_AT_REST = 0x00F1
"""Status word: rACT, gSTA 3, gOBJ 3, not moving. docs/rg75.md"""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Which replies are late: a share (0 to 1) of the reads, by a time between two limits [s]."""

    share: float = 0.0
    least_s: float = 0.0
    most_s: float = 0.0


@dataclass(slots=True)
class Record:
    """One entry per request, in order; times [s]. planned_s, handing_s and delivered_s are of the last byte of its
    reply: when it was due, when handing it over began, when it was over; 0 where there was no reply.
    """

    function: array[int] = field(default_factory=lambda: array("i"))
    arrival_s: array[float] = field(default_factory=lambda: array("d"))
    planned_s: array[float] = field(default_factory=lambda: array("d"))
    handing_s: array[float] = field(default_factory=lambda: array("d"))
    delivered_s: array[float] = field(default_factory=lambda: array("d"))
    lateness_s: array[float] = field(default_factory=lambda: array("d"))
    late_replies: int = 0
    collisions: int = 0
    bad_frames: int = 0

    def began(self, function: int, arrival_s: float) -> int:
        """A request came; returns its number."""
        self.function.append(function)
        self.arrival_s.append(arrival_s)
        for column in (self.planned_s, self.handing_s, self.delivered_s):
            column.append(0.0)
        return len(self.function) - 1

    def as_json(self) -> str:
        """For the process that joins it with its own stamps."""
        columns = ("function", "arrival_s", "planned_s", "handing_s", "delivered_s", "lateness_s")
        counts = ("late_replies", "collisions", "bad_frames")
        return json.dumps(
            {name: list(getattr(self, name)) for name in columns} | {name: getattr(self, name) for name in counts}
        )


class Slave:
    """See the module. paced: False answers at once, to see how fast it could be."""

    def __init__(self, master: int, profile: Profile, paced: bool, lateness: Lateness, seed: int) -> None:
        self.record = Record()
        self._master = master
        self._profile = profile
        self._paced = paced
        self._lateness = lateness
        self._random = random.Random(seed)
        self._began_s = time.monotonic()
        self._buffer = bytearray()
        self._heard_s = 0.0
        self._busy_until_s = 0.0
        self._silent = False
        self._reads = 0
        self._due: list[tuple[float, int, bytes, int]] = []
        self._pieces = 0

    def run(self, control: int) -> None:
        """Serve until told to dump, or until the control descriptor ends."""
        commands = b""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic() - SPIN_S) if self._due else None
            ready, _, _ = select.select((self._master, control), (), (), wait_s)
            if self._master in ready:
                self._hear(time.monotonic())
            if control in ready:
                data = os.read(control, 4096)
                commands += data
                *lines, commands = commands.split(b"\n")
                self._silent = self._silent or b"silent" in lines
                if not data or b"dump" in lines:
                    return
            self._deliver()

    def _hear(self, now_s: float) -> None:
        if not self._buffer:
            self._heard_s = now_s
        self._buffer += os.read(self._master, 4096)
        while (length := request_bytes(bytes(self._buffer))) and len(self._buffer) >= length:
            frame = bytes(self._buffer[:length])
            del self._buffer[:length]
            if not is_whole(frame):
                self.record.bad_frames += 1
                self._buffer.clear()
                return
            self._take(frame, self._heard_s)
            self._heard_s = now_s

    def _take(self, frame: bytes, arrival_s: float) -> None:
        number = self.record.began(frame[1], arrival_s)
        self.record.collisions += arrival_s < self._busy_until_s
        if frame[1] == WRITE_MULTIPLE:
            assert int.from_bytes(frame[2:4], "big") == CONTROL, "the bench writes nothing else"
            self._silent = False
            reply = write_reply(frame)
        else:
            self._reads += 1
            reply = read_reply(frame[1], self._status()[: (reply_bytes(frame) - 5) // 2])
        if not self._silent:
            self._schedule(number, reply, arrival_s, len(frame))

    def _status(self) -> tuple[int, int, int, int]:
        """At rest. Where replies can be late, the position is the number of the read that it answers."""
        position = self._reads & 0xFF if self._lateness.share else 128
        return ACTIVE_AT_REST, position << 8, 0x8080, 25 << 8 | 24

    def _schedule(self, number: int, reply: bytes, arrival_s: float, frame_bytes: int) -> None:
        if not self._paced and not self._lateness.share:
            self._push(arrival_s, reply, number)
            return
        profile = self._profile
        one_s = profile.character_s if self._paced else 0.0
        start_s = max(arrival_s, self._busy_until_s) + frame_bytes * one_s + profile.turnaround_s
        start_s += profile.gap_s if self._paced else 0.0
        if self._random.random() < self._lateness.share:
            self.record.late_replies += 1
            start_s += self._random.uniform(self._lateness.least_s, self._lateness.most_s)
        else:
            self._busy_until_s = start_s + len(reply) * one_s
        group = max(1, int(GROUP_S / one_s + 1e-6)) if one_s else len(reply)
        for end in [*range(group, len(reply), group), len(reply)]:
            piece = reply[(end - 1) // group * group : end]
            self._push(self._handed_over_s(start_s + end * one_s), piece, number if end == len(reply) else -1)

    def _handed_over_s(self, complete_s: float) -> float:
        burst_s = self._profile.burst_s
        if not burst_s:
            return complete_s
        return self._began_s + -(-(complete_s - self._began_s) // burst_s) * burst_s

    def _push(self, due_s: float, piece: bytes, number: int) -> None:
        self._pieces += 1
        heapq.heappush(self._due, (due_s, self._pieces, piece, number))

    def _deliver(self) -> None:
        while self._due and self._due[0][0] - SPIN_S <= time.monotonic():
            due_s, _, piece, number = heapq.heappop(self._due)
            handing_s = spin_until(due_s)
            os.write(self._master, piece)
            record = self.record
            record.lateness_s.append(handing_s - due_s)
            if number >= 0:
                record.delivered_s[number] = time.monotonic()
                record.planned_s[number], record.handing_s[number] = due_s, handing_s


def be_prompt() -> bool:
    """Exact timers, no garbage collection, real-time priority; whether the last was permitted."""
    gc.disable()
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return False
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.slave", description="One gripper on a paced pty.")
    parser.add_argument("--baudrate", type=int, required=True)
    parser.add_argument("--turnaround-s", type=float, required=True)
    parser.add_argument("--burst-s", type=float, default=0.0)
    parser.add_argument("--unpaced", action="store_true")
    parser.add_argument("--late-share", type=float, default=0.0)
    parser.add_argument("--late-least-s", type=float, default=0.0)
    parser.add_argument("--late-most-s", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, required=True, help="file for the stamps")
    return parser.parse_args()


def main() -> None:
    """Open a pty, say where, serve, write the record."""
    options = _options()
    profile = Profile("slave", options.baudrate, options.turnaround_s, options.burst_s)
    lateness = Lateness(options.late_share, options.late_least_s, options.late_most_s)
    master, held = os.openpty()  # held: the pty outlives a client that closes it
    tty.setraw(held)
    slave = Slave(master, profile, not options.unpaced, lateness, options.seed)
    realtime = be_prompt()
    sys.stdout.write(json.dumps({"port": os.ttyname(held), "realtime": realtime}) + "\n")
    sys.stdout.flush()
    slave.run(sys.stdin.fileno())
    options.record.write_text(slave.record.as_json(), encoding="ascii")


if __name__ == "__main__":
    main()
