"""Bytes of one connection to lines, in order; but some may be taken ahead of those before them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gripperd.contract import MAX_LINE_BYTES


class LineTooLongError(ValueError):
    """More than MAX_LINE_BYTES without a newline."""


class LineBuffer:
    """What has arrived and is not handled yet. taken: how many lines were handed out in order."""

    def __init__(self) -> None:
        self.taken = 0
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """More has arrived."""
        self._bytes += data

    def clear(self) -> None:
        """Forget the rest."""
        self._bytes.clear()

    def next(self) -> bytes | None:
        """The next whole line, without its newline. Raises LineTooLongError."""
        end = self._bytes.find(b"\n", 0, MAX_LINE_BYTES)
        if end < 0:
            if len(self._bytes) >= MAX_LINE_BYTES:
                raise LineTooLongError(f"a line is longer than {MAX_LINE_BYTES} bytes")
            return None
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        self.taken += 1
        return line

    def overtaking(self, part: bytes, wanted: Callable[[bytes], bool]) -> Iterator[tuple[int, bytes]]:
        """Take out whole lines that contain `part` and are wanted. With each comes the number of the line that follows
        it: all with lower numbers (`taken` counts them) arrived before it.
        """
        found = self._bytes.find(part)
        while found >= 0:
            begin, end = self._bytes.rfind(b"\n", 0, found) + 1, self._bytes.find(b"\n", found)
            if end < 0:
                return
            line = bytes(self._bytes[begin:end])
            if wanted(line):
                del self._bytes[begin : end + 1]
                yield self.taken + self._bytes.count(b"\n", 0, begin), line
                end = begin
            found = self._bytes.find(part, end)
