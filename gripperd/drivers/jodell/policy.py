"""What the facts of the Jodell map mean for the contract. Pure."""

from __future__ import annotations

import math

from gripperd.contract import Activation, Code, GraspState, MotionState, Readings
from gripperd.contract.requests import Command, Grip, Move, Open
from gripperd.drivers.base import Observation, Refusal
from gripperd.drivers.jodell.registers import Status, fault_of, width_m
from gripperd.drivers.jodell.table import (
    FAULT_BLOCKS,
    OBJ_CLOSING_CONTACT,
    OBJ_OPENING_CONTACT,
    OBJ_REACHED,
    STA_ACTIVATING,
    STA_ACTIVE,
)
from gripperd.drivers.values import invalid_relative


def observe(status: Status, stroke_m: float, empty_width_m: float, identity: str = "") -> Observation:
    """What a status says in the contract's terms. Widths [m].

    Before activation the zero is not known, so there is no width. gOBJ and gGTO count only when gSTA is 3: during the
    sweep they describe its end stops.
    """
    activation = activation_of(status)
    active = activation is Activation.ACTIVE
    width = width_m(status.position, stroke_m) if active else None
    return Observation(
        width_m=width,
        grasp=_grasp(status, width, empty_width_m) if active else GraspState.UNKNOWN,
        motion=_motion(status),
        activation=activation,
        fault=fault_of(status.faults),
        readings=_readings(status),
        raw=status,
        identity=identity,
    )


def activation_of(status: Status) -> Activation:
    """Only gSTA 3 is active."""
    if status.activation == STA_ACTIVE:
        return Activation.ACTIVE
    if status.faults & FAULT_BLOCKS:
        return Activation.FAULT
    return Activation.ACTIVATING if status.activation == STA_ACTIVATING else Activation.INACTIVE


def _grasp(status: Status, width: float | None, empty_width_m: float) -> GraspState:
    """Seed 003: gOBJ 2 and 1 are HOLDING, 3 is NOT_HOLDING (gDropSta tells a lost object), 0 is UNKNOWN.

    Contact at the closed end cannot be told from fingers that touch each other; contact together with the drop flag is
    a contradiction.
    """
    if status.contact == OBJ_REACHED:
        return GraspState.NOT_HOLDING
    if status.contact == OBJ_CLOSING_CONTACT and width is not None and width <= empty_width_m:
        return GraspState.UNKNOWN
    if status.contact in (OBJ_CLOSING_CONTACT, OBJ_OPENING_CONTACT):
        return GraspState.UNKNOWN if status.dropped else GraspState.HOLDING
    return GraspState.UNKNOWN


def _motion(status: Status) -> MotionState:
    if status.activation == STA_ACTIVE:
        return MotionState.MOVING if status.moving else MotionState.STOPPED
    if not status.enabled and not status.moving and status.activation != STA_ACTIVATING:
        return MotionState.STOPPED  # the drive is disabled and the brake holds
    return MotionState.UNKNOWN


def _readings(status: Status) -> Readings | None:
    if status.force is None or status.speed is None:
        return None
    return Readings(
        effort=round(status.force / 255, 4),
        speed=round(status.speed / 255, 4),
        temperature_c=None if status.temperature_c is None else float(status.temperature_c),
        voltage_v=None if status.voltage_v is None else float(status.voltage_v),
    )


def invalid_value(command: Command, stroke_m: float) -> Refusal | None:
    """Well-typed values that are not permitted."""
    if (refusal := invalid_relative(command)) is not None:
        return refusal
    if isinstance(command, Move):
        return _invalid_width("opening_width_m", command.opening_width_m, stroke_m)
    if isinstance(command, Grip) and command.expected_object_width_valid:
        return _invalid_width("expected_object_width_m", command.expected_object_width_m, stroke_m)
    return None


def _invalid_width(name: str, width: float, stroke_m: float) -> Refusal | None:
    permitted = f"permitted is 0 to {stroke_m} m"
    if not math.isfinite(width) or width < 0:
        return Refusal(Code.INVALID_ARGUMENT, f"{name} is {width}: {permitted}")
    if width > stroke_m:
        return Refusal(Code.UNREACHABLE_WIDTH, f"{name} is {width}: {permitted}")
    return None


def not_ready(command: Command, latest: Observation) -> Refusal | None:
    """Why the device cannot carry the command out now."""
    status = latest.raw
    assert isinstance(status, Status)
    if not isinstance(command, (Move, Grip, Open)):
        return None
    if latest.activation is not Activation.ACTIVE:
        if latest.activation is Activation.FAULT and latest.fault is not None:
            return Refusal(Code.DEVICE_FAULT, f"{latest.fault.text}: remove the cause, then activate")
        text = f"the device is {latest.activation}: activate it first; that moves the jaws"
        return Refusal(Code.NOT_ACTIVE, text)
    fault = fault_of(status.faults & FAULT_BLOCKS)
    if fault is not None:
        return Refusal(Code.DEVICE_FAULT, f"{fault.text}: remove the cause, then clear_fault and activate")
    return None
