"""Kinds of line faults as a table: names, parameters, and when a fault strikes.

Pure. The control socket, scenario files and the manual are made from this table; what a kind does is elsewhere.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gripperd_sim.operations import Args, OperationError, Param, Type, Value, check_params

MAX_WAIT_S = 3600.0
"""Longest delay, gap or duration [s]: longer than any master waits; more is a slip of the unit."""

MAX_NOISE_BYTES = 256
"""Most random bytes at once: the longest Modbus frame."""

MAX_REGISTERS = 125
"""Most registers of one reply (Modbus application protocol V1.1b3, 6.3)."""

MAX_FRAME_BITS = 8 * 256
"""Bits of the longest Modbus frame."""


class FaultKind(StrEnum):
    """The kinds, in the order in which those that are armed together apply."""

    ECHO = "echo"
    SILENCE = "silence"
    EXCEPTION = "exception"
    LOSE = "lose"
    DROP_ACKS = "drop_acks"
    WRONG_UNIT = "wrong_unit"
    WRONG_FUNCTION = "wrong_function"
    WRONG_COUNT = "wrong_count"
    LENGTHEN = "lengthen"
    CORRUPT = "corrupt"
    TRUNCATE = "truncate"
    NOISE_BEFORE = "noise_before"
    NOISE_AFTER = "noise_after"
    MERGE = "merge"
    SPLIT = "split"
    DELAY = "delay"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table. either: parameters of which at most one is given."""

    doc: str
    params: tuple[Param, ...] = ()
    either: tuple[str, ...] = ()


_COUNT = Param("count", Type.INTEGER, "how often at most; left out: until switched off; 0 disarms", low=0)
_PROBABILITY = Param("probability", Type.NUMBER, "chance of each, seeded; 1 by default", low=0, high=1)
_DURATION = Param(
    "duration_s", Type.NUMBER, "for how long from now; left out: no limit; 0 disarms", low=0, high=MAX_WAIT_S
)
_OF = Param("of", Type.WORD, "which requests; all by default", choices=("reads", "writes", "all"))
_ACKS_ONLY = (_COUNT, _PROBABILITY, _DURATION)
_WHEN = (*_ACKS_ONLY, _OF)

_HEX = Param("hex", Type.HEX, "these bytes")
_RANDOM_BYTES = Param("bytes", Type.INTEGER, "so many random ones; 1 by default", low=1, high=MAX_NOISE_BYTES)
_NOISE = (_HEX, _RANDOM_BYTES, *_WHEN)
_NOISE_EITHER = ("hex", "bytes")


def _seconds(name: str, doc: str) -> Param:
    return Param(name, Type.NUMBER, doc, required=True, low=0, high=MAX_WAIT_S)


def _whole(name: str, doc: str, low: int, high: int, required: bool = False) -> Param:
    return Param(name, Type.INTEGER, doc, required, low, high)


