"""Shapes that are owed: what was asked, not answered, and may still come."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gripperd.modbus.transaction import LOSSES_FREE, Quarantine, write_registers
from tests.modbus.bench import CONTROL, SHAPES

LIMIT_S = 5.0


def test_an_owed_shape_stays_out_of_use_until_its_reply_can_no_longer_come() -> None:
    quarantine = Quarantine(LIMIT_S)
    first, second = SHAPES[0], SHAPES[1]
    quarantine.owe(first.shape, None, 100.0)
    assert not quarantine.free(first.shape, None, 100.1)
    assert not quarantine.free(first.shape, object(), 104.9)
    assert quarantine.free(second.shape, None, 100.1)
    assert quarantine.free(first.shape, None, 105.0)


def test_the_same_words_may_be_sent_again_and_other_words_may_not() -> None:
    quarantine = Quarantine(LIMIT_S)
    move, other = object(), object()
    shape = write_registers(9, CONTROL, (9, 0, 0)).shape
    quarantine.owe(shape, move, 100.0)
    assert quarantine.free(shape, move, 100.1)
    assert not quarantine.free(shape, other, 100.1)
    quarantine.owe(shape, other, 100.2)
    assert not quarantine.free(shape, move, 100.3), "two may answer now"


def test_an_exception_counts_only_while_nothing_of_its_function_is_owed() -> None:
    quarantine = Quarantine(LIMIT_S)
    assert quarantine.exceptions_free(SHAPES[0], None, 100.0)
    quarantine.owe(SHAPES[2].shape, None, 100.0)
    assert not quarantine.exceptions_free(SHAPES[0], None, 100.1), "same function, other count"
    assert quarantine.exceptions_free(SHAPES[1], None, 100.1), "other function"


def test_an_exception_may_answer_the_same_words_again() -> None:
    quarantine, stop = Quarantine(LIMIT_S), object()
    request = write_registers(9, CONTROL, (1,))
    quarantine.owe(request.shape, stop, 100.0)
    assert quarantine.exceptions_free(request, stop, 100.1)
    assert not quarantine.exceptions_free(request, object(), 100.1)
    assert not quarantine.exceptions_free(write_registers(9, CONTROL, (9, 0, 0)), object(), 100.1), "another shape"


def test_a_shape_that_is_owed_twice_is_free_when_the_later_can_no_longer_come() -> None:
    quarantine = Quarantine(LIMIT_S)
    quarantine.owe(SHAPES[0].shape, None, 100.0)
    quarantine.owe(SHAPES[0].shape, None, 103.0)
    assert not quarantine.free(SHAPES[0].shape, None, 106.0)
    assert quarantine.free(SHAPES[0].shape, None, 108.0)


def test_units_do_not_owe_for_each_other() -> None:
    """SLAVE 92."""
    quarantine = Quarantine(LIMIT_S)
    for shape in SHAPES:
        quarantine.owe(b"\x08" + shape.shape[1:], None, 100.0)
    assert all(quarantine.free(shape.shape, None, 100.0) for shape in SHAPES)
    assert quarantine.exceptions_free(SHAPES[0], None, 100.0)
    assert quarantine.spacing_s(SHAPES, 100.0) == 0.0


def test_without_a_limit_nothing_is_ever_owed() -> None:
    quarantine = Quarantine(0.0)
    quarantine.owe(SHAPES[0].shape, None, 100.0)
    assert quarantine.free(SHAPES[0].shape, None, 100.0)


@pytest.mark.parametrize("losses", range(LOSSES_FREE + 1))
def test_few_losses_slow_nothing_down(losses: int) -> None:
    quarantine = Quarantine(LIMIT_S)
    for shape in SHAPES[:losses]:
        quarantine.owe(shape.shape, None, 100.0)
    assert quarantine.spacing_s(SHAPES, 100.1) == 0.0


def test_a_device_that_falls_silent_is_asked_at_even_intervals() -> None:
    quarantine, now_s, asked_s = Quarantine(LIMIT_S), 1000.0, list[float]()
    for _ in range(30):
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        quarantine.owe(free[0].shape, None, now_s)
        asked_s.append(now_s)
        now_s += 0.1
        now_s += quarantine.spacing_s(SHAPES, now_s)
    pauses_s = [b - a for a, b in itertools.pairwise(asked_s)]
    assert max(pauses_s) <= LIMIT_S / (len(SHAPES) - LOSSES_FREE) + 0.2


def test_a_loss_some_seconds_ago_does_not_use_up_the_shapes_of_a_device_that_falls_silent_now() -> None:
    """The nearest expiry alone is no measure: it would spend all shapes at once, and then wait for the next expiry."""
    quarantine = Quarantine(LIMIT_S)
    quarantine.owe(SHAPES[0].shape, None, 1000.0)
    now_s, waits_s = 1004.8, list[float]()
    for _ in range(12):
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        quarantine.owe(free[0].shape, None, now_s)
        now_s += 0.05
        waits_s.append(quarantine.spacing_s(SHAPES, now_s))
        now_s += waits_s[-1]
    assert max(waits_s) < 1.3


ROUNDS = st.tuples(st.booleans(), st.sampled_from([0.003, 0.05, 0.1, 0.3]), st.sampled_from([0.02, 0.03, 0.25, 1.7]))
"""(answered, how long it took [s], the period of the rounds [s])"""


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.lists(ROUNDS, max_size=150), st.booleans())
def test_whoever_keeps_the_spacing_always_has_an_unused_shape_and_never_waits_two_seconds(
    rounds: list[tuple[bool, float, float]], only_after_failures: bool
) -> None:
    quarantine, now_s = Quarantine(LIMIT_S), 1000.0
    for answered, took_s, period_s in rounds:
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        assert free
        if not answered:
            quarantine.owe(free[0].shape, None, now_s)
        now_s += took_s
        wait_s = quarantine.spacing_s(SHAPES, now_s)
        assert 0.0 <= wait_s < 1.7
        now_s += period_s if answered and only_after_failures else max(period_s, wait_s)
