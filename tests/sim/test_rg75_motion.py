"""Go-to, retarget, grip, stop, loss and presets of the simulated RG75."""

from __future__ import annotations

import pytest

from gripperd_sim.history import Kind
from gripperd_sim.jaw import GraspObject
from gripperd_sim.rg75 import Rg75Options
from tests.sim.bench import CLOSED, FULL_STROKE_S, OPEN, TAKEUP_S, Bench


def test_a_goto_is_stale_then_39_then_f1() -> None:
    bench = Bench().opened()
    bench.go(128)
    assert bench.go_on(TAKEUP_S - 0.001).status == 0xF1, "stale: the old result"
    moving = bench.go_on(0.002)
    assert (moving.status, moving.speed) == (0x39, 255)
    done = bench.go_on(FULL_STROKE_S)
    assert (done.status, done.position, done.speed, done.force) == (0xF1, 128, 0, 0)


def test_full_stroke_takes_the_time_of_the_data_sheet() -> None:
    bench = Bench().activated()
    bench.go(OPEN)
    start, end = (bench.go_on(1), bench.events(Kind.MOTION_START, Kind.MOTION_END)[-2:])[1]
    assert end.t_s - start.t_s == pytest.approx(0.55, abs=0.001)
    assert start.fields["command"] == end.fields["command"] == bench.device.commands_taken


def test_the_least_speed_is_an_option_and_not_zero() -> None:
    bench = Bench(Rg75Options(min_speed_m_s=0.03)).opened()
    bench.go(CLOSED, speed=0)
    for _ in range(3):
        bench.go_on(0.8)
    assert bench.status.status == 0x39
    assert bench.go_on(0.2).status == 0xF1


def test_parameters_first_then_the_word() -> None:
    bench = Bench().opened()
    bench.write(0x03E9, 0x8000)
    bench.write(0x03EA, 0xFFFF)
    assert bench.go_on(0.3).status == 0xF1
    bench.write(0x03E8, 0x0009)
    assert bench.go_on(0.5).position == 128


def test_parameters_alone_can_retarget() -> None:
    for retarget, position in ((False, CLOSED), (True, 128)):
        bench = Bench(Rg75Options(parameters_retarget=retarget)).opened()
        bench.go(CLOSED)
        bench.go_on(0.1)
        bench.write(0x03E9, 0x8000)
        assert bench.go_on(0.9).position == position


def test_the_unchanged_word_triggers_again_unless_told_not_to() -> None:
    for triggers, action in ((True, "go"), (False, "ignored")):
        bench = Bench(Rg75Options(unchanged_word_triggers=triggers)).opened()
        bench.device.move_fingers(0.05, bench.t_s)
        bench.go(OPEN)
        bench.go_on(0.5)
        assert bench.last_command.fields["action"] == action
        assert (bench.status.position == OPEN) is triggers


def test_a_retarget_before_takeup_lets_the_old_motion_arrive() -> None:
    bench = Bench(Rg75Options(takeup_s=0.02)).opened()
    bench.go(20)
    bench.go_on(0.02)
    bench.go_on(0.04)
    bench.go(CLOSED)
    old = bench.go_on(0.015)
    assert (old.status, old.position) == (0xF1, 20), "F1 of the old target, before the new one is taken up"
    assert bench.go_on(0.01).status == 0x39
    assert bench.go_on(0.9).position == CLOSED


def test_a_retarget_while_moving_supersedes() -> None:
    bench = Bench().opened()
    bench.go(CLOSED)
    bench.go_on(0.2)
    bench.go(OPEN)
    assert bench.go_on(0.02).status == 0x39
    assert bench.go_on(0.5).position == OPEN
    assert [e.fields["outcome"] for e in bench.events(Kind.MOTION_END)[-2:]] == ["superseded", "reached"]


def test_commands_are_numbered_and_name_their_request() -> None:
    bench = Bench().opened()
    commands = bench.events(Kind.COMMAND)
    assert [e.fields["number"] for e in commands] == [1, 2, 3]
    assert [e.fields["action"] for e in commands] == ["reset", "activate", "go"]
    requests = {e.seq: e for e in bench.events(Kind.REQUEST)}
    assert requests[commands[-1].fields["request"]].fields["values"] == (9, 0, 0xFFFF)


def test_every_status_byte_is_logged_once_when_it_changes() -> None:
    bench = Bench().gripping()
    shown = [e.fields["status"] for e in bench.events(Kind.STATUS)]
    assert shown == [0x11, 0x31, 0x39, 0xF1, 0x39, 0xB1]


@pytest.mark.parametrize("latency_s", [0.0, 0.02])
def test_takeup_is_exact(latency_s: float) -> None:
    bench = Bench(Rg75Options(takeup_s=latency_s)).opened()
    sent_s = bench.t_s
    bench.go(CLOSED)
    bench.go_on(0.1)
    assert bench.last_command.t_s == pytest.approx(sent_s + latency_s)


