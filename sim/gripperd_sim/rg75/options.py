"""Every behaviour of the RG75 that is configurable or not documented, as one field each.

Pure. Texts in brackets are the sources named in the project's hardware notes: [M] read in a manual's text, [C] seen in
code, [D] seen on a device, [I] inferred; S1..S24 are the sources themselves. "Unknown" means that only a real gripper
can tell; the default is then what the evidence favours, or what is harder on a driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gripperd_sim.option_table import OptionError, check, option


@dataclass(frozen=True)
class Rg75Options:
    """The switches of the simulated RG75. All have defaults; see `describe()` for the table."""

    # --- mechanics
    stroke_m: float = option(0.075, "full clear width [M] S5, S19; S6 computes with 0.0767", low=0.001, high=1)
    min_force_n: float = option(40.0, "force at force byte 0 [M] S5, S19", low=0.001, high=10_000)
    max_force_n: float = option(300.0, "force at force byte 255 [M]; linear between them [I]", low=0.001, high=10_000)
    min_speed_m_s: float = option(0.02, "speed at speed byte 0; unknown", low=0.0001, high=10)
    max_speed_m_s: float = option(
        0.1364, "speed at speed byte 255: 75 mm in 0.55 s [M] S5, as a mean [I]", low=0.0001, high=10
    )
    # --- activation
    activation_s: float = option(
        1.5, "duration of the homing stroke (open, then close), wherever it begins; 1.1 to 2 s [I]", low=0.01, high=60
    )
    homing_force_n: float = option(40.0, "force limit while homing; unknown", low=0.001, high=10_000)
    goto_before_homing: Literal["ignored", "queued"] = option(
        "ignored",
        "go-to (rGTO) before homing is done: ignored with fault 02, or carried out afterwards (S6 relies on it)",
    )
    stop_aborts_homing: bool = option(
        False, "a stop word during homing ends it, not activated; otherwise homing goes on; unknown"
    )
    homing_object_bits: int = option(0, "gOBJ while homing; 2 or 3 possible at the end stops [I]", low=0, high=3)
    jam_shifts_zero_counts: int = option(
        0, "counts by which positions are off after a jam while homing, until a power cycle [M] S11", low=-50, high=50
    )
    fault_01: Literal["power_up", "inactive", "never"] = option(
        "power_up",
        "when fault 01 shows: from power-up until reset or homed [I]; whenever not active (S4 saw 05 in homing); never",
    )
    # --- commands
    takeup_s: float = option(
        0.01,
        "time from a control word's arrival until it acts; the status is stale until then; 0 to 0.02 [I]",
        low=0,
        high=5,
    )
    parameters_retarget: bool = option(
        False,
        "writing 0x03E9/0x03EA without 0x03E8 retargets a running motion; otherwise they wait for the word [C] S7, S9",
    )
    unchanged_word_triggers: bool = option(
        True,
        "a control word equal to the last one acts again [C] S1, S5, S6; false: only a changed word or parameter does",
    )
    min_moving_s: float = option(
        0.0,
        "least time 0x39 shows after a go-to, even if nothing moves (at target, or in contact); unknown",
        low=0,
        high=5,
    )
    regrip_same_force_ignored: bool = option(
        False, "in contact, a go-to the same way with no more force is not carried out (Robotiq's rule); unknown for RG"
    )
    rstop_supported: bool = option(False, "action bit 2 stops the motion: newer manuals only [M] S8; reserved in S7")
    stop_register: bool = option(False, "writing 1 to 0x03FF stops the motion, as the vendor SDK does [C] S1; conflict")
    stop_object_bits: Literal["unchanged", "zero"] = option("unchanged", "gOBJ after a stop; unknown")
    stop_keeps_force: bool = option(
        True, "a stop while gripping keeps the grip force by self-lock [I]; false: it is let go"
    )
    fault_02_latched: bool = option(
        True, "fault 02 stays until reset; false: the next valid command clears it; unknown"
    )
    # --- lost object
    drive_after_loss: bool = option(True, "after the object is lost the drive goes on to its target [I]")
    loss_shows_moving: bool = option(True, "gGTO is 1 while the drive goes on after a loss (gOBJ is 3 at once)")
    loss_seen_after_stop: bool = option(False, "gDropSta also reports an object lost after a stop; unknown")
    # --- automatic release
    release_speed_m_s: float = option(0.01, "speed of the automatic release; 'slow' [M] S7", low=0.0001, high=10)
    release_status_bits: int = option(0, "gSTA while the automatic release runs; 0 [M] S7", low=0, high=3)
    release_shows_moving: bool = option(False, "gGTO is 1 while the automatic release runs; unknown")
    release_fault_bits: int = option(
        0x01,
        "fault raised at the end of the automatic release; that one is raised is [M] S7, which is not",
        low=1,
        high=255,
    )
    # --- faults and environment
    watchdog_s: float = option(1.0, "silence until fault 04; [M] S4, S7; 0 switches it off", low=0, high=3600)
    watchdog_clear: Literal["after_reply", "at_once", "latched"] = option(
        "after_reply",
        "fault 04 goes after the next reply, which still shows it (manual's example); before it; at reset; unknown",
    )
    watchdog_stops_motion: bool = option(False, "fault 04 stops the motion; it goes on [I]")
    blocking_faults: int = option(
        0xF8, "mask of fault bits that stop the drive and refuse go-to until cleared; unknown", low=0, high=255
    )
    environment_latches: bool = option(
        True, "voltage and temperature faults stay until reset, even when the cause is gone; unknown"
    )
    fault_shift: bool = option(False, "fault bits are reported one lower, as S7 has them (bit 0 = command error)")
    temperature_c: int = option(25, "temperature at power-up", low=-128, high=127)
    voltage_v: int = option(24, "bus voltage at power-up", low=0, high=255)
    # --- positions
    open_end_count: int = option(
        0, "least position reported: 1 if the open end is not quite reached [D]", low=0, high=10
    )
    closed_end_count: int = option(
        255, "greatest position reported: 254 as in the manual's example [M] S6", low=245, high=255
    )
    # --- wire
    reply_delay_s: float = option(
        0.001, "turnaround: end of the request's silent gap to the first byte of the reply; unknown", low=0, high=60
    )
    min_frame_gap_s: float = option(
        0.00175,
        "silence that ends a request, at least 3.5 characters: Modbus' fixed value; 0 = 3.5 characters",
        low=0,
        high=1,
    )
    exceptions: bool = option(True, "wrong requests get Modbus exceptions; false: silence; unknown")
    control_readback: Literal["values", "zero", "exception"] = option(
        "values", "reading control registers 0x03E8..0x03FF: what was written, 0, or exception 02; unknown"
    )
    fc06_takes: bool = option(True, "function 06 works; false: acknowledged without effect [C] S5, S10")
    broadcast_executed: bool = option(True, "writes to unit 0 are carried out (never answered)")
    # --- identity and memory
    presets_survive: bool = option(
        True, "presets outlive a power cycle; false: factory presets (1 open, 2 close) return"
    )
    version_1388: int = option(0, "register 0x1388; 0: the version is in 0x138C [C] S1", low=0, high=0xFFFF)
    version_138c: int = option(0x0103, "register 0x138C: version high.low [C] S1", low=0, high=0xFFFF)

    def __post_init__(self) -> None:
        check(self)
        for low, high in (("min_force_n", "max_force_n"), ("min_speed_m_s", "max_speed_m_s")):
            if getattr(self, low) > getattr(self, high):
                raise OptionError(f"{low} = {getattr(self, low)} is above {high} = {getattr(self, high)}: swap them")
