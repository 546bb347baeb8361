"""The blocking twin: the same names, from several threads, against the real daemon over a simulated device."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path

import pytest

from gripperd import client as asyncio_package
from gripperd.client import blocking
from gripperd.contract import Code, CommandRefusedError, ConnectionLostError, Outcome
from tests.support.daemon_bench import bench


@pytest.mark.parametrize("name", ["Client", "Gripper", "PendingCommand"])
def test_both_clients_have_the_same_names_and_parameters(name: str) -> None:
    ours, theirs = getattr(blocking, name), getattr(asyncio_package, name)
    public = {each for each in dir(theirs) if not each.startswith("_")}
    assert public - {"gripper"} <= set(dir(ours)) | {"name", "reply"}
    for each in public:
        method = getattr(theirs, each)
        if inspect.isfunction(method):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(getattr(ours, each)).parameters
            ), each


async def test_a_pick_without_asyncio(tmp_path: Path) -> None:
    def pick(path: Path) -> None:
        with blocking.Client.connect(path) as client:
            gripper = client.gripper("left")
            with pytest.raises(CommandRefusedError) as refused:
                gripper.open()
            assert refused.value.code is Code.NOT_ACTIVE
            assert gripper.activate().outcome().outcome is Outcome.REACHED
            assert gripper.move(0.03, relative_speed=1.0).outcome().outcome is Outcome.REACHED
            states = gripper.states()
            first, second = next(states), next(states)
            assert second.seq == first.seq + 1
            states.close()  # type: ignore[attr-defined]
            assert gripper.info().max_opening_width_m == 0.075
            assert client.grippers().grippers[0].name == "left"
            assert client.stop_all().ok
            assert client.info().contract == 1
            assert client.statistics()["bus"]["tool0"]["transactions"] > 0
        client.close()

    async with bench(tmp_path) as b:
        await asyncio.to_thread(pick, b.path)


async def test_a_stop_from_one_thread_works_while_another_waits(tmp_path: Path) -> None:
    def work(path: Path) -> None:
        with blocking.Client.connect(path) as client:
            gripper = client.gripper()
            gripper.activate().outcome()
            command = gripper.move(0.075, relative_speed=0.01)
            outcomes = []
            waiting = threading.Thread(target=lambda: outcomes.append(command.outcome(timeout_s=20.0)))
            waiting.start()
            assert gripper.stop().reply.ok
            waiting.join(10.0)
            assert [outcome.outcome for outcome in outcomes] == [Outcome.STOPPED]

    async with bench(tmp_path) as b:
        await asyncio.to_thread(work, b.path)


def test_no_daemon_is_an_error_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ConnectionLostError):
        blocking.Client.connect(tmp_path / "none")
    assert threading.active_count() == before
