"""Benchmarks of the wire, of the stop and of late replies; docs/performance.md has the results.

They live in the checkout only: `python -m bench --help`.
"""
