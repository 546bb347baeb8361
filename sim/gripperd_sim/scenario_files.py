"""Scenario files on disk: those that come with the simulator, by name, and anybody's, by path."""

from __future__ import annotations

import difflib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from gripperd_sim.scenario import Scenario, ScenarioError

SUFFIX = ".toml"
RG75 = "rg75"
"""The device whose scenarios lie in the folder itself; those of others lie in one of the device's name."""


def _folder(device: str) -> Traversable:
    folder = files("gripperd_sim") / "scenarios"
    return folder if device == RG75 else folder / device


def names(device: str = RG75) -> list[str]:
    """The scenarios that come with the simulator of this device."""
    found = _folder(device).iterdir()
    return sorted(entry.name.removesuffix(SUFFIX) for entry in found if entry.name.endswith(SUFFIX))


def read(name: str, device: str = RG75) -> Scenario:
    """By the name of one that comes with the simulator, or by path: with a slash or the suffix."""
    if "/" in name or name.endswith(SUFFIX):
        return _read_path(Path(name), device)
    valid = names(device)
    if name not in valid:
        near = difflib.get_close_matches(name, valid, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ScenarioError(f"no scenario {name!r}.{hint} Valid: {', '.join(valid)}, or the path of a {SUFFIX} file")
    text = (_folder(device) / (name + SUFFIX)).read_text(encoding="utf-8")
    return Scenario.load(text, name)


def _read_path(path: Path, device: str) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(
            f"{path}: {error.strerror}; give a scenario file, or one of {', '.join(names(device))}"
        ) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8: {error}") from error
    return Scenario.load(text, str(path))


def as_text(device: str = RG75) -> str:
    """The list for people at a terminal."""
    return "\n".join(f"{name}\n    {read(name, device).about}" for name in names(device))
