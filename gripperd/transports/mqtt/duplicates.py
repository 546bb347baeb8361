"""Which command messages came before. Pure.

Rules
1. A message is known by its correlation data and its response topic: two programs that both count from 1 have
   response topics of their own. One without correlation data is never a duplicate.
2. The same data with another verb or payload is a mistake of the sender, and is not carried out.
3. What is older than `WINDOW_S` is forgotten, and of more than `MOST` the oldest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

WINDOW_S = 30.0
"""How long a command is remembered [s]: contract section 5."""
MOST = 4096
"""Commands remembered: more than 100 a second for the whole window."""

Answer = TypeVar("Answer")


class ReusedError(Exception):
    """The correlation data belongs to another command."""


@dataclass(slots=True)
class _Known(Generic[Answer]):
    content: Hashable
    answer: Answer
    at_s: float


class Duplicates(Generic[Answer]):
    """Remembers what was answered, or will be."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Known[Answer]] = OrderedDict()

    def find(self, key: Hashable, content: Hashable, now_s: float) -> Answer | None:
        """The answer to the first one, or None if this is the first. Raises ReusedError."""
        self._forget(now_s)
        known = self._known.get(key)
        if known is None:
            return None
        if known.content != content:
            raise ReusedError
        return known.answer

    def remember(self, key: Hashable, content: Hashable, answer: Answer, now_s: float) -> None:
        """This one was carried out."""
        self._known[key] = _Known(content, answer, now_s)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def _forget(self, now_s: float) -> None:
        while self._known and next(iter(self._known.values())).at_s < now_s - WINDOW_S:
            self._known.popitem(last=False)
