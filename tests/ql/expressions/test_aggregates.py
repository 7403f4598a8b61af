"""Aggregates over the wire: whatever the shape of the tree, the order and the batches, the same rows."""

from __future__ import annotations

import datetime as dt
import random
import statistics
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import Panes
from elfmesh.cbt.partial.partial import encode_partial, finish_parts, merge_partials
from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from tests.ql.refusals import refusing

ROWS = 600
RNG = random.Random(5)
START = dt.datetime(2015, 5, 17, 10, tzinfo=dt.UTC)
DATA = pa.table(
    {
        "ts": [START + dt.timedelta(seconds=RNG.randrange(120)) for _ in range(ROWS)],
        "k": [RNG.choice("abc") for _ in range(ROWS)],
        "x": [RNG.choice([None, *range(-40, 40)]) for _ in range(ROWS)],
        "y": [RNG.choice([None, 1e150, -1e150, RNG.uniform(-1, 1)]) for _ in range(ROWS)],
        "s": [RNG.choice([None, "", *"pqrst", "long " * 5]) for _ in range(ROWS)],
        "d": pa.array(
            [Decimal(RNG.randrange(-(10**6), 10**6)) / 100 for _ in range(ROWS)], pa.decimal128(9, 2)
        ),
    }
)
EVERYTHING = """
    SELECT k, corr(x, y) AS co, covar_samp(y, d) AS cs, covar_pop(x, d) FILTER (WHERE s = 'p') AS cp,
           stddev(y) AS sd, var_pop(x) AS vp, first(x) AS f, last(s) AS l, first(s) IGNORE NULLS AS fi,
           min_by(s, y) AS mb, max_by(x, s = 'p') AS xb, any_value(s) AS a, array_agg(x, 9) AS xs,
           collect_set(s) AS ss, string_agg(s, ',', 5) AS j, sum(DISTINCT x) AS sx, avg(DISTINCT d) AS ad,
           median(x) AS m, percentile(y, array(0.1, 0.9)) AS p,
           percentile_disc(0.3) WITHIN GROUP (ORDER BY x) AS pd,
           mode(s) AS mo, approx_count_distinct(x) AS ac, approx_percentile(x, 0.5) AS ap,
           approx_top_k(s, 3) AS t, frequent_items_sketch_agg(s) AS fs,
           theta_sketch_agg(x) AS th, hll_sketch_agg(s) AS h, sum(d) AS d, avg(d) AS av,
           bool_and(x > -39) AS ba, some(x = 3) AS so, count_if(x > 0) AS ci,
           sum(x) FILTER (WHERE s = 'p') AS sf, stddev(x) FILTER (WHERE s = 'q') AS qf
    FROM t GROUP BY k
"""


def partials(query: Query, data: pa.Table, cuts: list[int], batch_rows: int) -> list[bytes]:
    """What agents that have these runs of rows send up."""
    parts = []
    for start, end in zip([0, *cuts], [*cuts, data.num_rows], strict=True):
        panes = Panes(query.statement.tables, None, None)
        for at in range(start, end, batch_rows):
            rows = data.slice(at, min(batch_rows, end - at)).combine_chunks().to_batches()[0]
            for name, batch in query.prepare(rows).tables.items():
                panes.insert(name, np.zeros(batch.num_rows, np.int64), batch)
        content = panes.window(0)
        parts.append(b"" if content is None else encode_partial(content))
    return parts


