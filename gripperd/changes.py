"""What a new configuration changes. Pure: two configurations in, names of parts out.

Rules
1. A gripper goes on undisturbed if neither its own section nor its bus has changed.
2. A part that has changed ends and begins anew.
3. What only a restart can change refuses the whole configuration: half of one is none that anybody wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gripperd.config import Config

APPLIED = frozenset({"log_level", "log_format", "command_users", "command_groups"})
"""Keys of [daemon] that can change while it runs."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Names of buses, grippers, and grippers whose publishers are meant."""

    buses: frozenset[str] = frozenset()
    grippers: frozenset[str] = frozenset()
    publishers: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """For people."""
        return sorted(
            {f"bus {name}" for name in self.buses}
            | {f"gripper {name}" for name in self.grippers}
            | {f"MQTT of {name}" for name in self.publishers}
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """From one configuration to the next. restart: keys that only a restart can change; then nothing is done."""

    ended: Parts = Parts()
    begun: Parts = Parts()
    restart: tuple[str, ...] = ()


def changes(before: Config, after: Config) -> Changes:
    """What ends and what begins."""
    restart = tuple(
        f"daemon.{key}"
        for key in type(before.daemon).model_fields
        if key not in APPLIED and getattr(before.daemon, key) != getattr(after.daemon, key)
    )
    old, new = _parts(before), _parts(after)
    kept_buses = {name for name, bus in old.buses.items() if new.buses.get(name) == bus}
    kept = {
        name
        for name, gripper in old.grippers.items()
        if new.grippers.get(name) == gripper and getattr(gripper, "bus", None) in {None, *kept_buses}
    }
    told = set(old.grippers) & set(new.grippers) if before.mqtt == after.mqtt else set()
    return Changes(
        ended=Parts(
            frozenset(old.buses) - kept_buses,
            frozenset(old.grippers) - kept,
            frozenset(old.grippers if before.mqtt is not None else ()) - told,
        ),
        begun=Parts(
            frozenset(new.buses) - kept_buses,
            frozenset(new.grippers) - kept,
            frozenset(new.grippers if after.mqtt is not None else ()) - told,
        ),
        restart=restart,
    )


@dataclass(frozen=True, slots=True)
class _Named:
    buses: dict[str, Any]
    grippers: dict[str, Any]


def _parts(config: Config) -> _Named:
    return _Named({bus.name: bus for bus in config.bus}, {each.name: each for each in config.gripper})
