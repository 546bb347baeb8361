"""Who hears a frame on a line of several devices, and the faults between them and the wire."""

from __future__ import annotations

import pytest

from gripperd_sim.history import Kind
from gripperd_sim.line import Line, LineError
from gripperd_sim.line_faults import LineFaultError, LineFaults
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


# --- faults


def test_lost_replies_were_carried_out() -> None:
    one = line(9)
    one.station().faults.lose(2)
    assert [len(one.receive(frame, 0.0)) for frame in (ENABLE_9, STATUS_9, STATUS_9)] == [0, 0, 1]
    assert len(one.station().device.history.of(Kind.WRITE)) == 1


def test_dropped_acknowledgements_are_those_of_writes_only() -> None:
    one = line(9)
    one.station().faults.drop_acks(1)
    assert [len(one.receive(frame, 0.0)) for frame in (STATUS_9, ENABLE_9, ENABLE_9)] == [1, 0, 1]


def test_delayed_replies_keep_their_old_content() -> None:
    one = line(9)
    one.station().faults.delay(1, 0.5)
    assert [out.delay_s for out in one.receive(STATUS_9, 0.0)] == [0.502]
    assert [out.delay_s for out in one.receive(STATUS_9, 0.0)] == [0.002]


def test_corrupt_replies_differ_in_one_bit_and_are_the_same_every_time() -> None:
    seen = []
    for _ in range(2):
        one = line(9)
        good = one.receive(STATUS_9, 0.0)[0].data
        one.station().faults.corrupt(2)
        bad = [one.receive(STATUS_9, 0.0)[0].data for _ in range(2)]
        assert one.receive(STATUS_9, 0.0)[0].data == good
        for data in bad:
            assert (int.from_bytes(data, "big") ^ int.from_bytes(good, "big")).bit_count() == 1
        seen.append(bad)
    assert seen[0] == seen[1]


def test_silence_is_deaf_and_dumb_for_its_time() -> None:
    one = line(9)
    one.station().faults.silence(1.0)
    assert one.receive(ENABLE_9, 0.999) == []
    assert one.station().device.history.of(Kind.WRITE) == []
    assert len(one.receive(STATUS_9, 1.0)) == 1


def test_faults_of_one_unit_leave_the_other_alone() -> None:
    two = line(9, 5)
    two.station(9).faults.lose(5)
    assert two.receive(STATUS_9, 0.0) == []
    assert len(two.receive(STATUS_5, 0.0)) == 1


def test_armed_faults_can_be_seen_and_disarmed_and_wrong_ones_are_refused() -> None:
    faults = LineFaults()
    faults.lose(3)
    faults.delay(1, 0.1)
    assert faults.armed() == {"lose": 3, "delay": 1}
    faults.lose(0)
    assert faults.armed() == {"delay": 1}
    with pytest.raises(LineFaultError, match=r"0 \(disarm\) or more"):
        faults.corrupt(-1)
    with pytest.raises(LineFaultError, match="0 or more seconds"):
        faults.delay(1, float("inf"))
