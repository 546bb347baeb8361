"""Activation, reset, power, automatic release and brake of the simulated RG75."""

from __future__ import annotations

import pytest

from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject
from gripperd_sim.rg75 import Rg75Options
from tests.sim.bench import ACTIVATION_S, CLOSED, OPEN, TAKEUP_S, Bench


def test_power_up_is_inactive_with_fault_01() -> None:
    seen = Bench().status
    assert (seen.status, seen.faults, seen.position, seen.temperature, seen.voltage) == (0, 1, 0, 25, 24)


def test_homing_opens_then_closes_and_shows_11_until_31() -> None:
    bench = Bench(width_m=0.0375)
    bench.write(0x03E8, 0)
    bench.go_on(0.1)
    bench.write(0x03E8, 1)
    assert bench.go_on(TAKEUP_S / 2).status == 0x00, "stale until it is taken up"
    positions = []
    for _ in range(29):
        seen = bench.go_on(0.05)
        assert seen.status == 0x11
        positions.append(seen.position)
    turn = positions.index(min(positions))
    assert positions[:turn] == sorted(positions[:turn], reverse=True)
    assert positions[turn:] == sorted(positions[turn:])
    done = bench.go_on(0.06)
    assert (done.status, done.faults, done.position) == (0x31, 0, CLOSED)
    assert [e.fields["stage"] for e in bench.events(Kind.ACTIVATION)] == ["homing", "active"]
    start, end = bench.events(Kind.ACTIVATION)
    assert end.t_s - start.t_s == pytest.approx(ACTIVATION_S)


@pytest.mark.parametrize("activation_s", [1.2, 2.0])
def test_the_time_of_homing_is_an_option(activation_s: float) -> None:
    bench = Bench(Rg75Options(activation_s=activation_s))
    bench.write(0x03E8, 1)
    assert bench.go_on(TAKEUP_S + activation_s - 0.001).status == 0x11
    assert bench.go_on(0.002).status == 0x31


def test_enable_when_enabled_does_not_home_again() -> None:
    bench = Bench().gripping()
    bench.write(0x03E8, 1)
    assert bench.go_on(0.1).status == 0xB1
    assert bench.last_command.fields["action"] == "stop"
    assert len(bench.events(Kind.ACTIVATION)) == 2


def test_reset_stops_and_keeps_the_position() -> None:
    bench = Bench().activated()
    bench.go(OPEN)
    bench.go_on(0.2)
    bench.write(0x03E8, 0)
    stopped = bench.go_on(TAKEUP_S)
    assert (stopped.status, stopped.faults, stopped.speed) == (0, 0, 0)
    assert bench.go_on(0.3).position == stopped.position
    assert bench.events(Kind.MOTION_END)[-1].fields["outcome"] == "reset"


def test_a_jam_while_homing_raises_20_and_the_next_activation_works() -> None:
    bench = Bench()
    bench.device.obstruct(0.03, 0.0)
    bench.write(0x03E8, 1)
    jammed = bench.go_on(ACTIVATION_S + 0.1)
    assert (jammed.status & 0x31, jammed.faults & 0x20) == (0x11, 0x20)
    bench.go(OPEN)
    assert bench.go_on(0.1).moving is False
    bench.device.clear_obstruction(bench.t_s)
    bench.activated()
    assert bench.status.faults == 0


def test_an_object_in_the_way_jams_homing() -> None:
    bench = Bench()
    bench.put(0.02)
    bench.write(0x03E8, 1)
    assert bench.go_on(ACTIVATION_S + 0.1).faults & 0x20


def test_a_jam_can_shift_the_zero_until_a_power_cycle() -> None:
    bench = Bench(Rg75Options(jam_shifts_zero_counts=7))
    bench.device.obstruct(0.03, 0.0)
    bench.write(0x03E8, 1)
    bench.go_on(2)
    bench.device.clear_obstruction(bench.t_s)
    bench.activated().go(128)
    shifted = bench.go_on(1)
    assert shifted.position == 128
    assert bench.device.jaw.width_m == pytest.approx(0.075 * (255 - 121) / 255)
    bench.device.power_cycle(bench.t_s, 0.1)
    bench.t_s += 0.2
    assert bench.status.position == 121


def test_goto_before_homing_is_ignored_with_fault_02() -> None:
    bench = Bench()
    bench.go(OPEN)
    bench.go_on(0.1)
    assert bench.status.faults & 2, "0x0009 activates, its go-to is refused"
    assert bench.go_on(3).status == 0x31
    assert bench.status.faults & 2, "until reset"
    assert bench.activated().status.faults == 0


def test_goto_before_homing_can_be_queued() -> None:
    bench = Bench(Rg75Options(goto_before_homing="queued"))
    bench.go(128)
    assert bench.go_on(TAKEUP_S + ACTIVATION_S + 0.001).status == 0x39
    assert bench.go_on(0.5).status == 0xF1
    assert bench.status.position == 128
    bench.write(0x03E8, 0)
    bench.go_on(0.1)
    bench.write(0x03E8, 1)
    bench.go_on(0.5)
    bench.go(20)
    bench.go_on(0.1)
    assert bench.last_command.fields["action"] == "queued"
    bench.write(0x03E8, 1)
    assert bench.go_on(2).status == 0x31, "a stop forgets what is queued"


