"""What must not end the daemon, hang a caller, or move anything later: ports that fail, noise, odd answers, streams."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from gripperd.contract import Activation, Code, CommandReply, Link, Outcome
from gripperd.contract.requests import Activate, ClearFault, Command, Deactivate, Grip, Move, Open, Release
from gripperd.modbus.line import PortError
from gripperd_sim.history import Kind
from gripperd_sim.rg75 import Rg75Options
from tests.modbus.bench import seal
from tests.support.rig import Rig
from tests.support.sim_line import SimLine
from tests.support.virtual_time import run_virtual

STOP_WORD = b"\x00\x01"
"""First word of a stop in each of its shapes; also of an enable."""


class _Breaks(SimLine):
    """Fails once at a place that the test chooses, as an adapter does that is pulled at this very moment."""

    at: str = ""

    def _fails(self, place: str) -> None:
        if self.at == place:
            self.at = ""
            raise PortError(f"sim: Input/output error at {place}")

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self._fails("open")
        await super().open(received, lost)

    def write(self, data: bytes) -> None:
        self._fails("stop" if data[7:9] == STOP_WORD else "command" if data[1] == 0x10 else "poll")
        super().write(data)


def _breaking(rig: Rig) -> _Breaks:
    rig.line = _Breaks(rig.line.units)
    return rig.line


@pytest.mark.parametrize("place", ["open", "poll", "command", "stop", "in flight"])
@pytest.mark.parametrize("repeats", [1, 8])
def test_a_port_that_fails_at_any_call_is_a_lost_round_and_never_the_end(place: str, repeats: int) -> None:
    """TRANS 68."""

    async def scenario() -> None:
        rig = Rig()
        line = _breaking(rig)
        line.at = "open" if place == "open" else ""
        async with rig:
            await rig.activate()
            for n in range(repeats):
                moving = await rig.reply(Move(opening_width_m=0.075 * (n % 2), relative_speed=0.2))
                await asyncio.sleep(0.05)
                line.at = place
                if place in ("open", "in flight"):
                    line.unplug()
                    line.plugged = True
                elif place == "command":
                    failed = await rig.reply(Move(opening_width_m=0.01, relative_speed=0.3))
                    assert failed.code in (Code.NOT_CONFIRMED, Code.LINK_DOWN)
                elif place == "stop":
                    assert (await rig.stop()).ok, "it is repeated when the port is back"
                await asyncio.sleep(5.0)  # until then a stop's acknowledgement may belong to the one that was lost
                assert moving.command_seq
                await rig.outcome(moving)
                assert rig.state.link is Link.UP
                assert rig.state.opening_width_valid
            assert line.at in ("", "in flight")
            assert rig.bus.counters.port_opened > repeats
            assert (await rig.outcome(Open(relative_speed=1.0))).outcome is Outcome.REACHED

    run_virtual(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_a_device_that_answers_anything_at_all_never_ends_the_daemon(seed: int) -> None:
    """TRANS 68: valid frames with random registers, exceptions and silences, under commands of every kind."""

    async def scenario() -> None:
        rng = random.Random(seed)
        async with Rig(motion_limit_s=1.0, activation_limit_s=3.0) as rig:
            await rig.activate()

            def anything(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
                dice = rng.random()
                if dice < 0.05:
                    return []
                if dice < 0.1:
                    return [(0.0, seal(bytes((9, request[1] | 0x80, rng.randrange(256)))))]
                if request[1] == 0x10:
                    return [(0.0, seal(request[:6]))]
                count = int.from_bytes(request[4:6], "big")
                registers = rng.randbytes(2 * count)
                if rng.random() < 0.7:  # words that a device in order could give
                    registers = bytes((0, rng.choice([0x11, 0x31, 0x39, 0xF1, 0xB1, 0x71, 0x73, 0x01, 0x00])))
                    registers += bytes((rng.randrange(256), rng.choice([0, 0, 0, rng.randrange(256)])))
                    registers += rng.randbytes(2 * count - 4)
                return [(0.0, seal(bytes((9, request[1], 2 * count)) + registers))]

            rig.line.fault = anything
            replies: list[asyncio.Future[CommandReply]] = []
            kinds: list[Callable[[], Command]] = [Activate, Deactivate, ClearFault, Release, Grip, Open]
            for _ in range(150):
                if rng.random() < 0.2:
                    replies.append(rig.gripper.stop())
                elif rng.random() < 0.5:
                    replies.append(rig.gripper.command(Move(opening_width_m=rng.uniform(0.0, 0.075))))
                else:
                    replies.append(rig.gripper.command(rng.choice(kinds)()))
                await asyncio.sleep(rng.choice([0.0, 0.01, 0.1]))
            rig.line.fault = None
            told = await asyncio.gather(*replies)
            seqs = [reply.command_seq for reply in told if reply.command_seq]
            await rig.until(lambda: all(rig.gripper.ledger.outcome(seq) for seq in seqs))
            await asyncio.sleep(6.0)
            assert rig.state.link is Link.UP
            assert (await rig.stop()).ok

    run_virtual(scenario())


@pytest.mark.parametrize("burst_s", [0.05, 0.2, 0.4])
def test_a_burst_of_noise_during_a_motion_ends_neither_the_motion_nor_the_daemon(burst_s: float) -> None:
    """TRANS 70: the device's bytes are damaged and the line babbles; then all is as before."""

    async def scenario() -> None:
        rng = random.Random(70)

        def damage(request: bytes, reply: bytes | None) -> list[tuple[float, bytes]]:
            assert reply is not None
            kept = rng.choice([0, 3, 3])  # where the header survives, only the checksum tells
            return [(0.0, reply[:kept] + rng.randbytes(len(reply) - kept))]

        async with Rig() as rig:
            await rig.activate()
            for n in range(10):
                moving = await rig.reply(Move(opening_width_m=0.075 * (1 - n % 2), relative_speed=0.3))
                await asyncio.sleep(0.1 + 0.0037 * n)
                rig.line.fault = damage
                began_s, told = rig.now_s(), len(rig.states)
                while rig.now_s() < began_s + burst_s:
                    rig.line.inject(rng.randbytes(rng.randrange(1, 4)))
                    await asyncio.sleep(0.002)
                rig.line.fault = None
                noisy = rig.states[told + 1 :]
                assert not any(state.opening_width_valid for state in noisy)
                ended_s = rig.now_s()
                await rig.until(lambda: rig.state.opening_width_valid)
                assert rig.now_s() - ended_s < 0.5
                assert (await rig.outcome(moving)).outcome is Outcome.REACHED
                assert rig.state.link is Link.UP
                await asyncio.sleep(6.0)

    run_virtual(scenario())


