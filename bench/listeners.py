"""Many clients in one process, which look at every state. `python -m bench.listeners SOCKET N [--deaf]`.

It writes `ready` when all get states. Lines `begin` and `end` on its input limit what counts; after `end` it writes one
JSON object: for every client how many states came, how many its numbers span, how many were reported as dropped; and
percentiles of the age, receipt minus stamp [s]. --deaf: one more that subscribes and never reads.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import sys
import time
from dataclasses import dataclass, field

from bench.figures import percentile

SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"gripper.subscribe","params":{}}\n'
READ_BYTES = 262_144
STATE = re.compile(rb'"sec":(\d+),"nanosec":(\d+).*?"seq":(\d+).*?"dropped":(\d+)')


@dataclass(slots=True)
class Reader:
    """One subscriber."""

    connection: socket.socket
    rest: bytes = b""
    ready: bool = False
    states: int = 0
    first: int = 0
    last: int = 0
    dropped: int = 0

    def take(self, data: bytes, now_ns: int, counting: bool, ages_s: list[float]) -> None:
        """Whole lines of what came."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            found = STATE.search(line)
            if found is None:
                continue
            self.ready = True
            if not counting:
                continue
            sec, nanosec, seq, dropped = map(int, found.groups())
            self.states += 1
            self.first = self.first or seq
            self.last = seq
            self.dropped += dropped
            ages_s.append((now_ns - sec * 1_000_000_000 - nanosec) / 1e9)


@dataclass(slots=True)
class Listeners:
    """All of them."""

    path: str
    readers: dict[int, Reader] = field(default_factory=dict)
    ages_s: list[float] = field(default_factory=list)

    def connect(self) -> socket.socket:
        """A client that has subscribed."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)
        client.sendall(SUBSCRIBE)
        return client

    def run(self, count: int) -> None:
        """Until the input ends."""
        poll = select.epoll()
        for _ in range(count):
            client = self.connect()
            self.readers[client.fileno()] = Reader(client)
            poll.register(client.fileno(), select.EPOLLIN)
        poll.register(sys.stdin.fileno(), select.EPOLLIN)
        told = counting = False
        while True:
            for descriptor, _ in poll.poll():
                if descriptor in self.readers:
                    reader = self.readers[descriptor]
                    data = reader.connection.recv(READ_BYTES)
                    if not data:
                        poll.unregister(descriptor)
                    reader.take(data, time.time_ns(), counting, self.ages_s)
                    continue
                command = sys.stdin.readline().strip()
                if command == "end":
                    self.tell()
                if not command:
                    return
                counting = command == "begin"
            if not told and all(reader.ready for reader in self.readers.values()):
                told = True
                say("ready")

    def tell(self) -> None:
        """What was found."""
        readers = self.readers.values()
        found = {
            "states": [reader.states for reader in readers],
            "spans": [reader.last - reader.first + 1 if reader.states else 0 for reader in readers],
            "dropped": [reader.dropped for reader in readers],
            "age_p50_s": percentile(self.ages_s, 0.5),
            "age_p99_s": percentile(self.ages_s, 0.99),
            "age_max_s": max(self.ages_s, default=float("nan")),
        }
        say(json.dumps(found))


def say(text: str) -> None:
    """One line to who started us."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("count", type=int)
    parser.add_argument("--deaf", action="store_true")
    options = parser.parse_args()
    listeners = Listeners(options.socket)
    deaf = listeners.connect() if options.deaf else None
    listeners.run(options.count)
    if deaf is not None:
        deaf.close()


if __name__ == "__main__":
    main()
