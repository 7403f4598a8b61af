"""Exact sums of floats."""
