"""What happens in one example, as a short file that replays: commands to the gripper and operations of the simulator.

Pure. `do` is a verb of the contract with its parameters, "cancel" (the caller of the last command gives up), or an
operation of the simulator's control socket with its parameters.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Value = float | int | bool | str


@dataclass(frozen=True, slots=True)
class Step:
    """After a pause [s], do something."""

    after_s: float
    do: str
    params: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an example runs on. Rates [Hz], times [s]; see Rg75Options, GripperConfig and BusLimits."""

    seed: int = 0
    takeup_s: float = 0.01
    poll_rate_hz: float = 25.0
    moving_poll_rate_hz: float = 50.0
    late_reply_limit_s: float = 5.0


def dumps(setting: Setting, steps: Sequence[Step]) -> str:
    """As TOML."""
    lines = [f"{name} = {_toml(getattr(setting, name))}" for name in Setting.__dataclass_fields__]
    for step in steps:
        lines += ["", "[[step]]", f"after_s = {_toml(step.after_s)}", f'do = "{step.do}"']
        lines += [f"{name} = {_toml(value)}" for name, value in step.params.items()]
    return "\n".join(lines) + "\n"


def loads(text: str) -> tuple[Setting, list[Step]]:
    """From TOML. Raises TypeError for keys that no setting has."""
    raw: dict[str, Any] = tomllib.loads(text)
    steps = [Step(float(each.pop("after_s", 0.0)), each.pop("do"), each) for each in raw.pop("step", [])]
    return Setting(**raw), steps


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
