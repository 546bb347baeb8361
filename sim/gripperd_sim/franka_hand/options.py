"""Every behaviour of the hand that is configurable or not documented, as one field each. Pure.

[S] read in libfranka, [M] measured with its clients, [U] told by users, [?] not known: only a real hand can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gripperd_sim.option_table import check, option


@dataclass(frozen=True)
class HandOptions:
    """The switches of the simulated hand. All have defaults; see `describe()` for the table."""

    # --- mechanics
    max_width_m: float = option(0.08, "opening of the homed hand; 0.080 to 0.082 [U] franky#35", low=0.001, high=1)
    max_speed_m_s: float = option(0.1, "fastest change of the width; faster requests are cut to it", low=0.001, high=10)
    move_force_n: float = option(
        20.0, "force with which a move presses against what is in its way [?]", low=1, high=500
    )
    max_force_n: float = option(70.0, "greatest force; stronger grasps are cut to it", low=1, high=500)
    relax_m: float = option(
        0.002, "how far the fingers open after a grasp outside its band [U] panda-py#50", low=0, high=0.05
    )
    # --- start
    protocol_version: int = option(3, "version it speaks; a client of another one is refused [S]", low=0, high=65535)
    homed: bool = option(False, "homed at the start; a hand is not after power-up [U] franka_ros#276")
    uptime_s: float = option(
        0.0, "message ids begin with these seconds since the start; after 4294967 they begin anew", low=0, high=5e6
    )
    temperature_c: int = option(30, "temperature that is told", low=0, high=200)
    # --- timing
    command_latency_s: float = option(
        1.0, "no motion is answered sooner, however short [U] libfranka#226, franka_ros2#92", low=0, high=60
    )
    homing_s: float = option(4.0, "duration of homing: close, then open [U]", low=0.1, high=60)
    state_rate_hz: float = option(
        0.0, "datagrams per second; 0: the real pattern, 10 Hz and 5 Hz between [U] franky#35, [M]", low=0, high=1000
    )
    # --- odd behaviours
    drive_after_loss: bool = option(True, "after the object is lost the fingers go on closing [?]; or stay")
    stuck_move_s: float = option(
        120.0,
        "a move against an object is answered after this time, if it stays there [U] franka_ros#281",
        low=0,
        high=3600,
    )
    stuck_move_status: Literal["unsuccessful", "fail"] = option(
        "unsuccessful", "the answer then [?]: it ran and did not arrive, which is what unsuccessful means [S]"
    )
    needs_homing: bool = option(
        True, "a move or a grasp fails before homing [?]; false: it is carried out, though max_width is 0"
    )
    busy: Literal["abort", "ignore"] = option(
        "abort",
        "a motion while one is pending: the old one is aborted [U] franka_ros#238; or the new one does nothing, and "
        "fails when the old has ended [U] fairo#1398",
    )
    second_grasp: Literal["fail", "unsuccessful", "grasp"] = option(
        "fail",
        "a grasp while grasping: fails after the latency [U] libfranka#93; is unsuccessful and changes nothing [U] "
        "libfranka#108; or is carried out",
    )
    reopen_needs_stop: bool = option(False, "a move while grasping does nothing, and fails [U] gello_software#4")
    stop_ignored: float = option(
        0.0,
        "chance that a stop is ignored: answered only when the motion has ended [U] libfranka#52, #111",
        low=0,
        high=1,
    )
    stop_failed: float = option(
        0.0,
        "chance that a stop fails: answered so at once, without effect [?]; that it fails [U] libfranka#111",
        low=0,
        high=1,
    )
    stop_answered_first: bool = option(False, "the stop is answered before the motion that it aborts [?]")
    close_stops: bool = option(False, "closing the connection of a pending motion stops it [?]")

    def __post_init__(self) -> None:
        check(self)
