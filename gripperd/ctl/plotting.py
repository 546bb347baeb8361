"""`gripperctl plot`: a recording as a picture: width, motion, grasp and commands over time."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gripperd.contract import CommandOutcome, GraspState, GripperState, MotionState
from gripperd.ctl.errors import FileError
from gripperd.ctl.series import Event, Series, series_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN = 12.0
HEIGHT_IN = 3.2
"""Of one gripper [inches]."""
DPI = 110
MOTION_COLOURS = {MotionState.UNKNOWN: "#dddddd", MotionState.MOVING: "#f2a33a", MotionState.STOPPED: "#b9d3ea"}
GRASP_COLOURS = {
    GraspState.UNKNOWN: "#dddddd",
    GraspState.NOT_HOLDING: "#8aa0b8",
    GraspState.HOLDING: "#4caf50",
    GraspState.SLIPPING: "#d9534f",
}
WISHED = ("reached", "contact", "stopped")
"""Outcomes that are drawn in quiet colour."""


def read_recording(path: Path) -> Iterator[tuple[int, Event]]:
    """(log time [ns], message) of all states and outcomes, in the order of time. Raises FileError.

    A recording that was cut off is read as far as it goes.
    """
    try:
        from mcap.exceptions import McapError
        from mcap.records import Channel, Message
        from mcap.stream_reader import StreamReader
    except ImportError:
        raise FileError("reading a recording needs the package mcap: pip install 'gripperd[record]'") from None
    models: dict[str, type[Event]] = {"state": GripperState, "outcome": CommandOutcome}
    found: list[tuple[int, int, Event]] = []
    topics: dict[int, str] = {}
    try:
        with path.open("rb") as file:
            for record in StreamReader(file).records:
                if isinstance(record, Channel):
                    topics[record.id] = record.topic
                elif isinstance(record, Message):
                    kind = topics[record.channel_id].rpartition("/")[2]
                    if kind in models:
                        message = models[kind].model_validate_json(record.data)
                        found.append((record.log_time, record.sequence, message))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise FileError(f"{path} has messages of another contract: {error.errors()[0]['msg']}") from None
    except (McapError, struct.error, ValueError, KeyError) as error:  # the library's, and what it makes of junk
        if not found:
            raise FileError(f"{path} is no recording of gripperctl: {type(error).__name__} {error}") from None
    yield from ((log_ns, message) for log_ns, _, message in sorted(found, key=lambda each: each[:2]))


def plot(path: Path, picture: Path, from_s: float = 0.0, to_s: float = math.inf) -> Sequence[Series]:
    """Draw it. Raises FileError."""
    shown = series_of(read_recording(path), from_s, to_s)
    if not shown:
        raise FileError(f"{path} has no state between {from_s:g} and {to_s:g} s")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FileError("plotting needs the package matplotlib: pip install 'gripperd[plot]'") from None
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN * len(shown) + 0.6), dpi=DPI, layout="constrained")
    rows: Any = figure.subplots(2 * len(shown), 1, sharex=True, squeeze=False, height_ratios=[4, 1] * len(shown))
    for number, series in enumerate(shown):
        _draw_width(rows[2 * number][0], series)
        _draw_bands(rows[2 * number + 1][0], series)
    rows[-1][0].set_xlabel("time [s]")
    try:
        figure.savefig(picture, format="png")
    except OSError as error:
        raise FileError(f"{picture} cannot be written: {error.strerror}") from None
    return shown


def _draw_width(axes: Axes, series: Series) -> None:
    axes.set_title(series.gripper, loc="left", fontweight="bold")
    axes.set_ylabel("width [mm]")
    axes.grid(visible=True, color="#eeeeee")
    top = max((width for width in series.width_mm if not math.isnan(width)), default=1.0)
    axes.set_ylim(-0.04 * top, 1.3 * top)
    for span in series.spans:
        colour = "#5b8def" if span.outcome in WISHED else "#d9534f"
        axes.axvspan(span.begin_s, span.end_s, color=colour, alpha=0.12, linewidth=0)
        text = f"{span.command_seq} {span.verb}\n{span.outcome or 'no outcome'}"
        axes.annotate(
            text, (span.begin_s, 1.28 * top), fontsize=7, va="top", color=colour, rotation=0, annotation_clip=True
        )
    axes.plot(series.time_s, series.width_mm, color="#222222", linewidth=1.4)


def _draw_bands(axes: Axes, series: Series) -> None:
    """Motion and grasp as bands of colour, with a legend of what occurs."""
    axes.set_yticks([0.5, 1.5], ["grasp", "motion"])
    axes.set_ylim(0, 2)
    axes.tick_params(length=0)
    labelled: set[str] = set()
    for base, values, colours in ((1, series.motion, MOTION_COLOURS), (0, series.grasp, GRASP_COLOURS)):
        for begin, end, value in stretches(series.time_s, values):
            label = value.name.replace("_", " ").lower()
            first = "" if label in labelled else label
            labelled.add(label)
            axes.broken_barh([(begin, end - begin)], (base + 0.1, 0.8), color=colours[value], label=first or None)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)


def stretches(time_s: Sequence[float], values: Sequence[Any]) -> Iterator[tuple[float, float, Any]]:
    """(begin, end, value) of equal values; each lasts until the next one begins."""
    begin = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] is not values[begin]:
            yield time_s[begin], time_s[min(index, len(values) - 1)], values[begin]
            begin = index
