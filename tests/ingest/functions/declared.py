"""Functions for the tests of their workers."""

from __future__ import annotations

from elfmesh.ql import Statement, parse
from elfmesh.ql.expressions.python_function import PythonFunction


def statement(body: str, *, gives: str = "BIGINT", how: str = "", job: str = "") -> Statement:
    """SELECT f(x) over `s`, with this source."""
    create = f"CREATE JOB {job} EVERY '1 s' AS " if job else ""
    return parse(
        f"{create}WITH FUNCTION f(x BIGINT) RETURNS {gives} LANGUAGE PYTHON {how} AS $$\n{body}\n$$\n"
        "SELECT f(x) AS y, count(*) AS n FROM s GROUP BY f(x)"
    )


def function(body: str, *, gives: str = "BIGINT", how: str = "") -> PythonFunction:
    """One function f of a BIGINT."""
    (found,) = statement(body, gives=gives, how=how).functions
    return found
