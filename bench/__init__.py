"""Benchmarks: one command each, every figure beside a peer or a physical floor taken in the same run.

Run ``python -m bench``; docs/benchmarks.md says what the figures mean.
"""
