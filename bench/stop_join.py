"""Joins what a client saw of its stops with what the slave saw of the wire. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import percentile
from bench.rtu import WRITE_MULTIPLE

OWN_LIMIT_S = 0.002
"""What a stop may take beside the transaction in flight [s]."""
QUIET_WAIT_S = 0.0005
"""A stop during which the server waited for a CPU for less than this [s] ran on a quiet machine; an idle one takes
about a tenth of it to wake a process."""

CROSSING_S = 0.0002
"""A poll that the slave saw within this time after the client's write [s] had left before the server could read the
stop: a wake-up on either side. Later ones count as the server's own share.
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """One stop, as its client saw it: written, acknowledged. waited_s: how long the server waited for a CPU meanwhile,
    by the kernel's account. All [s].
    """

    sent_s: float
    acknowledged_s: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop, joined [s]. own_s: to the first byte, less the rest of the transaction that was in flight; NaN where
    that one was never answered. in_flight: whether there was one. crossed: it and the stop crossed on their ways.
    """

    first_byte_s: float
    acknowledged_s: float
    own_s: float
    waited_s: float
    in_flight: bool
    crossed: bool


def join(
    asks: Sequence[Ask],
    function: Sequence[int],
    arrival_s: Sequence[float],
    delivered_s: Sequence[float],
    timeout_s: float,
) -> list[Stop]:
    """One Stop per Ask. timeout_s: for so long [s] an unanswered request counts as in flight. Raises ValueError where a
    stop was acknowledged that the slave never saw.
    """
    writes = [at_s for code, at_s in zip(function, arrival_s, strict=True) if code == WRITE_MULTIPLE]
    stops = []
    for ask in asks:
        number = bisect_left(writes, ask.sent_s)
        if number == len(writes) or writes[number] > ask.acknowledged_s:
            raise ValueError(
                f"a stop was acknowledged after {ask.acknowledged_s - ask.sent_s:.6f} s, never seen by the slave"
            )
        before = bisect_right(arrival_s, ask.sent_s + CROSSING_S) - 1
        if before >= 0 and arrival_s[before] == writes[number]:
            before -= 1  # the stop itself
        rest_s, in_flight = 0.0, False
        if before >= 0 and delivered_s[before] > ask.sent_s:
            rest_s, in_flight = delivered_s[before] - ask.sent_s, True
        elif before >= 0 and not delivered_s[before] and ask.sent_s - arrival_s[before] < timeout_s:
            rest_s, in_flight = math.nan, True
        crossed = in_flight and arrival_s[before] > ask.sent_s
        first_s = writes[number] - ask.sent_s
        acknowledged_s = ask.acknowledged_s - ask.sent_s
        stops.append(Stop(first_s, acknowledged_s, first_s - rest_s, ask.waited_s, in_flight, crossed))
    return stops


@dataclass(frozen=True, slots=True)
class Summary:
    """Of all stops of one window. Times [s]; quiet: of those during which the server did not wait for a CPU."""

    stops: int
    in_flight: int
    crossed: int
    first_p50_s: float
    first_p99_s: float
    first_max_s: float
    ack_p50_s: float
    ack_p99_s: float
    own_p50_s: float
    own_p99_s: float
    own_max_s: float
    own_over: int
    quiet_stops: int
    quiet_own_max_s: float
    quiet_own_over: int


def summarize(stops: Sequence[Stop]) -> Summary:
    """See Summary."""
    first = [stop.first_byte_s for stop in stops]
    acknowledged = [stop.acknowledged_s for stop in stops]
    own = [stop.own_s for stop in stops if not math.isnan(stop.own_s)]
    quiet = [stop.own_s for stop in stops if stop.waited_s < QUIET_WAIT_S and not math.isnan(stop.own_s)]
    return Summary(
        stops=len(stops),
        in_flight=sum(stop.in_flight for stop in stops),
        crossed=sum(stop.crossed for stop in stops),
        first_p50_s=percentile(first, 0.5),
        first_p99_s=percentile(first, 0.99),
        first_max_s=max(first, default=math.nan),
        ack_p50_s=percentile(acknowledged, 0.5),
        ack_p99_s=percentile(acknowledged, 0.99),
        own_p50_s=percentile(own, 0.5),
        own_p99_s=percentile(own, 0.99),
        own_max_s=max(own, default=math.nan),
        own_over=sum(each > OWN_LIMIT_S for each in own),
        quiet_stops=len(quiet),
        quiet_own_max_s=max(quiet, default=math.nan),
        quiet_own_over=sum(each > OWN_LIMIT_S for each in quiet),
    )
