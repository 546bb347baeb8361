"""Lines of a connection, and those that overtake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd.contract import MAX_LINE_BYTES
from gripperd.transports.lines import LineBuffer, LineTooLongError


def everything(lines: LineBuffer) -> list[bytes]:
    taken = []
    while (line := lines.next()) is not None:
        taken.append(line)
    return taken


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_come_out_as_they_went_in_however_they_were_cut(chunks: list[bytes], size: int) -> None:
    sent, lines, taken = b"".join(chunks), LineBuffer(), []
    for begin in range(0, len(sent), size):
        lines.feed(sent[begin : begin + size])
        taken += everything(lines)
    *whole, _ = sent.split(b"\n")
    assert taken == whole
    assert lines.taken == len(whole)


def test_the_longest_line_and_one_byte_more() -> None:
    lines = LineBuffer()
    lines.feed(b"x" * (MAX_LINE_BYTES - 1) + b"\n")
    assert lines.next() == b"x" * (MAX_LINE_BYTES - 1)
    lines.feed(b"x" * (MAX_LINE_BYTES - 1))
    assert lines.next() is None
    lines.feed(b"x")
    with pytest.raises(LineTooLongError, match="65536"):
        lines.next()


def test_an_overtaking_line_is_taken_out_and_tells_what_it_has_overtaken() -> None:
    lines = LineBuffer()
    lines.feed(b"a\nb\nc\nSTOP 1\nd\nnot a STOP\nSTOP 2\ne\nSTOP 3")
    assert lines.next() == b"a"
    overtaken = list(lines.overtaking(b"STOP", lambda line: line.startswith(b"STOP")))
    assert overtaken == [(3, b"STOP 1"), (5, b"STOP 2")], "three lines came before the first: a, b, c"
    assert everything(lines) == [b"b", b"c", b"d", b"not a STOP", b"e"]
    assert lines.taken == 6
    lines.feed(b"\n")
    assert lines.next() == b"STOP 3", "it was not whole"


@given(st.lists(st.sampled_from([b"a", b"bb", b"STOP", b"xSTOP"])), st.integers(0, 5))
def test_overtaking_loses_nothing_and_keeps_the_order(sent: list[bytes], first: int) -> None:
    lines = LineBuffer()
    lines.feed(b"".join(line + b"\n" for line in sent))
    taken = [line for _ in range(first) if (line := lines.next()) is not None]
    ahead = list(lines.overtaking(b"STOP", lambda line: line == b"STOP"))
    rest = sent[len(taken) :]
    assert [line for _, line in ahead] == [line for line in rest if line == b"STOP"]
    plain = [line for line in rest if line != b"STOP"]
    assert everything(lines) == plain
    for nth, (follows, _) in enumerate(ahead):
        place = [index for index, line in enumerate(rest) if line == b"STOP"][nth]
        assert follows == len(taken) + sum(line != b"STOP" for line in rest[:place])
