"""Shapes that are owed: what was asked, not answered, and may still come."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gripperd.modbus.transaction import BLIND_LIMIT_S, Quarantine, write_registers
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
    assert quarantine.wait_s(SHAPES, 100.0) == 0.0


def test_without_a_limit_nothing_is_ever_owed() -> None:
    quarantine = Quarantine(0.0)
    quarantine.owe(SHAPES[0].shape, None, 100.0)
    assert quarantine.free(SHAPES[0].shape, None, 100.0)


@pytest.mark.parametrize("losses", range(4))
def test_few_losses_slow_nothing_down(losses: int) -> None:
    quarantine = Quarantine(LIMIT_S)
    for shape in SHAPES[:losses]:
        quarantine.owe(shape.shape, None, 100.0)
    assert quarantine.wait_s(SHAPES, 100.1) == 0.0


@pytest.mark.parametrize("shapes", [1, 2, 3])
def test_with_few_shapes_a_single_loss_costs_nothing_where_that_can_be(shapes: int) -> None:
    quarantine = Quarantine(LIMIT_S)
    assert quarantine.wait_s(SHAPES[:shapes], 100.0) == 0.0
    quarantine.owe(SHAPES[0].shape, None, 100.0)
    assert quarantine.wait_s(SHAPES[:shapes], 100.0) == pytest.approx(LIMIT_S if shapes == 1 else 0.0, abs=1e-4)


def test_losses_that_are_spread_over_the_time_cost_nothing() -> None:
    """One in a second: there is always a shape left, and one more before it is missed."""
    quarantine = Quarantine(LIMIT_S)
    for second in range(30):
        free = [each for each in SHAPES if quarantine.free(each.shape, None, 100.0 + second)]
        quarantine.owe(free[0].shape, None, 100.0 + second)
        assert quarantine.wait_s(SHAPES, 100.01 + second) == 0.0


def _silence(quarantine: Quarantine, now_s: float, rounds: int) -> list[float]:
    """Ask a silent unit as soon as it may be asked; when."""
    asked_s = []
    for _ in range(rounds):
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        quarantine.owe(free[0].shape, None, now_s)
        asked_s.append(now_s)
        now_s += 0.1
        now_s += quarantine.wait_s(SHAPES, now_s)
    return asked_s


@pytest.mark.parametrize("before_s", [None, 0.3, 2.5, 4.8])
def test_a_device_that_falls_silent_is_asked_quickly_first_and_then_at_least_every_limit(
    before_s: float | None,
) -> None:
    """Also if something was lost some seconds before. The nearest expiry alone would be no measure: it would spend all
    shapes at once, and then wait for the next expiry.
    """
    quarantine = Quarantine(LIMIT_S)
    if before_s is not None:
        quarantine.owe(SHAPES[0].shape, None, 1000.0 - before_s)
    asked_s = _silence(quarantine, 1000.0, rounds=30)
    assert asked_s[2] < 1000.3
    pauses_s = [b - a for a, b in itertools.pairwise(asked_s)]
    assert 1.0 < max(pauses_s) <= BLIND_LIMIT_S + 1e-4


ROUNDS = st.tuples(st.booleans(), st.sampled_from([0.003, 0.05, 0.1]), st.sampled_from([0.0, 0.02, 0.03, 0.25, 1.7]))
"""(answered, how long it took [s], the period of the rounds [s])"""


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.lists(ROUNDS, max_size=150))
def test_whoever_keeps_the_pause_always_has_an_unused_shape_within_the_limit(
    rounds: list[tuple[bool, float, float]],
) -> None:
    """Whatever is lost, and however fast it asks."""
    quarantine, now_s = Quarantine(LIMIT_S), 1000.0
    for answered, took_s, period_s in rounds:
        free = [each for each in SHAPES if quarantine.free(each.shape, None, now_s)]
        assert free
        asked_s = now_s
        if not answered:
            quarantine.owe(free[0].shape, None, now_s)
        now_s += took_s
        wait_s = quarantine.wait_s(SHAPES, now_s)
        assert now_s + wait_s - asked_s <= BLIND_LIMIT_S + 1e-4
        now_s += max(period_s, wait_s)


def test_an_even_pause_uses_the_shapes_up_just_when_others_can_be_used_again() -> None:
    quarantine = Quarantine(LIMIT_S)
    assert quarantine.even_s(SHAPES, 100.0) == 0.0
    for shape in SHAPES[:3]:
        quarantine.owe(shape.shape, None, 100.0)
    assert quarantine.even_s(SHAPES, 100.0) == pytest.approx(LIMIT_S / 4)
    assert quarantine.even_s(SHAPES, 104.0) == pytest.approx(1.0 / 4)


def test_of_more_replies_than_are_owed_to_others_one_is_ones_own() -> None:
    quarantine = Quarantine(LIMIT_S)
    shape, mine = SHAPES[0].shape, object()
    quarantine.owe(shape, object(), 100.0)
    quarantine.owe(shape, object(), 100.5)
    assert not quarantine.proves(shape, mine, 101.0)
    assert not quarantine.proves(shape, mine, 101.1)
    assert quarantine.proves(shape, mine, 101.2)
    assert quarantine.proves(shape, mine, 101.3)


def test_replies_that_came_too_late_to_be_counted_still_count_as_foreign() -> None:
    """The one that was owed until 105.0 may have been the first reply: the second can still be the other one."""
    quarantine = Quarantine(LIMIT_S)
    shape, mine = SHAPES[0].shape, object()
    quarantine.owe(shape, object(), 100.0)
    quarantine.owe(shape, object(), 104.0)
    assert not quarantine.proves(shape, mine, 104.5)
    assert not quarantine.proves(shape, mine, 105.5)
    assert quarantine.proves(shape, mine, 105.6)


def test_what_is_owed_to_others_meanwhile_makes_one_more_reply_necessary() -> None:
    quarantine = Quarantine(LIMIT_S)
    shape, mine = SHAPES[0].shape, object()
    quarantine.owe(shape, object(), 100.0)
    assert not quarantine.proves(shape, mine, 100.1)
    quarantine.owe(shape, mine, 100.1)
    quarantine.owe(shape, object(), 100.2)
    assert not quarantine.proves(shape, mine, 100.3)
    assert quarantine.proves(shape, mine, 100.4)


def test_another_tag_begins_to_count_anew() -> None:
    quarantine = Quarantine(LIMIT_S)
    shape, first, second = SHAPES[0].shape, object(), object()
    quarantine.owe(shape, object(), 100.0)
    assert not quarantine.proves(shape, first, 100.1)
    assert not quarantine.proves(shape, second, 100.2)
    assert quarantine.proves(shape, second, 100.3)
