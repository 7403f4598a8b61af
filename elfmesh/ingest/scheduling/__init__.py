"""Scheduling of jobs: order and size of their work."""