def test_a_stop_while_homing_lets_it_go_on_or_ends_it() -> None:
    for aborts, status in ((False, 0x31), (True, 0x01)):
        bench = Bench(Rg75Options(stop_aborts_homing=aborts))
        bench.write(0x03E8, 1)
        bench.go_on(0.5)
        bench.write(0x03E8, 1)
        assert bench.go_on(2).status == status


@pytest.mark.parametrize(("mode", "reset", "homing"), [("power_up", 0, 0), ("inactive", 1, 1), ("never", 0, 0)])
def test_when_fault_01_shows(mode: str, reset: int, homing: int) -> None:
    bench = Bench(Rg75Options(fault_01=mode))  # type: ignore[arg-type]
    assert bench.status.faults == (0 if mode == "never" else 1)
    bench.write(0x03E8, 0)
    assert bench.go_on(0.1).faults == reset
    bench.write(0x03E8, 1)
    assert bench.go_on(0.1).faults == homing
    bench.go_on(0.9)
    assert bench.go_on(0.9).faults == 0


def test_object_bits_while_homing() -> None:
    bench = Bench(Rg75Options(homing_object_bits=3))
    bench.write(0x03E8, 1)
    assert bench.go_on(0.5).status == 0xD1
    assert bench.go_on(2).status == 0x31


def test_a_power_cycle_loses_activation_and_keeps_the_grip() -> None:
    bench = Bench().gripping()
    bench.write(0x03EF, 0x8040)
    bench.device.power_cycle(bench.t_s, 0.5)
    bench.t_s += 0.4
    assert bench.send(bytes.fromhex("090407D00001")) is None
    seen = bench.go_on(0.2)
    assert (seen.status, seen.faults) == (0, 1)
    assert bench.device.jaw.holding
    assert bench.read(0x03E8, 3) == (0, 0, 0)
    assert bench.read(0x03EF) == (0x8040,)
    assert [e.fields["on"] for e in bench.events(Kind.POWER)] == [False, True]


def test_presets_can_go_back_to_factory_values() -> None:
    bench = Bench(Rg75Options(presets_survive=False))
    bench.write(0x03EB, 1, 2)
    bench.device.power_cycle(0.0, 0.0)
    assert bench.read(0x03EB, 4) == (0xFF00, 0x00FF, 0xFFFF, 0x00FF)


@pytest.mark.parametrize(("word", "position"), [(0x0031, OPEN), (0x0011, CLOSED)])
def test_automatic_release_is_slow_and_ends_in_a_fault(word: int, position: int) -> None:
    bench = Bench().activated()
    bench.go(128)
    bench.go_on(1)
    bench.write(0x03E8, word)
    running = bench.go_on(1)
    assert (running.gsta, running.moving) == (0, False)
    assert running.position not in (128, position)
    bench.go(128)
    bench.go_on(0.9)
    assert bench.last_command.fields["action"] == "ignored"
    bench.go_on(0.9)
    bench.go_on(0.9)
    done = bench.go_on(0.9)
    assert (done.position, done.gsta, done.faults & 1) == (position, 0, 1)
    bench.go(128)
    assert bench.go_on(0.5).position == position, "the fault must be cleared first"
    assert bench.activated().status.faults == 0


def test_what_release_shows_is_an_option() -> None:
    options = Rg75Options(
        release_status_bits=3, release_shows_moving=True, release_fault_bits=0x80, release_speed_m_s=0.1
    )
    bench = Bench(options).activated()
    bench.write(0x03E8, 0x31)
    assert bench.go_on(0.1).status == 0x39
    assert bench.go_on(0.9).faults == 0x80


def test_release_needs_a_rising_edge_and_stops_with_reset_only() -> None:
    bench = Bench().activated()
    bench.write(0x03E8, 0x31)
    bench.go_on(0.5)
    for word in (0x31, 0x01):
        bench.write(0x03E8, word)
        bench.go_on(0.1)
        assert bench.last_command.fields["action"] == "ignored"
    bench.write(0x03E8, 0)
    at = bench.go_on(0.1).position
    assert bench.go_on(0.5).position == at


def test_the_brake_register_frees_the_jaws() -> None:
    bench = Bench().gripping()
    bench.write(0x03FC, 1)
    assert bench.status.force == 0
    assert not bench.device.jaw.holding
    bench.write(0x03E8, 0)
    bench.go_on(0.1)
    bench.write(0x03E8, 1)
    bench.go_on(0.5)
    bench.write(0x03FC, 1)
    assert bench.status.status == 0x01, "homing ends"


def test_a_supplied_object_is_out_of_the_way_of_homing() -> None:
    bench = Bench()
    bench.device.supply_object(GraspObject(0.03), 0.0)
    for _ in range(2):
        bench.activated()
        assert bench.device.jaw.object is None
        bench.go(OPEN)
        bench.go_on(0.6)
        bench.go(CLOSED)
        assert bench.go_on(0.6).status == 0xB1
    bench.device.take_object(bench.t_s)
    bench.go(OPEN)
    bench.go_on(0.9)
    assert bench.device.jaw.object is None, "no further supply"
