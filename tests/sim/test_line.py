"""Who hears a frame on a line of several devices, and the faults between them and the wire."""

from __future__ import annotations

import pytest

from gripperd_sim.faults import fault
from gripperd_sim.line import Line, LineError
from gripperd_sim.rg75 import Rg75, Rg75Options
from gripperd_sim.rtu import crc_fits, seal

STATUS_9 = seal(bytes.fromhex("090407D00001"))
STATUS_5 = seal(bytes.fromhex("050407D00001"))
ENABLE_9 = bytes.fromhex("091003E80001020001 2478")
ENABLE_ALL = seal(bytes.fromhex("001003E8000102 0001"))


def line(*units: int) -> Line[Rg75]:
    return Line([Rg75(Rg75Options(reply_delay_s=0.002), unit=unit) for unit in units])


def test_each_unit_answers_for_itself_after_its_turnaround() -> None:
    two = line(9, 5)
    for frame, unit in ((STATUS_9, 9), (STATUS_5, 5)):
        (out,) = two.receive(frame, 0.0)
        assert (out.delay_s, out.data[0]) == (0.002, unit)
    assert two.receive(seal(bytes.fromhex("070407D00001")), 0.0) == []
    assert two.station().device.unit == 9
    assert two.station(5).device.unit == 5


def test_a_broadcast_reaches_all_and_nobody_answers() -> None:
    two = line(9, 5)
    assert two.receive(ENABLE_ALL, 0.0) == []
    two.advance(0.1)
    assert [s.device.core.status for s in two.stations] == [0x11, 0x11]


@pytest.mark.parametrize("units", [(), (9, 9)])
def test_an_impossible_line_is_refused(units: tuple[int, ...]) -> None:
    with pytest.raises(LineError, match="each once"):
        line(*units)
    with pytest.raises(LineError, match="there are 9, 5"):
        line(9, 5).station(7)


def test_two_devices_with_one_id_collide() -> None:
    two = line(9, 5)
    two.receive(seal(bytes.fromhex("0510138D0001020009")), 0.0)
    two.station(9).device.obstruct(0.01, 0.0)
    two.station(9).device.move_fingers(0.02, 0.0)
    (out,) = two.receive(seal(bytes.fromhex("090407D00002")), 0.0)
    assert not crc_fits(out.data)


def test_a_device_at_another_baud_rate_is_deaf() -> None:
    one = line(9)
    assert one.receive(STATUS_9, 0.0, host_baudrate=9_600) == []
    assert len(one.receive(STATUS_9, 0.0, host_baudrate=115_200)) == 1


def test_the_most_patient_device_sets_the_gap() -> None:
    devices = [Rg75(Rg75Options(min_frame_gap_s=gap_s), unit=unit) for gap_s, unit in ((0.001, 9), (0.004, 5))]
    assert Line(devices).min_frame_gap_s == 0.004


# --- faults; what each kind does is in test_line_faults.py


def test_faults_of_one_unit_leave_the_other_alone() -> None:
    two = line(9, 5)
    two.station(9).faults.arm(fault("lose", count=5), 0.0)
    assert len(two.receive(STATUS_5, 0.0)) == 1
    assert two.receive(STATUS_9, 0.0) == []
    assert two.station(9).faults.armed(0.0) == {"lose": {"count": 4}}


def test_requests_to_others_use_up_no_silence_of_this_unit() -> None:
    two = line(9, 5)
    two.station(9).faults.arm(fault("silence", count=1), 0.0)
    two.receive(STATUS_5, 0.0)
    assert two.receive(STATUS_9, 0.0) == []
    assert len(two.receive(STATUS_9, 0.0)) == 1


def test_the_turnaround_comes_on_top_of_a_delay() -> None:
    one = line(9)
    one.station().faults.arm(fault("delay", count=1, delay_s=0.5), 0.0)
    assert [out.delay_s for out in one.receive(STATUS_9, 0.0)] == [0.502]
    assert [out.delay_s for out in one.receive(STATUS_9, 0.0)] == [0.002]


def test_an_adapter_echoes_once_and_whoever_is_asked() -> None:
    two = line(9, 5)
    for unit in (9, 5):
        two.station(unit).faults.arm(fault("echo"), 0.0)
    nobody = seal(bytes.fromhex("070407D00001"))
    assert [(out.delay_s, out.data, out.on_wire) for out in two.receive(nobody, 0.0)] == [(0.0, nobody, True)]
    assert [out.data[:3].hex() for out in two.receive(STATUS_5, 0.0)] == ["050407", "050402"]


def test_a_device_without_power_is_not_made_to_answer() -> None:
    one = line(9)
    one.station().device.power_cycle(0.0, off_s=1.0)
    one.station().faults.arm(fault("exception", code=4, count=1), 0.0)
    assert one.receive(STATUS_9, 0.5) == []
    (out,) = one.receive(STATUS_9, 1.0)
    assert out.data[:3].hex() == "098404"


def test_the_units_of_a_line_have_random_numbers_of_their_own() -> None:
    two = line(9, 5)
    for unit in (9, 5):
        two.station(unit).faults.arm(fault("lose", probability=0.5), 0.0)
    lost = [[two.receive(frame, 0.0) == [] for _ in range(64)] for frame in (STATUS_9, STATUS_5)]
    assert lost[0] != lost[1]
    two.reseed(0)
    assert [two.receive(STATUS_9, 0.0) == [] for _ in range(64)] == lost[0]
