"""Many clients in one process: each subscribes to all states and reads them. `python -m bench.subscribers SOCKET N`.

It writes `ready` when all have subscribed, and at the end of its input how many bytes each of them got.
"""

from __future__ import annotations

import json
import select
import socket
import sys

SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"gripper.subscribe","params":{}}\n'
READ_BYTES = 65_536


def main() -> None:
    """Read until the standard input ends."""
    path, count = sys.argv[1], int(sys.argv[2])
    clients = {}
    poll = select.epoll()
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(SUBSCRIBE)
        clients[client.fileno()] = client
        poll.register(client.fileno(), select.EPOLLIN)
    received = dict.fromkeys(clients, 0)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    told = False
    while True:
        for descriptor, _ in poll.poll():
            if descriptor not in clients:
                sys.stdout.write(json.dumps(sorted(received.values())) + "\n")
                return
            data = clients[descriptor].recv(READ_BYTES)
            received[descriptor] += len(data)
            if not data:
                poll.unregister(descriptor)
        if not told and all(received.values()):
            told = True
            sys.stdout.write("ready\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
