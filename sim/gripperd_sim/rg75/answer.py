"""What the RG75 answers to a request: the registers read, or which exception. It decides, the device acts.

Pure. Exception codes are standard Modbus; which ones a real device sends is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gripperd_sim import rtu
from gripperd_sim.rg75.registers import Registers


@dataclass(frozen=True, slots=True)
class Answer:
    """reply: the frame; values: what was read, or is to be written; exception: its code, then nothing is written."""

    reply: bytes
    values: tuple[int, ...] = ()
    exception: int | None = None


def answer(request: rtu.Request, registers: Registers, status: Mapping[int, int]) -> Answer:
    """The answer to a request; `status` holds the status registers as they are now."""
    if request.exception is not None:
        return _refuse(request, request.exception)
    if request.is_write:
        if not registers.may_write(request.address, request.count):
            return _refuse(request, rtu.ILLEGAL_ADDRESS)
        if not registers.accepts(request.address, request.values):
            return _refuse(request, rtu.ILLEGAL_VALUE)
        return Answer(rtu.write_reply(request), request.values)
    values = registers.read(request.address, request.count, status)
    if values is None:
        return _refuse(request, rtu.ILLEGAL_ADDRESS)
    return Answer(rtu.read_reply(request.unit, request.function, values), values)


def _refuse(request: rtu.Request, code: int) -> Answer:
    return Answer(rtu.exception_reply(request.unit, request.function, code), (), code)
