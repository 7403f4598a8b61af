"""Batches in, PAO rows out; reduced tables in, result rows out."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import Panes, finish
from elfmesh.ql import Query, parse

RunQuery = Callable[..., dict[int, pa.Table]]
RowsOf = Callable[..., list[tuple[Any, ...]]]
SECOND = 1_000_000


def _stamps(seconds: list[float | None]) -> pa.Array:
    micros = [None if second is None else round(second * SECOND) for second in seconds]
    return pa.array(micros, pa.timestamp("us", "UTC"))


def test_every_row_is_passed_filtered_or_undated() -> None:
    query = Query(parse("SELECT host, count(*) FROM s WHERE status < 500 GROUP BY TUMBLE(ts, '10 s'), host"))
    batch = pa.record_batch(
        {"host": ["a", "b", "a", "c", "a"], "status": [200, 500, None, 200, 200],
         "ts": _stamps([1, 11, 12, None, 25])}
    )  # fmt: skip
    prepared = query.prepare(batch)
    assert (prepared.passed, prepared.filtered, prepared.undated) == (2, {1: 2}, 1)
    assert prepared.kept == {0: 1, 2: 1}
    assert prepared.tables["main"].to_pydict() == {"k0": ["a", "a"]}
    assert prepared.panes["main"].tolist() == [0, 2]


def test_without_a_window_there_are_no_panes_and_no_undated_rows() -> None:
    prepared = Query(parse("SELECT a FROM s WHERE a > 1")).prepare(pa.record_batch({"a": [1, 2, None]}))
    assert prepared.panes == {}
    assert prepared.kept == {0: 1}
    assert (prepared.passed, prepared.filtered, prepared.undated) == (1, {0: 2}, 0)


def test_a_query_without_columns_still_counts_rows() -> None:
    query = Query(parse("SELECT count(*) AS n FROM s"))
    assert query.statement.fields == ()
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert query.prepare(batch).tables["main"].num_rows == 3


def test_a_missing_column_is_null_and_the_schema_may_change_between_batches(rows_of: RowsOf) -> None:
    query = Query(parse("SELECT a, b + 1 AS c FROM s"))
    for batch, expected in (
        (pa.record_batch({"a": [1]}), {"k0": [1], "k1": [None]}),
        (pa.record_batch({"b": [1]}), {"k0": [None], "k1": [2]}),
        (pa.record_batch({"b": ["1"], "a": ["x"]}), {"k0": ["x"], "k1": [2.0]}),
        (pa.record_batch({"z": [1]}), {"k0": [None], "k1": [None]}),
    ):
        assert query.prepare(batch).tables["main"].to_pydict() == expected


def test_narrow_and_encoded_columns_are_widened() -> None:
    batch = pa.record_batch(
        {
            "a": pa.array([1], pa.int8()), "b": pa.array([1.5], pa.float32()),
            "c": pa.array(["x"]).dictionary_encode(), "d": pa.array(["x"], pa.large_string()),
            "e": pa.array([2**63], pa.uint64()), "f": pa.array([1], pa.timestamp("ns")),
            "g": pa.array([1], pa.date64()), "h": pa.array([1], pa.uint64()),
        }
    )  # fmt: skip
    table = Query(parse("SELECT a, b, c, d, e, f, g, h FROM s")).prepare(batch).tables["main"]
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "double", "string", "string", "int64", "timestamp[us, tz=UTC]", "date32[day]", "int64",
    ]  # fmt: skip
    assert table.column("k4").to_pylist() == [None]


def test_distinct_tables_drop_nulls_and_filtered_rows_and_carry_their_own_panes() -> None:
    text = "SELECT h, count(DISTINCT u) FILTER (WHERE b) FROM s GROUP BY TUMBLE(ts, '1 s'), h"
    batch = pa.record_batch(
        {
            "h": ["a", "a", "b", "b"],
            "u": [1, None, 2, 3],
            "b": [True, True, False, True],
            "ts": _stamps([0, 1, 2, 3]),
        }
    )
    prepared = Query(parse(text)).prepare(batch)
    assert prepared.tables["d0"].to_pydict() == {"k0": ["a", "b"], "x": [1, 3]}
    assert prepared.panes["d0"].tolist() == [0, 3]
    assert prepared.tables["main"].num_rows == 4


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        (_stamps([5, None]), [0]),
        (pa.array([5, None]), [0]),
        (pa.array(["1970-01-01T00:00:05Z", "what"]), [0]),
        (pa.array(["01/Jan/1970:00:00:05 +0000", None]), [0]),
        (pa.array([-1.5, math.nan]), [-1]),
    ],
)
def test_event_time_comes_in_any_type(ts: pa.Array, expected: list[int]) -> None:
    prepared = Query(parse("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '10 s')")).prepare(
        pa.record_batch({"ts": ts})
    )
    assert prepared.undated == 1
    assert prepared.panes["main"].tolist() == expected


def test_the_unconverted_time_column_can_be_selected_too() -> None:
    query = Query(parse("SELECT ts, count(*) FROM s GROUP BY TUMBLE(ts, '10 s'), ts"))
    batch = pa.record_batch({"ts": ["01/Jan/1970:00:00:05 +0000"]})
    assert query.prepare(batch).tables["main"].to_pydict() == {"k0": ["01/Jan/1970:00:00:05 +0000"]}


# -- whole queries over the real reduction


def test_a_global_aggregate_over_nothing_is_one_row(rows_of: RowsOf) -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})
    text = "SELECT count(*) AS n, sum(a) AS s, avg(a) AS m, count(DISTINCT a) AS d, 1 AS one FROM s"
    assert rows_of(text, empty) == [(0, None, None, 0, 1)]
    assert rows_of("SELECT count(*) + 1 AS n FROM s WHERE a > 5", {"a": [1, 2]}) == [(1,)]
    assert rows_of("SELECT a, count(*) FROM s GROUP BY a", empty) == []
    assert rows_of("SELECT a FROM s", empty) == []


def test_an_interval_without_rows_has_no_row_even_for_a_global_aggregate(run_query: RunQuery) -> None:
    query = Query(parse("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '1 s')"))
    assert query.finalise({}, (0, SECOND)).num_rows == 0
    results = run_query(
        "SELECT count(*) AS n FROM s GROUP BY TUMBLE(ts, '1 s')", {"ts": _stamps([0, 0.5, 7])}
    )
    assert {index: table.to_pydict() for index, table in results.items()} == {0: {"n": [2]}, 7: {"n": [1]}}


def test_hopping_windows_count_a_record_in_each_of_its_windows(run_query: RunQuery) -> None:
    text = "SELECT window_start AS a, window_end AS b, sum(x) AS s FROM s GROUP BY HOP(ts, '10 s', '30 s')"
    results = run_query(text, {"ts": _stamps([5, 15, 35]), "x": [1, 2, 4]})
    start, second = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(seconds=1)
    assert [(index, table.to_pylist()) for index, table in results.items()] == [
        (
            index,
            [{"a": start + 10 * index * second, "b": start + (10 * index + 30) * second, "s": total}],
        )
        for index, total in [(-2, 1), (-1, 3), (0, 3), (1, 6), (2, 4), (3, 4)]
    ]  # fmt: skip


def test_ties_are_broken_by_the_remaining_columns_and_limit_comes_last(rows_of: RowsOf) -> None:
    data = {"p": ["b", None, "a", "c", "B", "é"], "q": [1, 1, 1, 2, 1, 1]}
    assert rows_of("SELECT p, sum(q) AS n FROM s GROUP BY p ORDER BY n DESC", data) == [
        ("c", 2), (None, 1), ("B", 1), ("a", 1), ("b", 1), ("é", 1),
    ]  # fmt: skip
    assert rows_of("SELECT p, sum(q) AS n FROM s GROUP BY p ORDER BY 2 DESC LIMIT 2", data) == [
        ("c", 2),
        (None, 1),
    ]
    assert rows_of("SELECT q, p FROM s LIMIT 2", data) == [(1, None), (1, "B")]
    assert rows_of("SELECT p FROM s LIMIT 0", data) == []


def test_a_projection_keeps_every_row_and_distinct_does_not(rows_of: RowsOf) -> None:
    data = {"a": [2, 1, 2, 2], "b": ["x", "y", "x", "z"]}
    assert rows_of("SELECT a, upper(b) AS b FROM s", data) == [(1, "Y"), (2, "X"), (2, "X"), (2, "Z")]
    assert rows_of("SELECT a FROM s ORDER BY a DESC LIMIT 2", data) == [(2,), (2,)]
    assert rows_of("SELECT DISTINCT a FROM s", data) == [(1,), (2,)]
    assert rows_of("SELECT a FROM s ORDER BY b DESC, a LIMIT 3", data) == [(2,), (1,), (2,)]
    assert rows_of("SELECT *, a + 1 AS c FROM s LIMIT 1", data) == [(1, "y", 2)]


def test_having_sees_aliases_keys_and_other_aggregates(rows_of: RowsOf) -> None:
    data = {"k": ["a", "b", "a", "c"], "x": [1, 5, 2, None]}
    text = "SELECT k, sum(x) AS s FROM s GROUP BY k HAVING {} ORDER BY k"
    assert rows_of(text.format("s > 2"), data) == [("a", 3), ("b", 5)]
    assert rows_of(text.format("k <> 'a' AND count(x) > 0"), data) == [("b", 5)]
    assert rows_of(text.format("s IS NULL OR max(x) = 2"), data) == [("a", 3), ("c", None)]


def test_overflowing_arithmetic_is_null_and_overflowing_sums_stay_exact(rows_of: RowsOf) -> None:
    big = 2**62
    data = {"a": [big, big, big], "b": [1, 2, -3]}
    assert rows_of("SELECT b, a * 2 AS m, a + a AS p, -a - a - b AS n FROM s", data) == [
        (-3, None, None, -(2**63) + 3), (1, None, None, None), (2, None, None, None),
    ]  # fmt: skip
    ((total, half),) = rows_of("SELECT sum(a) AS s, sum(a) / 2 AS h FROM s", data)
    assert int(total) == 3 * big
    assert half == 3 * big / 2
    assert rows_of("SELECT avg(a) AS m FROM s", data) == [(float(big),)]


@pytest.mark.parametrize("call", ["sum(v)", "try_sum(v)", "sum(v + 1) - 1", "sum(DISTINCT v)", "max(v)"])
def test_a_block_of_nulls_alone_does_not_make_a_sum_of_integers_inexact(call: str) -> None:
    """A host whose records lack the field has no type for it."""
    query = Query(parse(f"SELECT {call} AS s FROM log"))
    panes = Panes(query.statement.tables, None)
    for values in ([None, None], [2**53 + 1]):
        prepared = query.prepare(pa.record_batch({"v": pa.array(values)}))
        for name, rows in prepared.tables.items():
            panes.insert(name, np.zeros(rows.num_rows, np.int64), rows)
    reduced = panes.window(0)
    assert reduced is not None
    (total,) = query.finalise(finish(reduced), None).column("s").to_pylist()
    assert (total, type(total)) == (2**53 + 1, int)


def test_group_by_alias_ordinal_and_expression_mean_the_same(rows_of: RowsOf) -> None:
    data = {"u": ["/a/x", "/b/y", "/a/z"]}
    expected = [("a", 2), ("b", 1)]
    for by in ("top", "1", "split_part(u, '/', 2)", "SPLIT_PART(s.u, '/', 2)"):
        assert (
            rows_of(f"SELECT split_part(u, '/', 2) AS top, count(*) AS n FROM s GROUP BY {by}", data)
            == expected
        )


def test_a_name_that_is_a_field_elsewhere_groups_by_the_field(rows_of: RowsOf) -> None:
    data = {"path": ["A", "a"]}
    text = "SELECT lower(path) AS path, count(*) AS n FROM s GROUP BY path"
    assert rows_of(text, data) == [("a", 1), ("a", 1)]


def test_nan_is_one_group_and_greater_than_everything(rows_of: RowsOf) -> None:
    data = {"d": [math.nan, 1.0, math.nan, None, math.inf], "x": [1, 2, 3, 4, 5]}
    rows = rows_of("SELECT d, sum(x) AS s FROM s GROUP BY d ORDER BY d", data)
    assert [total for _, total in rows] == [4, 2, 5, 4]
    assert rows_of("SELECT count(DISTINCT d) AS n FROM s", data) == [(3,)]
    assert rows_of("SELECT count(*) AS n FROM s WHERE d > 5 AND d = d", data) == [(3,)]


# -- properties

_KEYS = st.sampled_from(["a", "b", "ä", "", None])
_ROWS = st.lists(
    st.tuples(
        _KEYS,
        st.none() | st.integers(-100, 100),
        st.none() | st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
        st.none() | st.integers(-50, 50),
    ),
    max_size=40,
)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    k, i, d, at = ([row[at] for row in rows] for at in range(4))
    return pa.table(
        {
            "k": pa.array(k, pa.string()),
            "i": pa.array(i, pa.int64()),
            "d": pa.array(d, pa.float64()),
            "ts": _stamps(at),
        }
    )


@settings(deadline=None)
@given(rows=_ROWS, batch_rows=st.integers(1, 9))
def test_grouped_aggregates_equal_a_plain_loop(
    run_query: RunQuery, rows: list[tuple[Any, ...]], batch_rows: int
) -> None:
    text = (
        "SELECT k, count(*) AS n, count(i) AS c, sum(i) AS s, min(i) AS a, max(d) AS b, sum(d) AS t, "
        "count(DISTINCT i) AS u, sum(i) FILTER (WHERE d > 0) AS f, avg(i) AS m FROM s "
        "WHERE i IS NULL OR i <> 7 GROUP BY HOP(ts, '10 s', '20 s'), k"
    )
    windows: dict[int, dict[str | None, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[3] is not None and row[1] != 7:
            for index in (row[3] // 10 - 1, row[3] // 10):
                windows[index][row[0]].append(row)
    expected = {
        index: [_summary(key, groups[key]) for key in sorted(groups, key=_nulls_first)]
        for index, groups in windows.items()
    }
    results = run_query(text, _table(rows), batch_rows=batch_rows)
    assert {
        index: [tuple(row.values()) for row in table.to_pylist()] for index, table in results.items()
    } == expected


def _nulls_first(key: str | None) -> tuple[bool, bytes]:
    return key is not None, (key or "").encode()


def _summary(key: str | None, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    ints = [row[1] for row in rows if row[1] is not None]
    floats = [row[2] for row in rows if row[2] is not None]
    chosen = [row[1] for row in rows if row[1] is not None and row[2] is not None and row[2] > 0]
    return (
        key, len(rows), len(ints), sum(ints) if ints else None,
        min(ints, default=None), max(floats, default=None),
        math.fsum(floats) if floats else None, len(set(ints)), sum(chosen) if chosen else None,
        sum(ints) / len(ints) if ints else None,
    )  # fmt: skip


@settings(deadline=None)
@given(rows=_ROWS, seed=st.randoms(use_true_random=False), limit=st.integers(0, 6))
def test_equal_content_in_any_order_gives_the_same_table(
    run_query: RunQuery, rows: list[tuple[Any, ...]], seed: Any, limit: int
) -> None:
    text = f"SELECT k, i, d FROM s ORDER BY d DESC NULLS LAST LIMIT {limit}"
    shuffled = rows[:]
    seed.shuffle(shuffled)
    once, again = run_query(text, _table(rows)), run_query(text, _table(shuffled))
    assert once[0].equals(again[0])
    lowest = -math.inf
    expected = sorted(
        (row[:3] for row in rows),
        key=lambda row: (
            row[2] is None, -(row[2] or 0.0), row[0] is not None, (row[0] or "").encode(),
            lowest if row[1] is None else row[1],
        ),
    )[:limit]  # fmt: skip
    assert [tuple(row.values()) for row in once[0].to_pylist()] == expected


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(-(2**63), 2**63 - 1)),
        min_size=1,
        max_size=20,
    )
)
def test_integer_arithmetic_is_exact_or_null(pairs: list[tuple[int | None, int | None]]) -> None:
    query = Query(
        parse(
            "SELECT a + b AS p, a - b AS m, a * b AS t, a % b AS r, a div b AS q, -a AS n, abs(a) AS v FROM s"
        )
    )
    columns = [pa.array([pair[at] for pair in pairs], pa.int64()) for at in range(2)]
    got = query.prepare(pa.record_batch(columns, names=["a", "b"])).tables["main"].to_pylist()

    def fits(value: int) -> int | None:
        return value if -(2**63) <= value < 2**63 else None

    for (a, b), row in zip(pairs, got, strict=True):
        unary = [None, None] if a is None else [fits(-a), fits(abs(a))]
        if a is None or b is None:
            expected: list[int | None] = [None] * 5
        else:
            quotient = None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            expected = [fits(a + b), fits(a - b), fits(a * b)]
            expected += [None, None] if quotient is None else [a - quotient * b, fits(quotient)]
        assert list(row.values()) == expected + unary


def test_three_valued_logic(rows_of: RowsOf) -> None:
    values = [True, False, None]
    pairs = [(a, b) for a in values for b in values]
    data = pa.table(
        {"n": list(range(9)), "a": pa.array([a for a, _ in pairs]), "b": pa.array([b for _, b in pairs])}
    )

    def both(a: bool | None, b: bool | None) -> bool | None:
        return False if False in (a, b) else None if None in (a, b) else True

    def invert(a: bool | None) -> bool | None:
        return None if a is None else not a

    rows = rows_of("SELECT n, a AND b AS x, a OR b AS y, NOT a AS z FROM s", data)
    assert rows == [
        (n, both(a, b), invert(both(invert(a), invert(b))), invert(a)) for n, (a, b) in enumerate(pairs)
    ]


def test_panes_are_int64_and_aligned_with_rows() -> None:
    query = Query(parse("SELECT k FROM s GROUP BY HOP(ts, '2 s', '3 s'), k"))
    prepared = query.prepare(pa.record_batch({"k": ["x", "y"], "ts": _stamps([-0.5, 7.9])}))
    assert prepared.panes["main"].dtype == np.int64
    assert prepared.panes["main"].tolist() == [-1, 7]
    assert prepared.kept == {-1: 1, 7: 1}
