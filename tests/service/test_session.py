"""What the loss of a client does on the wire, in virtual time."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gripperd.contract import Code, OnDisconnect
from gripperd.contract.requests import Grip, Hello, Move
from gripperd.contract.service import Peer
from gripperd_sim.history import Kind
from tests.support.crew import Crew
from tests.support.virtual_time import run_virtual

TWO = (9, 10)
STOP_WORD = 0x0001


def stops(crew: Crew, unit: int) -> list[float]:
    """When the device, once active, got a stop word [s]. It is the word of the activation as well."""
    history = crew.devices[unit].history
    active_s = next(each.t_s for each in history.of(Kind.ACTIVATION) if each.fields["stage"] == "active")
    words = [each for each in history.of(Kind.WRITE) if each.fields["values"][:1] == (STOP_WORD,)]
    return [each.t_s for each in words if each.t_s > active_s]


async def moving(crew: Crew) -> None:
    """Both move slowly by the crew's own session."""
    await crew.activate()
    for name in crew.grippers:
        await crew.session.command(Move(gripper=name, opening_width_m=0.0, relative_speed=0.01))
    await asyncio.sleep(0.3)


def test_a_lost_client_stops_its_gripper_only() -> None:
    async def play() -> None:
        async with Crew(TWO) as crew:
            await moving(crew)
            session = crew.service.join(Peer("unix"))
            session.hello(Hello(on_disconnect=OnDisconnect.STOP))
            await session.command(Grip(gripper="g9"))
            with capture_logs() as logs:
                session.leave()
                await asyncio.sleep(0.5)
            assert len(stops(crew, 9)) == 1
            assert stops(crew, 10) == []
            [told] = [each for each in logs if each["event"] == "client_lost"]
            assert told["stopped"] == ["g9"]
            session.leave()
            await asyncio.sleep(0.5)
            assert len(stops(crew, 9)) == 1, "once"

    run_virtual(play())


def test_a_client_that_leaves_with_the_daemon_stops_nothing() -> None:
    async def play() -> None:
        async with Crew(TWO) as crew:
            await moving(crew)
            crew.session.hello(Hello(on_disconnect=OnDisconnect.STOP))
            crew.session.leave(lost=False)
            await asyncio.sleep(0.5)
            assert stops(crew, 9) == stops(crew, 10) == []

    run_virtual(play())


def test_a_queued_command_of_a_lost_client_never_reaches_the_device() -> None:
    async def play() -> None:
        async with Crew((9,)) as crew:
            await crew.activate()
            session = crew.service.join(Peer("unix"))
            session.hello(Hello(on_disconnect=OnDisconnect.STOP))
            commands = [session.command(Move(opening_width_m=0.001 * n)) for n in range(20)]
            session.leave()
            replies = await asyncio.gather(*commands)
            assert [reply.code for reply in replies].count(Code.FENCED) >= 19
            await asyncio.sleep(0.5)
            words = [each.fields["values"][0] for each in crew.devices[9].history.of(Kind.WRITE)]
            assert words[-1] == STOP_WORD

    run_virtual(play())


def test_an_overdue_heartbeat_stops_once_and_commands_wait_for_the_next_beat() -> None:
    async def play() -> None:
        async with Crew((9,)) as crew:
            await crew.activate()
            session, other = crew.session, crew.service.join(Peer("unix"))
            session.hello(Hello(name="loop", on_disconnect=OnDisconnect.STOP, heartbeat_s=0.2))
            assert session.acquire("g9").ok
            for _ in range(10):
                await asyncio.sleep(0.15)
                session.beat()
            began_s = crew.now_s()
            await session.command(Move(opening_width_m=0.01, relative_speed=0.01))
            assert (await other.command(Move(opening_width_m=0.02))).code is Code.NOT_PERMITTED
            assert stops(crew, 9) == []
            await asyncio.sleep(0.45)
            [stopped_s] = stops(crew, 9)
            assert 0.2 <= stopped_s - began_s < 0.22
            refused = await session.command(Move(opening_width_m=0.01))
            assert refused.code is Code.NOT_PERMITTED
            assert "client.beat" in refused.message
            assert (await other.command(Move(opening_width_m=0.02, relative_speed=1))).ok, "the right is over too"
            await asyncio.sleep(1.0)
            assert len(stops(crew, 9)) == 1
            session.beat()
            assert (await session.command(Move(opening_width_m=0.01))).ok
            assert crew.service.session_counters.heartbeats_missed == 1
            assert crew.service.session_counters.stopped_on_loss == 1

    run_virtual(play())


def test_an_overdue_heartbeat_without_stop_on_disconnect_ends_the_right_and_stops_nothing() -> None:
    async def play() -> None:
        async with Crew((9,)) as crew:
            await moving(crew)
            crew.session.hello(Hello(heartbeat_s=0.1))
            crew.session.acquire("g9")
            await asyncio.sleep(1.0)
            assert stops(crew, 9) == []
            assert (await crew.service.join(Peer("unix")).command(Move(opening_width_m=0.02))).ok

    run_virtual(play())


def test_a_stop_needs_no_right() -> None:
    async def play() -> None:
        async with Crew(TWO) as crew:
            await moving(crew)
            crew.session.acquire("g9")
            crew.session.acquire("g10")
            observer = crew.service.join(Peer("unix", observe_only="the rule"))
            refused = await observer.command(Move(gripper="g9", opening_width_m=0.01))
            assert (refused.code, refused.message) == (Code.NOT_PERMITTED, "the rule")
            assert (await observer.stop("g9")).ok
            assert (await observer.stop(None)).ok
            assert len(stops(crew, 9)) == 2
            assert len(stops(crew, 10)) == 1

    run_virtual(play())


def test_a_stop_of_a_lost_client_that_is_not_confirmed_is_told() -> None:
    async def play() -> None:
        async with Crew((9,)) as crew:
            await moving(crew)
            crew.session.hello(Hello(on_disconnect=OnDisconnect.STOP))
            crew.line.unplug()
            with capture_logs() as logs:
                crew.session.leave()
                await asyncio.sleep(2.0)
            assert [each["gripper"] for each in logs if each["event"] == "stop_of_lost_client_not_confirmed"] == ["g9"]

    run_virtual(play())
