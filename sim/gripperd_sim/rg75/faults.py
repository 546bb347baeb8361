"""The RG75's fault byte: which bits are set, what clears them, which of them stop the drive.

Pure. Bits and their meaning: registers.py; undocumented choices: options.py.
"""

from __future__ import annotations

from gripperd_sim.rg75.options import Rg75Options
from gripperd_sim.rg75.registers import MAX_TEMPERATURE_C, MAX_VOLTAGE_V, MIN_VOLTAGE_V, Fault


class Faults:
    """Latched bits, bits that follow a condition, and the needs-activation bit."""

    def __init__(self, options: Rg75Options) -> None:
        self._options = options
        self._latched = Fault(0)
        self._needs_activation = True
        self._homed = False
        self.temperature_c = options.temperature_c
        self.voltage_v = options.voltage_v

    def power_up(self) -> None:
        """As after power-up; temperature and voltage are the world's and stay."""
        self._latched = self._environment()
        self._needs_activation, self._homed = True, False

    def reset(self) -> None:
        """rACT = 0 clears every fault [M] S7, S8; one whose cause is still there comes back at once."""
        self._latched = self._environment()
        self._needs_activation, self._homed = False, False

    def homed(self) -> None:
        """Activation is done."""
        self._needs_activation, self._homed = False, True

    def raise_(self, bits: Fault) -> None:
        """Set bits until they are cleared."""
        self._latched |= bits

    def clear(self, bits: Fault) -> None:
        """Clear latched bits."""
        self._latched &= ~bits

    def set_environment(self, temperature_c: int, voltage_v: int) -> None:
        """Take new readings."""
        self.temperature_c, self.voltage_v = temperature_c, voltage_v
        if self._options.environment_latches:
            self._latched |= self._environment()
        else:
            self._latched &= ~(Fault.VOLTAGE | Fault.OVER_TEMPERATURE)
            self._latched |= self._environment()

    def _environment(self) -> Fault:
        hot = self.temperature_c >= MAX_TEMPERATURE_C
        odd_voltage = not MIN_VOLTAGE_V <= self.voltage_v <= MAX_VOLTAGE_V
        return (Fault.OVER_TEMPERATURE if hot else Fault(0)) | (Fault.VOLTAGE if odd_voltage else Fault(0))

    @property
    def bits(self) -> Fault:
        """The faults as the manual numbers them."""
        mode = self._options.fault_01
        shows_01 = (mode == "power_up" and self._needs_activation) or (mode == "inactive" and not self._homed)
        return self._latched | (Fault.NEEDS_ACTIVATION if shows_01 else Fault(0))

    @property
    def byte(self) -> int:
        """The faults as the device reports them."""
        return int(self.bits) >> (1 if self._options.fault_shift else 0)

    @property
    def blocking(self) -> bool:
        """Whether a fault is set that stops the drive and refuses go-to."""
        return bool(int(self.bits) & self._options.blocking_faults)