# --- contact


def test_closing_on_an_object_shows_b1_with_force() -> None:
    bench = Bench().gripping(0.03)
    seen = bench.status
    assert (seen.status, seen.force, seen.speed) == (0xB1, 255, 0)
    assert seen.position == round(255 * (1 - 0.0297 / 0.075))


def test_opening_inside_an_object_shows_71() -> None:
    bench = Bench().activated()
    bench.put(0.04, internal=True)
    bench.go(OPEN)
    assert bench.go_on(FULL_STROKE_S).status == 0x71


def test_an_obstruction_while_opening_shows_71() -> None:
    bench = Bench().activated()
    bench.device.obstruct(0.04, bench.t_s)
    bench.go(OPEN)
    assert bench.go_on(FULL_STROKE_S).status == 0x71


def test_closing_on_nothing_shows_f1() -> None:
    bench = Bench().opened()
    bench.go(CLOSED)
    done = bench.go_on(FULL_STROKE_S + 0.05)
    assert (done.status, done.position) == (0xF1, CLOSED)


def test_the_force_byte_sets_the_force_in_newtons() -> None:
    for force, newtons in ((0, 40), (255, 300), (51, 92)):
        bench = Bench().opened()
        bench.put(0.03)
        bench.go(CLOSED, force=force)
        bench.go_on(0.5)
        assert bench.device.jaw.force_n == pytest.approx(newtons)
        assert bench.status.force == round(255 * newtons / 300)


def test_a_grip_again_is_contact_at_once() -> None:
    bench = Bench().gripping()
    bench.go(CLOSED)
    assert bench.go_on(TAKEUP_S + 0.001).status == 0xB1
    assert bench.last_command.fields["action"] == "go"


def test_a_grip_again_with_no_more_force_can_be_ignored() -> None:
    bench = Bench(Rg75Options(regrip_same_force_ignored=True)).opened()
    bench.put(0.03, stiffness_n_per_m=50_000)
    bench.go(CLOSED, force=100)
    before = bench.go_on(0.6)
    for force, action in ((100, "ignored"), (255, "go")):
        bench.go(CLOSED, force=force)
        bench.go_on(0.1)
        assert bench.last_command.fields["action"] == action
    assert bench.status.position > before.position
    bench.go(OPEN, force=100)
    assert bench.go_on(0.6).status == 0xF1


def test_a_least_moving_time_shows_even_when_nothing_moves() -> None:
    bench = Bench(Rg75Options(min_moving_s=0.03)).opened()
    bench.go(OPEN)
    assert bench.go_on(TAKEUP_S + 0.02).status == 0x39
    assert bench.go_on(0.02).status == 0xF1


def test_end_stops_can_fall_short() -> None:
    bench = Bench(Rg75Options(open_end_count=1, closed_end_count=254)).activated()
    assert bench.status.position == 254
    bench.go(OPEN)
    done = bench.go_on(0.6)
    assert (done.status, done.position) == (0xF1, 1)


# --- stop


def test_a_stop_freezes_and_stays_enabled() -> None:
    bench = Bench().opened()
    bench.go(CLOSED)
    bench.go_on(0.2)
    bench.write(0x03E8, 1)
    assert bench.go_on(TAKEUP_S / 2).status == 0x39, "until it is taken up"
    stopped = bench.go_on(TAKEUP_S / 2)
    assert stopped.status == 0x31
    assert bench.go_on(0.5).position == stopped.position
    bench.go(CLOSED)
    assert bench.go_on(0.5).status == 0xF1


@pytest.mark.parametrize(("bits", "status"), [("unchanged", 0xB1), ("zero", 0x31)])
def test_object_bits_after_a_stop(bits: str, status: int) -> None:
    bench = Bench(Rg75Options(stop_object_bits=bits)).gripping()  # type: ignore[arg-type]
    bench.write(0x03E8, 1)
    assert bench.go_on(0.1).status == status
    assert bench.device.jaw.holding


def test_a_stop_can_let_the_force_go() -> None:
    bench = Bench(Rg75Options(stop_keeps_force=False)).gripping()
    bench.write(0x03E8, 1)
    assert bench.go_on(0.1).force == 0


def test_the_stop_bit_needs_a_new_firmware() -> None:
    for supported, action in ((False, "go"), (True, "stop")):
        bench = Bench(Rg75Options(rstop_supported=supported)).opened()
        bench.write(0x03E8, 0x000D, 0xFF00, 0xFFFF)
        bench.go_on(0.1)
        assert bench.last_command.fields["action"] == action


def test_the_stop_register_of_the_vendor_sdk() -> None:
    for stops in (False, True):
        bench = Bench(Rg75Options(stop_register=stops)).opened()
        bench.go(CLOSED)
        bench.go_on(0.1)
        bench.write(0x03FF, 1)
        assert bench.status.moving is not stops


