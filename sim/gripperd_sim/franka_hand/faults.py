"""What can go wrong with answers and states on their way: a table of faults, seeded, and the hook that both pass.

Pure. Every kind has random numbers of its own, so that arming one changes nothing about another. Every strike is
counted, and is an event in the hand's history. What can go wrong with whole connections is the server's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from gripperd_sim.franka_hand import wire
from gripperd_sim.franka_hand.motion import Answer
from gripperd_sim.history import History, Kind
from gripperd_sim.operations import Args, Param, Type

MAX_WAIT_S = 3600.0
"""Longest delay or duration [s]; more is a slip of the unit."""
UNKNOWN_STATUS = 9
SMALL_SIZE = wire.HEADER_BYTES // 2
BYTE_GAP_S = 0.003
ANSWER_DELAY_S = 0.5
STATE_DELAY_S = 0.25
"""More than two periods of the real pattern: it arrives behind newer ones."""
OLD_S = 5.0
ALL = "all"
OF = {"connect": (wire.CONNECT,), "motion": (wire.HOMING, wire.GRASP, wire.MOVE), "stop": (wire.STOP,)}


class Fault(StrEnum):
    """The kinds, in the order in which those that are armed together apply."""

    LOSE_ANSWERS = "lose_answers"
    UNKNOWN_STATUS = "unknown_status"
    WRONG_SIZE = "wrong_size"
    SPLIT_ANSWERS = "split_answers"
    DELAY_ANSWERS = "delay_answers"
    LOSE_STATES = "lose_states"
    OLD_STATES = "old_states"
    SHORT_STATES = "short_states"
    DOUBLE_STATES = "double_states"
    DELAY_STATES = "delay_states"


def _number(name: str, doc: str, default: float) -> Param:
    return Param(name, Type.NUMBER, f"{doc}, {default:g} by default", low=0, high=MAX_WAIT_S)


def _whole(name: str, doc: str, default: int, low: int, high: int) -> Param:
    return Param(name, Type.INTEGER, f"{doc}, {default} by default", low=low, high=high)


WHEN = (
    Param("count", Type.INTEGER, "how often at most; once by default, beside the next two without end", low=0),
    Param("probability", Type.NUMBER, "chance of each, seeded", low=0, high=1),
    Param("duration_s", Type.NUMBER, "for how long from now", low=0, high=MAX_WAIT_S),
)
"""When a fault strikes. A count or a duration of 0 disarms it."""
WHICH = Param("of", Type.WORD, "answers to which requests; all by default", choices=(ALL, *OF))


@dataclass(frozen=True, slots=True)
class Row:
    """One kind: its text, and its own parameters."""

    doc: str
    params: tuple[Param, ...] = ()


ROWS: Mapping[Fault, Row] = {
    Fault.LOSE_ANSWERS: Row("Answers are never sent.", (WHICH,)),
    Fault.UNKNOWN_STATUS: Row(
        "Answers have a status that the protocol does not know.",
        (_whole("status", "this one", UNKNOWN_STATUS, 0, 65_535), WHICH),
    ),
    Fault.WRONG_SIZE: Row(
        "Answers have a header whose size cannot be.", (_whole("size", "this one", SMALL_SIZE, 0, 2**32 - 1), WHICH)
    ),
    Fault.SPLIT_ANSWERS: Row(
        "Answers come in single bytes.", (_number("gap_s", "time between them", BYTE_GAP_S), WHICH)
    ),
    Fault.DELAY_ANSWERS: Row(
        "Answers arrive late; later ones may overtake them.", (_number("delay_s", "how late", ANSWER_DELAY_S), WHICH)
    ),
    Fault.LOSE_STATES: Row("States are lost on the network."),
    Fault.OLD_STATES: Row("States arrive with an older message id.", (_number("age_s", "older by this", OLD_S),)),
    Fault.SHORT_STATES: Row(
        "States arrive cut short.", (_whole("keep_bytes", "so many are left", wire.STATE_BYTES - 1, 0, 22),)
    ),
    Fault.DOUBLE_STATES: Row("States arrive twice."),
    Fault.DELAY_STATES: Row(
        "States arrive late, with what they said when they were formed: behind newer ones.",
        (_number("delay_s", "how late", STATE_DELAY_S),),
    ),
}


@dataclass(slots=True)
class _Armed:
    args: Args
    left: float
    until_s: float

    @property
    def probability(self) -> float:
        return self.args.number("probability", 1.0)


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent delay_s [s] after it was formed, in pieces gap_s [s] apart."""

    pieces: tuple[bytes, ...]
    delay_s: float = 0.0
    gap_s: float = 0.0