@pytest.mark.parametrize("regrip_same_force_ignored", [True, False])
def test_a_stream_of_moves_against_an_object_answers_each_and_holds_up_none(regrip_same_force_ignored: bool) -> None:
    """HANG 98: a teleoperator goes on closing on what is held, then opens."""

    async def scenario() -> None:
        async with Rig(Rg75Options(regrip_same_force_ignored=regrip_same_force_ignored)) as rig:
            await rig.activate()
            await rig.outcome(Open(relative_speed=1.0))
            rig.put(0.04)
            replies, waits_s = [], []
            for n in range(200):
                asked_s = rig.now_s()
                replies.append(await rig.reply(Move(opening_width_m=0.07 - 0.0003 * n, relative_speed=1.0)))
                waits_s.append(rig.now_s() - asked_s)
                await asyncio.sleep(0.02)
            assert all(reply.ok for reply in replies)
            assert max(waits_s) < 0.01
            outcomes = [await rig.outcome(reply) for reply in replies]
            assert outcomes[-1].outcome is Outcome.CONTACT
            assert {outcome.outcome for outcome in outcomes} <= {Outcome.SUPERSEDED, Outcome.CONTACT, Outcome.REACHED}
            assert (await rig.outcome(Open(relative_speed=1.0))).outcome is Outcome.REACHED

    run_virtual(scenario())


