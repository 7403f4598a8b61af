"""The job that a query over streams becomes: its text, and errors at their place in the text of the user."""

from __future__ import annotations

from elfmesh import ql
from elfmesh.errors import QueryError


def as_job(text: str, header: str, clause: str, *, source: str = "query") -> str:
    """Return the text of the job.

    Args:
        text: a query without CREATE JOB.
        header: CREATE JOB with the name and the options.
        clause: HISTORY and UNTIL, which the function writes behind the first input.
        source: name of the text in error messages.

    Raises:
        QueryError: the text is invalid; at the place in `text`.
    """
    changed = ql.within(text, clause)
    job = f"{header} AS {changed}"
    try:
        ql.parse(job, source=source)
    except QueryError as error:
        before, column = len(job) - len(changed), error.column
        if error.line == 1 and column > before:
            same = next(
                (at for at, pair in enumerate(zip(text, changed, strict=False)) if pair[0] != pair[1]),
                len(text),
            )
            is_behind = column - before > same
            column -= len(job) - len(text) if is_behind else before
        raise QueryError(
            error.message, line=error.line, column=column, hint=error.hint, source=source
        ) from None
    return job
