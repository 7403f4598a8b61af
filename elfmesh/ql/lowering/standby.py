"""STANDBY: the words of the clause, and the jobs that it cannot be used with."""

from __future__ import annotations

from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import Statement, job_read

STANDBY, LAG = "STANDBY", "LAG"
LAG_US_MIN = 100_000
"""Shortest time between two deltas, because a member and its standby exchange two messages in it."""


def check_standby(origin: SourceText, statement: Statement, at: int) -> None:
    """Raise QueryError at the clause if the members of a job have no open windows that can be shipped."""
    window = statement.window
    if window is not None and window.spans_intervals:
        hint = "Write TUMBLE or HOP, or leave STANDBY out."
        raise origin.error(f"STANDBY is for windows of a fixed size, not {window.kind.upper()}", at, hint)
    if all(job_read(name) for name in statement.streams if name not in statement.latest):
        raise origin.error(
            "STANDBY is for jobs that read streams: this job has no open windows of its own", at,
            "Write it in the job that is read.",
        )  # fmt: skip
