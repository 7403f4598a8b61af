"""A wrong query is refused at the token that is wrong, with what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("WITH RECURSIVE x AS (SELECT a FROM s) SELECT a FROM x", 1, 0, "RECURSIVE", "a job of its own"),
    (
        "SELECT count(*) FROM s GROUP BY HOPPING(ts, '30 s')",
        1, 33, "no function HOPPING", "HOP(ts, INTER",
    ),
    (
        "SELECT count(*) FROM s GROUP BY SLIDING(ts, '30 s')",
        1, 33, "no function SLIDING", "HOP(ts, INTER",
    ),
    (
        "SELECT count(*) FROM s GROUP BY CUMULATE(ts, '1 s')",
        1, 33, "no function CUMULATE", "HOP(ts, INTER",
    ),
    ("SELECT count(*) FROM s GROUP BY time_bucket(ts)", 1, 33, "no function time_bucket", "TUMBLE(ts"),
    ("SELECT count(*) FROM s WINDOW TUMBLING (SIZE 30 SECONDS)", 1, 24, "gives a name", "WINDOW w AS"),
    (
        "SELECT count(*) FROM TABLE(TUMBLE(TABLE s, ts, '1 s'))",
        1, 22, "has no TABLE(...)", "GROUP BY TUMBLE",
    ),
    ("SELECT count(*) FROM s WINDOW 3", 1, 24, "gives a name to a window", "WINDOW w AS (PARTITION"),
    (
        "SELECT tumble_start(ts) FROM s GROUP BY TUMBLE(ts, '5 s')",
        1, 8, "no function tumble", "window_start",
    ),
    ("SELECT strftime(ts, '%Y') FROM s", 1, 8, "no function strftime", "date_format(ts"),
    ("SELECT uper(a) FROM s", 1, 8, "unknown function uper", "Did you mean upper?"),
    ("SELECT a,\n       zzz(b) FROM s", 2, 8, "unknown function", "The page on ELF-QL"),
    ("SELECT current_timestamp(), a FROM s", 1, 8, "clock", "event time"),
    ("SELECT current_timestamp FROM s", 1, 8, "clock", "event time"),
    ("SELECT now() FROM s", 1, 8, "ELF-QL has no function now", "when it is computed"),
    ("SELECT rand() FROM s", 1, 8, "ELF-QL has no function rand", "every agent"),
    (
        "SELECT count_min_sketch(a) FROM s",
        1, 8, "ELF-QL has no function count_min_sketch", "approx_top_k",
    ),
    ("SELECT kurtosis(a) FROM s", 1, 8, "ELF-QL has no function kurtosis", "stddev"),
    ("SELECT abs(x -> x + 1) FROM s", 1, 12, "a lambda function is not a value", "transform(x, e -> e + 1)"),
    ("SELECT stack(2, a, b) FROM s", 1, 8, "ELF-QL has no function stack", "explode(array(x, y))"),
    ("SELECT * EXCEPT (a.b) FROM s", 1, 20, "EXCEPT takes names", "* EXCEPT (a, b)"),
    ("SELECT count(* EXCEPT (a)) FROM s", 1, 8, "count takes * alone", "count(*)"),
    ("SELECT a FROM s GROUP BY DISTINCT a", 1, 17, "ELF-QL has no GROUP BY DISTINCT", "GROUP BY a, b"),
    ("SELECT a FROM s LIMIT ALL", 1, 17, "ELF-QL has no LIMIT ALL", "Leave it out"),
    ("SELECT a FROM s FOR UPDATE", 1, 17, "ELF-QL has no FOR UPDATE", "no row is locked"),
    ("SELECT a FROM s VERSION AS OF 3", 1, 17, "ELF-QL has no AS OF", "WHERE"),
    (
        "SELECT a FROM s JOIN LATERAL (SELECT 1) t",
        1, 22, "LATERAL (SELECT ...)", "LATERAL VIEW explode",
    ),
    ("SELECT 1_000 AS a FROM s", 1, 8, "1_000 is not a number", "Write 1000, or the name `1_000`"),
    ("SELECT a FROM s SORT BY a", 1, 17, "SORT BY", "ORDER BY"),
    ("SELECT /*+ BROADCAST(s) */ a FROM s", 1, 8, "hints", "Remove"),
    ("SELECT a:b FROM s", 1, 9, "", ""),
    ("SELECT CAST(a AS FLOAT8) FROM s", 1, 18, "no type FLOAT8", "DOUBLE"),
    ("SELECT CAST(a AS ARRAY<INT>) FROM s", 1, 18, "no type ARRAY", "from_json(text"),
    ("SELECT x FROM s VERSION AS OF 1", 1, 17, "AS OF", ""),
    ("SELECT a FROM s FETCH FIRST 3 ROWS ONLY", 1, 0, "", ""),
    ("SELECT TOP 3 a FROM s", 1, 0, "", ""),
    ("SELECT a FROM s TABLESAMPLE (10 PERCENT)", 1, 17, "TABLESAMPLE", "WHERE"),
)  # fmt: skip


BATCH = pa.record_batch(
    {"i": [1], "s": ["x"], "b": [True], "ts": pa.array([0], pa.timestamp("us", "UTC")), "l": [[1]]}
)

# Wrong for these types only: found when data comes (or the format is known).
WRONG_TYPES = [
    ("SELECT i FROM s WHERE i", 23, "a condition must be BOOLEAN", "Write a comparison"),
    ("SELECT i FROM s WHERE s AND b", 23, "a condition must be BOOLEAN", "Write a comparison"),
    ("SELECT sum(b) FROM s", 8, "sum and avg do not work on BOOLEAN", "FILTER"),
    ("SELECT b + 1 FROM s", 8, "`+` does not work on BOOLEAN", "CAST"),
    ("SELECT ts - '2024-01-01' FROM s", 8, "TIMESTAMP and STRING", "CAST(... AS TIMESTAMP)"),
    ("SELECT coalesce(i, b) FROM s", 20, "COALESCE mixes BIGINT and BOOLEAN", "CAST"),
    ("SELECT i, if(b, ts, b) FROM s", 21, "IF mixes", "CAST"),
    ("SELECT year(i) FROM s", 13, "argument 1 of year is BIGINT, not DATE", "CAST"),
    ("SELECT CAST(i AS DATE) FROM s", 13, "BIGINT cannot be cast to DATE", ""),
    ("SELECT slice(split(s, ','), 0, 1) FROM s", 8, "slice counts from 1", ""),
    ("SELECT slice(split(s, ','), i, -1) FROM s", 8, "takes no negative length", ""),
    ("SELECT date(i) FROM s", 8, "BIGINT cannot be cast to DATE", ""),
    ("SELECT bigint(split(s, ',')) FROM s", 8, "cannot be cast to BIGINT", ""),
    ("SELECT boolean(unhex(s)) FROM s", 8, "BINARY cannot be cast to BOOLEAN", ""),
    ("SELECT s LIKE s FROM s", 15, "must be a constant", "'string'"),
    ("SELECT i FROM s GROUP BY i, map(s, i)", 29, "MAP<STRING,BIGINT> cannot be grouped", "map_entries(m)"),
    ("SELECT count(DISTINCT array(map(s, i))) FROM s", 23, "ARRAY<MAP<STRING,BIGINT>> cannot", "m['key']"),
    ("SELECT DISTINCT array(map(s, i)) AS m FROM s", 17, "DISTINCT does not work on ARRAY<MAP", "m['key']"),
    ("SELECT array(i)[b] FROM s", 17, "BOOLEAN, not BIGINT", "CAST"),
    ("SELECT i[0] FROM s", 8, "takes a list, not BIGINT", "array(...)"),
    ("SELECT format_string('%d', s) FROM s", 22, "cannot format STRING", "%s"),
    ("SELECT b & 3 FROM s", 8, "works on integers", ""),
    ("SELECT element_at(array(i), 0) FROM s", 29, "counts from 1", "x[0]"),
    ("SELECT s + INTERVAL '1' MONTH FROM s", 8, "cannot be added to STRING", "CAST"),
    ("SELECT mode(map(s, i)) FROM s", 13, "MAP<STRING,BIGINT> cannot be grouped", "m['key']"),
    ("SELECT sequence(i, i, INTERVAL '1' MONTH) FROM s", 8, "takes dates or timestamps, not BIGINT", "DATE"),
    ("SELECT max(l), hll_sketch_agg(l) FROM s", 12, "ARRAY<BIGINT> cannot be aggregated", "x[0]"),
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
