"""Wire limits against the numbers that were measured and computed by other means."""

import pytest

from bench.wire_time import MAIN, PROFILES, Profile, limit_hz, read_period_s


@pytest.mark.parametrize(
    ("baudrate", "turnaround_s", "expected_hz"),
    [
        (9_600, 0.0, 37),
        (19_200, 0.001, 69),
        (57_600, 0.001, 181),
        (115_200, 0.0, 443),
        (115_200, 0.001, 307),
        (1_000_000, 0.0, 3846),
        (1_000_000, 0.001, 794),
    ],
)
def test_reads_of_three_registers_per_second(baudrate: int, turnaround_s: float, expected_hz: int) -> None:
    assert round(limit_hz(Profile("", baudrate, turnaround_s), 3)) == expected_hz


def test_the_fourth_register_costs_two_characters() -> None:
    assert read_period_s(MAIN, 4) - read_period_s(MAIN, 3) == pytest.approx(2 * 10 / 115_200)
    assert limit_hz(MAIN, 4) == pytest.approx(291.5, abs=0.05)


def test_the_gap_is_three_and_a_half_characters() -> None:
    assert MAIN.gap_s == pytest.approx(303.8e-6, abs=0.1e-6)


def test_bursts_allow_one_transaction_each() -> None:
    assert limit_hz(Profile("", 115_200, 0.001, 0.016), 4) == pytest.approx(62.5)


def test_a_transaction_longer_than_a_burst_takes_two() -> None:
    assert read_period_s(Profile("", 9_600, 0.001, 0.016), 4) == pytest.approx(0.032)


def test_the_main_profile_is_one_of_all() -> None:
    assert MAIN in PROFILES
    assert len({profile.name for profile in PROFILES}) == len(PROFILES)
