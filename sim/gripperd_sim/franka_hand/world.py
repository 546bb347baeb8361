"""What a person can do to a hand: put parts between its fingers, take them away, be in the way, move fingers. Pure."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from gripperd_sim.history import History, Kind
from gripperd_sim.jaw import GraspObject, Jaw, WorldError

ROOM_M = 0.001
"""A part that lies ready is put in when the jaws are this much wider [m]."""
MAX_TEMPERATURE_C = 0xFFFF
"""What the state can tell [deg C]."""


class World(ABC):
    """The jaws and what is around them. Every method acts at now_s [s]; WorldError tells what cannot be."""

    def __init__(self, jaw: Jaw, temperature_c: int) -> None:
        self.jaw = jaw
        self.history = History()
        self.temperature_c = temperature_c
        self._supply: GraspObject | None = None

    @abstractmethod
    def advance(self, now_s: float) -> None:
        """Let time pass."""

    @property
    @abstractmethod
    def at_rest(self) -> bool:
        """Whether the hand is homed and nothing is pending."""

    def put_object(self, part: GraspObject, now_s: float) -> None:
        """Put a part between the jaws."""
        self.advance(now_s)
        self.jaw.put_object(part)
        self._note(now_s, Kind.OBJECT, "put", width_m=part.width_m)

    def supply_object(self, part: GraspObject, now_s: float) -> None:
        """Have a part put in whenever the homed hand rests wide enough and holds none."""
        if part.width_m + ROOM_M >= self.jaw.stroke_m:
            raise WorldError(
                f"an object of {part.width_m} m never fits: the hand opens to {self.jaw.stroke_m} m, and needs "
                f"{ROOM_M} m of room"
            )
        self.advance(now_s)
        self._supply = part
        self._serve_supply()

    def take_object(self, now_s: float) -> None:
        """Take the part away, held or not, and supply no more."""
        self.advance(now_s)
        supplied, self._supply = self._supply, None
        if self.jaw.object is None and supplied is not None:
            return
        part = self.jaw.take_object()
        self._note(now_s, Kind.OBJECT, "taken", width_m=part.width_m)

    def slip(self, now_s: float, hold_force_n: float = math.inf, slip_after_s: float = 0.0) -> None:
        """The part slips out slip_after_s [s] after it is held with less than hold_force_n [N]; by default at once."""
        self.advance(now_s)
        self.jaw.make_slippery(hold_force_n, slip_after_s)
        force_n = hold_force_n if math.isfinite(hold_force_n) else None
        self._note(now_s, Kind.WORLD, "slip", hold_force_n=force_n, slip_after_s=slip_after_s)

    def obstruct(self, width_m: float, now_s: float) -> None:
        """Something hard at this width stops the jaws from either side."""
        self.advance(now_s)
        self.jaw.obstruct(width_m)
        self._note(now_s, Kind.WORLD, "obstruct", width_m=width_m)

    def clear_obstruction(self, now_s: float) -> None:
        """Take it away."""
        self.advance(now_s)
        self.jaw.clear_obstruction()
        self._note(now_s, Kind.WORLD, "clear_obstruction")

    def move_fingers(self, width_m: float, now_s: float) -> None:
        """Somebody moves the fingers."""
        self.advance(now_s)
        self.jaw.move_fingers(width_m)
        self._note(now_s, Kind.WORLD, "move_fingers", width_m=width_m)

    def set_temperature(self, temperature_c: int, now_s: float) -> None:
        """What the states tell from now on [deg C]."""
        if not 0 <= temperature_c <= MAX_TEMPERATURE_C:
            raise WorldError(f"temperature {temperature_c} °C: give 0 to {MAX_TEMPERATURE_C}")
        self.advance(now_s)
        self.temperature_c = temperature_c
        self._note(now_s, Kind.WORLD, "environment", temperature_c=temperature_c)

    def _note(self, now_s: float, kind: Kind, change: str, **fields: float | None) -> None:
        self.history.add(now_s, kind, change=change, **fields)
        self.advance(now_s)

    def _serve_supply(self) -> None:
        part = self._supply
        if part is None or not self.at_rest or self.jaw.object is not None:
            return
        if self.jaw.width_m > part.width_m + ROOM_M:
            self.jaw.put_object(part)
            self.history.add(self.jaw.now_s, Kind.OBJECT, change="supplied", width_m=part.width_m)

    def _withdraw(self) -> None:
        """Nothing may be in the way of homing: somebody who supplies parts knows that."""
        if self._supply is not None and self.jaw.object is not None:
            part = self.jaw.take_object()
            self.history.add(self.jaw.now_s, Kind.OBJECT, change="taken", width_m=part.width_m)
