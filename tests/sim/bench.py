"""A pure RG75 with a master that writes words and reads the status, in virtual time."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gripperd_sim.history import Event, Kind
from gripperd_sim.jaw import GraspObject, Jaw
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rtu import seal

OPEN, CLOSED = 0, 255
TAKEUP_S = 0.01
ACTIVATION_S = 1.5
FULL_STROKE_S = 0.55
POLL_S = 0.25


@dataclass(frozen=True)
class Status:
    """Registers 0x07D0 to 0x07D3 as bytes."""

    status: int
    position: int
    faults: int
    force: int
    speed: int
    temperature: int
    voltage: int

    @property
    def gobj(self) -> int:
        return self.status >> 6

    @property
    def gsta(self) -> int:
        return self.status >> 4 & 3

    @property
    def moving(self) -> bool:
        return bool(self.status & 8)


class Bench:
    """The device at time t_s [s]; every method acts now, only go_on() and the like let time pass."""

    def __init__(self, options: Rg75Options | None = None, width_m: float | None = None, unit: int = 9) -> None:
        options = options or Rg75Options()
        self.t_s = 0.0
        self.unit = unit
        self.device = Rg75(options, Jaw(options.stroke_m, width_m), unit=unit)

    def send(self, body: bytes) -> bytes | None:
        """A frame with its CRC appended, at self.t_s."""
        return self.device.handle(seal(body), self.t_s)

    def write(self, address: int, *values: int) -> bytes | None:
        count = len(values)
        return self.send(struct.pack(f">BBHHB{count}H", self.unit, 0x10, address, count, 2 * count, *values))

    def write_one(self, address: int, value: int) -> bytes | None:
        return self.send(struct.pack(">BBHH", self.unit, 6, address, value))

    def read(self, address: int, count: int = 1, function: int = 3) -> tuple[int, ...]:
        reply = self.send(struct.pack(">BBHH", self.unit, function, address, count))
        assert reply is not None, "no reply"
        assert reply[:3] == bytes((self.unit, function, 2 * count)), reply.hex()
        return struct.unpack(f">{count}H", reply[3:-2])

    @property
    def status(self) -> Status:
        words = self.read(0x07D0, 4, 4)
        assert words[0] < 0x100
        return Status(words[0], *(byte for word in words[1:] for byte in (word >> 8, word & 0xFF)))

    def go_on(self, duration_s: float) -> Status:
        """Let time pass, then read."""
        self.t_s += duration_s
        return self.status

    def poll(self, duration_s: float) -> Status:
        """Let time pass as a good master does: it reads often enough for the watchdog."""
        while duration_s > POLL_S:
            self.go_on(POLL_S)
            duration_s -= POLL_S
        return self.go_on(duration_s)

    def go(self, position: int, force: int = 255, speed: int = 255) -> bytes | None:
        """Go-to in one write, as the vendor does."""
        return self.write(0x03E8, 0x0009, position << 8, force << 8 | speed)

    def activated(self) -> Bench:
        """Reset, enable, wait until homing is done."""
        self.write(0x03E8, 0)
        self.go_on(0.1)
        self.write(0x03E8, 1)
        assert self.poll(ACTIVATION_S + 0.1).status == 0x31
        return self

    def opened(self) -> Bench:
        """Activated and fully open."""
        self.activated().go(OPEN)
        assert self.go_on(FULL_STROKE_S + 0.05).status == 0xF1
        return self

    def gripping(self, width_m: float = 0.03) -> Bench:
        """Activated, closed on an object."""
        self.opened().put(width_m)
        self.go(CLOSED)
        assert self.go_on(FULL_STROKE_S).status == 0xB1
        return self

    def put(self, width_m: float, stiffness_n_per_m: float = 1e6, internal: bool = False) -> None:
        self.device.put_object(GraspObject(width_m, stiffness_n_per_m, internal), self.t_s)

    def events(self, *kinds: Kind) -> list[Event]:
        self.device.advance(self.t_s)
        return self.device.history.of(*kinds)

    @property
    def last_command(self) -> Event:
        return self.events(Kind.COMMAND)[-1]
