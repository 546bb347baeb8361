"""The option table: parsing, ranges, texts; and that the manual has the same one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gripperd_sim.option_table import OptionError, as_markdown, as_text, describe, parse_assignments
from gripperd_sim.rg75 import Rg75Options

MANUAL = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_assignments_set_what_they_name() -> None:
    options = parse_assignments(
        Rg75Options, ["takeup_s=0.02", "exceptions=off", "blocking_faults=0x40", "goto_before_homing=queued"]
    )
    assert options == Rg75Options(takeup_s=0.02, exceptions=False, blocking_faults=0x40, goto_before_homing="queued")
    assert parse_assignments(Rg75Options, []) == Rg75Options()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("takeup=0.02", "Did you mean takeup_s.*Valid names: stroke_m, "),
        ("nonsense", "NAME=VALUE"),
        ("takeup_s=soon", "number from 0 to 5"),
        ("takeup_s=-1", "number from 0 to 5"),
        ("takeup_s=nan", "number from 0 to 5"),
        ("exceptions=maybe", "true, false"),
        ("blocking_faults=1.5", "whole number from 0 to 255"),
        ("stop_object_bits=never", "unchanged, zero"),
        ("min_force_n=400", "above max_force_n = 300"),
        ("max_speed_m_s=0.01", "above max_speed_m_s = 0.01"),
    ],
)
def test_wrong_assignments_say_what_is_valid(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_assignments(Rg75Options, [text])


def test_wrong_types_are_refused_in_code_too() -> None:
    for wrong in ({"blocking_faults": 1.5}, {"exceptions": 1}, {"takeup_s": True}, {"takeup_s": "x"}):
        with pytest.raises(OptionError):
            Rg75Options(**wrong)


def test_every_option_has_a_text() -> None:
    table = describe(Rg75Options)
    assert [info.name for info in table] == [field.name for field in fields(Rg75Options)]
    assert all(info.doc for info in table)
    text = as_text(Rg75Options)
    assert all(f"{info.name}={info.default_text}" in text for info in table)


def test_defaults_can_be_typed() -> None:
    assert (
        parse_assignments(Rg75Options, [f"{i.name}={i.default_text}" for i in describe(Rg75Options)]) == Rg75Options()
    )


def test_the_manual_has_this_table() -> None:
    assert as_markdown(Rg75Options) in MANUAL.read_text(), "put the output of option_table.as_markdown() there"
