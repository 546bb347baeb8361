"""The simulated RG75 as its master meets it: frames in, frames out, and everything a person can do to it.

Pure: the time is an argument of every method, and a reply shows the device exactly at that time. It owns the registers,
the take-up of control words, the watchdog and power; what a control word does is in core.py.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from gripperd_sim import rtu
from gripperd_sim.history import History, Kind
from gripperd_sim.jaw import GraspObject, Jaw, WorldError
from gripperd_sim.rg75 import registers as reg
from gripperd_sim.rg75.answer import Answer, answer
from gripperd_sim.rg75.core import Core, Taken
from gripperd_sim.rg75.options import Rg75Options
from gripperd_sim.rg75.registers import Command, Fault, Registers
from gripperd_sim.rg75.truth import truth

DEFAULT_POWER_OFF_S = 0.5


@dataclass(frozen=True, slots=True)
class _Pending:
    due_s: float
    command: Command
    request: int


class Rg75:
    """One gripper on a line. Time never runs backwards: a now_s before the latest one counts as the latest one."""

    def __init__(
        self,
        options: Rg75Options | None = None,
        jaw: Jaw | None = None,
        now_s: float = 0.0,
        *,
        unit: int = reg.DEFAULT_UNIT,
        baudrate: int = reg.BAUDRATES[0],
    ) -> None:
        self.options = options or Rg75Options()
        if not 1 <= unit <= reg.MAX_UNIT:
            raise WorldError(f"unit {unit}: give 1 to {reg.MAX_UNIT} (factory: {reg.DEFAULT_UNIT})")
        if baudrate not in reg.BAUDRATES:
            raise WorldError(f"baudrate {baudrate}: an RG75 does one of {', '.join(map(str, reg.BAUDRATES))}")
        self.jaw = jaw or Jaw(self.options.stroke_m, now_s=now_s)
        self.history = History()
        self.core = Core(self.options, self.jaw, self.history)
        self.registers = Registers(self.options, unit, reg.BAUDRATES.index(baudrate))
        self.baudrate = baudrate
        self.powered = True
        self._now_s = now_s
        self._pending: deque[_Pending] = deque()
        self._heard_s = now_s
        self._power_on_s: float | None = None
        self._supply: GraspObject | None = None
        self._shown = (self.core.status, self.core.faults.byte)
        self.jaw.advance(now_s)

    # --- what the line needs to know

    @property
    def unit(self) -> int:
        """Slave id it answers to now."""
        return self.registers[reg.UNIT]

    @property
    def reply_delay_s(self) -> float:
        """Turnaround before a reply."""
        return self.options.reply_delay_s

    @property
    def min_frame_gap_s(self) -> float:
        """Silence by which it sees the end of a request, at least."""
        return self.options.min_frame_gap_s

    @property
    def now_s(self) -> float:
        """The latest time it was told."""
        return self._now_s

    @property
    def commands_taken(self) -> int:
        """How many control words were taken up so far."""
        return self.core.commands_taken

    # --- time

    def advance(self, now_s: float) -> None:
        """Let everything happen that happens up to and at now_s."""
        while (next_s := self._next_event_s()) is not None and next_s <= now_s:
            self._step(max(next_s, self._now_s))
        if now_s > self._now_s:
            self._now_s = float(now_s)
            self.core.step(now_s)

    def _next_event_s(self) -> float | None:
        times = [self.core.next_event_s(), self._power_on_s, self._watchdog_due_s()]
        times.append(self._pending[0].due_s if self._pending else None)
        known = [t for t in times if t is not None]
        return min(known) if known else None

    def _step(self, t_s: float) -> None:
        """Everything that is due at t_s. The jaws come first: an old motion may arrive before the new word is seen."""
        self._now_s = t_s
        self.core.step(t_s)
        if self._power_on_s is not None and self._power_on_s <= t_s:
            self._power_up()
        while self._pending and self._pending[0].due_s <= t_s:
            self._take_up(self._pending.popleft())
        watchdog_s = self._watchdog_due_s()
        if watchdog_s is not None and watchdog_s <= t_s:
            self.core.faults.raise_(Fault.COMMUNICATION)
            if self.options.watchdog_stops_motion:
                self.core.halt_on_fault(t_s)
        self._after_change()

    def _watchdog_due_s(self) -> float | None:
        raised = self.core.faults.bits & Fault.COMMUNICATION
        if not self.powered or raised or self.options.watchdog_s == 0:
            return None
        return self._heard_s + self.options.watchdog_s

    def _after_change(self) -> None:
        if self.core.faults.blocking:
            self.core.halt_on_fault(self._now_s)
        self._serve_supply()
        before, self._shown = self._shown, (self.core.status, self.core.faults.byte)
        if before[0] != self._shown[0]:
            self.history.add(self._now_s, Kind.STATUS, status=self._shown[0], before=before[0])
        if before[1] != self._shown[1]:
            self.history.add(self._now_s, Kind.FAULT, faults=self._shown[1], before=before[1])

    # --- the wire

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        """The reply to a frame whose end was noticed at now_s; None is silence."""
        self.advance(now_s)
        request = rtu.decode_request(frame)
        if not self.powered:
            self._log_silence("power is off", None)
            return None
        if request is None:
            self._log_silence("wrong CRC", None)
            return None
        if request.unit not in (self.unit, rtu.BROADCAST):
            return None
        seq = self._log_request(request, frame)
        if request.unit == rtu.BROADCAST:
            if request.is_write and self.options.broadcast_executed:
                self._answer(request, seq)
            self._after_change()
            self._log_silence("broadcast", seq)
            return None
        return self._handle_own(request, seq)

    def _handle_own(self, request: rtu.Request, seq: int) -> bytes | None:
        clear = self.options.watchdog_clear
        self._heard_s = self._now_s
        if clear == "at_once":
            self.core.faults.clear(Fault.COMMUNICATION)
        given = self._answer(request, seq)
        if clear == "after_reply":
            self.core.faults.clear(Fault.COMMUNICATION)
        self._after_change()
        if given.exception is not None and not self.options.exceptions:
            self._log_silence(f"exception {given.exception} is not sent", seq)
            return None
        self.history.add(
            self._now_s,
            Kind.REPLY,
            hex=given.reply.hex(),
            request=seq,
            function=request.function,
            values=given.values,
            exception=given.exception,
        )
        return given.reply

    def _log_request(self, request: rtu.Request, frame: bytes) -> int:
        return self.history.add(
            self._now_s,
            Kind.REQUEST,
            hex=frame.hex(),
            unit=request.unit,
            function=request.function,
            address=request.address,
            count=request.count,
            values=request.values,
        ).seq

    def _log_silence(self, reason: str, request: int | None) -> None:
        self.history.add(self._now_s, Kind.SILENCE, reason=reason, request=request)

    def _answer(self, request: rtu.Request, seq: int) -> Answer:
        """Carry the request out."""
        given = answer(request, self.registers, dict(zip(reg.STATUS, self.core.status_words(), strict=True)))
        takes = request.function != rtu.WRITE_ONE or self.options.fc06_takes
        if request.is_write and given.exception is None and takes:
            self._write(request.address, given.values, seq)
        return given

    # --- writes

    def _write(self, address: int, values: tuple[int, ...], seq: int) -> None:
        self.registers.write(address, values)
        self.history.add(self._now_s, Kind.WRITE, address=address, values=values, request=seq)
        written = range(address, address + len(values))
        if reg.ACTION in written or (self._retargets(written) and self.core.moving):
            due_s = self._now_s + self.options.takeup_s
            self._pending.append(_Pending(due_s, self.registers.command(), seq))
        if reg.BRAKE in written and self.registers[reg.BRAKE] == 1:
            self.core.open_brake(self._now_s)
        if reg.STOP_OR_IO in written and self.registers[reg.STOP_OR_IO] == 1 and self.options.stop_register:
            self.core.stop(self._now_s)
        self.advance(self._now_s)

    def _retargets(self, written: range) -> bool:
        return self.options.parameters_retarget and (reg.POSITION in written or reg.FORCE_SPEED in written)

    def _take_up(self, pending: _Pending) -> None:
        command = pending.command
        self.core.commands_taken += 1
        if command.action & reg.Action.ACT and not self.core.enabled:
            self._withdraw_supply()
        if self.registers[reg.CONTROL_SOURCE] == reg.SOURCE_IO:
            taken = Taken("ignored", "control source 0x03FD is digital IO")
        else:
            taken = self.core.take_up(command, self._now_s)
        target = command.target
        self.history.add(
            self._now_s,
            Kind.COMMAND,
            number=self.core.commands_taken,
            word=command.word,
            action=taken.action,
            reason=taken.reason,
            position=target.position if target else None,
            force=target.force if target else None,
            speed=target.speed if target else None,
            request=pending.request,
        )

    # --- power

    def power_cycle(self, now_s: float, off_s: float = DEFAULT_POWER_OFF_S) -> None:
        """Power goes now and comes back off_s later. The jaws keep what they hold by self-lock [M] S5, S19."""
        if not off_s >= 0 or not math.isfinite(off_s):
            raise WorldError(f"off_s = {off_s}: give 0 or more seconds")
        self.advance(now_s)
        self.powered = False
        self._pending.clear()
        self.core.power_up()
        self.registers.power_up()
        self.history.add(self._now_s, Kind.POWER, on=False)
        self._power_on_s = self._now_s + off_s
        self._after_change()
        self.advance(self._now_s)

    def _power_up(self) -> None:
        self._power_on_s = None
        self.powered = True
        self.baudrate = reg.BAUDRATES[self.registers[reg.BAUD_CODE]]
        self._heard_s = self._now_s
        self.history.add(self._now_s, Kind.POWER, on=True)

    # --- the world

    def put_object(self, part: GraspObject, now_s: float) -> None:
        """Put a part between the jaws."""
        self.advance(now_s)
        self.jaw.put_object(part)
        self._log_object("put", part.width_m)

    def supply_object(self, part: GraspObject, now_s: float) -> None:
        """Have a part put between the jaws whenever the active gripper rests wide enough and holds none.

        It is taken away before homing, as somebody would who knows that nothing may obstruct it [M] S7.
        """
        self.advance(now_s)
        self._supply = part
        self._after_change()

    def take_object(self, now_s: float) -> None:
        """Take the part away, held or not, and supply no more."""
        self.advance(now_s)
        supplied, self._supply = self._supply, None
        if self.jaw.object is None and supplied is not None:
            return
        part = self.jaw.take_object()
        self.core.note_object_gone()
        self._log_object("taken", part.width_m)

    def slip(self, now_s: float, hold_force_n: float = math.inf, slip_after_s: float = 0.0) -> None:
        """The part slips out slip_after_s after it is held with less than hold_force_n; by default at once."""
        self.advance(now_s)
        self.jaw.make_slippery(hold_force_n, slip_after_s)
        self._log_world(
            "slip", hold_force_n=hold_force_n if math.isfinite(hold_force_n) else None, slip_after_s=slip_after_s
        )

    def obstruct(self, width_m: float, now_s: float) -> None:
        """Something hard at this width stops the jaws from either side."""
        self.advance(now_s)
        self.jaw.obstruct(width_m)
        self._log_world("obstruct", width_m=width_m)

    def clear_obstruction(self, now_s: float) -> None:
        """Take it away."""
        self.advance(now_s)
        self.jaw.clear_obstruction()
        self._log_world("clear_obstruction")

    def move_fingers(self, width_m: float, now_s: float) -> None:
        """A hand moves the jaws."""
        self.advance(now_s)
        self.jaw.move_fingers(width_m)
        self._log_world("move_fingers", width_m=width_m)

    def set_environment(self, now_s: float, temperature_c: int | None = None, voltage_v: int | None = None) -> None:
        """Set temperature [-128..127 °C] and bus voltage [0..255 V]; None leaves one as it is."""
        faults = self.core.faults
        temperature_c = faults.temperature_c if temperature_c is None else temperature_c
        voltage_v = faults.voltage_v if voltage_v is None else voltage_v
        if not -128 <= temperature_c <= 127 or not 0 <= voltage_v <= 255:
            raise WorldError(f"temperature {temperature_c} °C, voltage {voltage_v} V: give -128..127 and 0..255")
        self.advance(now_s)
        faults.set_environment(temperature_c, voltage_v)
        self._log_world("environment", temperature_c=temperature_c, voltage_v=voltage_v)

    def inject_fault(self, bits: int, now_s: float) -> None:
        """Raise these fault bits (manual's numbering, 0x01..0xFF); 0 clears all that are latched."""
        if not 0 <= bits <= 0xFF:
            raise WorldError(f"fault bits {bits}: give 0 (clear) or a mask from 1 to 255")
        self.advance(now_s)
        if bits:
            self.core.faults.raise_(Fault(bits))
        else:
            self.core.faults.clear(Fault(0xFF))
        self._log_world("fault", bits=bits)

    def _log_object(self, change: str, width_m: float) -> None:
        self.history.add(self._now_s, Kind.OBJECT, change=change, width_m=width_m)
        self._settle_world()

    def _log_world(self, change: str, **fields: float | None) -> None:
        self.history.add(self._now_s, Kind.WORLD, change=change, **fields)
        self._settle_world()

    def _settle_world(self) -> None:
        self._after_change()
        self.advance(self._now_s)

    def _serve_supply(self) -> None:
        part, jaw = self._supply, self.jaw
        at_rest = self.core.active and not self.core.moving and not jaw.in_contact
        fits = part is not None and (jaw.width_m <= part.width_m if part.internal else jaw.width_m > part.width_m)
        if part is not None and fits and at_rest and jaw.object is None:
            jaw.put_object(part)
            self.history.add(self._now_s, Kind.OBJECT, change="supplied", width_m=part.width_m)

    def _withdraw_supply(self) -> None:
        if self._supply is not None and self.jaw.object is not None:
            part = self.jaw.take_object()
            self.history.add(self._now_s, Kind.OBJECT, change="taken", width_m=part.width_m)

    def state(self, now_s: float) -> dict[str, object]:
        """The truth about the device and its world at now_s, for people and tests."""
        self.advance(now_s)
        return {
            "t_s": self._now_s,
            "unit": self.unit,
            "baudrate": self.baudrate,
            "powered": self.powered,
            **truth(self.core),
            "registers": {f"0x{a:04X}": self.registers[a] for a in (*reg.CONTROL, reg.UNIT, reg.BAUD_CODE)},
            "commands_pending": len(self._pending),
            "last_event": self.history.last_seq,
        }
