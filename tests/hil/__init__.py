"""Checks on real hardware, run by a person: python -m tests.hil --help."""
