"""The schedule of bytes on the wire, exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd_sim.pacing import DELIVERY_GRAIN_S, character_s, delivery_schedule, frame_gap_s, next_tick_s


def test_times_on_the_wire() -> None:
    assert character_s(115_200) == pytest.approx(86.8e-6, abs=1e-7)
    assert frame_gap_s(character_s(115_200), 0.00175) == 0.00175
    assert frame_gap_s(character_s(115_200), 0) == pytest.approx(304e-6, abs=1e-6)
    assert frame_gap_s(character_s(9_600), 0.00175) == pytest.approx(0.003646, abs=1e-6)


def test_slow_bytes_come_one_by_one() -> None:
    schedule = delivery_schedule(1.0, b"abc", 0.002)
    assert [chunk for _, chunk in schedule] == [b"a", b"b", b"c"]
    assert [t for t, _ in schedule] == pytest.approx([1.002, 1.004, 1.006])


def test_fast_bytes_come_in_groups_at_the_time_of_the_last() -> None:
    schedule = delivery_schedule(0.0, bytes(range(13)), 0.0001)
    assert [len(chunk) for _, chunk in schedule] == [5, 5, 3]
    assert [t for t, _ in schedule] == pytest.approx([0.0005, 0.0010, 0.0013])


def test_without_pacing_all_is_there_at_once() -> None:
    assert delivery_schedule(2.0, b"abcdef", 0.0) == [(2.0, b"abcdef")]


@given(st.binary(min_size=1, max_size=64), st.sampled_from([4_800, 9_600, 19_200, 115_200, 1_000_000]))
def test_no_byte_is_early_and_none_is_lost(data: bytes, baudrate: int) -> None:
    one_s = character_s(baudrate)
    schedule = delivery_schedule(5.0, data, one_s)
    assert b"".join(chunk for _, chunk in schedule) == data
    delivered = 0
    for due_s, chunk in schedule:
        delivered += len(chunk)
        assert due_s == pytest.approx(5.0 + delivered * one_s)
        assert len(chunk) == 1 or len(chunk) * one_s <= DELIVERY_GRAIN_S + 1e-9


def test_bytes_wait_for_the_tick_and_those_at_a_tick_go_with_it() -> None:
    assert next_tick_s(10.0, 0.016, 10.0) == 10.0
    assert next_tick_s(10.001, 0.016, 10.0) == pytest.approx(10.016)
    assert next_tick_s(10.016, 0.016, 10.0) == pytest.approx(10.016)
    assert next_tick_s(10.0161, 0.016, 10.0) == pytest.approx(10.032)


@given(st.floats(0, 1e5), st.floats(0.001, 0.255), st.floats(0, 1e5))
def test_no_tick_is_early_or_further_than_one_away(due_s: float, grain_s: float, origin_s: float) -> None:
    tick_s = next_tick_s(due_s, grain_s, origin_s)
    assert due_s <= tick_s <= due_s + grain_s * 1.001
    ticks = (tick_s - origin_s) / grain_s
    assert ticks == pytest.approx(round(ticks), abs=1e-3)
