"""Benchmarks: ratios against a peer in the same run, both sides checked to be equal."""
