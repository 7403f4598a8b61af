"""STANDBY: the words of the clause, and the jobs that it cannot be used with."""

from __future__ import annotations

import re
from collections.abc import Callable

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.standby_budget import ALL_MEMBERS, StandbyBudget
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import Statement, job_read
from elfmesh.units import parse_size

STANDBY, LAG, KEEPS, STANDBY_ACROSS = "STANDBY", "LAG", "KEEPS", "STANDBY ACROSS"
LAG_US_MIN = 100_000
"""Shortest time between two deltas, because a member and its standby exchange two messages in it."""

MEMBERS_MAX = 1_000_000
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?\s*(?:[KMG]I?)?B)(\s*/\s*S)?")
_SHARE = re.compile(r"[01](?:\.\d{0,6})?|\.\d{1,6}")
_FORMS = "ALL, a number of members, a share of them, bytes per second, or KEEPS and a fidelity"
_HINT = "Write STANDBY ALL, STANDBY 12, STANDBY '25 %', STANDBY '2 MB/s' or STANDBY KEEPS 0.95."
_RATE_HINT = "Write STANDBY '2 MB/s'."


def read_budget(
    word: str, following: str, shown: str, error: Callable[[str, str], QueryError]
) -> tuple[StandbyBudget, int]:
    """Return which members get a standby, and the number of tokens that state it.

    Args:
        word: the word behind STANDBY, in upper case; a string without its quotes.
        following: the word after it.
        shown: the first word as the user wrote it.
        error: makes the error at the first word.

    Raises:
        QueryError: the words are no budget.
    """
    if word == "ALL":
        return ALL_MEMBERS, 1
    if word == KEEPS:
        if _SHARE.fullmatch(following) and 0 < float(following) <= 1:
            return StandbyBudget("keeps", float(following)), 2
        raise error(f"{KEEPS} takes a fidelity above 0 and up to 1", "Write STANDBY KEEPS 0.95.")
    if (percent := _PERCENT.fullmatch(word)) is not None:
        if 0 < float(percent[1]) <= 100:
            return StandbyBudget("share", float(percent[1]) / 100), 1
        raise error(f"a share is above 0 % and up to 100 %, not `{shown}`", "Write STANDBY '25 %'.")
    if (rate := _RATE.fullmatch(word)) is not None:
        if rate[2] is None:
            raise error(f"STANDBY takes bytes per second, not `{shown}`", _RATE_HINT)
        if (bytes_s := parse_size(rate[1])) >= 1:
            return StandbyBudget("rate", float(bytes_s)), 1
        raise error(f"a rate is at least 1 B/s, not `{shown}`", _RATE_HINT)
    if shown.isascii() and shown.isdigit() and 0 < int(shown) <= MEMBERS_MAX:
        return StandbyBudget("members", float(shown)), 1
    raise error(f"STANDBY takes {_FORMS}, not `{shown}`", _HINT)


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
