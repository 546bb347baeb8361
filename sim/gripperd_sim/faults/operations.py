"""The line faults as operations of a simulator: one for each kind, made from the table, and one to disarm all.

Pure; the clock is given. It knows no particular device.
"""

from __future__ import annotations

from collections.abc import Callable

from gripperd_sim.faults.line_faults import LineFaults
from gripperd_sim.faults.model import KINDS, Fault, FaultKind
from gripperd_sim.operations import Args, Operation, Param, Result


def fault_operations(
    faults: Callable[[Args], LineFaults], clock: Callable[[], float], unit: Param
) -> dict[str, Operation]:
    """All by name. faults: those of the device that is meant; unit: the parameter that says which."""

    def answer(target: LineFaults) -> Result:
        return {"armed": target.armed(clock())}

    def arm(kind: FaultKind, args: Args) -> Result:
        target = faults(args)
        own = Args({name: value for name, value in args.values.items() if name != unit.name})
        target.arm(Fault.of_args(kind, own), clock())
        return answer(target)

    def clear(args: Args) -> Result:
        target = faults(args)
        target.clear()
        return answer(target)

    def operation(kind: FaultKind) -> Operation:
        row = KINDS[kind]
        return Operation(row.doc, lambda args: arm(kind, args), (*row.params, unit), row.either)

    return {
        **{str(kind): operation(kind) for kind in FaultKind},
        "clear_line_faults": Operation("Disarm all line faults of a device.", clear, (unit,)),
    }