# --- loss


def test_a_taken_object_is_lost_and_the_drive_goes_on() -> None:
    bench = Bench().gripping()
    bench.device.take_object(bench.t_s)
    assert bench.status.status == 0xFB
    gone = bench.go_on(0.5)
    assert (gone.status, gone.position) == (0xF3, CLOSED)
    bench.go(OPEN)
    assert bench.go_on(0.6).status == 0xF1, "the next go-to clears gDropSta"


def test_what_a_loss_shows_is_an_option() -> None:
    stays = Bench(Rg75Options(drive_after_loss=False)).gripping()
    stays.device.take_object(stays.t_s)
    assert stays.status.status == 0xF3
    at = stays.status.position
    assert stays.go_on(0.5).position == at
    hidden = Bench(Rg75Options(loss_shows_moving=False)).gripping()
    hidden.device.take_object(hidden.t_s)
    assert hidden.status.status == 0xF3
    assert hidden.go_on(0.5).position == CLOSED


def test_a_slipping_object_is_lost() -> None:
    bench = Bench().opened()
    bench.device.put_object(GraspObject(0.03, hold_force_n=200, slip_after_s=0.3), bench.t_s)
    bench.go(CLOSED, force=0)
    assert bench.go_on(0.5).status == 0xB1
    assert bench.go_on(0.5).status == 0xF3
    assert [e.fields["change"] for e in bench.events(Kind.OBJECT)] == ["put", "slipped", "lost"]
    held = Bench().gripping()
    held.device.slip(held.t_s)
    assert held.go_on(0.5).status == 0xF3


@pytest.mark.parametrize(("seen", "status"), [(False, 0xB1), (True, 0xF3)])
def test_a_loss_after_a_stop(seen: bool, status: int) -> None:
    for how in ("taken", "slipped"):
        bench = Bench(Rg75Options(loss_seen_after_stop=seen)).gripping()
        bench.write(0x03E8, 1)
        bench.go_on(0.1)
        if how == "taken":
            bench.device.take_object(bench.t_s)
        else:
            bench.device.slip(bench.t_s)
        assert bench.go_on(0.1).status == status


def test_contact_after_a_loss_shows_again() -> None:
    bench = Bench().gripping(0.05)
    bench.device.take_object(bench.t_s)
    bench.put(0.02)
    assert bench.go_on(0.5).status == 0xB3


# --- presets


def test_factory_presets_open_and_close() -> None:
    bench = Bench().activated()
    bench.send(bytes.fromhex("091003E8000102010B"))
    opened = bench.go_on(0.6)
    assert (opened.status, opened.position) == (0xF5, OPEN)
    bench.send(bytes.fromhex("091003E8000102020B"))
    assert bench.go_on(0.6).position == CLOSED


@pytest.mark.parametrize("number", range(1, 9))
def test_every_preset_can_be_set(number: int) -> None:
    bench = Bench().activated()
    bench.write(0x03EB + 2 * (number - 1), 0x40 << 8 | 100, 0x80)
    bench.write(0x03E8, number << 8 | 0x0B)
    assert bench.go_on(0.9).moving
    bench.go_on(0.9)
    fields = bench.last_command.fields
    assert (fields["position"], fields["force"], fields["speed"]) == (100, 0x80, 0x40)
    assert bench.status.position == 100


@pytest.mark.parametrize("number", [0, 9, 255])
def test_a_preset_that_does_not_exist_is_a_command_error(number: int) -> None:
    bench = Bench().activated()
    bench.write(0x03E8, number << 8 | 0x0B)
    assert bench.go_on(0.1).faults == 2


def test_io_control_source_ignores_the_serial_line() -> None:
    bench = Bench().opened()
    bench.write(0x03FD, 0x55)
    bench.go(CLOSED)
    assert bench.go_on(0.5).position == OPEN
    assert bench.last_command.fields["action"] == "ignored"


def test_forces_and_speeds_can_be_those_of_another_gripper() -> None:
    bench = Bench(Rg75Options(min_force_n=3, max_force_n=50, max_speed_m_s=0.3)).opened()
    bench.put(0.03)
    bench.go(CLOSED)
    start = (bench.go_on(0.3), bench.events(Kind.MOTION_START)[-1])[1]
    assert (start.fields["speed_m_s"], start.fields["force_n"]) == (0.3, 50)
    assert bench.device.jaw.force_n == pytest.approx(50)


@pytest.mark.parametrize(("homing_force_n", "jams"), [(40, True), (300, False)])
def test_a_soft_part_jams_homing_only_at_a_low_force(homing_force_n: float, jams: bool) -> None:
    bench = Bench(Rg75Options(homing_force_n=homing_force_n))
    bench.put(0.01, stiffness_n_per_m=10_000)
    bench.write(0x03E8, 1)
    bench.poll(2)
    assert bool(bench.status.faults & 0x20) is jams
