"""What goes wrong between one device and the line: the one hook every reply passes.

Pure. A fault is armed by number of replies or by time; faults armed together apply together. The hook returns any
number of transmissions for a reply, each with its own delay, so that further faults need no other place.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

WRITE_FUNCTIONS = (0x06, 0x10)


class LineFaultError(ValueError):
    """A fault that cannot be armed like this; the text says what can."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes to transmit delay_s after the reply was formed."""

    delay_s: float
    data: bytes


class LineFaults:
    """The armed faults of one device."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._lose = 0
        self._drop_acks = 0
        self._corrupt = 0
        self._delay = 0
        self._delay_s = 0.0
        self._deaf_until_s = float("-inf")

    def lose(self, count: int) -> None:
        """The next `count` replies never arrive; the requests were carried out."""
        self._lose = _whole("count", count)

    def drop_acks(self, count: int) -> None:
        """The next `count` acknowledgements of writes never arrive."""
        self._drop_acks = _whole("count", count)

    def corrupt(self, count: int) -> None:
        """The next `count` replies arrive with one bit flipped."""
        self._corrupt = _whole("count", count)

    def delay(self, count: int, delay_s: float) -> None:
        """The next `count` replies arrive delay_s late; what is asked meanwhile is answered meanwhile."""
        if not 0 <= delay_s < float("inf"):
            raise LineFaultError(f"delay_s = {delay_s}: give 0 or more seconds")
        self._delay, self._delay_s = _whole("count", count), delay_s

    def silence(self, until_s: float) -> None:
        """Until then the device neither hears nor answers."""
        self._deaf_until_s = until_s

    def armed(self) -> dict[str, float]:
        """What is still armed, by name."""
        counts = {"lose": self._lose, "drop_acks": self._drop_acks, "corrupt": self._corrupt, "delay": self._delay}
        return {name: count for name, count in counts.items() if count}

    def hears(self, now_s: float) -> bool:
        """Whether a request reaches the device."""
        return now_s >= self._deaf_until_s

    def outgoing(self, request: bytes, reply: bytes) -> Iterable[Outgoing]:
        """What the line carries instead of `reply`."""
        if self._lose:
            self._lose -= 1
            return ()
        if self._drop_acks and request[1] in WRITE_FUNCTIONS:
            self._drop_acks -= 1
            return ()
        if self._corrupt:
            self._corrupt -= 1
            reply = self._flip_bit(reply)
        delay_s = 0.0
        if self._delay:
            self._delay -= 1
            delay_s = self._delay_s
        return (Outgoing(delay_s, reply),)

    def _flip_bit(self, reply: bytes) -> bytes:
        bit = self._random.randrange(8 * len(reply))
        damaged = bytearray(reply)
        damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)


def _whole(name: str, value: int) -> int:
    if value < 0:
        raise LineFaultError(f"{name} = {value}: give 0 (disarm) or more")
    return value
