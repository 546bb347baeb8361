"""The slave's pacing, in short runs of the real process. Nothing here says how fast; only what can never be earlier."""

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.children import SlaveProcess, slave
from bench.clients.bare import open_port
from bench.rtu import is_whole, read_request, reply_bytes, write_reply, write_request
from bench.slave import Lateness
from bench.wire_time import Profile

SLOW = Profile("slow", 9_600, 0.005)
ANSWER_LIMIT_S = 10.0


class Port:
    """The client's side."""

    def __init__(self, path: str) -> None:
        self.descriptor = open_port(path)

    def ask(self, request: bytes) -> tuple[bytes, float]:
        """The reply, and how long it took [s]."""
        asked_s = time.monotonic()
        os.write(self.descriptor, request)
        reply = b""
        while len(reply) < reply_bytes(request):
            ready, _, _ = select.select([self.descriptor], [], [], ANSWER_LIMIT_S)
            assert ready, f"no reply; so far {reply.hex(' ')}"
            reply += os.read(self.descriptor, 4096)
        return reply, time.monotonic() - asked_s

    def is_quiet(self, for_s: float) -> bool:
        """Whether nothing comes for so long [s]."""
        return not select.select([self.descriptor], [], [], for_s)[0]


@contextmanager
def running(folder: Path, profile: Profile, lateness: Lateness | None = None) -> Iterator[tuple[SlaveProcess, Port]]:
    with slave(folder, profile, paced=lateness is None, lateness=lateness) as device:
        port = Port(device.port)
        try:
            yield device, port
        finally:
            os.close(port.descriptor)


def test_a_reply_takes_its_time_on_the_wire(tmp_path: Path) -> None:
    with running(tmp_path, SLOW) as (device, port):
        reply, took_s = port.ask(read_request())
        stamps = device.finish()
    least_s = (8 + 3.5 + 13) * 10 / 9_600 + 0.005
    assert is_whole(reply)
    assert took_s >= least_s
    assert stamps.function == [4]
    assert stamps.planned_s[0] - stamps.arrival_s[0] == pytest.approx(least_s, abs=1e-9)
    assert stamps.planned_s[0] <= stamps.handing_s[0] <= stamps.delivered_s[0]
    assert min(stamps.lateness_s) >= 0.0
    assert (stamps.bad_frames, stamps.collisions) == (0, 0)


def test_bursts_come_at_multiples_of_their_period(tmp_path: Path) -> None:
    burst_s = 0.05
    with running(tmp_path, Profile("bursts", 115_200, 0.001, burst_s)) as (device, port):
        for _ in range(3):
            port.ask(read_request())
        stamps = device.finish()
    periods = [(later - stamps.planned_s[0]) / burst_s for later in stamps.planned_s[1:]]
    assert periods == pytest.approx([round(period) for period in periods], abs=1e-6)
    assert round(min(periods)) >= 1


def test_silence_ends_with_a_write(tmp_path: Path) -> None:
    with running(tmp_path, SLOW) as (device, port):
        port.ask(read_request())
        device.tell("silent")
        time_enough_s = 0.2
        assert port.is_quiet(time_enough_s)  # the command has been read by then, or the read below is answered
        os.write(port.descriptor, read_request())
        assert port.is_quiet(time_enough_s)
        reply, _ = port.ask(write_request((1,)))
        assert reply == write_reply(write_request((1,)))
        stamps = device.finish()
    assert [bool(each) for each in stamps.delivered_s] == [True, False, True]


def test_late_replies_carry_the_number_of_their_request(tmp_path: Path) -> None:
    with running(tmp_path, SLOW, Lateness(1.0, 0.05, 0.06)) as (device, port):
        replies = [port.ask(read_request()) for _ in range(3)]
        stamps = device.finish()
    assert [reply[5] for reply, _ in replies] == [1, 2, 3]
    assert min(took_s for _, took_s in replies) >= 0.05
    assert stamps.late_replies == 3


def test_a_damaged_request_is_not_answered(tmp_path: Path) -> None:
    with running(tmp_path, SLOW) as (device, port):
        os.write(port.descriptor, read_request()[:-1] + b"\x00")
        assert port.is_quiet(0.1)
        reply, _ = port.ask(read_request())
        stamps = device.finish()
    assert is_whole(reply)
    assert stamps.bad_frames == 1


def test_a_request_during_a_reply_is_a_collision(tmp_path: Path) -> None:
    with running(tmp_path, SLOW) as (device, port):
        os.write(port.descriptor, read_request() + read_request())
        ready = b""
        while len(ready) < 26:
            assert not port.is_quiet(ANSWER_LIMIT_S)
            ready += os.read(port.descriptor, 4096)
        stamps = device.finish()
    assert stamps.collisions == 1