@pytest.mark.parametrize(
    "command",
    [Move(opening_width_m=0.03), Grip(), Open(), Release(), Activate(), Deactivate(), ClearFault()],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parametrize("delay_s", [0.05, 0.15, 0.7, 1.55])
def test_a_command_while_the_device_homes_is_answered_and_never_lost(command: Command, delay_s: float) -> None:
    """HANG 104: accepted with an outcome, or refused; each within one step of the activation."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.until(lambda: rig.state.link is Link.UP)
            homing = rig.gripper.command(Activate())
            await asyncio.sleep(delay_s)
            asked_s = rig.now_s()
            reply = await rig.reply(command)
            assert rig.now_s() - asked_s < 0.22, "the pause between reset and enable is 0.1 s, and there may be two"
            if reply.command_seq:
                assert (await rig.outcome(reply)).outcome is Outcome.REACHED
            else:
                assert reply.code is Code.NOT_ACTIVE
            told = await rig.outcome(await homing)
            assert told.outcome in (Outcome.REACHED, Outcome.SUPERSEDED)

    run_virtual(scenario())


@pytest.mark.parametrize("trouble", ["power cycle", "unplug", "silence"])
def test_a_stream_that_goes_on_through_a_loss_moves_nothing_that_was_not_asked_for_afterwards(trouble: str) -> None:
    """REPLAY 107: every write has the target that the client asked for last, and after the client ends none follows."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            asked: list[tuple[float, int]] = []

            async def stream(duration_s: float) -> None:
                end_s = rig.now_s() + duration_s
                while rig.now_s() < end_s:
                    counts = 20 + len(asked) % 200
                    asked.append((rig.now_s(), counts))
                    rig.gripper.command(Move(opening_width_m=0.075 * (255 - counts) / 255, relative_speed=1.0))
                    await asyncio.sleep(0.03)

            await stream(0.5)
            if trouble == "power cycle":
                rig.device.power_cycle(rig.now_s(), off_s=0.2)
            elif trouble == "unplug":
                rig.line.unplug()
            else:
                rig.line.fault = lambda request, reply: []
            await stream(1.2)
            rig.line.plugged, rig.line.fault = True, None
            back_s = rig.now_s()
            await asyncio.sleep(6.0)
            late = [each for each in rig.writes() if each.t_s > back_s + 0.003]
            assert not late, "no command of before the loss, or of during it"
            gos = [each for each in rig.writes() if len(each.fields["values"]) == 3]
            assert len(gos) > 10
            for write in gos:
                target = write.fields["values"][1] >> 8
                given_s = max(at_s for at_s, counts in asked if counts == target and at_s <= write.t_s)
                assert write.t_s - given_s < 0.6, "old"
            if trouble == "power cycle":
                assert rig.state.activation is Activation.INACTIVE
                homings = [each for each in rig.device.history.of(Kind.ACTIVATION) if each.fields["stage"] == "homing"]
                assert len(homings) == 1
            else:
                assert (await rig.outcome(Open(relative_speed=1.0))).outcome is Outcome.REACHED

    run_virtual(scenario())


def test_a_stop_that_was_answered_is_not_sent_again_after_a_loss() -> None:
    """REPLAY 106: nor is the motion that it ended."""

    async def scenario() -> None:
        async with Rig() as rig:
            await rig.activate()
            await rig.reply(Move(opening_width_m=0.075))
            await asyncio.sleep(0.1)
            assert (await rig.stop()).ok
            rig.line.unplug()
            await asyncio.sleep(1.0)
            written = len(rig.writes())
            rig.line.plugged = True
            await rig.until(lambda: rig.state.link is Link.UP)
            await asyncio.sleep(6.0)
            assert len(rig.writes()) == written

    run_virtual(scenario())
