"""The truth about a simulated RG75 and its world, whatever its registers say. For people and tests; pure."""

from __future__ import annotations

from gripperd_sim.rg75.core import Core


def truth(core: Core) -> dict[str, object]:
    """What is, now."""
    jaw, part = core.jaw, core.jaw.object
    return {
        "width_m": jaw.width_m,
        "speed_m_s": jaw.speed_m_s,
        "force_n": jaw.force_n,
        "holding": jaw.holding,
        "object_width_m": part.width_m if part else None,
        "obstruction_m": jaw.obstruction_m,
        "activity": core.activity.value,
        "active": core.active,
        "status": core.status,
        "faults": core.faults.byte,
        "position": core.position,
        "temperature_c": core.faults.temperature_c,
        "voltage_v": core.faults.voltage_v,
        "commands_taken": core.commands_taken,
    }
