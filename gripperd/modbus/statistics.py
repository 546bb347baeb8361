"""What a line has done, counted. Pure.

Counters only grow. Round-trip times are kept for the last few hundred transactions.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

ROUND_TRIPS_KEPT = 512
"""Round-trip times that the percentiles speak of: about five seconds of a busy line."""


@dataclass(slots=True)
class LineCounters:
    """Counters of one line since the daemon started."""

    transactions: int = 0
    replies: int = 0
    timeouts: int = 0
    crc_errors: int = 0
    mismatches: int = 0
    exceptions: int = 0
    retries: int = 0
    withdrawn: int = 0
    quarantined: int = 0
    unproven_replies: int = 0
    resyncs: int = 0
    noise_bytes: int = 0
    echoes: int = 0
    port_opened: int = 0
    port_lost: int = 0
    refused_full: int = 0
    round_trips_s: deque[float] = field(default_factory=lambda: deque(maxlen=ROUND_TRIPS_KEPT))

    def as_dict(self) -> Mapping[str, int | float]:
        """Plain numbers. Round-trip times [s]; 0 where nothing was measured yet."""
        numbers = {name: value for name, value in asdict(self).items() if name != "round_trips_s"}
        times = sorted(self.round_trips_s)
        return numbers | {
            "round_trip_p50_s": round(statistics.median(times), 6) if times else 0.0,
            "round_trip_p99_s": round(times[int(0.99 * (len(times) - 1))], 6) if times else 0.0,
            "round_trip_max_s": round(times[-1], 6) if times else 0.0,
        }
