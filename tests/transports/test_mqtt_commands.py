"""Command messages against a simulated gripper, in virtual time; the broker is left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_core import from_json
from structlog.testing import capture_logs

from gripperd.contract import Code
from gripperd.contract.service import Peer
from gripperd.transports.mqtt.commands import MAX_PAYLOAD_BYTES, MAX_UNANSWERED, CommandReceiver, Received, Response
from gripperd.transports.mqtt.duplicates import MOST, WINDOW_S, Duplicates, ReusedError
from gripperd_sim.history import Kind
from tests.support.crew import Crew
from tests.support.virtual_time import run_virtual

MOVE = b'{"opening_width_m":0.03}'
REPLY = "cell/7/replies"


class Bench:
    """`async with Bench() as b:` one active gripper, and a receiver."""

    def __init__(self, **config: float) -> None:
        self.crew = Crew((9,), **config)

    async def __aenter__(self) -> Bench:
        await self.crew.__aenter__()
        await self.crew.activate()
        self.responses: list[Response] = []
        session = self.crew.service.join(Peer("mqtt"))
        self.receiver = CommandReceiver(session, "g9", "gripperd/robot", self.responses.append, self.crew.clock)
        self.seen = self.crew.devices[9].history.last_seq
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.crew.__aexit__(*error)

    def send(self, verb: str = "move", payload: bytes = MOVE, reply: str | None = REPLY, **more: Any) -> None:
        self.receiver.receive(Received(verb, payload, response_topic=reply, **more))

    async def answer(self) -> dict[str, Any]:
        """The newest, a moment later."""
        await asyncio.sleep(0.1)
        answer: dict[str, Any] = from_json(self.responses[-1].payload)
        return answer

    def writes(self) -> int:
        history = self.crew.devices[9].history
        return sum(each.kind is Kind.WRITE for each in history.since(self.seen))


def test_a_command_is_carried_out_and_answered_where_it_asked() -> None:
    async def play() -> None:
        async with Bench() as b:
            b.send(correlation=b"\x00\xff 1")
            answer = await b.answer()
            assert (answer["ok"], answer["code"], answer["gripper"]) == (True, "accepted", "g9")
            assert answer["command_seq"] > 0
            assert b.responses == [Response(REPLY, b.responses[0].payload, b"\x00\xff 1")]
            assert b.writes() == 1
            b.send("open", b"", reply=None)
            await asyncio.sleep(0.1)
            assert b.writes() == 2
            assert len(b.responses) == 1, "nobody asked for an answer"
            b.send("stop", b"{}")
            assert (await b.answer())["code"] == "accepted"
            b.send("grip", b'{"gripper":"g9","relative_speed":1}')
            assert (await b.answer())["code"] == "accepted"
            assert b.receiver.counters == {"commands": 4, "commands_refused": 0, "duplicates": 0}

    run_virtual(play())


@pytest.mark.parametrize(
    ("verb", "payload", "code", "text"),
    [
        ("move", b"{nonsense", "invalid_argument", "not JSON"),
        ("move", b'{"opening_width_m":NaN}', "invalid_argument", "not JSON"),
        ("move", b"\xff\xfe", "invalid_argument", "not JSON"),
        ("move", b"[0.03]", "invalid_argument", "JSON object"),
        ("move", b"0.03", "invalid_argument", "JSON object"),
        ("move", b"{}", "invalid_argument", "opening_width_m is missing"),
        ("move", b'{"opening_width_m":"0.03"}', "invalid_argument", "opening_width_m"),
        ("move", b'{"opening_width_m":null}', "invalid_argument", "null"),
        ("move", b'{"opening_width":0.03}', "invalid_argument", "did you mean 'opening_width_m'"),
        ("move", b'{"opening_width_m":0.5}', "unreachable_width", "0.075"),
        ("move", b'{"opening_width_m":0.03,"relative_speed":2}', "invalid_argument", "relative_speed"),
        ("move", b'{"gripper":"right","opening_width_m":0.03}', "invalid_argument", "the topic is of 'g9'"),
        ("move", b'{"opening_width_m":0.03' + b" " * MAX_PAYLOAD_BYTES + b"}", "invalid_argument", "4096"),
        ("close", b"{}", "invalid_argument", "is not a command"),
        ("wait", b'{"command_seq":1}', "invalid_argument", "is not a command"),
        ("mvoe", MOVE, "invalid_argument", "did you mean 'move'"),
        ("", MOVE, "invalid_argument", "is not a command"),
        ("stop", b"{nonsense", "invalid_argument", "not JSON"),
    ],
)
def test_bad_input_is_answered_with_the_reason_and_moves_nothing(
    verb: str, payload: bytes, code: str, text: str
) -> None:
    async def play() -> None:
        async with Bench() as b:
            b.send(verb, payload, correlation=b"1")
            answer = await b.answer()
            assert (answer["ok"], answer["code"], answer["command_seq"]) == (False, code, 0)
            assert text in answer["message"]
            assert b.writes() == 0

    run_virtual(play())


def test_a_retained_command_is_refused_with_the_reason_also_a_stop() -> None:
    """REPLAY 110, 113: whatever the broker kept, however often it comes."""

    async def play() -> None:
        async with Bench() as b:
            for _ in range(3):
                for verb in ("move", "stop"):
                    b.send(verb, MOVE if verb == "move" else b"", retain=True)
                    answer = await b.answer()
                    assert answer["code"] == "not_permitted"
                    assert "retain" in answer["message"]
            assert b.writes() == 0
            assert b.receiver.counters["commands_refused"] == 6

    run_virtual(play())


def test_an_expired_command_is_refused_and_one_that_expires_in_the_queue_never_goes_out() -> None:
    """REPLAY 109: what waited too long is not carried out."""

    async def play() -> None:
        async with Bench(link_down_after_s=20.0) as b:
            b.send(expiry_s=0)
            assert (await b.answer())["message"] == "the message has expired"
            b.crew.line.fault = lambda request, reply: []
            await asyncio.sleep(0.3)
            b.send(expiry_s=1)
            b.send(reply="cell/8", expiry_s=10)
            await asyncio.sleep(0.9)
            assert len(b.responses) == 1, "both wait for a valid round"
            assert (await b.answer()).items() >= {"ok": False, "code": "not_confirmed"}.items()
            b.crew.line.fault = None
            await asyncio.sleep(5.0)
            assert b.responses[-1].topic == "cell/8"
            assert (await b.answer())["ok"]
            assert b.writes() == 1

    run_virtual(play())


def test_the_expiry_of_a_command_that_was_answered_in_time_changes_nothing() -> None:
    async def play() -> None:
        async with Bench() as b:
            b.send(expiry_s=1)
            assert (await b.answer())["ok"]
            await asyncio.sleep(2.0)
            assert len(b.responses) == 1

    run_virtual(play())


def test_a_duplicate_is_answered_and_not_repeated() -> None:
    """REPLAY 112: also while the first is not answered yet, and for thirty seconds."""

    async def play() -> None:
        async with Bench() as b:
            for _ in range(3):
                b.send(correlation=b"1")
            first = await b.answer()
            assert len(b.responses) == 3
            assert len({each.payload for each in b.responses}) == 1
            await asyncio.sleep(29.0)
            b.send(correlation=b"1")
            assert await b.answer() == first
            assert b.writes() == 1
            assert b.receiver.counters["duplicates"] == 3
            await asyncio.sleep(2.0)
            b.send(correlation=b"1")
            assert (await b.answer())["command_seq"] > first["command_seq"], "after thirty seconds it is a new one"

    run_virtual(play())


def test_what_tells_a_duplicate_from_another_command() -> None:
    async def play() -> None:
        async with Bench() as b:
            b.send(correlation=b"1")
            first = await b.answer()
            b.send("open", b"", correlation=b"1")
            reused = await b.answer()
            assert (reused["code"], "its own" in reused["message"]) == ("invalid_argument", True)
            b.send(reply="cell/8/replies", correlation=b"1")
            other = await b.answer()
            assert other["command_seq"] > first["command_seq"], "another program that counts from 1"
            for _ in range(2):
                b.send("stop", b"", correlation=b"2")
                assert (await b.answer())["code"] == "accepted"
            before = b.writes()
            b.send()
            b.send()
            await b.answer()
            assert b.writes() > before, "without correlation data nothing is a duplicate"

    run_virtual(play())


@pytest.mark.parametrize(
    "topic", ["", "a/+", "a/#", "x" * 1025, "gripperd/robot/g9/command/move", "gripperd/robot/other/state"]
)
def test_a_response_topic_that_cannot_be_used_is_told_in_the_log_and_only_a_stop_is_carried_out(topic: str) -> None:
    async def play() -> None:
        async with Bench() as b:
            with capture_logs() as logs:
                b.send(reply=topic)
                b.send(reply=topic)
                await asyncio.sleep(0.1)
                assert b.writes() == 0
                b.send("stop", b"", reply=topic)
                await asyncio.sleep(0.1)
            assert b.writes() == 1
            assert b.responses == []
            assert [each["event"] for each in logs].count("mqtt_command_refused") == 1
            assert b.receiver.counters["commands_refused"] == 2

    run_virtual(play())


def test_a_topic_below_the_prefix_that_is_none_of_ours_may_be_answered_on() -> None:
    async def play() -> None:
        async with Bench() as b:
            b.send(reply="gripperd/robot/g9/replies/7")
            assert (await b.answer())["ok"]

    run_virtual(play())


def test_a_stop_waits_for_no_other_command_and_is_taken_beyond_the_limit() -> None:
    async def play() -> None:
        async with Bench() as b:
            for n in range(MAX_UNANSWERED + 10):
                b.send(payload=b'{"opening_width_m":%f}' % (0.0001 * n))
            b.send("stop", b"")
            answer = await b.answer()
            answers = [from_json(each.payload) for each in b.responses]
            assert [each["code"] for each in answers[:10]] == ["internal"] * 10
            assert f"{MAX_UNANSWERED} commands wait" in answers[0]["message"]
            assert [each["code"] for each in answers].count("fenced") >= MAX_UNANSWERED - 2
            assert answer["code"] == Code.ACCEPTED
            assert b.writes() <= 3

    run_virtual(play())


def test_the_memory_of_duplicates_is_bounded_by_number_and_time() -> None:
    known: Duplicates[int] = Duplicates()
    for n in range(MOST + 5):
        known.remember(n, "move", n, 0.0)
    assert known.find(4, "move", 0.0) is None
    assert known.find(5, "move", 0.0) == 5
    with pytest.raises(ReusedError):
        known.find(5, "open", 0.0)
    assert known.find(MOST, "move", WINDOW_S) == MOST
    assert known.find(MOST, "move", WINDOW_S + 0.1) is None
