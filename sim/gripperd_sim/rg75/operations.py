"""What can be done to simulated RG75s on a line from the control socket. Each operation takes an optional unit.

It joins devices, line faults and the port; the clock is given, so tests may move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from gripperd_sim.faults import LineFaults
from gripperd_sim.faults.model import MAX_WAIT_S
from gripperd_sim.faults.operations import fault_operations
from gripperd_sim.history import Kind
from gripperd_sim.jaw import RIGID_N_PER_M, GraspObject
from gripperd_sim.line import Line
from gripperd_sim.operations import Args, Operation, Param, Result, Type
from gripperd_sim.pacing import FTDI_LATENCY_S
from gripperd_sim.rg75.device import DEFAULT_POWER_OFF_S, Rg75

DEFAULT_LOG_LIMIT = 1000
DEFAULT_REPLUG_S = 1.0
MAX_BURST_S = 0.255
"""Longest latency timer of an FTDI adapter [s] (AN232B-04)."""

UNIT = Param("unit", Type.INTEGER, "slave id; the first device by default")
WIDTH = Param("width_m", Type.NUMBER, "width in metres", required=True)
OBJECT = (
    WIDTH,
    Param("stiffness_n_per_m", Type.NUMBER, f"stiffness, {RIGID_N_PER_M:g} by default"),
    Param("internal", Type.FLAG, "a hole around the jaws, touched when they open"),
    Param("hold_force_n", Type.NUMBER, "held with less it slips out; 0 by default"),
    Param("slip_after_s", Type.NUMBER, "how long after being held too loosely, 0.2 by default"),
)


class Plug(Protocol):
    """What is needed of the port."""

    on_change: Callable[[str, str], None] | None

    @property
    def name(self) -> str:
        """Of the pty, or what stands for it."""

    @property
    def plugged(self) -> bool:
        """Whether it is plugged in."""

    @property
    def burst_s(self) -> float:
        """Time between the ticks at which it hands over bytes."""

    def plug(self) -> None:
        """Plug in."""

    def unplug(self) -> None:
        """Unplug."""

    def replug(self, off_s: float) -> None:
        """Unplug, and plug in off_s later."""

    def set_bursts(self, burst_s: float) -> None:
        """Hand over bytes at ticks only, or at once (0)."""


class Rg75Bench:
    """The operations on one line."""

    def __init__(self, line: Line[Rg75], port: Plug, clock: Callable[[], float]) -> None:
        self._line = line
        self._port = port
        self._clock = clock
        self.scenario_status: Callable[[], object] | None = None
        """What `state` shows of a scenario that is played."""
        port.on_change = self._note_port

    def table(self) -> dict[str, Operation]:
        """All operations by name."""
        return {**self._world(), **self._electrics(), **self._wire(), **self._reading()}

    def _device(self, args: Args) -> Rg75:
        return self._line.station(args.optional_integer("unit")).device

    def _faults(self, args: Args) -> LineFaults:
        return self._line.station(args.optional_integer("unit")).faults

    def _on_device(self, doc: str, run: Callable[[Rg75, Args, float], None], *params: Param) -> Operation:
        """An operation on a device; it answers what is true right after it."""

        def call(args: Args) -> Result:
            device, now_s = self._device(args), self._clock()
            run(device, args, now_s)
            return {"t_s": device.now_s, "event": device.history.last_seq}

        return Operation(doc, call, (*params, UNIT))

    def _world(self) -> dict[str, Operation]:
        on = self._on_device
        hold = Param("hold_force_n", Type.NUMBER, "slips when held with less; left out: whatever the force")
        after = Param("slip_after_s", Type.NUMBER, "how long after being held too loosely; 0 by default")
        return {
            "put_object": on("Put a part between the jaws.", lambda d, a, t: d.put_object(_part(a), t), *OBJECT),
            "supply_object": on(
                "Put a part in whenever the active gripper rests wide enough and holds none.",
                lambda d, a, t: d.supply_object(_part(a), t),
                *OBJECT,
            ),
            "take_object": on("Take the part away; ends supply_object.", lambda d, _a, t: d.take_object(t)),
            "slip": on(
                "Let the part slip out.",
                lambda d, a, t: d.slip(t, a.number("hold_force_n", math.inf), a.number("slip_after_s", 0.0)),
                hold,
                after,
            ),
            "obstruct": on(
                "Something hard at this width stops the jaws from either side.",
                lambda d, a, t: d.obstruct(a.number("width_m"), t),
                WIDTH,
            ),
            "clear_obstruction": on("Take it away.", lambda d, _a, t: d.clear_obstruction(t)),
            "move_fingers": on("A hand moves the jaws.", lambda d, a, t: d.move_fingers(a.number("width_m"), t), WIDTH),
        }

    def _electrics(self) -> dict[str, Operation]:
        on = self._on_device
        return {
            "set": on(
                "Set temperature and bus voltage.",
                lambda d, a, t: d.set_environment(
                    t, a.optional_integer("temperature_c"), a.optional_integer("voltage_v")
                ),
                Param("temperature_c", Type.INTEGER, "-128 to 127; a fault from 85 on"),
                Param("voltage_v", Type.INTEGER, "0 to 255; a fault below 20 and above 30"),
            ),
            "fault": on(
                "Raise fault bits.",
                lambda d, a, t: d.inject_fault(a.integer("bits"), t),
                Param("bits", Type.INTEGER, "mask 1 to 255 in the manual's numbering; 0 clears", required=True),
            ),
            "power_cycle": on(
                "Power off now and on again.",
                lambda d, a, t: d.power_cycle(t, a.number("off_s", DEFAULT_POWER_OFF_S)),
                Param("off_s", Type.NUMBER, f"seconds without power, {DEFAULT_POWER_OFF_S:g} by default"),
            ),
        }

    def _wire(self) -> dict[str, Operation]:
        off = Param(
            "off_s", Type.NUMBER, f"how long it is away, {DEFAULT_REPLUG_S:g} by default", low=0, high=MAX_WAIT_S
        )
        burst = Param(
            "burst_s",
            Type.NUMBER,
            f"time between ticks, {FTDI_LATENCY_S:g} by default; 0 ends it",
            low=0,
            high=MAX_BURST_S,
        )
        return {
            "unplug": Operation("The adapter vanishes: hang-up, no symlink.", self._unplug),
            "plug": Operation("The adapter comes back under another name.", self._plug),
            "replug": Operation("The adapter vanishes and comes back under another name.", self._replug, (off,)),
            "bursts": Operation(
                "The adapter hands over bytes at the ticks of its latency timer only.", self._bursts, (burst,)
            ),
            **fault_operations(self._faults, self._clock, UNIT),
        }

    def _reading(self) -> dict[str, Operation]:
        since = Param("since", Type.INTEGER, "only events with a greater seq; 0 by default: all that are kept")
        limit = Param("limit", Type.INTEGER, f"at most so many, oldest first; {DEFAULT_LOG_LIMIT} by default")
        return {
            "state": Operation(
                "The truth about a device and its world, line faults, port and scenario.", self._state, (UNIT,)
            ),
            "log": Operation("Events of a device.", self._log, (since, limit, UNIT)),
        }

    def _unplug(self, _args: Args) -> Result:
        self._port.unplug()
        return None

    def _plug(self, _args: Args) -> Result:
        self._port.plug()
        return {"port": self._port.name}

    def _replug(self, args: Args) -> Result:
        self._port.replug(args.number("off_s", DEFAULT_REPLUG_S))
        return None

    def _bursts(self, args: Args) -> Result:
        burst_s = args.number("burst_s", FTDI_LATENCY_S)
        self._port.set_bursts(burst_s)
        self._note_port(f"bursts every {burst_s:g} s" if burst_s else "no bursts", self._port.name)
        return None

    def _note_port(self, change: str, name: str) -> None:
        now_s = self._clock()
        self._line.advance(now_s)
        for station in self._line.stations:
            station.device.history.add(now_s, Kind.PORT, change=change, name=name)

    def _state(self, args: Args) -> Mapping[str, object]:
        now_s = self._clock()
        station = self._line.station(args.optional_integer("unit"))
        port = self._port
        shown = {
            "state": station.device.state(now_s),
            "line_faults": {"armed": station.faults.armed(now_s), "struck": station.faults.struck()},
            "port": {"name": port.name, "plugged": port.plugged, "burst_s": port.burst_s},
        }
        return shown if self.scenario_status is None else {**shown, "scenario": self.scenario_status()}

    def _log(self, args: Args) -> Mapping[str, object]:
        device = self._device(args)
        device.advance(self._clock())
        events = device.history.since(args.integer("since"))[: max(args.integer("limit", DEFAULT_LOG_LIMIT), 0)]
        return {"events": [event.as_json() for event in events], "last_event": device.history.last_seq}


def _part(args: Args) -> GraspObject:
    return GraspObject(
        args.number("width_m"),
        args.number("stiffness_n_per_m", RIGID_N_PER_M),
        args.flag("internal"),
        args.number("hold_force_n", 0.0),
        args.number("slip_after_s", 0.2),
    )
