"""Documents and code agree: fields of the contract, limits, files that are named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gripperd.config import SECTIONS, parse_config
from gripperd.contract import Code, CommandOutcome, CommandReply, GripperInfo, GripperState, Message, Outcome
from gripperd.drivers.registry import driver_specs

ROOT = Path(__file__).parent.parent
CONTRACT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def _first_table(heading: str) -> list[str]:
    """First column of the first table behind a heading."""
    rows = re.split(rf"^#+ {heading}$", CONTRACT, flags=re.MULTILINE)[1].split("\n\n|")[1].split("\n\n")[0]
    return re.findall(r"^\|? ?`([a-z_]+)` \|", rows, flags=re.MULTILINE)


@pytest.mark.parametrize("model", [GripperState, CommandReply, CommandOutcome, GripperInfo])
def test_the_page_lists_the_fields_of_the_model_in_their_order(model: type[Message]) -> None:
    assert _first_table(model.__name__) == list(model.model_fields)


@pytest.mark.parametrize("name", [*Code, *Outcome])
def test_every_code_and_outcome_is_explained(name: str) -> None:
    assert f"`{name}`" in CONTRACT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:gripperd|sim|tests|docs|examples|bench)/[\w./-]+)`", text))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing, f"{page.name} names {missing}"


BUS = {"name": "tool0", "port": "/dev/gripper/tool0"}
GRIPPER = {"name": "left", "driver": "rg75", "bus": "tool0", "unit": 9}


def _configurations() -> list[tuple[str, str]]:
    """(page, text) of every block of a page that is a configuration, or a part of one."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            if set(tomllib.loads(block)) <= set(SECTIONS):
                found.append((page.name, block))
    return found


def test_every_configuration_that_is_shown_is_good() -> None:
    """DIAG 88: a part of one is completed with what it leaves out."""
    shown = _configurations()
    assert len(shown) >= 5
    for page, block in shown:
        raw = tomllib.loads(block)
        if "gripper" not in raw:
            raw = {"bus": [BUS], "gripper": [GRIPPER], **raw}
        elif "bus" not in raw and any("bus" in each for each in raw["gripper"]):
            raw = {"bus": [BUS], **raw}
        parse_config(raw, driver_specs(), page)
