"""Fault bits, watchdog, identity and wire options of the simulated RG75; and commands in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd_sim.history import HISTORY_LIMIT, History, Kind
from gripperd_sim.jaw import WorldError
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rtu import exception_reply
from tests.sim.bench import CLOSED, OPEN, Bench


def test_silence_of_a_second_raises_04_which_the_next_reply_still_shows() -> None:
    bench = Bench().opened()
    assert bench.go_on(0.999).faults == 0
    assert bench.go_on(1.0).faults == 4
    assert bench.go_on(0.01).faults == 0


@pytest.mark.parametrize(("clear", "shown"), [("at_once", [0, 0]), ("after_reply", [4, 0]), ("latched", [4, 4])])
def test_what_clears_04(clear: str, shown: list[int]) -> None:
    bench = Bench(Rg75Options(watchdog_clear=clear)).opened()  # type: ignore[arg-type]
    assert [bench.go_on(1.5).faults, bench.go_on(0.1).faults] == shown
    assert bench.activated().status.faults == 0


def test_the_watchdog_lets_the_motion_go_on_unless_told() -> None:
    for stops in (False, True):
        bench = Bench(Rg75Options(watchdog_stops_motion=stops)).opened()
        bench.go(CLOSED, speed=0)
        bench.t_s += 1.1
        bench.device.advance(bench.t_s)
        assert bench.device.core.moving is not stops


def test_the_watchdog_can_be_set_and_switched_off() -> None:
    assert Bench(Rg75Options(watchdog_s=0)).opened().go_on(100).faults == 0
    assert Bench(Rg75Options(watchdog_s=3)).opened().go_on(2.9).faults == 0


def test_other_units_and_wrong_crcs_do_not_feed_the_watchdog() -> None:
    bench = Bench().opened()
    for _ in range(3):
        bench.t_s += 0.4
        assert bench.send(bytes.fromhex("080407D00004")) is None
        assert bench.device.handle(bytes.fromhex("090407D00004F00D"), bench.t_s) is None
    assert bench.status.faults == 4


@pytest.mark.parametrize(("voltage_v", "bit"), [(19, 0x10), (20, 0), (30, 0), (31, 0x10)])
def test_voltage(voltage_v: int, bit: int) -> None:
    bench = Bench().opened()
    bench.device.set_environment(bench.t_s, voltage_v=voltage_v)
    assert (bench.status.faults, bench.status.voltage) == (bit, voltage_v)


@pytest.mark.parametrize(("temperature_c", "byte", "bit"), [(84, 84, 0), (85, 85, 0x40), (-5, 251, 0)])
def test_temperature(temperature_c: int, byte: int, bit: int) -> None:
    bench = Bench().opened()
    bench.device.set_environment(bench.t_s, temperature_c=temperature_c)
    assert (bench.status.faults, bench.status.temperature) == (bit, byte)


def test_a_hot_gripper_stops_and_stays_faulty_until_cool_and_reset() -> None:
    bench = Bench().opened()
    bench.go(CLOSED)
    bench.go_on(0.1)
    bench.device.set_environment(bench.t_s, temperature_c=90)
    assert bench.status.status == 0x31
    bench.write(0x03E8, 0)
    assert bench.go_on(0.1).faults == 0x40, "the cause is still there"
    bench.device.set_environment(bench.t_s, temperature_c=40)
    assert bench.status.faults == 0x40, "latched"
    bench.activated()


def test_environment_faults_need_not_latch() -> None:
    bench = Bench(Rg75Options(environment_latches=False)).opened()
    bench.device.set_environment(bench.t_s, temperature_c=90)
    bench.device.set_environment(bench.t_s, temperature_c=40)
    assert bench.status.faults == 0


@pytest.mark.parametrize("bit", [0x08, 0x10, 0x20, 0x40, 0x80])
def test_serious_faults_stop_and_block_until_reset(bit: int) -> None:
    bench = Bench().opened()
    bench.go(CLOSED)
    bench.go_on(0.1)
    bench.device.inject_fault(bit, bench.t_s)
    stopped = bench.status
    assert (stopped.faults, stopped.moving) == (bit, False)
    bench.go(OPEN)
    assert bench.go_on(0.1).moving is False
    assert bench.last_command.fields["action"] == "ignored"
    bench.activated().go(OPEN)
    assert bench.go_on(0.6).status == 0xF1


@pytest.mark.parametrize("bit", [0x01, 0x02])
def test_light_faults_do_not_stop(bit: int) -> None:
    bench = Bench().opened()
    bench.device.inject_fault(bit, bench.t_s)
    bench.go(CLOSED)
    assert bench.go_on(0.1).moving
    bench.device.inject_fault(0, bench.t_s)
    assert bench.status.faults == 0


def test_which_faults_block_is_an_option() -> None:
    bench = Bench(Rg75Options(blocking_faults=0)).opened()
    bench.device.inject_fault(0xF8, bench.t_s)
    bench.go(CLOSED)
    assert bench.go_on(0.1).moving


def test_a_fault_while_homing_ends_it() -> None:
    bench = Bench()
    bench.write(0x03E8, 1)
    bench.go_on(0.5)
    bench.device.inject_fault(8, bench.t_s)
    bench.go_on(0.9)
    assert bench.go_on(0.9).gsta == 1


def test_faults_shifted_as_in_s7() -> None:
    bench = Bench(Rg75Options(fault_shift=True)).opened()
    bench.device.inject_fault(0x20, bench.t_s)
    assert bench.status.faults == 0x10


def test_a_command_fault_may_be_cleared_by_the_next_command() -> None:
    bench = Bench(Rg75Options(fault_02_latched=False)).opened()
    bench.write(0x03E8, 0x090B)
    assert bench.go_on(0.1).faults == 2
    bench.go(CLOSED)
    assert bench.go_on(0.1).faults == 0


def test_faults_are_logged_as_they_change() -> None:
    bench = Bench().opened()
    bench.device.inject_fault(8, bench.t_s)
    bench.device.inject_fault(0, bench.t_s)
    assert [e.fields["faults"] for e in bench.events(Kind.FAULT)][-2:] == [8, 0]


# --- identity


def test_version_registers() -> None:
    assert Bench(Rg75Options(version_138c=0x0203)).read(0x1388, 5) == (0, 0, 0, 0, 0x0203)
    assert Bench(Rg75Options(version_1388=2)).read(0x1388) == (2,)


def test_an_id_change_is_acknowledged_from_the_old_id() -> None:
    bench = Bench()
    assert bench.device.handle(bytes.fromhex("0910138D0001020008FC4A"), 0.0) == bytes.fromhex("0910138D0001942E")
    assert bench.send(bytes.fromhex("090407D00001")) is None
    bench.unit = 8
    assert bench.read(0x138D) == (8,)
    bench.device.power_cycle(0.0, 0.0)
    assert bench.device.unit == 8


def test_a_baud_change_acts_at_the_next_power_up() -> None:
    bench = Bench()
    bench.write(0x138E, 4)
    assert bench.device.baudrate == 115_200
    bench.device.power_cycle(0.0, 0.1)
    bench.t_s = 0.2
    assert (bench.read(0x138E), bench.device.baudrate) == ((4,), 9_600)


@pytest.mark.parametrize(("unit", "baudrate"), [(0, 115_200), (248, 115_200), (9, 250_000)])
def test_an_impossible_device_is_refused(unit: int, baudrate: int) -> None:
    with pytest.raises(WorldError):
        Rg75(unit=unit, baudrate=baudrate)


# --- wire


@pytest.mark.parametrize("function", [3, 4])
def test_both_read_functions_serve_everything(function: int) -> None:
    bench = Bench().opened()
    assert bench.read(0x07D0, 1, function) == (0xF1,)
    assert bench.read(0x03E8, 3, function) == (9, 0, 0xFFFF)


@pytest.mark.parametrize(("readback", "words"), [("values", (1, 0x8000)), ("zero", (0, 0))])
def test_control_registers_read_back(readback: str, words: tuple[int, int]) -> None:
    bench = Bench(Rg75Options(control_readback=readback))  # type: ignore[arg-type]
    bench.write(0x03E8, 1, 0x8000)
    assert bench.read(0x03E8, 2) == words


def test_control_registers_may_refuse_to_be_read() -> None:
    bench = Bench(Rg75Options(control_readback="exception"))
    assert bench.send(bytes.fromhex("090303E80001")) == exception_reply(9, 3, 2)


def test_function_06_may_be_acknowledged_without_effect() -> None:
    for takes in (True, False):
        bench = Bench(Rg75Options(fc06_takes=takes))
        assert bench.write_one(0x03E9, 0x1200) is not None
        assert bench.read(0x03E9) == (0x1200 if takes else 0,)


def test_a_broadcast_is_carried_out_without_a_reply() -> None:
    for executed in (True, False):
        bench = Bench(Rg75Options(broadcast_executed=executed))
        assert bench.send(bytes.fromhex("001003E8000102 0001")) is None
        assert (bench.go_on(0.1).status == 0x11) is executed


def test_a_write_that_is_partly_illegal_writes_nothing() -> None:
    bench = Bench()
    bench.write(0x03FF, 1, 1)
    assert bench.read(0x03FF) == (0,)


# --- robustness

WORDS = st.sampled_from([0x0000, 0x0001, 0x0009, 0x0005, 0x000D, 0x010B, 0x020B, 0x090B, 0x0011, 0x0031, 0xFFFF])
ACTIONS = st.tuples(
    st.sampled_from(["go", "word", "put", "take", "block", "free", "hand", "fault", "cycle", "slip", "heat"]),
    st.integers(0, 255),
    WORDS,
    st.floats(0, 0.7),
)


@given(st.lists(ACTIONS, max_size=25), st.booleans())
def test_whatever_happens_the_device_stays_sane(actions: list[tuple[str, int, int, float]], odd_options: bool) -> None:
    options = Rg75Options(
        min_moving_s=0.03 if odd_options else 0.0,
        goto_before_homing="queued" if odd_options else "ignored",
        parameters_retarget=odd_options,
        stop_keeps_force=not odd_options,
        loss_seen_after_stop=odd_options,
    )
    bench = Bench(options)
    for kind, number, word, pause_s in actions:
        act(bench, kind, number, word)
        bench.t_s += pause_s
        bench.device.advance(bench.t_s)
        words = bench.device.core.status_words()
        assert all(0 <= w <= 0xFFFF for w in words)
        assert 0 <= bench.device.jaw.width_m <= bench.device.jaw.stroke_m
        assert not (bench.device.core.moving and bench.device.core.gsta != 3)
    assert [e.seq for e in bench.device.history] == list(range(1, bench.device.history.last_seq + 1))
    times = [e.t_s for e in bench.device.history]
    assert times == sorted(times)
    assert_motions_pair(bench)


def act(bench: Bench, kind: str, number: int, word: int) -> None:
    device, width_m = bench.device, 0.075 * number / 255
    try:
        match kind:
            case "go":
                bench.go(number)
            case "word":
                bench.write(0x03E8, word)
            case "put":
                bench.put(max(width_m, 0.001))
            case "take":
                device.take_object(bench.t_s)
            case "block":
                device.obstruct(width_m, bench.t_s)
            case "free":
                device.clear_obstruction(bench.t_s)
            case "hand":
                device.move_fingers(width_m, bench.t_s)
            case "fault":
                device.inject_fault(number & 0x0F, bench.t_s)
            case "cycle":
                device.power_cycle(bench.t_s, 0.1)
            case "slip":
                device.slip(bench.t_s, 200, 0.1)
            case _:
                device.set_environment(bench.t_s, temperature_c=number // 2)
    except WorldError:
        pass


def assert_motions_pair(bench: Bench) -> None:
    """Go-tos never overlap: each start is followed by the end of the same command before the next start."""
    open_command: int | None = None
    for event in bench.events(Kind.MOTION_START, Kind.MOTION_END, Kind.POWER):
        if event.kind is Kind.POWER or event.kind is Kind.MOTION_END:
            open_command = None
        elif event.fields["cause"] in ("goto", "queued"):
            assert open_command is None, event
            open_command = event.fields["command"]


def test_time_never_runs_backwards() -> None:
    device = Rg75(now_s=10.0)
    device.advance(11.0)
    device.advance(5.0)
    assert device.now_s == 11.0
    assert device.state(0.0)["t_s"] == 11.0


def test_the_history_is_bounded_and_tells_its_last_number() -> None:
    history = History(limit=3)
    heard: list[int] = []
    history.listener = lambda event: heard.append(event.seq)
    for index in range(5):
        history.add(index, Kind.WORLD, change="x")
    assert (len(history), history.last_seq, heard) == (3, 5, [1, 2, 3, 4, 5])
    assert [e.seq for e in history.since(4)] == [5]
    assert history.last(Kind.POWER) is None
    assert History()._events.maxlen == HISTORY_LIMIT


@given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=30))
def test_a_poll_never_changes_what_happens(pauses_s: list[float]) -> None:
    """The same commands, polled or not, end in the same log of commands, motions and states."""
    end_s = 3.0 + sum(pauses_s)
    logs = []
    for polled in (False, True):
        bench = Bench(Rg75Options(watchdog_s=0))
        bench.write(0x03E8, 1)
        for pause_s in pauses_s if polled else ():
            bench.t_s += pause_s
            bench.device.state(bench.t_s)
        bench.t_s = end_s
        bench.go(OPEN)
        bench.t_s += 1
        bench.device.advance(bench.t_s)
        kept = (Kind.COMMAND, Kind.MOTION_START, Kind.MOTION_END, Kind.STATUS, Kind.FAULT, Kind.ACTIVATION)
        logs.append([(e.kind, pytest.approx(e.t_s)) for e in bench.events(*kept)])
    assert logs[0] == logs[1]
