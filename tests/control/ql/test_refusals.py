"""A wrong query is refused at the token that is wrong, with what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.control.ql import Query, parse, parse_many
from elfmesh.errors import QueryError

# (text, line, column, part of the message, part of the hint)
WRONG = [
    # nothing, or no query
    ("", 1, 1, "no query", "SELECT"),
    ("   -- only a comment\n", 1, 1, "no query", "SELECT"),
    ("SELEC a FROM s", 1, 1, "begins with SELECT", "Did you mean SELECT?"),
    ("a FROM s", 1, 1, "begins with SELECT", "CREATE JOB"),
    ("WITH x AS (SELECT 1) SELECT a FROM s", 1, 1, "begins with SELECT", "WITH is not there yet"),
    ("SELECT a FROM s; SELECT b FROM s", 1, 18, "second statement", "one statement"),
    ("SELECT a", 1, 9, "FROM", "FROM stream"),
    ("SELECT FROM s", 1, 1, "selects nothing", "columns"),
    # broken text
    ("SELECT 'abc FROM s", 1, 8, "quote is never closed", "Close it"),
    ("SELECT a /* b\nFROM s", 1, 10, "comment is never closed", "*/"),
    ("SELECT `a FROM s", 1, 8, "quote is never closed", "`"),
    ("SELECT (a FROM s", 1, 8, "never closed", "Add a `)`"),
    ("SELECT a) FROM s", 1, 9, "closes nothing", "("),
    ("SELECT a FROM s WHERE", 1, 17, "missing after `WHERE`", ""),
    ("SELECT a FROM s WHERE b >\nGROUP BY a", 2, 1, "", ""),
    ("SELECT a b c FROM s", 1, 12, "cannot be read at `c`", "comma"),
    ("SELECT a FROM s ORDER a", 1, 23, "", ""),
    ("SELECT a\n  FROM s\n WHERE upper(a) = = 'x'", 3, 19, "", ""),
    # FROM and labels
    ("SELECT a FROM", 1, 14, "expected the name of a stream", ""),
    ("SELECT a FROM shop.top", 1, 20, "another job's results", "name of a stream"),
    ("SELECT a FROM s, t", 1, 16, "several streams", "one stream"),
    ("SELECT a FROM (SELECT 1 FROM s)", 1, 16, "query inside a query", "one SELECT"),
    ("SELECT a FROM s JOIN t ON s.a = t.a", 1, 17, "joins are not there yet", "one stream"),
    ("SELECT a FROM STREAM s", 1, 15, "STREAM is not a word", "FROM name"),
    ("SELECT a FROM s ON role = 'web'", 1, 20, "labels in brackets", "ON (role"),
    ("SELECT a FROM s ON (role 'web')", 1, 26, "expected `=`", "ON (role"),
    ("SELECT a FROM s ON (role = web)", 1, 28, "'string'", "ON (role"),
    ("SELECT a FROM s ON (role = 'web' zone = 'x')", 1, 34, "expected `)`", ""),
    ("SELECT a FROM s ON (role = 'a', role = 'b')", 1, 40, "two values", ""),
    ("SELECT a FROM s EVERY '5 s'", 1, 17, "option of a job", "CREATE JOB"),
    # jobs
    ("CREATE TABLE t AS SELECT a FROM s", 1, 8, "only jobs", "CREATE JOB"),
    ("CREATE JOB AS SELECT a FROM s", 1, 15, "", ""),
    ("CREATE JOB a.b.c EVERY '5 s' AS SELECT x FROM s", 1, 18, "at most two parts", "namespace.name"),
    ("CREATE JOB 'a b' AS SELECT x FROM s", 1, 12, "name of the job", "letters"),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "names no interval", "EVERY '30 s'"),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "names no interval", "TUMBLE(ts"),
    ("CREATE JOB j EVRY '5 s' AS SELECT a FROM s", 1, 14, "option of the job", "Did you mean EVERY?"),
    ("CREATE JOB j EVERY '5 s' EVERY '6 s' AS SELECT a FROM s", 1, 26, "twice", ""),
    ("CREATE JOB j EVERY AS SELECT a FROM s", 1, 20, "takes a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY 'soon' AS SELECT a FROM s", 1, 20, "not a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY '0 s' AS SELECT a FROM s", 1, 20, "longer than nothing", "30 s"),
    ("CREATE JOB j EVERY '5 s' ON STRAGGLER LEAP AS SELECT a FROM s", 1, 39, "CORRECT, SKIP", "WAIT"),
    ("CREATE JOB j EVERY '5 s' PARTITIONS 0 AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    ("CREATE JOB j EVERY '5 s' PARTITIONS x AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    (
        "CREATE JOB j\nEVERY '5 s' AS SELECT count(*) FROM s\nGROUP BY TUMBLE(ts, '30 s')",
        2, 1, "differs from the window", "Leave EVERY out",
    ),
    ("CREATE JOB j EVERY '5 s' AS SELECT * FROM s", 1, 36, "cannot SELECT *", "Name the fields"),
    # windows
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts)", 1, 33, "does not take these", "INTERVAL '30' SECOND"),
    ("SELECT count(*) FROM s GROUP BY HOP(ts, '30 s')", 1, 33, "does not take these", "slide, then size"),
    ("SELECT count(*) FROM s GROUP BY HOP(ts, '30 s', '10 s')", 1, 33, "slides by 30 s", "at most the size"),
    ("SELECT count(*) FROM s GROUP BY window(ts, '1 month')", 1, 33, "not a duration", "30 seconds"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, INTERVAL 1 MONTH)", 1, 0, "no fixed length", "SECOND"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, x)", 1, 33, "lengths are constants", "TUMBLE(ts"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '0 s')", 1, 33, "longer than nothing", "TUMBLE"),
    ("SELECT count(*) FROM s GROUP BY SESSION(ts, '5 s')", 1, 33, "session is not", "TUMBLE(ts, '30 s')"),
    ("SELECT count(*) FROM s GROUP BY session_window(ts, '5 s')", 1, 33, "not there", "HOP(ts"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '1 s'), TUMBLE(ts, '2 s')", 1, 52, "one window", "job"),
    ("SELECT window_start, a FROM s", 1, 8, "window_start needs a window", "TUMBLE"),
    ("SELECT window, count(*) FROM s GROUP BY window(ts, '5 s')", 1, 8, "not a value", "window_start"),
    ("SELECT window(ts, '5 s'), count(*) FROM s", 1, 8, "not in GROUP BY", "Add it"),
    ("SELECT count(*) FROM s WHERE window_start > 0 GROUP BY TUMBLE(ts, '5 s')", 1, 30, "WHERE cannot", ""),
    ("SELECT tumble_start(ts) FROM s GROUP BY TUMBLE(ts, '5 s')", 1, 8, "not there", "window_start"),
    # names
    ("SELECT a + 1 AS b FROM s WHERE b > 3", 1, 32, "b is an alias", "Repeat the expression"),
    ("SELECT a, count(*) FROM s", 1, 8, "neither grouped nor aggregated", "GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY b", 1, 8, "neither grouped nor aggregated", "min(a)"),
    ("SELECT count(*) FROM s HAVING a > 1", 1, 31, "neither grouped nor aggregated", ""),
    ("SELECT a AS x, b AS x FROM s", 1, 16, "two columns are called x", "AS other_name"),
    ("SELECT a FROM s GROUP BY 2", 1, 26, "no column 2", "1 column."),
    ("SELECT a FROM s ORDER BY 3", 1, 26, "no column 3", "1 column."),
    ("SELECT count(*) AS n FROM s GROUP BY n", 1, 38, "GROUP BY cannot hold an aggregate", "fields"),
    ("SELECT DISTINCT a FROM s ORDER BY b", 1, 35, "its own columns only", "Select"),
    ("SELECT *, count(*) FROM s", 1, 8, "* cannot be grouped", "count(*)"),
    ("SELECT x.* FROM s", 1, 10, "on the stream only", "name the fields"),
    (
        "SELECT path AS a, lower(path) AS path, count(*) FROM s GROUP BY path HAVING path = 'x'",
        1, 77, "both", "AS other_name",
    ),
    # functions
    ("SELECT uper(a) FROM s", 1, 8, "unknown function uper", "Did you mean upper?"),
    ("SELECT a,\n       zzz(b) FROM s", 2, 8, "unknown function", "docs/elf-ql.md"),
    ("SELECT upper(a, b) FROM s", 1, 8, "does not take 2 arguments", "upper(x)"),
    ("SELECT sum(a, b) FROM s", 1, 8, "one argument", "sum(x)"),
    ("SELECT sum(*) FROM s", 1, 8, "makes no sense", "sum(x)"),
    ("SELECT upper(*) FROM s", 1, 8, "makes no sense", "upper(x)"),
    ("SELECT count() FROM s", 1, 8, "needs an argument", "count(*)"),
    ("SELECT sum(DISTINCT a) FROM s", 1, 8, "sum(DISTINCT) is not there yet", "count(DISTINCT x)"),
    ("SELECT sum(count(*)) FROM s", 1, 12, "cannot hold an aggregate", ""),
    ("SELECT a FROM s WHERE count(*) > 1", 1, 23, "WHERE cannot hold an aggregate", "HAVING"),
    ("SELECT current_timestamp(), a FROM s", 1, 8, "clock", "event time"),
    ("SELECT current_timestamp FROM s", 1, 8, "clock", "event time"),
    ("SELECT now() FROM s", 1, 8, "not there", "when it is computed"),
    ("SELECT rand() FROM s", 1, 8, "not there", "every agent"),
    ("SELECT approx_count_distinct(a) FROM s", 1, 8, "not there", "count(DISTINCT x)"),
    ("SELECT percentile_approx(a, 0.9) FROM s", 1, 8, "not there", "Percentiles"),
    ("SELECT stddev(a) FROM s", 1, 8, "not there", "sum(x * x)"),
    ("SELECT collect_list(a) FROM s", 1, 8, "not there", "GROUP BY x"),
    ("SELECT sum(a) OVER (PARTITION BY b) FROM s", 1, 15, "OVER", "GROUP BY"),
    ("SELECT row_number() OVER (ORDER BY b) FROM s", 1, 21, "OVER", "GROUP BY"),
    ("SELECT upper(a) FILTER (WHERE b) FROM s", 1, 8, "FILTER belongs to an aggregate", "sum(x) FILTER"),
    ("SELECT transform(a, x -> x + 1) FROM s", 1, 0, "", ""),
    ("SELECT explode(a) FROM s", 1, 8, "not there", "dotted path"),
    # other syntax
    ("SELECT a FROM s UNION ALL SELECT b FROM t", 1, 17, "UNION", "one SELECT"),
    ("SELECT a FROM s EXCEPT SELECT b FROM t", 1, 17, "EXCEPT", "one SELECT"),
    ("SELECT a, count(*) FROM s GROUP BY CUBE(a)", 1, 36, "CUBE", "one GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY a WITH ROLLUP", 1, 43, "ROLLUP", "one GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY GROUPING SETS ((a), ())", 1, 36, "GROUPING SETS", "one GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY ALL", 1, 0, "GROUP BY", "GROUP BY a, b"),
    ("SELECT a FROM s WHERE a IN (SELECT b FROM t)", 1, 29, "query inside a query", "one SELECT"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t)", 1, 31, "query inside a query", ""),
    ("SELECT a FROM s LATERAL VIEW explode(b) t AS c", 1, 17, "LATERAL VIEW", "dotted path"),
    ("SELECT a FROM s QUALIFY b > 1", 1, 17, "QUALIFY", "HAVING"),
    ("SELECT a FROM s SORT BY a", 1, 17, "SORT BY", "ORDER BY"),
    ("SELECT a FROM s LIMIT 10 OFFSET 5", 1, 26, "OFFSET", "LIMIT"),
    ("SELECT a FROM s LIMIT x", 1, 23, "whole number", "LIMIT 10"),
    ("SELECT a FROM s LIMIT ALL", 1, 0, "", ""),
    ("SELECT /*+ BROADCAST(s) */ a FROM s", 1, 8, "hints", "Remove"),
    ("SELECT a[0] FROM s", 1, 8, "elements of lists", "split"),
    ("SELECT a:b FROM s", 1, 9, "", ""),
    ("SELECT a LIKE ANY ('x', 'y') FROM s", 1, 8, "LIKE ANY", "OR"),
    ("SELECT CAST(a AS DECIMAL(10, 2)) FROM s", 1, 13, "DECIMAL", "DOUBLE"),
    ("SELECT CAST(a AS FLOAT) FROM s", 1, 13, "FLOAT", "DOUBLE"),
    ("SELECT CAST(a AS ARRAY<INT>) FROM s", 1, 13, "not there", "DOUBLE"),
    ("SELECT 99999999999999999999 FROM s", 1, 8, "64 bits", "double"),
    ("SELECT a & 3 FROM s", 1, 8, "not there", "docs/elf-ql.md"),
    ("SELECT extract(epoch FROM a) FROM s", 1, 0, "EXTRACT does not know", "year"),
    ("SELECT DISTINCT ON (a) a FROM s", 1, 0, "", ""),
    ("SELECT x FROM s AS t (a, b)", 1, 0, "renamed", "AS in the select list"),
    ("SELECT x FROM s VERSION AS OF 1", 1, 15, "", ""),
    ("SELECT * EXCEPT (a) FROM s", 1, 0, "", ""),
    ("SELECT count(x ORDER BY y) FROM s", 1, 0, "", ""),
    ("SELECT max(x) IGNORE NULLS FROM s", 1, 0, "", ""),
    ("SELECT CAST(x AS TIMESTAMP FORMAT 'yyyy') FROM s", 1, 0, "", ""),
    ("SELECT a FROM s WINDOW w AS (PARTITION BY a)", 1, 0, "", ""),
    ("SELECT a AS (x, y) FROM s", 1, 0, "", ""),
    ("SELECT a COLLATE UTF8_LCASE FROM s", 1, 0, "", ""),
    ("SELECT ts AT TIME ZONE 'UTC' FROM s", 1, 0, "", ""),
    ("SELECT a FROM s ORDER BY a ASC NULLS", 1, 0, "", ""),
    ("SELECT a FROM s FETCH FIRST 3 ROWS ONLY", 1, 0, "", ""),
    ("SELECT TOP 3 a FROM s", 1, 0, "", ""),
    ("SELECT a FROM s LIMIT 10 PERCENT", 1, 0, "", ""),
    ("SELECT a FROM s FOR UPDATE", 1, 0, "", ""),
    ("SELECT a INTO t FROM s", 1, 0, "", ""),
    ("SELECT a FROM s TABLESAMPLE (10 PERCENT)", 1, 17, "TABLESAMPLE", "WHERE"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"), WRONG, ids=lambda given: str(given)[:50]
)
def test_a_wrong_query_is_refused_where_it_is_wrong(
    text: str, line: int, column: int, message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column if column else 0) == (line, column)
    assert "\n" not in error.message
    assert "Token" not in str(error)
    assert "sqlglot" not in str(error)
    assert "elf_" not in str(error)


BATCH = pa.record_batch(
    {"i": [1], "s": ["x"], "b": [True], "ts": pa.array([0], pa.timestamp("us", "UTC")), "l": [[1]]}
)

# Wrong for these types only: found when data comes (or the format is known).
WRONG_TYPES = [
    ("SELECT i FROM s WHERE i", 23, "a condition must be BOOLEAN", "Compare it"),
    ("SELECT i FROM s WHERE s AND b", 23, "a condition must be BOOLEAN", "Compare it"),
    ("SELECT sum(b) FROM s", 8, "sum and avg do not work on BOOLEAN", "FILTER"),
    ("SELECT b + 1 FROM s", 8, "`+` does not work on BOOLEAN", "CAST"),
    ("SELECT ts - ts FROM s", 8, "TIMESTAMP and TIMESTAMP", "unix_timestamp(a) - unix_timestamp(b)"),
    ("SELECT coalesce(i, b) FROM s", 20, "COALESCE mixes BIGINT and BOOLEAN", "CAST"),
    ("SELECT i, if(b, ts, b) FROM s", 21, "IF mixes", "CAST"),
    ("SELECT year(i) FROM s", 13, "argument 1 of year is BIGINT, not DATE", "CAST"),
    ("SELECT CAST(i AS DATE) FROM s", 13, "BIGINT cannot be cast to DATE", ""),
    ("SELECT s RLIKE '(?=x)' FROM s", 16, "cannot use the regular expression", "RE2"),
    ("SELECT regexp_extract(s, '(a)', 2) FROM s", 8, "has 1 groups, not 2", "Group 0"),
    ("SELECT regexp_replace(s, '(a)', '$2') FROM s", 33, "does not have", "dollar"),
    ("SELECT s LIKE 'a\\\\b' FROM s", 15, "escapes nothing", "twice"),
    ("SELECT date_trunc('fortnight', ts) FROM s", 8, "does not know the unit", "month"),
    ("SELECT date_format(ts, 'YYYY') FROM s", 8, "cannot be written", "y M d"),
    ("SELECT to_timestamp(s, 'EEE') FROM s", 8, "cannot be read", "y M d"),
    ("SELECT s LIKE s FROM s", 15, "must be a constant", "'string'"),
    ("SELECT split(s, ',')[i] FROM s", 22, "must be a constant", "number"),
    ("SELECT split(s, ',') FROM s", 8, "lists are not values", "[0]"),
    ("SELECT split_part(s, ',', 0) FROM s", 27, "counts from 1", "first part"),
    ("SELECT l FROM s", 8, "holds list", "dot"),
    ("SELECT upper(INTERVAL 1 DAY) FROM s", 0, "INTERVAL", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"), WRONG_TYPES, ids=lambda given: str(given)[:50]
)
def test_types_that_make_no_sense_are_refused_when_they_are_met(
    text: str, column: int, message: str, hint: str
) -> None:
    query = Query(parse(text))
    with pytest.raises(QueryError) as caught:
        query.finalise({"main": _reduced(query)}, None)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.line == 1
    assert error.column == (column or error.column)


def _reduced(query: Query) -> pa.Table:
    """What the batch reduces to, good enough for constants to be finalised."""
    prepared = query.prepare(BATCH)
    return pa.Table.from_batches([prepared.tables["main"]]).append_column("a0", pa.array([1]))


def test_places_in_a_file_count_from_its_first_line() -> None:
    with pytest.raises(QueryError) as caught:
        parse_many("SELECT a FROM s;\n\n-- the second\nSELECT b, uper(c)\nFROM s;\n", source="jobs.elfql")
    assert (caught.value.line, caught.value.column) == (4, 11)
    assert str(caught.value).startswith("jobs.elfql:4:11: unknown function uper")


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(QueryError):
        parse("SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM s")
    with pytest.raises(QueryError, match="longer than"):
        parse("SELECT a FROM s -- " + "x" * 300_000)


WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT CREATE JOB AS EVERY ON ( ) , . * = 'x' 1 a b s count( "
    "sum( upper( TUMBLE( ts '5 s' INTERVAL SECOND AND OR NOT NULL IS CASE WHEN THEN END IN BETWEEN LIKE ; "
    "-- \n ' ` [ ] :: -> ? @ DISTINCT FILTER CAST( BIGINT window_start"
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS.split(" ")),
        max_size=25,
    ).map(" ".join)
    | st.text(max_size=40)
)
def test_any_text_parses_or_is_a_query_error_with_a_place(text: str) -> None:
    refusal: QueryError | None = None
    try:
        parse(text)
    except QueryError as error:
        refusal = error
    assert refusal is None or (refusal.line >= 1 and refusal.column >= 1)
