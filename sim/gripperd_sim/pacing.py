"""Time on a serial wire: how long characters take, when a frame is over, when the bytes of a reply are there.

Pure; it computes schedules and keeps none.
"""

from __future__ import annotations

BITS_PER_CHARACTER = 10
"""8N1: start, eight data bits, stop."""

GAP_CHARACTERS = 3.5
"""Silence that ends a frame, in characters (Modbus serial line specification V1.02)."""

DELIVERY_GRAIN_S = 0.0005
"""Bytes that fall due within this time are delivered together, at the time of the last one [s]: never early, and few
enough wake-ups for a small machine. An adapter's buffer is much coarser."""


def character_s(baudrate: int) -> float:
    """Time of one character [s]."""
    return BITS_PER_CHARACTER / baudrate


def frame_gap_s(one_character_s: float, min_gap_s: float) -> float:
    """Silence by which the end of a frame is seen [s]."""
    return max(GAP_CHARACTERS * one_character_s, min_gap_s)


def delivery_schedule(start_s: float, data: bytes, one_character_s: float) -> list[tuple[float, bytes]]:
    """When which bytes are there, if the first one begins at start_s: byte i is complete after i+1 characters."""
    schedule: list[tuple[float, bytes]] = []
    first = 0
    for last in range(len(data)):
        open_s = (last + 1 - first) * one_character_s  # from the group's start to the end of the byte after `last`
        if last + 1 == len(data) or open_s > DELIVERY_GRAIN_S:
            schedule.append((start_s + (last + 1) * one_character_s, data[first : last + 1]))
            first = last + 1
    return schedule