def answer(query: Query, parts: list[bytes]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query.finalise_parts(finish_parts(parts), None).to_pylist()
    return rows


def test_every_aggregate_gives_the_same_rows_in_every_tree() -> None:
    query = Query(parse(EVERYTHING))
    whole = answer(query, partials(query, DATA, [], ROWS))
    assert len(whole) == 3
    order = list(range(ROWS))
    for seed in range(4):
        rng = random.Random(seed)
        rng.shuffle(order)
        shuffled = DATA.take(pa.array(order))
        parts = partials(
            query, shuffled, sorted(rng.randrange(ROWS) for _ in range(6)), rng.choice([1, 7, 100])
        )
        rng.shuffle(parts)
        while len(parts) > 1 and seed % 2:  # some merge on the way, some only at the root
            parts = [merge_partials(parts[:2]), *parts[2:]]
        assert answer(query, parts) == whole


def test_aggregates_equal_those_of_python() -> None:
    query = Query(parse(EVERYTHING))
    for row in answer(query, partials(query, DATA, [200, 400], 50)):
        mine = [record for record in DATA.to_pylist() if record["k"] == row["k"]]
        xs = [record["x"] for record in mine if record["x"] is not None]
        texts = [record["s"] for record in mine if record["s"] is not None]
        assert row["vp"] == pytest.approx(statistics.pvariance(xs), rel=1e-15)
        assert (row["m"], row["sx"]) == (statistics.median(xs), sum(set(xs)))
        assert row["xs"] == sorted(xs)[:9]
        assert row["ss"] == sorted(set(texts))
        assert row["j"] == ",".join(sorted(texts)[:5])
        assert (row["ac"], row["ci"]) == (len(set(xs)), sum(x > 0 for x in xs))
        assert row["d"] == sum(record["d"] for record in mine)
        earliest = min(record["ts"] for record in mine)
        first = [record["x"] for record in mine if record["ts"] == earliest and record["x"] is not None]
        assert row["f"] == min(first)
        latest = max(record["ts"] for record in mine)
        assert row["l"] == max(record["s"] or "" for record in mine if record["ts"] == latest)
        top = sorted(
            {text: -texts.count(text) for text in texts}.items(), key=lambda each: (each[1], each[0])
        )
        assert row["t"] == [{"item": text, "count": -count} for text, count in top[:3]]
        theta = datasketches.compact_theta_sketch.deserialize(row["th"])
        assert theta.get_estimate() == len(set(xs))
        assert round(datasketches.hll_sketch.deserialize(row["h"]).get_estimate()) == len(set(texts) - {""})


def test_a_variance_far_from_zero_does_not_cancel(rows_of: Callable[..., Any]) -> None:
    data = {"x": [1e9 + offset for offset in (4.0, 7.0, 13.0, 16.0)] * 250}
    assert rows_of("SELECT var_pop(x), var_samp(x) FROM t", data) == [(22.5, 22.5 * 1000 / 999)]


def test_sliding_windows_subtract_variances(run_query: Callable[..., dict[int, pa.Table]]) -> None:
    text = "SELECT stddev_pop(y) AS sd, count(*) AS n FROM t GROUP BY HOP(ts, '5 s', '30 s')"
    for index, table in run_query(text, DATA).items():
        inside = [row for row in DATA.to_pylist() if 0 <= row["ts"].timestamp() - index * 5 < 30]
        values = [row["y"] for row in inside if row["y"] is not None]
        assert values
        expected = pytest.approx(statistics.pstdev(values), rel=1e-12)
        assert table.to_pylist() == [{"sd": expected, "n": len(inside)}]


@pytest.mark.parametrize("batch_rows", [1, 2, 7])
def test_a_column_that_turns_float_is_one_column(batch_rows: int, rows_of: Callable[..., Any]) -> None:
    text = "SELECT stddev_pop(x), median(x), first(x), max_by(x, x), approx_count_distinct(x) FROM t"
    mixed = pa.table({"ts": [3, 2, 1, 0], "x": [1.0, 2.0, 2.5, 4.0]})
    assert rows_of(text, mixed, batch_rows=batch_rows) == [
        (statistics.pstdev([1, 2, 2.5, 4]), 2.25, 4.0, 4.0, 4)
    ]


def test_aggregates_over_nothing(rows_of: Callable[..., Any]) -> None:
    text = (
        "SELECT count_if(x > 0), sum(DISTINCT x), stddev(x), first(x), array_agg(x), string_agg(x), "
        "median(x), approx_count_distinct(x), approx_percentile(x, 0.5), approx_top_k(x), bool_and(x > 0), "
        "theta_sketch_estimate(theta_sketch_agg(x)), percentile(x, array(0.5)) FROM t WHERE false"
    )
    expected: tuple[Any, ...] = (0, None, None, None, [], None, None, 0, None, [], None, 0, None)
    assert rows_of(text, {"x": [1], "ts": [0]}) == [expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT max_by(a, s) FROM t", "order by a number or a time, not by STRING"),
        ("SELECT bool_and(a) FROM t", "must be BOOLEAN"),
        ("SELECT median(s > 'a') FROM t", "do not work on BOOLEAN"),
        ("SELECT approx_top_k(split(s, ',')) FROM t", "cannot be aggregated"),
        ("SELECT max(map(s, a)) FROM t", "MAP<STRING,BIGINT> cannot be aggregated"),
        ("SELECT collect_set(array(map(s, a))) FROM t", "ARRAY<MAP<STRING,BIGINT>> cannot be aggregated"),
        ("SELECT theta_union(s, s) FROM t", "reads sketches, which are BINARY"),
        ("SELECT hll_union_agg(s) FROM t", "hll_union_agg merges sketches, which are BINARY, not STRING"),
        ("SELECT hll_union_agg(DISTINCT s) FROM t", "DISTINCT"),
        ("SELECT frequent_items_sketch_agg(a, 0) FROM t", "counters of frequent_items_sketch_agg"),
        ("SELECT kll_merge_agg_double(s, 4) FROM t", "the k of kll_merge_agg_double must be from 8 to 4096"),
    ],
)
def test_types_that_make_no_sense_are_refused(text: str, message: str, rows_of: Callable[..., Any]) -> None:
    with pytest.raises(QueryError, match=message):
        rows_of(text, {"a": [1], "s": ["x"], "ts": [0]})


