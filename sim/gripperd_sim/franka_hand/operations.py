"""What can be done to a simulated hand from the control socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gripperd_sim.franka_hand.faults import DOCS, Fault
from gripperd_sim.franka_hand.hand import FrankaHand
from gripperd_sim.franka_hand.server import HandServer
from gripperd_sim.franka_hand.vacuum import VacuumGripper
from gripperd_sim.franka_hand.vacuum_server import VacuumServer
from gripperd_sim.jaw import RIGID_N_PER_M, GraspObject
from gripperd_sim.operations import Args, Operation, Param, Result, Type

DEFAULT_LOG_LIMIT = 1000
DEFAULT_POWER_OFF_S = 2.0
MAX_WAIT_S = 3600.0

WIDTH = Param("width_m", Type.NUMBER, "width in metres", required=True)
COUNT = Param("count", Type.INTEGER, "how often; 1 by default, 0 disarms", low=0, high=1_000_000)
OBJECT = (
    WIDTH,
    Param("stiffness_n_per_m", Type.NUMBER, f"stiffness, {RIGID_N_PER_M:g} by default"),
    Param("hold_force_n", Type.NUMBER, "held with less it slips out; 0 by default"),
)


class HandBench:
    """The operations on one hand."""

    def __init__(self, hand: FrankaHand, server: HandServer, pump: VacuumServer | None = None) -> None:
        self._hand = hand
        self._server = server
        self._pump = pump

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
            "obstruct": on(
                "Something hard at this width stops the jaws from either side.",
                lambda h, a, t: h.obstruct(a.number("width_m"), t),
                WIDTH,
            ),
            "clear_obstruction": on("Take it away.", lambda h, _a, t: h.clear_obstruction(t)),
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
        duration = Param("duration_s", Type.NUMBER, "for how long", required=True, low=0, high=MAX_WAIT_S)
        return {
            "disconnect": Operation(
                "End all connections: with RST, with FIN, or one way only.", self._disconnect, (how,)
            ),
            "silence": Operation(
                "Neither hear nor say anything for a while; connections stay open.", self._silence, (duration,)
            ),
            "unplug": Operation("The cable is out: silence until it is plugged.", self._unplug),
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

    def _unplug(self, _args: Args) -> Result:
        self._server.silence(MAX_WAIT_S)
        return None

    def _plug(self, _args: Args) -> Result:
        self._server.silence(0.0)
        return None

    def _refuse(self, _args: Args) -> Result:
        self._server.refuse()
        return None

    def _listen(self, _args: Args) -> Result:
        self._server.listen()
        return None

    def _faults(self) -> dict[str, Operation]:
        return {fault.value: Operation(DOCS[fault], self._arm(fault), (COUNT,)) for fault in Fault}

    def _arm(self, fault: Fault) -> Callable[[Args], Result]:
        def call(args: Args) -> Result:
            self._server.faults.arm(fault, args.integer("count", 1))
            return None

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
        return {
            "state": self._hand.state(server.now_s()),
            "connections": len(server.connections),
            "faults": {
                "armed": {str(k): v for k, v in server.faults.left.items() if v},
                "struck": server.faults.struck,
            },
        }

    def _log(self, args: Args) -> Mapping[str, object]:
        history = self._hand.history
        events = history.since(args.integer("since"))[: max(args.integer("limit", DEFAULT_LOG_LIMIT), 0)]
        return {"events": [event.as_json() for event in events], "last_event": history.last_seq}


def _part(args: Args) -> GraspObject:
    return GraspObject(
        args.number("width_m"),
        args.number("stiffness_n_per_m", RIGID_N_PER_M),
        hold_force_n=args.number("hold_force_n", 0.0),
    )
