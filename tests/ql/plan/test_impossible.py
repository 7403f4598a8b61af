"""Constants that no value of a column can equal: refused where the type is known, else doubted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.control.jobs.plan import check_columns
from elfmesh.errors import QueryError
from elfmesh.ingest.parsers import static_schema
from elfmesh.ql import Query, parse

COMBINED = static_schema("combined")
OTHERS = pa.schema(
    [("flag", pa.bool_()), ("day", pa.date32()), ("part", pa.float64()), ("name", pa.string())]
)


def check(condition: str, schema: pa.Schema) -> None:
    Query(parse(f"SELECT count(*) AS n FROM log WHERE {condition}")).check_constants(schema)


@pytest.mark.parametrize(
    ("condition", "why", "hint"),
    [
        ("status = '5xx'", "status is BIGINT and '5xx' is not", "Write status BETWEEN 500 AND 599."),
        ("status <> '4XX'", "'4XX' is not", "Write status NOT BETWEEN 400 AND 499."),
        ("status >= '5xx'", "'5xx' is not", "Write status >= 500."),
        ("'5xx' <= status", "'5xx' is not", "Write status >= 500."),
        ("status IN ('200', '5xx')", "'5xx' is not", "Write status BETWEEN 500 AND 599."),
        ("bytes > '1 MB'", "bytes is BIGINT and '1 MB' is not", "Write bytes > 1000000."),
        ("bytes = ''", "'' is not", "Write a number: bytes = 200."),
        ("ts > '2026-13-22'", "ts is TIMESTAMP and '2026-13-22'", "Write ts > '2026-11-22 06:01:00'."),
        ("ts > '22/Nov/2025:06:01:00 +0000'", "ts is TIMESTAMP", "Write ts > '2025-11-22 06:01:00'."),
        ("ts BETWEEN '2026' AND 'now'", "'now' is not", "Write ts <= "),
        ("NOT (host = 'a' OR status = 'ok')", "'ok' is not", "Write a number"),
    ],
)
def test_a_constant_that_no_value_equals_is_refused(condition: str, why: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        check(condition, COMBINED)
    assert why in caught.value.message
    assert hint in caught.value.hint
    text = f"SELECT count(*) AS n FROM log WHERE {condition}"
    assert text[caught.value.column - 1 :].startswith("'")


def test_the_other_types_are_known_as_well() -> None:
    for condition, hint in (
        ("flag = 'maybe'", "Write flag or NOT flag."),
        ("day > '22 Nov'", "Write day > '2026-11-22'."),
        ("part < 'half'", "Write a number: part < 200."),
    ):
        with pytest.raises(QueryError) as caught:
            check(condition, OTHERS)
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    "condition",
    [
        "status = '500'",
        "status = ' 500 '",
        "status = '500.9'",
        "status <=> '5xx'",
        "status NOT IN ('5xx')",
        "status LIKE '5%'",
        "CAST(status AS STRING) = '5xx'",
        "concat(status) = '5xx'",
        "status = NULL",
        "host = '5xx'",
        "coalesce(status, 'none') = 'none'",
        "ts > '2026'",
        "ts > '2026-11-22T06:01:00Z'",
        "other = '5xx'",
    ],
)
def test_what_may_be_meant_is_accepted(condition: str) -> None:
    check(condition, COMBINED)


@pytest.mark.parametrize(
    "condition",
    [
        "flag = 'TRUE'",
        "flag = '1'",
        "day > '2026-11-22'",
        "day > '2026-11-22 10:00:00'",
        "part = 'NaN'",
        "part < '1e3'",
    ],
)
def test_what_the_implicit_cast_can_read_is_accepted(condition: str) -> None:
    check(condition, OTHERS)


def test_a_condition_of_an_aggregate_and_one_in_brackets_are_looked_at() -> None:
    for text in (
        "SELECT count(*) FILTER (WHERE status = '5xx') AS n FROM log",
        "SELECT max(n) AS m FROM (SELECT host, count(*) AS n FROM log WHERE status = '5xx' GROUP BY host)",
    ):
        with pytest.raises(QueryError, match="'5xx' is not"):
            Query(parse(text)).check_constants(COMBINED)


def test_a_job_that_runs_does_not_end_by_a_check_of_new_ones() -> None:
    text = (
        """CREATE JOB t.n AS SELECT count(*) AS n FROM log WHERE status = '5xx' GROUP BY TUMBLE(ts, '1 s')"""
    )
    assert check_columns(text, COMBINED, "log") == ""
    assert "'5xx' is not" in check_columns(text, COMBINED, "log", is_new=True)


def test_a_learnt_type_is_doubted_once_with_file_and_value() -> None:
    doubts = Query(parse("SELECT count(*) AS n FROM log WHERE status = '5xx' AND size > 3")).doubts("log")
    columns = {"status": pa.array([None, 404, 200]), "size": pa.array([1, 2, 3])}
    (notified,) = doubts.found(columns.get, "/var/log/a.json")
    assert notified == (
        "status = '5xx': in /var/log/a.json (such as 404) status is BIGINT and '5xx' is not: "
        "no value satisfies it. Write status BETWEEN 500 AND 599."
    )
    assert list(doubts.found(columns.get, "/var/log/b.json")) == []
    texts = {"status": pa.array(["5xx"])}
    assert list(doubts.found(texts.get, "/var/log/c.json")) == []
