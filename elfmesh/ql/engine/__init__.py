"""Evaluation of plans over records."""
