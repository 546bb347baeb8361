"""What can be done to a simulated hand from the control socket."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gripperd_sim.franka_hand.faults import MAX_WAIT_S, ROWS, WHEN, Fault
from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.vacuum import VacuumGripper
from gripperd_sim.franka_hand.vacuum_server import VacuumServer
from gripperd_sim.franka_hand.world import MAX_TEMPERATURE_C
from gripperd_sim.jaw import RIGID_N_PER_M, GraspObject
from gripperd_sim.operations import Args, Operation, Param, Result, Type

DEFAULT_LOG_LIMIT = 1000
DEFAULT_POWER_OFF_S = 2.0

WIDTH = Param("width_m", Type.NUMBER, "width in metres", required=True)
OBJECT = (
    WIDTH,
    Param("stiffness_n_per_m", Type.NUMBER, f"stiffness, {RIGID_N_PER_M:g} by default"),
    Param("internal", Type.FLAG, "a hole around the fingers, touched when they open"),
    Param("hold_force_n", Type.NUMBER, "held with less it slips out; 0 by default"),
    Param("slip_after_s", Type.NUMBER, "how long after being held too loosely, 0.2 by default"),
)


class HandBench:
    """The operations on one hand."""

    def __init__(self, hand: FrankaHand, server: HandServer, pump: VacuumServer | None = None) -> None:
        self._hand = hand
        self._server = server
        self._pump = pump
        self.scenario_status: Callable[[], object] | None = None
        """What `state` shows of a scenario that is played."""

    def table(self) -> dict[str, Operation]:
        """All operations by name."""
        return {**self._world(), **self._network(), **self._faults(), **self._vacuum(), **self._reading()}

    def _on_hand(self, doc: str, run: Callable[[FrankaHand, Args, float], None], *params: Param) -> Operation:
        def call(args: Args) -> Result:
            now_s = self._server.now_s()
            run(self._hand, args, now_s)
            self._server.pump()
            return {"t_s": now_s, "event": self._hand.history.last_seq}

        return Operation(doc, call, params)

    def _world(self) -> dict[str, Operation]:
        on = self._on_hand
        off = Param("off_s", Type.NUMBER, f"without power, {DEFAULT_POWER_OFF_S:g} by default", low=0, high=MAX_WAIT_S)
        return {
            "put_object": on("Put a part between the jaws.", lambda h, a, t: h.put_object(_part(a), t), *OBJECT),
            "supply_object": on(
                "Put a part in whenever the homed hand rests wide enough and holds none.",
                lambda h, a, t: h.supply_object(_part(a), t),
                *OBJECT,
            ),
            "take_object": on("Take the part away; ends supply_object.", lambda h, _a, t: h.take_object(t)),
            "slip": on(
                "Let the part slip out.",
                lambda h, a, t: h.slip(t, a.number("hold_force_n", math.inf), a.number("slip_after_s", 0.0)),
                Param("hold_force_n", Type.NUMBER, "slips when held with less; left out: whatever the force"),
                Param("slip_after_s", Type.NUMBER, "how long after being held too loosely; 0 by default"),
            ),
            "obstruct": on(
                "Something hard at this width stops the jaws from either side.",
                lambda h, a, t: h.obstruct(a.number("width_m"), t),
                WIDTH,
            ),
            "clear_obstruction": on("Take it away.", lambda h, _a, t: h.clear_obstruction(t)),
            "move_fingers": on(
                "Somebody moves the fingers.", lambda h, a, t: h.move_fingers(a.number("width_m"), t), WIDTH
            ),
            "set": on(
                "Set what the states tell.",
                lambda h, a, t: h.set_temperature(a.integer("temperature_c"), t),
                Param("temperature_c", Type.INTEGER, "degrees", required=True, low=0, high=MAX_TEMPERATURE_C),
            ),
            "power_cycle": on(
                "Power off now and on again; homing is lost, connections are reset, new ones refused meanwhile.",
                self._power,
                off,
            ),
        }

    def _power(self, hand: FrankaHand, args: Args, now_s: float) -> None:
        hand.power_cycle(now_s, args.number("off_s", DEFAULT_POWER_OFF_S))

    def _network(self) -> dict[str, Operation]:
        how = Param("how", Type.WORD, "reset by default", choices=("reset", "finish", "half_close"))
        duration = Param("duration_s", Type.NUMBER, "for how long; 0 ends it", required=True, low=0, high=MAX_WAIT_S)
        return {
            "disconnect": Operation(
                "End all connections: with RST, with FIN, or one way only.", self._disconnect, (how,)
            ),
            "silence": Operation(
                "Neither hear nor say anything for a while; connections stay open, what is sent is lost.",
                self._silence,
                (duration,),
            ),
            "ignore": Operation(
                "Never hear or say anything again on connections that are open now; new ones are served.", self._ignore
            ),
            "unplug": Operation(
                "The cable is out: states are lost, TCP repeats the rest when it is back.",
                self._unplug,
                (Param("duration_s", Type.NUMBER, "for how long; until plug by default", low=0, high=MAX_WAIT_S),),
            ),
            "plug": Operation("The cable is back.", self._plug),
            "refuse": Operation("Refuse new connections, as without FCI.", self._refuse),
            "listen": Operation("Accept connections again.", self._listen),
        }

    def _disconnect(self, args: Args) -> Result:
        how = args.word("how", "reset")
        for connection in list(self._server.connections.values()):
            {"reset": connection.reset, "finish": connection.finish, "half_close": connection.half_close}[how]()
        return None

    def _silence(self, args: Args) -> Result:
        self._server.silence(args.number("duration_s"))
        return None

    def _ignore(self, _args: Args) -> Result:
        self._server.ignore_all()
        return None

    def _unplug(self, args: Args) -> Result:
        self._server.unplug(args.number("duration_s", math.inf))
        return None

    def _plug(self, _args: Args) -> Result:
        self._server.plug()
        return None

    def _refuse(self, _args: Args) -> Result:
        self._server.refuse()
        return None

    def _listen(self, _args: Args) -> Result:
        self._server.listen()
        return None

    def _faults(self) -> dict[str, Operation]:
        arms = {str(fault): Operation(row.doc, self._arm(fault), (*row.params, *WHEN)) for fault, row in ROWS.items()}
        return {**arms, "clear_faults": Operation("Disarm all faults of answers and states.", self._clear)}

    def _clear(self, _args: Args) -> Result:
        self._server.faults.clear()
        return {"armed": {}}

    def _arm(self, fault: Fault) -> Callable[[Args], Result]:
        def call(args: Args) -> Result:
            faults, now_s = self._server.faults, self._server.now_s()
            faults.arm(fault, now_s, args)
            return {"armed": faults.armed(now_s)}

        return call

    def _vacuum(self) -> dict[str, Operation]:
        pump = self._pump
        if pump is None:
            return {}

        def on(doc: str, run: Callable[[VacuumGripper, float], object]) -> Operation:
            def call(_args: Args) -> Result:
                told = run(pump.gripper, self._server.now_s())
                pump.pump()
                return {"state": told} if isinstance(told, dict) else None

            return Operation(doc, call)

        return {
            "put_part": on("A part is under the vacuum gripper's cups.", lambda g, t: g.put_part(t)),
            "take_part": on("It is gone, held or not.", lambda g, t: g.take_part(t)),
            "vacuum_state": on("The truth about the vacuum gripper.", lambda g, t: g.state(t)),
        }

    def _reading(self) -> dict[str, Operation]:
        since = Param("since", Type.INTEGER, "only events with a greater seq; 0 by default: all that are kept")
        limit = Param("limit", Type.INTEGER, f"at most so many, oldest first; {DEFAULT_LOG_LIMIT} by default")
        return {
            "state": Operation("The truth about the hand, its world and its connections.", self._state),
            "log": Operation("Events of the hand.", self._log, (since, limit)),
        }

    def _state(self, _args: Args) -> Mapping[str, object]:
        server = self._server
        scenario = {} if self.scenario_status is None else {"scenario": self.scenario_status()}
        return {
            **scenario,
            "state": self._hand.state(server.now_s()),
            "connections": len(server.connections),
            "clients": [
                {
                    "connection": number,
                    "peer": each.peer,
                    "udp_port": self._hand.udp_ports.get(number),
                    "states_sent": each.states_sent,
                    "states_lost": each.states_lost,
                }
                for number, each in server.connections.items()
            ],
            "faults": {"armed": server.faults.armed(server.now_s()), "struck": server.faults.struck()},
        }

    def _log(self, args: Args) -> Mapping[str, object]:
        self._hand.advance(self._server.now_s())
        history = self._hand.history
        events = history.since(args.integer("since"))[: max(args.integer("limit", DEFAULT_LOG_LIMIT), 0)]
        return {"events": [event.as_json() for event in events], "last_event": history.last_seq}


def _part(args: Args) -> GraspObject:
    return GraspObject(
        args.number("width_m"),
        args.number("stiffness_n_per_m", RIGID_N_PER_M),
        args.flag("internal"),
        args.number("hold_force_n", 0.0),
        args.number("slip_after_s", 0.2),
    )