KINDS: Mapping[FaultKind, Kind] = {
    FaultKind.ECHO: Kind(
        "The adapter echoes requests, whatever unit they are for.",
        (_whole("missing_bytes", "so many of its last bytes are missing; 0 by default", 0, 255), *_WHEN),
    ),
    FaultKind.SILENCE: Kind("The device neither hears nor answers.", _WHEN),
    FaultKind.EXCEPTION: Kind(
        "Requests are refused with this exception and not carried out.",
        (_whole("code", "exception code", 1, 255, required=True), *_WHEN),
    ),
    FaultKind.LOSE: Kind("Replies never arrive; the requests are carried out.", _WHEN),
    FaultKind.DROP_ACKS: Kind("Acknowledgements of writes never arrive; the writes are carried out.", _ACKS_ONLY),
    FaultKind.WRONG_UNIT: Kind(
        "Replies name another unit, with a right CRC.",
        (_whole("as_unit", "this one; the next higher one by default", 0, 255), *_WHEN),
    ),
    FaultKind.WRONG_FUNCTION: Kind(
        "Replies name another function, with a right CRC.",
        (_whole("function", "this one; by default 03 and 04, 06 and 10h change places", 1, 127), *_WHEN),
    ),
    FaultKind.WRONG_COUNT: Kind(
        "Replies hold or acknowledge another number of registers, with a right CRC; surplus ones repeat the last.",
        (_whole("registers", "how many", 0, MAX_REGISTERS, required=True), *_WHEN),
    ),
    FaultKind.LENGTHEN: Kind(
        "Replies have surplus bytes before their CRC.",
        (
            *_NOISE[:2],
            Param("right_crc", Type.FLAG, "the CRC fits the longer frame; by default it is the old one"),
            *_WHEN,
        ),
        _NOISE_EITHER,
    ),
    FaultKind.CORRUPT: Kind(
        "Replies arrive with a bit flipped.",
        (
            _whole("bit", "this one, 0 is the lowest of the first byte; random by default", 0, MAX_FRAME_BITS - 1),
            _whole("flips", "so many random ones; 1 by default", 1, MAX_FRAME_BITS),
            *_WHEN,
        ),
        ("bit", "flips"),
    ),
    FaultKind.TRUNCATE: Kind(
        "Replies end early.",
        (_whole("keep_bytes", "after so many bytes; random by default", 1, 255), *_WHEN),
    ),
    FaultKind.NOISE_BEFORE: Kind("Replies come right after noise.", _NOISE, _NOISE_EITHER),
    FaultKind.NOISE_AFTER: Kind("Noise comes right after replies.", _NOISE, _NOISE_EITHER),
    FaultKind.MERGE: Kind(
        "Replies are held back and delivered in one piece with the next one.",
        (
            Param("within_s", Type.NUMBER, "held no longer, then lost; no limit by default", low=0, high=MAX_WAIT_S),
            *_WHEN,
        ),
    ),
    FaultKind.SPLIT: Kind(
        "Replies come in pieces.",
        (
            _seconds("gap_s", "silence between the pieces"),
            _whole("at_byte", "the second piece begins with this byte, counted from 0; random by default", 1, 255),
            Param("every_byte", Type.FLAG, "each byte is a piece"),
            *_WHEN,
        ),
        ("at_byte", "every_byte"),
    ),
    FaultKind.DELAY: Kind(
        "Replies arrive late, with what they said when they were formed; later requests are answered meanwhile.",
        (_seconds("delay_s", "how late"), *_WHEN),
    ),
    FaultKind.REPEAT: Kind("Replies arrive a second time.", (_seconds("delay_s", "how long after the first"), *_WHEN)),
}


@dataclass(frozen=True, slots=True)
class When:
    """When a fault strikes: for each reply (or request) in turn, with this chance, at most count times."""

    count: int | None = None
    probability: float = 1.0
    duration_s: float = math.inf
    of: str = "all"

    def concerns(self, is_write: bool) -> bool:
        """Whether it is meant for such a request."""
        return self.of == "all" or (self.of == "writes") == is_write


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, not armed yet. args: its own parameters, and those of `when` as they were given."""

    kind: FaultKind
    args: Args
    when: When

    @classmethod
    def of_args(cls, kind: FaultKind, args: Args) -> Fault:
        """From parameters that were checked against the table."""
        number = args.optional_number("duration_s")
        when = When(
            args.optional_integer("count"),
            args.number("probability", 1.0),
            math.inf if number is None else number,
            "writes" if kind is FaultKind.DROP_ACKS else args.word("of", "all"),
        )
        return cls(kind, args, when)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes that go to the master delay_s after the reply was formed; a port adds their time on the wire.

    silence_s: the wire is idle so long before them, at least. together: an adapter hands them over as one piece when
    the last is there. on_wire: they have been on the wire with the request (an echo) and need no time of their own.
    """

    delay_s: float
    data: bytes
    silence_s: float = 0.0
    together: bool = False
    on_wire: bool = False


def fault(kind: str, **given: Value) -> Fault:
    """A fault by its name, with the parameters of the control socket. Raises OperationError."""
    try:
        known = FaultKind(kind)
    except ValueError:
        near = difflib.get_close_matches(kind, list(FaultKind), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise OperationError(f"unknown fault {kind!r}.{hint} Valid: {', '.join(FaultKind)}") from None
    row = KINDS[known]
    return Fault.of_args(known, check_params(known, row.params, given, row.either))
