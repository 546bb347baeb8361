"""The promises on a bad line, under random commands, stops, cancelled callers, faults and a hostile world.

`python -m tests.torture --help` runs more examples than the test suite does, and replays a scenario file.
"""
