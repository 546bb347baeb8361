"""The state machine that makes examples: which steps there are, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.virtual_time import VirtualTimeLoop
from tests.torture.checks import check
from tests.torture.scenario import Setting, Step, Value, dumps
from tests.torture.world import World

STEPS = 25
"""Most steps of an example."""

RESTART_S = 0.2
"""Shortest restart of a device [s]. One that takes less than a round and its time-out is not noticed in time."""

pauses = st.one_of(
    st.sampled_from([0.0, 0.001, 0.004, 0.011, 0.15, 0.16, 1.2]),
    st.floats(0.0, 0.05),
    st.floats(0.0, 0.7),
)
"""Between two steps [s]: at once, within a transaction, around the limits of taking up and of the link, and longer."""

settings_of_a_world = st.builds(
    Setting,
    seed=st.integers(0, 2**16),
    takeup_s=st.sampled_from([0.0, 0.01, 0.06]),
    poll_rate_hz=st.sampled_from([25.0, 50.0]),
    moving_poll_rate_hz=st.just(50.0),
    late_reply_limit_s=st.sampled_from([0.5, 2.0, 5.0]),
)

widths = st.floats(0.0, 0.075).map(lambda width_m: round(width_m, 4))
counts = st.integers(1, 8)


def _step(do: str, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    values: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(params)
    return st.builds(Step, pauses, st.just(do), values)


motions = st.one_of(
    _step("move", opening_width_m=widths),
    _step("move", opening_width_m=widths),
    _step("grip"),
    _step("open"),
)
life_cycle = st.one_of(_step("activate"), _step("deactivate"), _step("clear_fault"), _step("release"))
strikes = st.one_of(
    st.fixed_dictionaries({"count": counts}),
    st.fixed_dictionaries(
        {"probability": st.sampled_from([0.05, 0.3, 0.9]), "duration_s": st.sampled_from([0.1, 0.5, 2.0])}
    ),
)
"""How often a fault strikes."""


def _fault(do: str, of: bool = True, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    own = st.fixed_dictionaries(params, optional={"of": st.sampled_from(["reads", "writes"])} if of else {})
    return st.builds(lambda after_s, when, values: Step(after_s, do, {**when, **values}), pauses, strikes, own)


few_bytes = st.integers(1, 6)
faults = st.one_of(
    _fault("lose"),
    _fault("drop_acks", of=False),
    _fault("delay", delay_s=st.sampled_from([0.06, 0.11, 0.25, 0.45, 0.9, 1.9, 4.8])),
    _fault("merge"),
    _fault("repeat", delay_s=st.sampled_from([0.0, 0.0005, 0.0015])),  # one that is later is not told apart
    _fault("split", gap_s=st.sampled_from([0.001, 0.015, 0.04])),
    _fault("split", gap_s=st.just(0.0005), every_byte=st.just(True)),
    _fault("corrupt", flips=st.integers(1, 3)),
    _fault("truncate"),
    _fault("lengthen", bytes=few_bytes, right_crc=st.booleans()),
    _fault("noise_before", bytes=few_bytes),
    _fault("noise_after", bytes=few_bytes),
    _fault("echo", missing_bytes=st.integers(0, 1)),
    _fault("wrong_unit"),
    _fault("wrong_function"),
    _fault("wrong_count", registers=st.integers(0, 4)),
    _fault("exception", code=st.integers(2, 6)),
    _step("silence", duration_s=st.sampled_from([0.05, 0.2, 0.45, 0.6, 1.5])),
    _step("bursts", burst_s=st.sampled_from([0.0, 0.001, 0.016])),
)
happenings = st.one_of(
    _step("put_object", width_m=st.just(0.025)),
    _step("take_object"),
    _step("unplug"),
    _step("plug"),
    _step("replug", off_s=st.floats(0.0, 1.0)),
    _step("power_cycle", off_s=st.floats(RESTART_S, 1.6)),
)


class TortureMachine(RuleBasedStateMachine):
    """Each rule plays one step; the promises are checked at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self._world: World | None = None

    @initialize(setting=settings_of_a_world)
    def begin(self, setting: Setting) -> None:
        self._run(self._begin(setting))

    async def _begin(self, setting: Setting) -> None:
        self._world = World(setting)
        await self._world.__aenter__()

    @rule(step=motions)
    def command(self, step: Step) -> None:
        self._play(step)

    @rule(step=_step("stop"))
    def stop(self, step: Step) -> None:
        self._play(step)

    @precondition(lambda self: self._world is not None and bool(self._world.played.replies))
    @rule(step=_step("cancel"))
    def give_up(self, step: Step) -> None:
        self._play(step)

    @rule(step=life_cycle)
    def manage(self, step: Step) -> None:
        self._play(step)

    @rule(step=faults)
    def disturb(self, step: Step) -> None:
        self._play(step)

    @rule(step=happenings)
    def happen(self, step: Step) -> None:
        self._play(step)

    def teardown(self) -> None:
        try:
            if self._world is not None:
                self._run(self._world.recover())
                check(self._world)
        except BaseException as error:
            self._annotate(error)
            raise
        finally:
            if self._world is not None:
                self._runner.run(self._world.__aexit__())
                assert not asyncio.all_tasks(self._runner.get_loop()), "a task was left behind"
            self._runner.close()

    def _play(self, step: Step) -> None:
        assert self._world is not None
        self._run(self._world.step(step))

    def _run(self, part: Coroutine[Any, Any, object]) -> None:
        try:
            self._runner.run(part)
        except BaseException as error:
            self._annotate(error)
            raise

    def _annotate(self, error: BaseException) -> None:
        if self._world is not None and not getattr(error, "__notes__", None):
            error.add_note("as a scenario file:\n" + dumps(self._world.setting, self._world.steps))
