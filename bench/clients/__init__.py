"""The clients that are compared. Each runs in a process of its own: `python -m bench.clients NAME ...`."""
