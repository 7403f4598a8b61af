"""Copies of a job at its possible successors."""
