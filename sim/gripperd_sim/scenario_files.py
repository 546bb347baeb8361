"""Scenario files on disk: those that come with the simulator, by name, and anybody's, by path."""

from __future__ import annotations

import difflib
from importlib.resources import files
from pathlib import Path

from gripperd_sim.scenario import Scenario, ScenarioError

SUFFIX = ".toml"


def names() -> list[str]:
    """The scenarios that come with the simulator."""
    folder = files("gripperd_sim") / "scenarios"
    return sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


def read(name: str) -> Scenario:
    """By the name of one that comes with the simulator, or by path: with a slash or the suffix."""
    if "/" in name or name.endswith(SUFFIX):
        return _read_path(Path(name))
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ScenarioError(f"no scenario {name!r}.{hint} Valid: {', '.join(names())}, or the path of a {SUFFIX} file")
    text = (files("gripperd_sim") / "scenarios" / (name + SUFFIX)).read_text(encoding="utf-8")
    return Scenario.load(text, name)


def _read_path(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(
            f"{path}: {error.strerror}; give a scenario file, or one of {', '.join(names())}"
        ) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8: {error}") from error
    return Scenario.load(text, str(path))


def as_text() -> str:
    """The list for people at a terminal."""
    return "\n".join(f"{name}\n    {read(name).about}" for name in names())
