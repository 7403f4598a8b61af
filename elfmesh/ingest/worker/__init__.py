"""Evaluation of jobs at one agent: records to sealed intervals, each record in one bucket (D-1)."""
