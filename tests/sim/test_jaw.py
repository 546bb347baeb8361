"""Physics of two jaws: motion, contact, compliance, obstruction, loss; the same however time is sliced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gripperd_sim.jaw import GraspObject, Jaw, JawEventKind, WorldError

STROKE_M = 0.075
ARRIVED, CONTACT = JawEventKind.ARRIVED, JawEventKind.CONTACT
LOST, SLIPPED = JawEventKind.CONTACT_LOST, JawEventKind.SLIPPED


def kinds(jaw: Jaw, t_s: float) -> list[JawEventKind]:
    return [event.kind for event in jaw.advance(t_s)]


def test_moves_at_its_speed_and_arrives_exactly() -> None:
    jaw = Jaw(STROKE_M)
    jaw.drive_to(0.025, 0.1, 100)
    assert jaw.next_event_s() == pytest.approx(0.5)
    assert kinds(jaw, 0.25) == []
    assert jaw.width_m == pytest.approx(0.05)
    assert (jaw.speed_m_s, jaw.force_n) == (-0.1, 0)
    (event,) = jaw.advance(2)
    assert event.kind is ARRIVED
    assert event.t_s == pytest.approx(0.5)
    assert (jaw.width_m, jaw.speed_m_s) == (0.025, 0)


def test_a_target_where_it_is_arrives_at_once() -> None:
    jaw = Jaw(STROKE_M)
    jaw.drive_to(STROKE_M, 0.1, 100)
    assert kinds(jaw, 0) == [ARRIVED]


def test_a_compliant_object_gives_way_until_the_force_is_reached() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.03, stiffness_n_per_m=20_000))
    jaw.drive_to(0, 0.1, 100)
    assert kinds(jaw, 0.475) == []
    assert jaw.force_n == pytest.approx(50)
    assert kinds(jaw, 1) == [CONTACT]
    assert jaw.width_m == pytest.approx(0.025)
    assert jaw.force_n == pytest.approx(100)
    assert jaw.holding
    jaw.drive_to(0, 0.1, 200)
    assert kinds(jaw, 2) == [CONTACT]
    assert jaw.width_m == pytest.approx(0.02)
    jaw.drive_to(0, 0.1, 50)
    assert kinds(jaw, 2) == [CONTACT], "pressed harder than asked already"
    assert jaw.width_m == pytest.approx(0.02)


def test_a_thin_soft_object_never_reaches_the_force() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.001, stiffness_n_per_m=20_000))
    jaw.drive_to(0, 0.1, 100)
    assert kinds(jaw, 1) == [ARRIVED]
    assert jaw.force_n == pytest.approx(20)


def test_a_hole_is_touched_while_opening() -> None:
    jaw = Jaw(STROKE_M, width_m=0.01)
    jaw.put_object(GraspObject(0.04, internal=True))
    jaw.drive_to(STROKE_M, 0.1, 100)
    events = jaw.advance(1)
    assert [(e.kind, e.closing) for e in events] == [(CONTACT, False)]
    assert jaw.width_m == pytest.approx(0.0401)
    jaw.drive_to(0, 0.1, 100)
    assert kinds(jaw, 2) == [ARRIVED]


@pytest.mark.parametrize(("start_m", "target_m"), [(0.07, 0.0), (0.01, 0.075)])
def test_an_obstruction_stops_both_ways_and_lets_back(start_m: float, target_m: float) -> None:
    jaw = Jaw(STROKE_M, start_m)
    jaw.obstruct(0.04)
    jaw.drive_to(target_m, 0.1, 80)
    assert kinds(jaw, 1) == [CONTACT]
    assert (jaw.width_m, jaw.force_n, jaw.holding) == (0.04, 80, False)
    jaw.drive_to(start_m, 0.1, 80)
    assert kinds(jaw, 2) == [ARRIVED]
    assert jaw.force_n == 0


@pytest.mark.parametrize("what", ["obstruct", "slip", "put", "take", "clear", "move"])
def test_what_cannot_be_in_this_world_disturbs_no_motion(what: str) -> None:
    jaw = Jaw(STROKE_M)
    if what in ("slip", "put"):
        jaw.put_object(GraspObject(0.001))
    jaw.drive_to(0.025, 0.1, 100)
    jaw.advance(0.1)
    wrong: dict[str, Callable[[], object]] = {
        "obstruct": lambda: jaw.obstruct(0.08),
        "slip": lambda: jaw.make_slippery(-1.0, 0.0),
        "put": lambda: jaw.put_object(GraspObject(0.002)),
        "take": jaw.take_object,
        "clear": jaw.clear_obstruction,
        "move": lambda: jaw.move_fingers(-0.01),
    }
    with pytest.raises(WorldError):
        wrong[what]()
    assert kinds(jaw, 0.6) == [ARRIVED]
    assert jaw.width_m == 0.025


def test_an_obstruction_where_the_jaws_are_jams_them() -> None:
    jaw = Jaw(STROKE_M, 0.04)
    jaw.obstruct(0.04)
    for target_m in (0.0, 0.075):
        jaw.drive_to(target_m, 0.1, 80)
        assert kinds(jaw, 0) == [CONTACT]
    jaw.clear_obstruction()
    assert kinds(jaw, 1) == [LOST, ARRIVED]


def test_the_drive_goes_on_when_the_object_is_taken() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.03))
    jaw.drive_to(0, 0.1, 100)
    assert kinds(jaw, 1) == [CONTACT]
    jaw.take_object()
    assert kinds(jaw, 1) == [LOST]
    assert kinds(jaw, 2) == [ARRIVED]


def test_a_stop_keeps_the_force_and_relax_lets_go() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.03, 20_000))
    jaw.drive_to(0, 0.1, 100)
    jaw.advance(1)
    jaw.stop()
    assert kinds(jaw, 2) == []
    assert jaw.force_n == pytest.approx(100)
    jaw.relax()
    assert (jaw.force_n, jaw.width_m, jaw.holding) == (0, 0.03, False)


def test_an_object_held_too_loosely_slips_out() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.03, hold_force_n=150, slip_after_s=0.2))
    jaw.drive_to(0, 0.1, 100)
    events = jaw.advance(5)
    assert [e.kind for e in events] == [CONTACT, SLIPPED, LOST, ARRIVED]
    assert events[1].t_s - events[0].t_s == pytest.approx(0.2)
    assert jaw.object is None


def test_an_object_held_with_exactly_enough_stays() -> None:
    jaw = Jaw(STROKE_M)
    jaw.put_object(GraspObject(0.0301, hold_force_n=100))
    jaw.drive_to(0, 0.1, 100)
    assert kinds(jaw, 50) == [CONTACT]


def test_fingers_moved_by_hand_go_on_from_there() -> None:
    jaw = Jaw(STROKE_M)
    jaw.drive_to(0, 0.1, 100)
    jaw.advance(0.1)
    jaw.move_fingers(0.02)
    assert kinds(jaw, 0.3) == [ARRIVED]


def test_fingers_moved_past_an_obstruction_are_on_its_other_side() -> None:
    jaw = Jaw(STROKE_M)
    jaw.obstruct(0.04)
    jaw.move_fingers(0.01)
    jaw.drive_to(STROKE_M, 0.1, 100)
    assert kinds(jaw, 5) == [CONTACT]
    assert jaw.width_m == 0.04


def with_object(jaw: Jaw, width_m: float) -> Jaw:
    jaw.put_object(GraspObject(width_m))
    return jaw


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Jaw(0), "above 0"),
        (lambda: Jaw(STROKE_M, 0.08), "from 0 to 0.075"),
        (lambda: GraspObject(-1), "above 0"),
        (lambda: GraspObject(0.01, 0), "above 0"),
        (lambda: GraspObject(0.01, hold_force_n=-1), "0 or more"),
        (lambda: Jaw(STROKE_M).put_object(GraspObject(0.08)), "does not fit"),
        (lambda: Jaw(STROKE_M).put_object(GraspObject(0.02, internal=True)), "does not fit over"),
        (lambda: with_object(Jaw(STROKE_M), 0.01).put_object(GraspObject(0.01)), "take it away first"),
        (lambda: with_object(Jaw(STROKE_M), 0.01).move_fingers(0.005), "in the way"),
        (lambda: Jaw(STROKE_M).take_object(), "put one first"),
        (lambda: Jaw(STROKE_M).make_slippery(1, 1), "put one first"),
        (lambda: Jaw(STROKE_M).obstruct(-0.1), "from 0 to"),
        (lambda: Jaw(STROKE_M).clear_obstruction(), "nothing obstructs"),
        (lambda: Jaw(STROKE_M).drive_to(0, 0, 10), "above 0"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(WorldError, match=says):
        wrong()


# --- slices

STEPS = st.lists(
    st.tuples(
        st.floats(0.01, 0.4),  # how long until the next order
        st.floats(0, STROKE_M),
        st.floats(0.02, 0.15),
        st.floats(40, 300),
    ),
    min_size=1,
    max_size=6,
)
OBJECTS = st.one_of(
    st.none(),
    st.builds(
        GraspObject,
        width_m=st.floats(0.001, 0.07),
        stiffness_n_per_m=st.floats(1e4, 1e6),
        hold_force_n=st.sampled_from([0.0, 150.0]),
    ),
)


def run(
    steps: list[tuple[float, float, float, float]], part: GraspObject | None, slices: int
) -> list[tuple[str, float, float]]:
    """What happened, and the widths at the orders; each pause is cut into so many advances."""
    jaw = Jaw(STROKE_M)
    if part is not None:
        jaw.put_object(part)
    seen: list[tuple[str, float, float]] = []
    t_s = 0.0
    for pause_s, target_m, speed_m_s, force_n in steps:
        jaw.drive_to(target_m, speed_m_s, force_n)
        for index in range(1, slices + 1):
            seen += [(e.kind.value, e.t_s, 0.0) for e in jaw.advance(t_s + pause_s * index / slices)]
        t_s += pause_s
        jaw.advance(t_s)
        seen.append(("at", t_s, jaw.width_m))
    return seen


@given(STEPS, OBJECTS, st.integers(2, 60))
def test_the_trajectory_does_not_depend_on_slices(
    steps: list[tuple[float, float, float, float]], part: GraspObject | None, slices: int
) -> None:
    whole, sliced = run(steps, part, 1), run(steps, part, slices)
    assert [row[0] for row in whole] == [row[0] for row in sliced]
    for one, other in zip(whole, sliced, strict=True):
        assert one[1:] == pytest.approx(other[1:], abs=1e-12)


@given(STEPS, OBJECTS)
def test_widths_stay_inside_and_force_stays_below_the_greatest_limit(
    steps: list[tuple[float, float, float, float]], part: GraspObject | None
) -> None:
    jaw = Jaw(STROKE_M)
    if part is not None:
        jaw.put_object(part)
    for index, (pause_s, target_m, speed_m_s, force_n) in enumerate(steps):
        jaw.drive_to(target_m, speed_m_s, force_n)
        jaw.advance(jaw.now_s + pause_s)
        assert 0 <= jaw.width_m <= STROKE_M
        assert jaw.force_n <= max(step[3] for step in steps[: index + 1]) + 1e-6
