"""What a line fault does to the bytes of one reply.

Pure. A change returns the new bytes and says in words what it did; one that returns the old bytes did not strike, for
example a wrong count in a reply that has none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from random import Random

from gripperd_sim import rtu
from gripperd_sim.faults.model import FaultKind
from gripperd_sim.operations import Args

Change = Callable[[Args, Random, bytes, bytes], tuple[bytes, str]]
"""parameters, random numbers, request, reply so far -> reply now, what was done"""

_EXCEPTION_BIT = 0x80
_OTHER_FUNCTION = {
    rtu.READ_HOLDING: rtu.READ_INPUT,
    rtu.READ_INPUT: rtu.READ_HOLDING,
    rtu.WRITE_ONE: rtu.WRITE_MANY,
    rtu.WRITE_MANY: rtu.WRITE_ONE,
}


def _wrong_unit(args: Args, _random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    unit = args.integer("as_unit", (reply[0] + 1) % 256)
    return rtu.seal(bytes((unit,)) + reply[1:-2]), f"names unit {unit}"


def _wrong_function(args: Args, _random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    function = reply[1] & ~_EXCEPTION_BIT
    other = args.integer("function", _OTHER_FUNCTION.get(function, function))
    named = other | reply[1] & _EXCEPTION_BIT
    return rtu.seal(bytes((reply[0], named)) + reply[2:-2]), f"names function {other}"


def _wrong_count(args: Args, _random: Random, request: bytes, reply: bytes) -> tuple[bytes, str]:
    registers = args.integer("registers")
    did = f"{registers} registers"
    if reply[1] & _EXCEPTION_BIT:
        return reply, did
    if request[1] == rtu.WRITE_MANY:
        return rtu.seal(reply[:4] + struct.pack(">H", registers)), did
    if request[1] not in (rtu.READ_HOLDING, rtu.READ_INPUT):
        return reply, did
    old = reply[3:-2]
    values = (old + old[-2:] * registers)[: 2 * registers]
    return rtu.seal(reply[:2] + bytes((len(values),)) + values), did


def _lengthen(args: Args, random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    extra = _noise(args, random)
    body = reply[:-2] + extra
    right = args.flag("right_crc")
    return rtu.seal(body) if right else body + reply[-2:], f"{len(extra)} bytes more, CRC {'new' if right else 'old'}"


def _corrupt(args: Args, random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    bits = 8 * len(reply)
    bit = args.optional_integer("bit")
    if bit is not None:
        flipped = [bit] if bit < bits else []
    else:
        flipped = sorted(random.sample(range(bits), min(args.integer("flips", 1), bits)))
    damaged = bytearray(reply)
    for index in flipped:
        damaged[index // 8] ^= 1 << index % 8
    return bytes(damaged), f"bits flipped: {', '.join(map(str, flipped))}"


def _truncate(args: Args, random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    keep = args.integer("keep_bytes") or random.randrange(1, len(reply))
    return reply[:keep], f"ends after {keep} bytes"


def _noise_before(args: Args, random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    noise = _noise(args, random)
    return noise + reply, f"{len(noise)} bytes before it"


def _noise_after(args: Args, random: Random, _request: bytes, reply: bytes) -> tuple[bytes, str]:
    noise = _noise(args, random)
    return reply + noise, f"{len(noise)} bytes after it"


def _noise(args: Args, random: Random) -> bytes:
    return args.optional_bytes("hex") or random.randbytes(args.integer("bytes", 1))


CHANGES: Mapping[FaultKind, Change] = {
    FaultKind.WRONG_UNIT: _wrong_unit,
    FaultKind.WRONG_FUNCTION: _wrong_function,
    FaultKind.WRONG_COUNT: _wrong_count,
    FaultKind.LENGTHEN: _lengthen,
    FaultKind.CORRUPT: _corrupt,
    FaultKind.TRUNCATE: _truncate,
    FaultKind.NOISE_BEFORE: _noise_before,
    FaultKind.NOISE_AFTER: _noise_after,
}
"""In the order in which they apply."""
