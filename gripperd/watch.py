"""How people see states: one line each, or a live table. Used by gripperctl and by the demo."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from rich.console import RenderableType
from rich.live import Live
from rich.table import Table

from gripperd.client import Client, Gripper
from gripperd.contract import Activation, ClientEntry, GripperInfo, GripperState, Link, OnDisconnect

BAR_CELLS = 12
"""Width of the drawn jaws [characters]."""
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_CELLS = 12
"""Width of the curve of the width [characters]."""
SPARK_S = 10.0
"""Time that the curve covers [s]."""
REFRESH_HZ = 10
"""How often the table is drawn."""
RATE_WINDOW_S = 2.0
"""The shown rate is a mean over this time [s]."""


def state_line(state: GripperState, now_ns: int) -> str:
    """A state in one line."""
    width = f"{state.opening_width_m:.4f} m" if state.opening_width_valid else "   --   "
    fault = f" fault {state.fault.code}: {state.fault.text}" if state.fault is not None else ""
    age = f"{(now_ns - state.stamp.to_ns()) / 1e6:.1f} ms" if state.stamp.sec else "--"
    return (
        f"{state.gripper} #{state.seq} {width} {state.grasp_state.name} {state.motion_state.name} "
        f"link {state.link} {state.activation} command {state.command_seq} {state.command_phase} age {age}{fault}"
    )


def client_line(client: ClientEntry) -> str:
    """A client of the daemon in one line."""
    who = f"client {client.client} {client.name!r}"
    user = f" {client.user}" if client.user else ""
    pid = f" pid {client.pid}" if client.pid else ""
    told = [f"connected {client.connected_s:.0f} s"]
    if not client.may_command:
        told.append("may observe and stop only")
    if client.on_disconnect is OnDisconnect.STOP:
        told.append("stops when lost")
    if client.heartbeat_s:
        told.append(f"heartbeat {client.heartbeat_s:g} s")
    if client.holds:
        told.append(f"holds {', '.join(client.holds)}")
    if client.commanded_last:
        told.append(f"commanded {', '.join(client.commanded_last)} last")
    return f"{who} ({client.transport}{user}{pid}): {', '.join(told)}"


def sparkline(
    samples: Sequence[tuple[float, float | None]], now_s: float, window_s: float, top: float, count: int = SPARK_CELLS
) -> str:
    """The last `window_s` [s] as `count` characters, from 0 to top. samples: (time [s], value or None), in order.

    Each cell shows the last valid value of its time; a cell without one is empty, since nothing was known then.
    """
    cells: list[float | None] = [None] * count
    for time_s, value in samples:
        place = math.floor((time_s - now_s + window_s) / window_s * count)
        if value is not None and 0 <= place <= count:
            cells[min(place, count - 1)] = value
    highest = len(SPARKS) - 1
    return "".join(
        " " if value is None else SPARKS[round(highest * min(1.0, max(0.0, value / top)))] for value in cells
    )


def jaws(state: GripperState, max_width_m: float) -> str:
    """The jaws, drawn: `|###      ###|`."""
    if not state.opening_width_valid or max_width_m <= 0:
        return "?" * BAR_CELLS
    half = BAR_CELLS // 2
    open_cells = round(half * min(1.0, state.opening_width_m / max_width_m))
    jaw = "█" * (half - open_cells)
    return jaw + " " * (2 * open_cells) + jaw


class Rate:
    """How many came per second, lately [Hz]."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def count(self, now_s: float) -> None:
        """One came."""
        self._times.append(now_s)
        self._forget(now_s)

    def hz(self, now_s: float) -> float:
        """The rate now."""
        self._forget(now_s)
        return len(self._times) / RATE_WINDOW_S

    def _forget(self, now_s: float) -> None:
        while self._times and self._times[0] < now_s - RATE_WINDOW_S:
            self._times.popleft()


class Board:
    """The latest of every gripper, and how fast it comes."""

    def __init__(self, infos: Mapping[str, GripperInfo]) -> None:
        self.infos = dict(infos)
        self.states: dict[str, GripperState] = {}
        self.rates = {name: Rate() for name in infos}
        self._widths: dict[str, deque[tuple[float, float | None]]] = {name: deque() for name in infos}

    def take(self, state: GripperState) -> None:
        """A state came."""
        self.states[state.gripper] = state
        now_s = time.monotonic()
        self.rates[state.gripper].count(now_s)
        widths = self._widths[state.gripper]
        widths.append((now_s, state.opening_width_m if state.opening_width_valid else None))
        while widths[0][0] < now_s - SPARK_S:
            widths.popleft()

    async def follow(self, gripper: Gripper, rate_hz: float = 0.0) -> AsyncIterator[GripperState]:
        """Take every state, and hand it on. What a gripper can do is asked anew when its activation has changed: a hand
        knows its range once it is homed.
        """
        known: Activation | None = None
        async for state in gripper.states(rate_hz):
            if state.activation is not known:
                known, self.infos[state.gripper] = state.activation, await gripper.info()
            self.take(state)
            yield state

    def table(self) -> Table:
        """The live table."""
        table = Table(expand=True)
        for heading in (
            "gripper",
            "jaws",
            r"width \[mm]",
            f"{SPARK_S:.0f} s",
            "motion",
            "grasp",
            "command",
            "activation",
            "link",
            "rate",
            "age",
        ):
            table.add_column(heading, no_wrap=True)
        for name, state in self.states.items():
            width = f"{state.opening_width_m * 1e3:.1f}" if state.opening_width_valid else "--"
            age_ms = (time.time_ns() - state.stamp.to_ns()) / 1e6 if state.stamp.sec else float("nan")
            table.add_row(
                name,
                jaws(state, self.infos[name].max_opening_width_m),
                width,
                sparkline(self._widths[name], time.monotonic(), SPARK_S, self.infos[name].max_opening_width_m or 1.0),
                state.motion_state.name,
                f"[bold green]{state.grasp_state.name}[/]" if state.grasp_state == 2 else state.grasp_state.name,
                f"{state.command_seq} {state.command_phase}",
                state.activation if state.fault is None else f"{state.activation} [red]({state.fault.text})[/]",
                "up" if state.link is Link.UP else "[red]down[/]",
                f"{self.rates[name].hz(time.monotonic()):.0f} Hz",
                f"{age_ms:.0f} ms",
            )
        return table


def live_renderable(render: Callable[[], RenderableType]) -> Live:
    """A context manager: what `render` gives, on the terminal, drawn anew by itself."""
    return Live(get_renderable=render, refresh_per_second=REFRESH_HZ)


async def watch(
    client: Client, names: Sequence[str], rate_hz: float, count: int, tell: Callable[[GripperState], None] | None
) -> None:
    """Follow states until interrupted or until `count` have come. tell: for each state; None: a live table."""
    board = Board({name: await client.gripper(name).info() for name in names})
    left = count or None
    enough = asyncio.Event()

    async def follow(name: str) -> None:
        nonlocal left
        gripper = client.gripper(name)
        async for state in board.follow(gripper, rate_hz) if tell is None else gripper.states(rate_hz):
            if enough.is_set():
                return
            if tell is not None:
                tell(state)
            if left is not None:
                left -= 1
                if left == 0:
                    enough.set()

    with live_renderable(board.table) if tell is None else contextlib.nullcontext():
        async with asyncio.TaskGroup() as tasks:
            followers = [tasks.create_task(follow(name)) for name in names]
            if count:
                await enough.wait()
                for follower in followers:
                    follower.cancel()
