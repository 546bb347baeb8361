"""Literal words of the Jodell map, and the units over their whole range."""

from __future__ import annotations

import pytest

from gripperd.contract import Activation, GraspState, MotionState
from gripperd.drivers.jodell.policy import observe
from gripperd.drivers.jodell.registers import byte_of, decode_status, encode_go, fault_of, position_of, width_m

STROKE_M = 0.075

# The status words of docs/rg75.md, with what they mean there. [D] measured, [M] manual, [I] inferred.
WORDS = [
    (0x0000, Activation.INACTIVE, GraspState.UNKNOWN, MotionState.STOPPED),  # after power-up or reset [M/I]
    (0x0011, Activation.ACTIVATING, GraspState.UNKNOWN, MotionState.UNKNOWN),  # activating [I]
    (0x0031, Activation.ACTIVE, GraspState.UNKNOWN, MotionState.STOPPED),  # active, gOBJ 0 [I]
    (0x0039, Activation.ACTIVE, GraspState.UNKNOWN, MotionState.MOVING),  # moving [D]
    (0x00F1, Activation.ACTIVE, GraspState.NOT_HOLDING, MotionState.STOPPED),  # reached, no object [D]
    (0x00B1, Activation.ACTIVE, GraspState.HOLDING, MotionState.STOPPED),  # gripped while closing [D]
    (0x0071, Activation.ACTIVE, GraspState.HOLDING, MotionState.STOPPED),  # contact while opening [I]
    (0x00F3, Activation.ACTIVE, GraspState.NOT_HOLDING, MotionState.STOPPED),  # the drop flag: lost object [M]
    (0x003B, Activation.ACTIVE, GraspState.UNKNOWN, MotionState.MOVING),  # lost, and still driving on [I]
    (0x00B3, Activation.ACTIVE, GraspState.UNKNOWN, MotionState.STOPPED),  # contact and drop flag contradict
    (0x0091, Activation.ACTIVATING, GraspState.UNKNOWN, MotionState.UNKNOWN),  # gOBJ of the sweep's end stop
    (0x0001, Activation.INACTIVE, GraspState.UNKNOWN, MotionState.UNKNOWN),  # enabled, gSTA 0: releasing [M]
]


@pytest.mark.parametrize(("word", "activation", "grasp", "motion"), WORDS, ids=lambda value: str(value))
def test_a_status_word_means_what_the_manual_says(
    word: int, activation: Activation, grasp: GraspState, motion: MotionState
) -> None:
    observation = observe(decode_status([word, 0x8000, 0, 0]), STROKE_M, 0.001)
    assert (observation.activation, observation.grasp, observation.motion) == (activation, grasp, motion)


def test_the_manuals_example_reply_decodes() -> None:
    """09 04 06 00 F1 FE 04 01 00 0B 3F: status F1, position FE, fault 04, force 01, speed 00."""
    status = decode_status([0x00F1, 0xFE04, 0x0100])
    assert (status.position, status.faults, status.force, status.speed) == (0xFE, 0x04, 1, 0)
    assert status.temperature_c is None
    observation = observe(status, STROKE_M, 0.001)
    assert observation.activation is Activation.ACTIVE
    assert observation.fault is not None
    assert observation.fault.code == 4
    assert "communication" in observation.fault.text


def test_four_registers_add_temperature_and_voltage() -> None:
    status = decode_status([0x00F1, 0xFE04, 0x0100, 0x1918])
    assert (status.temperature_c, status.voltage_v) == (25, 24)


def test_a_temperature_below_zero_keeps_its_sign() -> None:
    assert decode_status([0, 0, 0, 0xF618]).temperature_c == -10


@pytest.mark.parametrize("registers", [2, 3, 4])
def test_fewer_registers_tell_less_and_never_zero(registers: int) -> None:
    observation = observe(decode_status([0x00F1, 0x8000, 0x4020, 0x1918][:registers]), STROKE_M, 0.001)
    assert observation.width_m == pytest.approx(0.075 * 127 / 255)
    assert (observation.readings is None) is (registers == 2)
    if observation.readings is not None:
        assert (observation.readings.temperature_c is None) is (registers == 3)


@pytest.mark.parametrize("stroke_m", [0.075, 0.0767, 0.052])
def test_every_position_survives_the_way_through_metres(stroke_m: float) -> None:
    """UNITS 71, 76, 77: round trip at all 256 counts, for several strokes; open is wide."""
    widths = [width_m(position, stroke_m) for position in range(256)]
    assert widths[0] == stroke_m
    assert widths[255] == 0.0
    assert widths == sorted(widths, reverse=True)
    assert [position_of(width, stroke_m) for width in widths] == list(range(256))


def test_position_goes_high_force_high_and_speed_low() -> None:
    """The words of `close 255/255`: 0009 FF00 FFFF; and none of its bytes may trade places."""
    assert encode_go(255, 255, 255) == (0x0009, 0xFF00, 0xFFFF)
    assert encode_go(0x12, 0x34, 0x56) == (0x0009, 0x1200, 0x3456)


def test_relative_values_reach_both_ends() -> None:
    assert byte_of(1.0) == 255
    assert byte_of(0.001) == 0
    assert byte_of(0.5) == 128


@pytest.mark.parametrize("bit", range(8))
def test_every_fault_bit_has_a_text(bit: int) -> None:
    fault = fault_of(1 << bit)
    assert fault is not None
    assert fault.code == 1 << bit
    assert fault.text


def test_no_fault_is_no_fault_and_two_are_both_named() -> None:
    assert fault_of(0) is None
    both = fault_of(0x48)
    assert both is not None
    assert "over-current" in both.text
    assert "over-temperature" in both.text


def test_contact_at_the_closed_end_is_not_called_holding() -> None:
    """Fingers that touch each other look like a thin object: the flag cannot tell."""
    assert observe(decode_status([0x00B1, 0xFF00]), STROKE_M, 0.001).grasp is GraspState.UNKNOWN
    assert observe(decode_status([0x00B1, 0xFC00]), STROKE_M, 0.001).grasp is GraspState.UNKNOWN
    assert observe(decode_status([0x00B1, 0xFB00]), STROKE_M, 0.001).grasp is GraspState.HOLDING


def test_a_width_before_activation_is_none() -> None:
    """Its zero is not known yet."""
    for word in (0x0000, 0x0011, 0x0001):
        assert observe(decode_status([word, 0x8000]), STROKE_M, 0.001).width_m is None


def test_an_activation_that_jammed_is_a_fault() -> None:
    observation = observe(decode_status([0x0011, 0x8020]), STROKE_M, 0.001)
    assert observation.activation is Activation.FAULT
