"""`*` beside other inputs: the statement waits for the columns of its streams, and is then planned as any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.ql import Query, expand, parse

RECORDS = {
    "t": [{"ts": 1, "k": "a", "v": 5}, {"ts": 2, "k": "a", "v": 6}, {"ts": 3, "k": "b", "v": 7}],
    "u": [{"k": "a", "w": 50}, {"k": "c", "w": 6}],
}


def rows(text: str, tmp_path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of a query over the records, which lie in files."""
    statement, logs = parse(text), {}
    for name in statement.streams:
        path = tmp_path / f"{name}.json"
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS[name]))
        logs[name] = ([str(path)], StreamFormat("json"))
    (found,) = LogRun(statement, [], streams=logs).results()
    return found.table.column_names, [tuple(row.values())[1:] for row in found.table.to_pylist()]


CASES = {
    "SELECT *, v + 1 AS z FROM t WHERE v = (SELECT max(v) FROM t)": ("ts k v z", [("b", 7, 8)]),
    "SELECT * FROM t WHERE v = (SELECT max(v) FROM t)": ("ts k v", [("b", 7)]),
    "SELECT t.*, v * 2 AS z FROM t WHERE v < (SELECT max(v) FROM t)": (
        "ts k v z", [("a", 5, 10), ("a", 6, 12)],
    ),
    "SELECT * FROM t WHERE k IN (SELECT k FROM u)": ("ts k v", [("a", 5), ("a", 6)]),
    "SELECT * FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.k)": ("ts k v", [("b", 7)]),
    "SELECT t.*, u.w FROM t JOIN u ON t.k = u.k": ("ts k v w", [("a", 5, 50), ("a", 6, 50)]),
    "SELECT x.* FROM (SELECT * FROM t) x WHERE x.v > 6": ("ts k v", [("b", 7)]),
    "WITH t AS (SELECT * FROM t WHERE v > 6) SELECT * FROM t": ("ts k v", [("b", 7)]),
    "SELECT * FROM t UNION SELECT * FROM t WHERE v > 6 ORDER BY v LIMIT 1": ("ts k v", [("a", 5)]),
    "SELECT *, rank() OVER (ORDER BY v DESC) AS r FROM t ORDER BY v": (
        "ts k v r", [("a", 5, 3), ("a", 6, 2), ("b", 7, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_star_beside_other_inputs_keeps_its_columns(text: str, tmp_path: Path) -> None:
    names, expected = CASES[text]
    found = rows(text, tmp_path)
    assert found == (names.split(), expected)


def test_a_statement_with_star_waits_for_each_stream_by_name() -> None:
    text = "SELECT t.*, u.w FROM (SELECT * FROM t) t JOIN (SELECT * FROM u) u ON t.k = u.k"
    statement = parse(text)
    assert statement.star
    assert statement.streams == ("t", "u")
    with pytest.raises(QueryError, match="needs the columns"):
        Query(statement)
    half = expand(statement, ["k", "v"], "t")
    assert half.star
    assert expand(half, ["k", "w"], "u").columns == ("k", "v", "w")
    with pytest.raises(QueryError, match="several streams"):
        expand(statement, ["k"])


def test_errors_are_reported_once_the_columns_are_known() -> None:
    statement = parse("SELECT x.nope FROM (SELECT * FROM t) x")
    with pytest.raises(QueryError, match="x has no column nope") as refused:
        expand(statement, ["k", "v"])
    assert "There are k, v" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("SELECT q.* AS x FROM t q", "not a value"),
        ("SELECT * AS x FROM t WHERE v = (SELECT max(v) FROM t)", "."),
        ("CREATE JOB j EVERY '1 s' AS SELECT * FROM t WHERE v IN (SELECT v FROM t)", "a job cannot SELECT"),
        ("SELECT * FROM ns.job j WHERE v = (SELECT max(v) FROM t)", "results of jobs"),
    ],
)
def test_star_without_a_meaning_is_refused(text: str, reported: str) -> None:
    with pytest.raises(QueryError, match=reported):
        parse(text)
