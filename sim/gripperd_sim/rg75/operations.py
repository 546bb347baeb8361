"""What can be done to simulated RG75s on a line from the control socket. Each operation takes an optional unit.

It joins devices, line faults and the port; the clock is given, so tests may move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from gripperd_sim.jaw import RIGID_N_PER_M, GraspObject
from gripperd_sim.line import Line
from gripperd_sim.line_faults import LineFaults
from gripperd_sim.operations import Args, Operation, Param, Result, Type
from gripperd_sim.rg75.device import DEFAULT_POWER_OFF_S, Rg75

DEFAULT_LOG_LIMIT = 1000

UNIT = Param("unit", Type.INTEGER, "slave id; the first device by default")
WIDTH = Param("width_m", Type.NUMBER, "width in metres", required=True)
COUNT = Param("count", Type.INTEGER, "how many replies; 0 disarms", required=True)
OBJECT = (
    WIDTH,
    Param("stiffness_n_per_m", Type.NUMBER, f"stiffness, {RIGID_N_PER_M:g} by default"),
    Param("internal", Type.FLAG, "a hole around the jaws, touched when they open"),
    Param("hold_force_n", Type.NUMBER, "held with less it slips out; 0 by default"),
    Param("slip_after_s", Type.NUMBER, "how long after being held too loosely, 0.2 by default"),
)


class Plug(Protocol):
    """What is needed of the port."""

    name: str

    def plug(self) -> None:
        """Plug in."""

    def unplug(self) -> None:
        """Unplug."""


class Rg75Bench:
    """The operations on one line."""

    def __init__(self, line: Line[Rg75], port: Plug, clock: Callable[[], float]) -> None:
        self._line = line
        self._port = port
        self._clock = clock

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

    def _on_faults(self, doc: str, run: Callable[[LineFaults, Args], None], *params: Param) -> Operation:
        def call(args: Args) -> Result:
            faults = self._faults(args)
            run(faults, args)
            return {"armed": faults.armed()}

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
        on = self._on_faults
        duration = Param("duration_s", Type.NUMBER, "for how long; 0 ends it", required=True)
        delay = Param("delay_s", Type.NUMBER, "how late, in seconds", required=True)
        return {
            "unplug": Operation("The adapter vanishes: hang-up, no symlink.", self._unplug),
            "plug": Operation("The adapter comes back under another name.", self._plug),
            "silence": on(
                "The device neither hears nor answers for a while.",
                lambda f, a: f.silence(self._clock() + a.number("duration_s")),
                duration,
            ),
            "lose": on("The next replies never arrive.", lambda f, a: f.lose(a.integer("count")), COUNT),
            "delay": on(
                "The next replies arrive late; later requests are answered meanwhile.",
                lambda f, a: f.delay(a.integer("count"), a.number("delay_s")),
                COUNT,
                delay,
            ),
            "drop_acks": on(
                "The next acknowledgements of writes never arrive.", lambda f, a: f.drop_acks(a.integer("count")), COUNT
            ),
            "corrupt": on(
                "The next replies arrive with one bit flipped.", lambda f, a: f.corrupt(a.integer("count")), COUNT
            ),
        }

    def _reading(self) -> dict[str, Operation]:
        since = Param("since", Type.INTEGER, "only events with a greater seq; 0 by default: all that are kept")
        limit = Param("limit", Type.INTEGER, f"at most so many, oldest first; {DEFAULT_LOG_LIMIT} by default")
        return {
            "state": Operation("The truth about a device and its world.", self._state, (UNIT,)),
            "log": Operation("Events of a device.", self._log, (since, limit, UNIT)),
        }

    def _unplug(self, _args: Args) -> Result:
        self._port.unplug()
        return None

    def _plug(self, _args: Args) -> Result:
        self._port.plug()
        return {"port": self._port.name}

    def _state(self, args: Args) -> Mapping[str, object]:
        return {"state": self._device(args).state(self._clock())}

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
