"""The record of what a simulated device did: append-only, bounded, stamped with the device's own time.

Pure. It is the oracle of tests and the content of `--log`; it knows nothing of a device or of a wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

HISTORY_LIMIT = 20_000
"""Events kept per device; the oldest go first. About seven minutes of a master that polls 50 times a second."""

Field = bool | int | float | str | tuple[float, ...] | None


class Kind(StrEnum):
    """What an event tells; the names of its fields in brackets."""

    REQUEST = "request"  # a frame for this device arrived [hex, unit, function, address, count, values]
    REPLY = "reply"  # [hex, request, function, values, exception]; `request` is the seq of the request event
    SILENCE = "silence"  # a frame was not answered [reason, request]
    WRITE = "write"  # registers were written [address, values, request]
    COMMAND = "command"  # a control word was taken up [number, word, action, reason, position, force, speed, request]
    ACTIVATION = "activation"  # [stage]: inactive, homing, active, jammed, released, aborted
    MOTION_START = "motion_start"  # [cause, from_m, target_m, speed_m_s, force_n, command]
    MOTION_END = "motion_end"  # [outcome, width_m, command]: reached, contact, superseded, stopped, object_lost, ...
    OBJECT = "object"  # [change, width_m]: put, taken, slipped, lost, supplied
    WORLD = "world"  # something else a person did [change, ...]
    STATUS = "status"  # the status byte changed [status, before]
    FAULT = "fault"  # the fault byte changed [faults, before]
    POWER = "power"  # [on]
    # A line fault struck [fault, did, request_hex, hex]; hex: what is left of the reply. One more kind of `fault` than
    # there are faults: merged, a reply goes out with those that were held back.
    LINE_FAULT = "line_fault"
    CONNECTION = "connection"  # of a client over TCP [connection, change, peer]: opened, finished, reset, by whom
    PORT = "port"  # [change, name]: plugged, unplugged, bursts; of the line's port, with the name of its pty


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened at t_s [s, the device's time]. `seq` counts from 1 and never repeats."""

    seq: int
    t_s: float
    kind: Kind
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Flat form for JSON."""
        return {"seq": self.seq, "t_s": self.t_s, "kind": str(self.kind), **self.fields}


class History:
    """The events of one device, oldest first."""

    def __init__(self, limit: int = HISTORY_LIMIT) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._last_seq = 0
        self.listener: Callable[[Event], None] | None = None
        """Called with every new event; for a log file."""

    def add(self, t_s: float, kind: Kind, **fields: Field) -> Event:
        """Append one event and return it."""
        self._last_seq += 1
        event = Event(self._last_seq, t_s, kind, fields)
        self._events.append(event)
        if self.listener is not None:
            self.listener(event)
        return event

    @property
    def last_seq(self) -> int:
        """Number of the newest event; 0 when there was none."""
        return self._last_seq

    def since(self, seq: int) -> list[Event]:
        """The kept events that are newer than number `seq`."""
        return [event for event in self._events if event.seq > seq]

    def of(self, *kinds: Kind | str) -> list[Event]:
        """The kept events of these kinds."""
        wanted = {Kind(kind) for kind in kinds}
        return [event for event in self._events if event.kind in wanted]

    def last(self, kind: Kind | str) -> Event | None:
        """The newest kept event of this kind."""
        return next((event for event in reversed(self._events) if event.kind == Kind(kind)), None)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)