def test_sketches_of_an_inner_query_are_merged(rows_of: Callable[..., Any]) -> None:
    inner = (
        "SELECT x % 7 AS k, hll_sketch_agg(x) AS h, theta_sketch_agg(x) AS t, "
        "kll_sketch_agg_double(x) AS q FROM t GROUP BY x % 7"
    )
    data = {"x": [*range(3000), *range(100)]}
    merged = rows_of(
        "SELECT theta_sketch_estimate(theta_union_agg(t)), "
        "kll_sketch_get_quantile_double(kll_merge_agg_double(q), 1), "
        "hll_sketch_estimate(hll_union_agg(h)), hll_union_agg(h) FILTER (WHERE k = 9) IS NULL, "
        f"theta_sketch_estimate(theta_union_agg(t, 9)) < 3000 * 1.3 FROM ({inner}) i",
        data,
    )
    ((theta, greatest, hll, _, near),) = merged
    assert (theta, greatest, near) == (3000, 2999.0, True)
    whole = (
        "SELECT hll_sketch_estimate(hll_sketch_agg(x)), "
        "hll_union(hll_sketch_agg(x), hll_sketch_agg(x)) = hll_sketch_agg(x), "
        "kll_sketch_merge_double(kll_sketch_agg_double(x), unhex('00')) FROM t"
    )
    assert rows_of(whole, data) == [(hll, True, None)]
    assert rows_of("SELECT hll_union_agg(unhex('0a01')) FROM t", {"x": [1]}) == [(None,)]


def test_sketches_of_frequent_items_are_read_by_the_library(rows_of: Callable[..., Any]) -> None:
    few = {"x": [7, 7, None, -3], "s": ["a", "b", "a", None]}
    text = "SELECT frequent_items_sketch_agg(s), frequent_items_sketch_agg(x) FILTER (WHERE x > 0) FROM t"
    ((strings, longs),) = rows_of(text, few, batch_rows=1)
    held = datasketches.frequent_strings_sketch.deserialize(strings)
    assert (held.total_weight, held.get_estimate("a"), held.get_estimate("b")) == (3, 2, 1)
    numbers = datasketches.frequent_items_sketch.deserialize(longs, datasketches.PyLongsSerDe())
    assert (numbers.total_weight, numbers.get_estimate(7), numbers.get_estimate(-3)) == (2, 2, 0)
    many = {"s": [f"item {i % 300 if i % 2 else 0}" for i in range(6000)]}
    ((small,),) = rows_of("SELECT frequent_items_sketch_agg(s, 20) FROM t", many, batch_rows=500)
    thinned = datasketches.frequent_strings_sketch.deserialize(small)
    most = 3000
    assert thinned.get_lower_bound("item 0") <= most <= thinned.get_upper_bound("item 0")
    assert thinned.num_active_items <= 20
    ((none,),) = rows_of("SELECT frequent_items_sketch_agg(s) FROM t WHERE false", few)
    assert datasketches.frequent_strings_sketch.deserialize(none).is_empty()


def test_sets_of_theta_sketches(rows_of: Callable[..., Any]) -> None:
    sides = "theta_sketch_agg(x) FILTER (WHERE x < 9000), theta_sketch_agg(x) FILTER (WHERE x >= 6000)"
    calls = [
        f"theta_sketch_estimate({name}({sides}))"
        for name in ("theta_union", "theta_intersection", "theta_difference")
    ]
    ((both, common, left),) = rows_of(
        f"SELECT {', '.join(calls)} FROM t", {"x": list(range(15000))}, batch_rows=5000
    )
    for got, true in ((both, 15000), (common, 3000), (left, 6000)):
        assert abs(got - true) < 0.06 * 15000
    assert rows_of("SELECT theta_sketch_estimate(unhex('00')) FROM t", {"x": [1]}) == [(None,)]


def test_a_list_of_no_groups_is_joined(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    data = {"k": ["a"], "v": [1]}
    assert rows_of("SELECT k, string_agg(nothing) AS x FROM t WHERE v > 1 GROUP BY k", data) == []
    assert rows_of("SELECT k, string_agg(nothing) AS x FROM t GROUP BY k", data) == [("a", None)]


test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT percentile(a, 1.5) FROM s", 1, 22, "share from 0 to 1", "percentile(x, 0.99)"),
    ("SELECT percentile(a, b) FROM s", 1, 22, "share from 0 to 1", "percentile(x, 0.99)"),
    ("SELECT array_agg(a, 0) FROM s", 1, 21, "from 1 to 10000, not 0", ""),
    ("SELECT approx_top_k(a, 50, 10) FROM s", 1, 28, "cannot name 50 values", ""),
    ("SELECT approx_percentile(a, 0.5, 10000) FROM s", 1, 34, "from 1 to 1240", ""),
    ("SELECT hll_sketch_agg(a, 10) FROM s", 1, 26, "from 12 to 12", ""),
    (
        "SELECT string_agg(a, b) FROM s",
        1, 22, "separator of string_agg must be a constant", "string_agg(x",
    ),
)  # fmt: skip
