"""Time on a serial wire: how long characters take, when a frame is over, when the bytes of a reply are there.

Pure; it computes schedules and keeps none.
"""

from __future__ import annotations

import math

TICK_ROUNDING = 1e-9
"""Share of a tick that is rounding of floating-point numbers: bytes that are due at a tick go with it."""

BITS_PER_CHARACTER = 10
"""8N1: start, eight data bits, stop."""

GAP_CHARACTERS = 3.5
"""Silence that ends a frame, in characters (Modbus serial line specification V1.02)."""

DELIVERY_GRAIN_S = 0.0005
"""Bytes that fall due within this time are delivered together, at the time of the last one [s]: never early, and few
enough wake-ups for a small machine. An adapter's buffer is much coarser."""

FTDI_LATENCY_S = 0.016
"""Default latency timer of an FTDI adapter [s]: what it received goes to the host at its ticks (AN232B-04)."""


def character_s(baudrate: int) -> float:
    """Time of one character [s]."""
    return BITS_PER_CHARACTER / baudrate


def frame_gap_s(one_character_s: float, min_gap_s: float) -> float:
    """Silence by which the end of a frame is seen [s]."""
    return max(GAP_CHARACTERS * one_character_s, min_gap_s)


def delivery_schedule(start_s: float, data: bytes, one_character_s: float) -> list[tuple[float, bytes]]:
    """When which bytes are there, if the first one begins at start_s: byte i is complete after i+1 characters."""
    group_bytes = max(1, int(DELIVERY_GRAIN_S / one_character_s + 1e-6)) if one_character_s > 0 else max(1, len(data))
    ends = [*range(group_bytes, len(data), group_bytes), len(data)]
    return [(start_s + end * one_character_s, data[max(0, end - 1) // group_bytes * group_bytes : end]) for end in ends]


def next_tick_s(due_s: float, grain_s: float, origin_s: float) -> float:
    """The first tick of an adapter's latency timer at or after due_s; its ticks are grain_s apart, one at origin_s."""
    ticks = math.ceil((due_s - origin_s) / grain_s - TICK_ROUNDING)
    return max(due_s, origin_s + ticks * grain_s)
