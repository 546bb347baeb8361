"""What people see, as pure functions."""

from __future__ import annotations

from gripperd.contract import ClientEntry, OnDisconnect
from gripperd.watch import client_line, sparkline


def test_a_sparkline_shows_the_width_over_time() -> None:
    rising = [(0.5 * n, 0.1 * n / 19) for n in range(20)]
    assert sparkline(rising, 10.0, 10.0, 0.1, 20) == "▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▇▇▇██"
    assert sparkline([], 10.0, 10.0, 0.1, 20) == " " * 20


def test_what_was_not_valid_is_a_gap_and_no_last_value() -> None:
    samples = [(1.0, 0.05), (2.0, None), (3.0, None), (9.9, 0.1)]
    line = sparkline(samples, 10.0, 10.0, 0.1, 20)
    assert line == "  ▅                █"
    assert sparkline(samples, 30.0, 10.0, 0.1, 20) == " " * 20, "all of it is long ago"


def test_a_width_outside_the_range_stays_inside_the_line() -> None:
    assert sparkline([(9.0, 0.2), (9.9, -0.01)], 10.0, 10.0, 0.1, 20).strip() == "█▁"


def test_a_client_in_one_line() -> None:
    entry = ClientEntry(
        client=3,
        name="pick",
        transport="unix",
        user="ann",
        pid=77,
        may_command=False,
        on_disconnect=OnDisconnect.STOP,
        heartbeat_s=0.5,
        connected_s=12.4,
        holds=["left"],
        commanded_last=["left", "right"],
    )
    assert client_line(entry) == (
        "client 3 'pick' (unix ann pid 77): connected 12 s, may observe and stop only, stops when lost, "
        "heartbeat 0.5 s, holds left, commanded left, right last"
    )
