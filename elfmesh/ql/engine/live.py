"""Statements over existing rows, the results of jobs, for `elf query`. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.whole import Query
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.statement import Statement
from elfmesh.ql.text.parsing import expand, parse


def parse_live(text: str, *, source: str = "query") -> Statement:
    """Parse a query over results. Raises QueryError for windows, labels and lookup tables."""
    statement = parse(text, source=source)
    problem, hint = "", "Write SELECT ... FROM NAMESPACE.JOB."
    if statement.job is not None:
        problem = "a query over results is no job"
    elif statement.window is not None:
        problem = "the rows are those of one interval: there is no window to make"
        hint = "Group by columns of the job; interval_start and interval_end are columns."
    elif any(labels for _, labels in statement.inputs):
        problem = "results belong to no agent: ON (...) has no meaning"
    elif statement.latest:
        problem, hint = "a query over results takes the newest ones anyway", "Leave LATEST and SAME out."
    elif statement.functions:
        problem, hint = "Python functions are evaluated where records are read", "Call it in the job."
    elif statement.tables_read:
        problem, hint = "lookup tables are joined where records are read", "Join it in the job."
    if problem:
        raise statement.origin.error(problem, statement.offset, hint)
    return statement


def evaluate(statement: Statement, tables: Mapping[str, pa.Table], star: Sequence[str] = ()) -> pa.Table:
    """Return the rows of a statement over tables by stream; `star` has the columns of `*`.

    If several columns have one name, the last one is used.
    """
    query = Query(expand(statement, star))
    reduced: dict[str, Reduced] = {}
    for stream in query.statement.streams:
        table = tables[stream]
        columns = {name: read_column(table.column(at)) for at, name in enumerate(table.column_names)}
        query.check_schema(pa.schema([(name, array.type) for name, array in columns.items()]), stream)
        reduced |= query.reduced(stream, BlockRows(columns, table.num_rows))
    return query.finalise_parts(reduced, None)
