"""STOP, STALE, FRAME, TRANS, HANG, REPLAY, SLAVE: all promises at once, in thousands of random examples."""

from __future__ import annotations

import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.torture.machine import STEPS, TortureMachine

EXAMPLES = 100


def test_the_promises_hold_on_a_bad_line() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    run_state_machine_as_test(
        TortureMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
