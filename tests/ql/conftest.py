"""One way through the whole room for every test: parse, prepare in batches, reduce, finalise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import Panes, finish
from elfmesh.control.jobs.records import NOT_COUNTED
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.local.run_groups import shown
from elfmesh.ql import Query, Statement, expand, parse

RunQuery = Callable[..., dict[int, pa.Table]]


def run(text: str, data: pa.Table | dict[str, Any], *, batch_rows: int = 7) -> dict[int, pa.Table]:
    """Result table of every interval with rows, by index; a query without window has interval 0."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    statement = expand(parse(text), table.column_names)
    return run_streams(statement, dict.fromkeys(statement.streams, table), batch_rows=batch_rows)


def run_streams(
    statement: Statement, data: Mapping[str, pa.Table], *, batch_rows: int = 7
) -> dict[int, pa.Table]:
    """The same of a statement over several streams; one stream may be read by several parts."""
    query, window = Query(statement), statement.window
    panes = Panes(
        statement.tables, None if window is None else window.size_us, (window and window.slide_us) or None
    )
    for stream, table in data.items():
        for start in range(0, table.num_rows, batch_rows):
            batch = table.slice(start, batch_rows).combine_chunks().to_batches()[0]
            prepared = query.prepare(batch, stream)
            for name, rows in prepared.tables.items():
                pane = prepared.panes.get(name, np.zeros(rows.num_rows, dtype=np.int64))
                panes.insert(name, pane, rows)
    if window is None:
        reduced = panes.window(0)
        return {0: query.finalise({} if reduced is None else finish(reduced), None)}
    if statement.spans_intervals:
        open_ = [OpenInterval(pane, NOT_COUNTED, panes.window(pane)) for pane in sorted(panes.panes())]
        closed = {each.index: query.finalise_parts(each.tables, None) for each in shown(statement, open_)}
        return {index: rows for index, rows in closed.items() if rows.num_rows}
    results = {}
    per_window = window.size_us // window.pane_us
    indices = sorted(
        {
            index
            for pane in panes.panes()
            for index in range((pane - per_window) // (window.slide_us // window.pane_us), pane + 1)
        }
    )
    for index in indices:
        reduced = panes.window(index)
        start_us = index * window.slide_us
        if reduced is not None:
            results[index] = query.finalise(finish(reduced), (start_us, start_us + window.size_us))
    return results


@pytest.fixture(scope="session")
def run_query() -> RunQuery:
    return run


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., list[tuple[Any, ...]]]:
    """The rows of a query's only interval, as tuples."""

    def rows(text: str, data: pa.Table | dict[str, Any], **options: Any) -> list[tuple[Any, ...]]:
        results = run(text, data, **options)
        assert len(results) <= 1
        return [tuple(row.values()) for table in results.values() for row in table.to_pylist()]

    return rows
