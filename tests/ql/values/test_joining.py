"""Joins and functions over rows against the plainest way to compute them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import Panes, finish
from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine.relational import Relational
from elfmesh.ql.engine.whole import Query
from elfmesh.ql.values.joining import (
    canonical_order,
    completed,
    near_codes,
    of_interval,
    pair_count,
    pairs,
    row_codes,
    value_ranks,
)
from tests.ql.conftest import run_streams

KEYS = st.one_of(st.none(), st.integers(-2, 2))
DOUBLES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf]))
ROWS = st.lists(st.tuples(KEYS, DOUBLES, st.sampled_from(["a", "b", ""])), max_size=8)
KINDS = ("inner", "left", "right", "full", "semi", "anti")


def _equal(one: Any, other: Any, null_safe: bool) -> bool:
    if one is None or other is None:
        return null_safe and one is None and other is None
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other)


def _plain(kind: str, left: list[Any], right: list[Any], safe: tuple[bool, ...]) -> list[tuple[int, int]]:
    """Every pair tried, one after the other."""

    def meet(at: int, to: int) -> bool:
        return all(_equal(*both) for both in zip(left[at], right[to], safe, strict=True))

    found = [(at, to) for at in range(len(left)) for to in range(len(right)) if meet(at, to)]
    ours, theirs = {at for at, _ in found}, {to for _, to in found}
    if kind == "semi":
        return [(at, at) for at in sorted(ours)]
    lonely = [(at, -1) for at in range(len(left)) if at not in ours]
    if kind == "anti":
        return [(at, at) for at, _ in lonely]
    if kind in ("left", "full"):
        found += lonely
    if kind in ("right", "full"):
        found += [(-1, to) for to in range(len(right)) if to not in theirs]
    return found


@given(left=ROWS, right=ROWS, safe=st.tuples(st.booleans(), st.booleans(), st.booleans()))
@settings(max_examples=60, deadline=None)
def test_pairs_are_those_of_trying_all(left: list[Any], right: list[Any], safe: tuple[bool, ...]) -> None:
    types = (pa.int64(), pa.float64(), pa.string())
    together = [*left, *right]
    columns = [pa.array([row[at] for row in together], kind) for at, kind in enumerate(types)]
    codes = row_codes(columns, safe, len(together))
    ours, theirs = codes[: len(left)], codes[len(left) :]
    found = pairs(ours, theirs)
    assert pair_count(ours, theirs) == len(found[0])
    for kind in KINDS:
        places = completed(kind, found, (len(left), len(right)))
        assert sorted(zip(*(side.tolist() for side in places), strict=True)) == sorted(
            _plain(kind, left, right, safe)
        )


@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 9)), max_size=12))
@settings(max_examples=40, deadline=None)
def test_numbers_over_rows_are_those_of_counting(rows: list[tuple[int, int, int]]) -> None:
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate("pov")})
    text = (
        "SELECT p, o, v, row_number() OVER (PARTITION BY p ORDER BY o DESC) AS n, "
        "rank() OVER (PARTITION BY p ORDER BY o DESC) AS r, "
        "dense_rank() OVER (PARTITION BY p ORDER BY o DESC) AS d, "
        "sum(v) OVER (PARTITION BY p) AS s FROM t"
    )
    for result in run_streams(parse(text), {"t": table}).values():
        seen: dict[int, list[int]] = {}
        for row in result.to_pylist():
            mine = [other for other in rows if other[0] == row["p"]]
            before = [other for other in mine if other[1] > row["o"]]
            assert row["r"] == len(before) + 1
            assert row["d"] == len({other[1] for other in before}) + 1
            assert row["s"] == sum(other[2] for other in mine)
            seen.setdefault(row["p"], []).append(row["n"])
        assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in seen.values())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k",
        "SELECT a.k FROM t a CROSS JOIN t b",
        "SELECT k FROM t UNION ALL SELECT k FROM t WHERE k < 50",
    ],
)
def test_a_table_in_between_that_is_too_large_is_refused_before_it_is_made(text: str) -> None:
    statement = parse(text)
    query = Query(statement)
    batch = pa.RecordBatch.from_pydict({"k": [at % 2 for at in range(90)]})
    query._relational = Relational(statement, rows_max=100)
    panes = Panes(statement.tables, None)
    prepared = query.prepare(batch)
    panes.insert_all({n: (np.zeros(t.num_rows, np.int64), t) for n, t in prepared.tables.items()})
    reduced = panes.window(0)
    assert reduced is not None
    with pytest.raises(QueryError, match="in one interval are more than the 100 rows"):
        query.finalise(finish(reduced), None)


def test_a_record_counts_once_however_many_parts_keep_it() -> None:
    statement = parse("SELECT k FROM t WHERE k > 3 UNION ALL SELECT k FROM t WHERE k > 1 AND k < 6")
    prepared = Query(statement).prepare(pa.RecordBatch.from_pydict({"k": list(range(8))}))
    assert (prepared.kept, prepared.filtered) == ({0: 6}, {0: 2})
    assert prepared.places["main@0"] is not None
    assert prepared.places["main@0"].tolist() == [2, 3, 4, 5]


def test_a_query_for_a_value_with_several_rows_is_refused() -> None:
    statement = parse("SELECT k FROM t WHERE k = (SELECT k FROM t)")
    with pytest.raises(QueryError, match="must return one row, but it returned 2"):
        run_streams(statement, {"t": pa.table({"k": [1, 2]})})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT auction.id AS i FROM auction JOIN (SELECT auction FROM bid) b ON auction.id = b.auction",
            [7],
        ),
        (
            "SELECT auction.id AS i FROM (SELECT id FROM auction) auction"
            " JOIN (SELECT auction FROM bid) b ON auction.id = b.auction",
            [7],
        ),
        ("SELECT auction.id AS i FROM (SELECT auction, auction + 1 AS id FROM bid) auction", [8, 10]),
        (
            "SELECT auction.id AS i FROM"
            """ (SELECT from_json(concat('{"id":', auction, '}'), 'STRUCT<id: BIGINT>') AS auction"""
            " FROM bid) b",
            [7, 9],
        ),
    ],
)
def test_the_name_of_an_input_comes_before_a_column_of_that_name(text: str, wanted: list[int]) -> None:
    data = {"auction": pa.table({"id": [7, 8]}), "bid": pa.table({"auction": [7, 9]})}
    statement = parse(text)
    (result,) = run_streams(statement, {name: data[name] for name in statement.streams}).values()
    assert sorted(result["i"].to_pylist()) == wanted


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(-40, 40)), max_size=20),
    st.lists(st.tuples(st.integers(-1, 2), st.integers(-40, 40)), max_size=20),
    st.integers(1, 15),
)
def test_near_codes_meet_each_pair_within_the_width_once(
    left: list[tuple[int, int]], right: list[tuple[int, int]], width: int
) -> None:
    codes = [np.array([code for code, _ in side], np.int64) for side in (left, right)]
    times = tuple(np.array([time for _, time in side], np.int64) for side in (left, right))
    ours, theirs = near_codes(codes[0], codes[1], (times[0], times[1]), width)
    found = [
        (one, other // 3) for one, other in zip(*map(np.ndarray.tolist, pairs(ours, theirs)), strict=True)
    ]
    assert len(found) == len(set(found))
    near = [
        (at, other)
        for at, (code, time) in enumerate(left)
        for other, (their, when) in enumerate(right)
        if code == their >= 0 and abs(time - when) < width
    ]
    assert set(near) <= set(found), "the candidates contain them"
    assert all(abs(left[at][1] - right[other][1]) < 2 * width for at, other in found)


def test_a_pair_belongs_to_its_later_row_and_a_row_alone_to_the_last_time_that_could_match() -> None:
    times = np.array([1, 5, 9]), np.array([4, 12])
    found = np.array([0, 1, 2, 0, 2]), np.array([0, 0, 1, -1, -1])
    inside = [
        list(zip(*map(np.ndarray.tolist, of_interval(found, times, 3, (start, start + 5))), strict=True))
        for start in (0, 5, 10)
    ]
    assert inside == [[(0, 0), (0, -1)], [(1, 0)], [(2, 1), (2, -1)]]


@pytest.mark.parametrize(
    ("values", "ranks"),
    [
        (pa.array([3, None, -1, 3]), [1, -1, 0, 1]),
        (pa.array([0.0, math.nan, -0.0, math.inf, None]), [0, 2, 0, 1, -1]),
        (pa.array(["b", "a", None]), [1, 0, -1]),
        (pa.nulls(2), [-1, -1]),
        (pa.array([], pa.int64()), []),
    ],
)
def test_ranks_are_those_of_the_distinct_values(values: pa.Array, ranks: list[int]) -> None:
    assert value_ranks(values).tolist() == ranks


def test_the_canonical_order_is_by_the_columns_from_left_to_right() -> None:
    columns = [pa.array([1, None, 1]), pa.array([[2], [1], None])]
    assert canonical_order(columns, 3).tolist() == [2, 0, 1]
    assert canonical_order([], 2).tolist() == [0, 1]
