"""Tasks and edges of a set of statements."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.graph import EdgeKind, JobGraph, JobSink, TaskKind, job_graph
from elfmesh.errors import DataError
from elfmesh.ql import parse_many

WINDOW = "GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"
HOT = f"CREATE JOB shop.hot AS SELECT count(*) AS n FROM clicks {WINDOW};"


def graph(*texts: str) -> JobGraph:
    return job_graph(parse_many("\n".join(texts), source="f.elfql"))


def edges(found: JobGraph) -> list[tuple[EdgeKind, TaskKind, str, str, int]]:
    return [
        (each.kind, each.source.kind, each.source.name, each.target.name, each.part) for each in found.edges
    ]


def test_jobs_read_streams_and_other_jobs() -> None:
    found = graph(
        HOT,
        "CREATE JOB shop.peak AS SELECT max(n) AS m FROM shop.hot GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
    )
    assert edges(found) == [
        (EdgeKind.RECORDS, TaskKind.STREAM, "clicks", "shop/hot", 0),
        (EdgeKind.RESULTS, TaskKind.JOB, "shop/hot", "shop/peak", 0),
    ]
    assert [each.name for each in found.jobs] == ["shop/hot", "shop/peak"]
    assert not any(each.delayed for each in found.edges)


def test_results_of_jobs_outside_the_graph_are_inputs() -> None:
    found = graph("SELECT l.u, max(t.n) n FROM log l JOIN LATEST shop.top t ON l.u = t.u GROUP BY l.u")
    assert {(each.kind, each.source.kind) for each in found.edges} == {
        (EdgeKind.RECORDS, TaskKind.STREAM),
        (EdgeKind.LATEST, TaskKind.RESULTS),
    }
    assert [each.name for each in found.jobs] == ["query 1"]


def test_lookups_and_tables_of_the_text() -> None:
    query = (
        "SELECT p.price, count(*) n FROM clicks c JOIN lookup.{} p ON c.product = p.product GROUP BY p.price"
    )
    own = "CREATE JOB a.b TABLE prices (product STRING, price DOUBLE) EVERY '1 s' AS "
    for text, kind in (
        (query.format("files"), TaskKind.LOOKUP),
        (own + query.format("prices"), TaskKind.TABLE),
    ):
        (rows,) = [each for each in graph(text).edges if each.kind is EdgeKind.ROWS]
        assert rows.source.kind is kind
        assert rows.inner


def test_an_edge_of_a_cycle_carries_rows_to_later_intervals() -> None:
    text = "CREATE JOB a.{0} AS SELECT max(l.n) AS n FROM log l JOIN LATEST a.{1} t ON l.u = t.n " + WINDOW
    found = graph(f"{text.format('x', 'y')};", text.format("y", "x"))
    latest = [each for each in found.edges if each.kind is EdgeKind.LATEST]
    assert len(latest) == 2
    assert all(each.delayed for each in latest)


def test_a_job_is_created_once() -> None:
    with pytest.raises(DataError, match="the job shop/hot is created twice"):
        graph(HOT, HOT)


def test_sinks_store_the_jobs_that_their_patterns_match() -> None:
    texts = [
        f"CREATE JOB {name} EVERY '1 s' AS SELECT u, count(*) AS n FROM log GROUP BY u"
        for name in ("a.x", "b.y")
    ]
    sinks = [
        JobSink("files", "parquet", ("*",)),
        JobSink("hook", "webhook", ("a/*", "c.z"), revisions=True),
        JobSink("none", "webhook", ("c/*",)),
    ]
    found = job_graph(parse_many("; ".join([*texts, "SELECT u FROM log"])), sinks)
    assert [
        (each.kind, each.source.name, each.target.name)
        for each in found.edges
        if each.target.kind is TaskKind.SINK
    ] == [
        (EdgeKind.RESULTS, "a/x", "files a/x"),
        (EdgeKind.RESULTS, "b/y", "files b/y"),
        (EdgeKind.REVISIONS, "a/x", "hook a/x"),
    ]
    assert [each.name for each in found.sinks] == ["files a/x", "files b/y", "hook a/x"]
    assert {each.target.kind for job in found.jobs for each in found.into(job)} == {TaskKind.JOB}