class Faults:
    """What is armed for one hand, and how often each kind struck."""

    def __init__(self, history: History, seed: int = 0) -> None:
        self._history = history
        self._armed: dict[Fault, _Armed] = {}
        self._struck: dict[Fault, int] = {}
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Begin the random numbers anew."""
        self._random = {fault: Random(f"{seed} {fault}") for fault in Fault}

    def arm(self, fault: Fault, now_s: float, args: Args | None = None) -> None:
        """From now on; replaces one of the same kind. A count or a duration of 0 disarms it."""
        args = args or Args()
        duration_s = args.optional_number("duration_s")
        lasting = duration_s is not None or "probability" in args.values
        left = args.number("count", math.inf if lasting else 1)
        self._armed.pop(fault, None)
        if left > 0 and duration_s != 0:
            self._armed[fault] = _Armed(args, left, math.inf if duration_s is None else now_s + duration_s)

    def clear(self) -> None:
        """Disarm all."""
        self._armed.clear()

    def armed(self, now_s: float) -> dict[str, dict[str, object]]:
        """What is armed: its parameters, with the strikes left as count."""
        found: dict[str, dict[str, object]] = {}
        for fault in Fault:
            armed = self._armed.get(fault)
            if armed is not None and now_s < armed.until_s:
                count = {} if math.isinf(armed.left) else {"count": int(armed.left)}
                found[str(fault)] = {**armed.args.values, **count}
        return found

    def struck(self) -> dict[str, int]:
        """How often each kind struck so far."""
        return {str(fault): self._struck[fault] for fault in Fault if fault in self._struck}

    # --- what passes

    def answer(self, answer: Answer, now_s: float) -> Sending | None:
        """What is sent instead of an answer; None: nothing."""
        if self._strikes(Fault.LOSE_ANSWERS, answer, now_s, b"", "lost") is not None:
            return None
        data = answer.data
        args = self._due(Fault.UNKNOWN_STATUS, now_s, answer.command)
        if args is not None:
            status = args.integer("status", UNKNOWN_STATUS)
            data = data[: wire.HEADER_BYTES] + struct.pack("<H", status) + data[wire.HEADER_BYTES + 2 :]
            self._strike(Fault.UNKNOWN_STATUS, answer.connection, now_s, data, f"status {status}")
        args = self._due(Fault.WRONG_SIZE, now_s, answer.command)
        if args is not None:
            size = args.integer("size", SMALL_SIZE)
            data = data[:6] + struct.pack("<I", size) + data[wire.HEADER_BYTES :]
            self._strike(Fault.WRONG_SIZE, answer.connection, now_s, data, f"size {size}")
        split = self._strikes(Fault.SPLIT_ANSWERS, answer, now_s, data, "single bytes")
        late = self._strikes(Fault.DELAY_ANSWERS, answer, now_s, data, "late")
        return Sending(
            (data,) if split is None else tuple(data[n : n + 1] for n in range(len(data))),
            0.0 if late is None else late.number("delay_s", ANSWER_DELAY_S),
            0.0 if split is None else split.number("gap_s", BYTE_GAP_S),
        )

    def state(self, data: bytes, connection: int, now_s: float) -> list[Sending]:
        """What is sent to a connection instead of a datagram."""
        if self._due(Fault.LOSE_STATES, now_s) is not None:
            self._strike(Fault.LOSE_STATES, connection, now_s, b"", "lost")
            return []
        args = self._due(Fault.OLD_STATES, now_s)
        if args is not None:
            (number,) = struct.unpack_from("<I", data)
            data = struct.pack("<I", max(0, number - round(args.number("age_s", OLD_S) * 1000))) + data[4:]
            self._strike(Fault.OLD_STATES, connection, now_s, data, "older message id")
        args = self._due(Fault.SHORT_STATES, now_s)
        if args is not None:
            data = data[: args.integer("keep_bytes", wire.STATE_BYTES - 1)]
            self._strike(Fault.SHORT_STATES, connection, now_s, data, f"{len(data)} bytes")
        sent = [Sending((data,))]
        if self._due(Fault.DOUBLE_STATES, now_s) is not None:
            sent *= 2
            self._strike(Fault.DOUBLE_STATES, connection, now_s, data, "twice")
        args = self._due(Fault.DELAY_STATES, now_s)
        if args is not None:
            delay_s = args.number("delay_s", STATE_DELAY_S)
            sent = [Sending((data,), delay_s) for _ in sent]
            self._strike(Fault.DELAY_STATES, connection, now_s, data, f"{delay_s:g} s late")
        return sent

    # --- when they strike

    def _strikes(self, fault: Fault, answer: Answer, now_s: float, data: bytes, did: str) -> Args | None:
        args = self._due(fault, now_s, answer.command)
        if args is not None:
            self._strike(fault, answer.connection, now_s, data, did)
        return args

    def _due(self, fault: Fault, now_s: float, command: int | None = None) -> Args | None:
        """Parameters of the armed fault of this kind if it is to strike now."""
        armed = self._armed.get(fault)
        if armed is None:
            return None
        if now_s >= armed.until_s:
            del self._armed[fault]
            return None
        of = armed.args.word("of", ALL)
        if command is not None and of != ALL and command not in OF[of]:
            return None
        if armed.probability < 1 and self._random[fault].random() >= armed.probability:
            return None
        return armed.args

    def _strike(self, fault: Fault, connection: int, now_s: float, data: bytes, did: str) -> None:
        armed = self._armed[fault]
        armed.left -= 1
        if armed.left <= 0:
            del self._armed[fault]
        self._struck[fault] = self._struck.get(fault, 0) + 1
        self._history.add(now_s, Kind.LINE_FAULT, fault=str(fault), did=did, connection=connection, hex=data.hex())
