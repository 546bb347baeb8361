"""The armed faults of one device, and the one hook every request and reply of it passes.

Pure. Each kind of fault has random numbers of its own, so that arming one changes nothing about when and how another
strikes. Every strike is counted and put into the device's history, which thereby stays a full oracle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from gripperd_sim import rtu
from gripperd_sim.faults.damage import CHANGES
from gripperd_sim.faults.model import Fault, FaultKind, Outgoing
from gripperd_sim.history import History, Kind

WRITE_FUNCTIONS = (rtu.WRITE_ONE, rtu.WRITE_MANY)


class FaultyDevice(Protocol):
    """What line faults need of the device."""

    history: History
    powered: bool

    @property
    def unit(self) -> int:
        """Slave id it answers to now."""

    def advance(self, now_s: float) -> None:
        """Let time pass."""

    def handle(self, frame: bytes, now_s: float) -> bytes | None:
        """Reply or silence."""


@dataclass(slots=True)
class _Armed:
    fault: Fault
    until_s: float
    left: float  # strikes; infinite until switched off


@dataclass(frozen=True, slots=True)
class _Held:
    data: bytes
    until_s: float


class LineFaults:
    """The faults between one device and its master. The order in which they apply is that of FaultKind."""

    def __init__(self, device: FaultyDevice, seed: int = 0) -> None:
        self._device = device
        self._armed: dict[FaultKind, _Armed] = {}
        self._struck: dict[FaultKind, int] = {}
        self._held: list[_Held] = []
        self.reseed(seed)

    # --- arming

    def reseed(self, seed: int) -> None:
        """Begin the random numbers anew; the unit is part of the seed, so that devices on a line differ."""
        self._random = {kind: Random(f"{seed} {self._device.unit} {kind}") for kind in FaultKind}

    def arm(self, fault: Fault, now_s: float) -> None:
        """From now on; it replaces one of the same kind. A count or a duration of 0 disarms that kind."""
        when = fault.when
        if when.count == 0 or when.duration_s == 0:
            self._armed.pop(fault.kind, None)
            return
        left = math.inf if when.count is None else when.count
        self._armed[fault.kind] = _Armed(fault, now_s + when.duration_s, left)

    def clear(self) -> None:
        """Disarm all. A reply that is held back for the next one stays held."""
        self._armed.clear()

    def hang_up(self) -> None:
        """The port is gone, and a reply that was held back with it."""
        self._held.clear()

    def armed(self, now_s: float) -> dict[str, dict[str, object]]:
        """What is armed: parameters by kind, with the strikes left as count and the end as until_s."""
        return {
            str(kind): _describe(armed)
            for kind, armed in sorted(self._armed.items(), key=lambda item: list(FaultKind).index(item[0]))
            if now_s < armed.until_s
        }

    def struck(self) -> dict[str, int]:
        """How often each kind struck so far."""
        return {str(kind): self._struck[kind] for kind in FaultKind if kind in self._struck}

    # --- the passage of a request and its reply

    def exchange(self, request: bytes, now_s: float) -> list[Outgoing]:
        """What the master gets for a frame; delays count from now_s and hold no turnaround."""
        return [*self.echo(request, now_s), *self.answer(request, now_s)]

    def answer(self, request: bytes, now_s: float) -> list[Outgoing]:
        """What the device transmits after a frame, echo aside."""
        self._device.advance(now_s)
        if not self._device.powered or not self._concerns_device(request):
            reply = self._device.handle(request, now_s)
        elif not self.hears(request, now_s):
            return []
        else:
            reply = self.refusal(request, now_s) or self._device.handle(request, now_s)
        return [] if reply is None else self.outgoing(request, reply, now_s)

    def echo(self, request: bytes, now_s: float) -> list[Outgoing]:
        """The request as an echoing adapter gives it back; empty without one."""
        fault = self._due(FaultKind.ECHO, request, now_s)
        if fault is None:
            return []
        echoed = request[: max(0, len(request) - fault.args.integer("missing_bytes"))]
        self._strike(FaultKind.ECHO, now_s, f"{len(echoed)} of {len(request)} bytes", request, echoed)
        return [Outgoing(0.0, echoed, on_wire=True)] if echoed else []

    def hears(self, request: bytes, now_s: float) -> bool:
        """Whether a request reaches the device."""
        if self._due(FaultKind.SILENCE, request, now_s) is None:
            return True
        self._strike(FaultKind.SILENCE, now_s, "not heard", request, b"")
        return False

    def refusal(self, request: bytes, now_s: float) -> bytes | None:
        """The exception that is sent without asking the device; None to ask it. Broadcasts are never answered."""
        fault = self._due(FaultKind.EXCEPTION, request, now_s) if request[0] != rtu.BROADCAST else None
        if fault is None:
            return None
        code = fault.args.integer("code")
        reply = rtu.exception_reply(request[0], request[1], code)
        self._strike(FaultKind.EXCEPTION, now_s, f"code {code}, not carried out", request, reply)
        return reply

    def outgoing(self, request: bytes, reply: bytes, now_s: float) -> list[Outgoing]:
        """What the line carries instead of `reply`."""
        for kind in (FaultKind.LOSE, FaultKind.DROP_ACKS):
            if self._due(kind, request, now_s) is not None:
                self._strike(kind, now_s, "reply lost", request, b"")
                return []
        for kind in CHANGES:
            reply = self._change(kind, request, reply, now_s)
        merge = self._due(FaultKind.MERGE, request, now_s)
        if merge is not None:
            self._held.append(_Held(reply, now_s + merge.args.number("within_s", math.inf)))
            held_n = sum(len(each.data) for each in self._held)
            self._strike(FaultKind.MERGE, now_s, f"{held_n} bytes held for the next", request, b"")
            return []
        return self._in_time(request, self._split(request, *self._release(request, reply, now_s), now_s), now_s)

    def _release(self, request: bytes, reply: bytes, now_s: float) -> tuple[bytes, bool]:
        """The reply with what was held back before it, and whether there was any."""
        if not self._held:
            return reply, False
        held = b"".join(each.data for each in self._held if now_s <= each.until_s)
        lost_n = sum(len(each.data) for each in self._held) - len(held)
        self._held.clear()
        did = f"{len(held)} held bytes delivered with it" + (f", {lost_n} lost" if lost_n else "")
        self._record(now_s, "merged", did, request, held + reply)
        return held + reply, bool(held)

    def _concerns_device(self, request: bytes) -> bool:
        return rtu.crc_fits(request) and request[0] in (self._device.unit, rtu.BROADCAST)

    def _change(self, kind: FaultKind, request: bytes, reply: bytes, now_s: float) -> bytes:
        fault = self._due(kind, request, now_s)
        if fault is None:
            return reply
        changed, did = CHANGES[kind](fault.args, self._random[kind], request, reply)
        if changed != reply:
            self._strike(kind, now_s, did, request, changed)
        return changed

    def _split(self, request: bytes, data: bytes, together: bool, now_s: float) -> list[Outgoing]:
        whole = [Outgoing(0.0, data, together=together)]
        fault = self._due(FaultKind.SPLIT, request, now_s)
        if fault is None or len(data) < 2:
            return whole
        args = fault.args
        at_byte = args.optional_integer("at_byte") or self._random[FaultKind.SPLIT].randrange(1, len(data))
        pieces = _pieces(data, range(1, len(data)) if args.flag("every_byte") else [at_byte])
        if len(pieces) < 2:
            return whole
        gap_s = args.number("gap_s")
        lengths = ", ".join(str(len(piece)) for piece in pieces)
        self._strike(FaultKind.SPLIT, now_s, f"pieces of {lengths} bytes, {gap_s:g} s apart", request, data)
        return [Outgoing(n * gap_s, piece, gap_s if n else 0.0) for n, piece in enumerate(pieces)]

    def _in_time(self, request: bytes, sent: Sequence[Outgoing], now_s: float) -> list[Outgoing]:
        data = b"".join(out.data for out in sent)
        late = self._due(FaultKind.DELAY, request, now_s)
        late_s = 0.0 if late is None else late.args.number("delay_s")
        if late is not None:
            self._strike(FaultKind.DELAY, now_s, f"{late_s:g} s late", request, data)
        arriving = [replace(out, delay_s=out.delay_s + late_s) for out in sent]
        again = self._due(FaultKind.REPEAT, request, now_s)
        if again is None:
            return arriving
        after_s = again.args.number("delay_s")
        self._strike(FaultKind.REPEAT, now_s, f"again {after_s:g} s later", request, data)
        return [*arriving, Outgoing(arriving[-1].delay_s + after_s, data)]

    # --- when they strike

    def _due(self, kind: FaultKind, request: bytes, now_s: float) -> Fault | None:
        """The armed fault of this kind if it is to strike now."""
        armed = self._armed.get(kind)
        if armed is None:
            return None
        if now_s >= armed.until_s:
            del self._armed[kind]
            return None
        when = armed.fault.when
        if not when.concerns(len(request) > 1 and request[1] in WRITE_FUNCTIONS):
            return None
        if when.probability < 1 and self._random[kind].random() >= when.probability:
            return None
        return armed.fault

    def _strike(self, kind: FaultKind, now_s: float, did: str, request: bytes, left_over: bytes) -> None:
        armed = self._armed[kind]
        armed.left -= 1
        if armed.left <= 0:
            del self._armed[kind]
        self._struck[kind] = self._struck.get(kind, 0) + 1
        self._record(now_s, kind, did, request, left_over)

    def _record(self, now_s: float, name: str, did: str, request: bytes, left_over: bytes) -> None:
        # History is in the order of time: what the device does before now_s comes first.
        self._device.advance(now_s)
        self._device.history.add(
            now_s, Kind.LINE_FAULT, fault=str(name), did=did, request_hex=request.hex(), hex=left_over.hex()
        )


def _pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    ends = [cut for cut in cuts if cut < len(data)]
    return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def _describe(armed: _Armed) -> dict[str, object]:
    values = armed.fault.args.values
    shown: dict[str, object] = {name: value for name, value in values.items() if name not in ("count", "duration_s")}
    if math.isfinite(armed.left):
        shown["count"] = int(armed.left)
    if math.isfinite(armed.until_s):
        shown["until_s"] = armed.until_s
    return shown
