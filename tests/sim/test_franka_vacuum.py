"""The vacuum gripper: literal bytes, physics in simulated time, and unmodified bytes over the network."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest

from gripperd_sim.franka_hand.vacuum import NAMES, PAYLOADS, VacuumGripper
from gripperd_sim.franka_hand.vacuum_server import VacuumServer
from gripperd_sim.franka_hand.wire import Request, Stream
from tests.vectors import franka_frames as frames

VACUUM, DROP_OFF, STOP = (bytes.fromhex(each) for each in (frames.VACUUM, frames.DROP_OFF, frames.VACUUM_STOP))


def _requests(*messages: bytes) -> Iterator[Request]:
    yield from Stream(PAYLOADS, NAMES).feed(b"".join(messages))


def _told(gripper: VacuumGripper) -> list[tuple[int, int]]:
    """(number, status) of the answers."""
    answers, gripper.answers = gripper.answers, []
    found = []
    for _, data in answers:
        _, number, size, status = struct.unpack("<HIIH", data)
        assert size == len(data) == 12
        found.append((number, status))
    return found


def test_requests_are_read_from_literal_bytes() -> None:
    told = [(each.name, each.number, each.values) for each in _requests(VACUUM, DROP_OFF, STOP)]
    assert told == [("vacuum", 2, (10, 0, 1000)), ("drop_off", 3, (1000,)), ("stop", 4, ())]


def test_vacuum_builds_up_on_a_part_and_is_dropped() -> None:
    gripper = VacuumGripper()
    vacuum, drop_off, _ = _requests(VACUUM, DROP_OFF, STOP)
    gripper.put_part(0.0)
    gripper.request(1, vacuum, 0.0)
    gripper.advance(0.1)
    assert not _told(gripper)
    assert gripper.vacuum_mbar == pytest.approx(80)
    gripper.advance(0.126)
    assert _told(gripper) == [(2, 0)]
    assert struct.unpack("<I???Bii", gripper.datagram(0.2)) == (200, True, False, True, 0, 20, 100)
    gripper.request(1, drop_off, 1.0)
    gripper.advance(1.2)
    assert _told(gripper) == [(3, 0)]
    assert struct.unpack("<I???Bii", gripper.datagram(1.2)) == (1200, False, True, True, 0, 0, 0)


def test_without_a_part_it_is_unsuccessful_when_its_time_is_over() -> None:
    gripper = VacuumGripper()
    vacuum, _, _ = _requests(VACUUM, DROP_OFF, STOP)
    gripper.request(1, vacuum, 0.0)
    gripper.advance(0.999)
    assert not _told(gripper)
    gripper.advance(1.0)
    assert _told(gripper) == [(2, 2)]


def test_a_stop_aborts_what_is_pending_and_a_part_can_be_lost() -> None:
    gripper = VacuumGripper()
    vacuum, _, stop = _requests(VACUUM, DROP_OFF, STOP)
    gripper.request(1, vacuum, 0.0)
    gripper.request(2, stop, 0.3)
    assert _told(gripper) == [(2, 3), (4, 0)]
    gripper.put_part(1.0)
    gripper.request(1, vacuum, 1.0)
    gripper.advance(2.0)
    gripper.take_part(2.0)
    assert gripper.state(2.0) == {"vacuum_mbar": 0.0, "part_present": False, "part_detached": True, "pending": None}


async def test_it_is_served_with_states_of_sixteen_bytes() -> None:
    loop = asyncio.get_running_loop()
    server = VacuumServer(VacuumGripper(loop.time()), "127.0.0.1", 0)
    await server.start()
    states: asyncio.Queue[bytes] = asyncio.Queue()

    class States(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, address: object) -> None:
            states.put_nowait(data)

    transport, _ = await loop.create_datagram_endpoint(States, ("127.0.0.1", 0))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(10.0):
            port = transport.get_extra_info("sockname")[1]
            writer.write(struct.pack("<HIIHH", 0, 0, 14, 1, port))
            assert await reader.readexactly(14) == bytes.fromhex("0000 00000000 0e000000 0000 0100")
            assert len(await states.get()) == 16
            server.gripper.put_part(loop.time())
            writer.write(VACUUM)
            assert await reader.readexactly(12) == bytes.fromhex("0100 02000000 0c000000 0000")
            writer.write(STOP)
            assert await reader.readexactly(12) == bytes.fromhex("0300 04000000 0c000000 0000")
    finally:
        writer.transport.abort()
        transport.close()
        await server.close()
