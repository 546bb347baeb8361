"""Units, scale and direction: the same for every driver, and told by the info, so that nobody has to know the model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gripperd.contract import GripperInfo, Outcome
from gripperd.contract.requests import Grip, Move, Open
from gripperd.contract.schema import models
from gripperd.ctl.parser import parser
from tests.support.hand_rig import HandRig
from tests.support.rig import Rig
from tests.support.virtual_time import run_virtual

ROOT = Path(__file__).parent.parent.parent
UNITS = ("_m", "_n", "_s", "_c", "_v", "_hz")
RELATIVE = ("relative_effort", "relative_speed", "effort", "speed")
"""Floats without a unit: device-relative, 0 to 1."""


@pytest.mark.parametrize("stroke_m", [0.075, 0.068])
def test_both_ends_are_driven_by_what_the_info_tells(stroke_m: float) -> None:
    """UNITS 74, 76, 77: two profiles of fingertips, one code path; open is the greater width."""

    async def scenario() -> None:
        async with Rig(stroke_m=stroke_m) as rig:
            await rig.activate()
            info: GripperInfo = rig.driver.info()
            assert info.opening_width_range_valid
            widths = []
            for width_m in (info.max_opening_width_m, info.min_opening_width_m, info.max_opening_width_m / 2):
                outcome = await rig.outcome(Move(opening_width_m=width_m, relative_speed=1.0))
                assert outcome.outcome is Outcome.REACHED
                assert outcome.opening_width_m == pytest.approx(width_m, abs=stroke_m / 255)
                widths.append(outcome.opening_width_m)
            opened = await rig.outcome(Open(relative_speed=1.0))
            closed = await rig.outcome(Grip(relative_speed=1.0))
            assert opened.opening_width_m == pytest.approx(info.max_opening_width_m)
            assert closed.opening_width_m < opened.opening_width_m

    run_virtual(scenario())


def test_a_hand_too() -> None:
    """UNITS 74, 77: the hand's own range, in metres, once it is homed."""

    async def scenario() -> None:
        async with HandRig() as rig:
            await rig.up()
            info = rig.driver.info()
            assert (info.min_opening_width_m, info.max_opening_width_m) == (0.0, 0.08)
            for width_m in (info.min_opening_width_m, info.max_opening_width_m):
                outcome = await rig.moved(Move(opening_width_m=width_m), width_m)
                assert outcome.outcome is Outcome.REACHED
                assert outcome.opening_width_m == pytest.approx(width_m)

    run_virtual(scenario())


def test_every_number_of_the_contract_has_its_unit_in_its_name() -> None:
    """UNITS 79: and the schema, which is made of the same models, with it."""
    for name, model in models().items():
        for field, info in model.model_fields.items():
            if "float" in str(info.annotation):
                assert field.endswith(UNITS) or field in RELATIVE, f"{name}.{field}"


def test_help_and_documents_speak_of_the_same_units(capsys: pytest.CaptureFixture[str]) -> None:
    """UNITS 71, 79: widths are metres wherever one is given."""
    for verb, text in (("move", "WIDTH_M"), ("grip", "--expect-width M")):
        with pytest.raises(SystemExit):
            parser().parse_args([verb, "--help"])
        said = capsys.readouterr().out
        assert text in said
        assert "[m]" in said
        assert "mm" not in said
    contract = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    assert not re.search(r"\bmm\b", contract), "the contract knows metres only"
