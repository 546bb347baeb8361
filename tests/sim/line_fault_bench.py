"""A device behind its line faults, and its frames."""

from __future__ import annotations

from pymodbus.framer.rtu import FramerRTU

from gripperd_sim.faults import LineFaults, Outgoing, fault
from gripperd_sim.history import Kind
from gripperd_sim.operations import Value
from gripperd_sim.rg75 import Rg75
from gripperd_sim.rtu import seal

READ_3 = seal(bytes.fromhex("090407D00003"))
READ_3_HOLDING = seal(bytes.fromhex("090307D00003"))
ENABLE = seal(bytes.fromhex("091003E80001020001"))
ENABLE_06 = seal(bytes.fromhex("090603E80001"))
ILLEGAL_READ = seal(bytes.fromhex("090400000001"))
REPLY_3 = seal(bytes.fromhex("090406000000010000"))
ACK = seal(bytes.fromhex("091003E80001"))


class Stub:
    """A device behind its faults, at a time the test moves."""

    def __init__(self, seed: int = 0) -> None:
        self.device = Rg75()
        self.faults = LineFaults(self.device, seed)
        self.t_s = 0.0

    def arm(self, kind: str, **params: Value) -> Stub:
        self.faults.arm(fault(kind, **params), self.t_s)
        return self

    def ask(self, request: bytes = READ_3) -> list[Outgoing]:
        return self.faults.exchange(request, self.t_s)

    def data(self, request: bytes = READ_3) -> bytes:
        """The bytes of what comes back, all of it at once."""
        sent = self.ask(request)
        assert all(out.delay_s == 0 for out in sent)
        return b"".join(out.data for out in sent)

    @property
    def strikes(self) -> list[tuple[str, str]]:
        return [(e.fields["fault"], e.fields["hex"]) for e in self.device.history.of(Kind.LINE_FAULT)]


def pymodbus_crc_fits(frame: bytes) -> bool:
    """The judgement of an independent implementation."""
    return FramerRTU.check_CRC(frame[:-2], int.from_bytes(frame[-2:], "big"))
