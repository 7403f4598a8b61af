"""Check of joins WITHIN a time: which queries can have one.

The root keeps records of two streams for later intervals, so both sides are streams (or results of jobs), and
no other part of the query reads them: it would get the kept records too.

Paper: Hwang et al., IV-E, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.draft_types import Draft, LookupRead, SelectDraft, StreamRead
from elfmesh.ql.plan.statement import WindowSpec, is_beside
from elfmesh.ql.plan.windowing import selects

KINDS = ("inner", "left")


def check_within(origin: SourceText, drafts: Sequence[Draft], window: WindowSpec | None) -> None:
    """Raise QueryError for a join WITHIN that the query cannot have.

    Args:
        origin: text of the query.
        drafts: the query, then its scalar subqueries.
        window: window of the statement.
    """
    queries = [select for draft in drafts for select in selects(draft)]
    found = [(each, at) for each in queries for at, join in enumerate(each.joins, 1) if join.within_us]
    if not found:
        return
    select, at = found[0]
    join = select.joins[at - 1]
    problem, hint = "", "Write FROM a JOIN b ON a.x = b.x WITHIN INTERVAL '5' SECOND."
    if len(queries) > 1 or not isinstance(drafts[0], SelectDraft) or not _joins_two_streams(select, at):
        problem = "WITHIN is for a query that joins two streams, or the results of two jobs, and nothing else"
        hint = "Leave subqueries, UNION and other joins out; only lookup tables may be joined as well."
    elif join.kind not in KINDS:
        problem, hint = f"a {join.kind.upper()} JOIN has no WITHIN", "Write JOIN or LEFT JOIN."
    elif window is not None and window.kind != "tumble":
        problem = f"WITHIN is for TUMBLE windows, not for {window.kind.upper()}"
        hint = "Write GROUP BY TUMBLE(a.ts, INTERVAL '30' SECOND), or EVERY before AS."
    if problem:
        raise origin.error(problem, join.within_at, hint)


def _joins_two_streams(select: SelectDraft, at: int) -> bool:
    reads = {place: read for place, read in enumerate(select.reads) if not isinstance(read, LookupRead)}
    streams = [read for read in reads.values() if isinstance(read, StreamRead) and not is_beside(read.stream)]
    return set(reads) == {0, at} and len(streams) == len(reads)
