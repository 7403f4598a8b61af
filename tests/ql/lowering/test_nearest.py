"""ASOF JOIN: each left row with the nearest right row, compared with a loop and with DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.api.explain import explain
from elfmesh.control.coordination.relations import relation_steps
from elfmesh.ql import parse
from tests.ql.conftest import run_streams
from tests.ql.refusals import refusing

ON = "a.k = b.k AND a.at >= b.at"
KEYS = st.sampled_from(["x", "y", None])
SIDE = st.lists(st.tuples(KEYS, st.none() | st.integers(-3, 3), st.integers(0, 2)), max_size=12)
NEAREST = {
    ">=": lambda at, other: at >= other,
    ">": lambda at, other: at > other,
    "<=": lambda at, other: at <= other,
    "<": lambda at, other: at < other,
}


def sides(left: list[Any], right: list[Any], kind: pa.DataType) -> dict[str, pa.Table]:
    def table(rows: list[Any], value: str) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
        types = (pa.string(), kind, pa.int64())
        arrays = [pa.array(each, one) for each, one in zip(columns, types, strict=True)]
        return pa.Table.from_arrays(arrays, names=["k", "at", value])

    return {"a": table(left, "v"), "b": table(right, "p")}


def joined(text: str, data: dict[str, pa.Table], batch_rows: int = 7) -> list[tuple[Any, ...]]:
    (found,) = run_streams(parse(text), data, batch_rows=batch_rows).values()
    return [tuple(row.values()) for row in found.to_pylist()]


def by_loop(left: list[Any], right: list[Any], compare: str, *, outer: bool) -> list[tuple[Any, ...]]:
    rows = []
    for key, at, value in left:
        fits = [
            (other, price) for its, other, price in right
            if key is not None and its == key and at is not None and other is not None
            and NEAREST[compare](at, other)
        ]  # fmt: skip
        best = min(fits, key=lambda each: (each[0] if "<" in compare else -each[0], each[1]), default=None)
        if best is not None or outer:
            rows.append((key, at, value, *(best or (None, None))))
    return rows


def reversed_rows(table: pa.Table) -> pa.Table:
    return table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(each is not None, each) for each in row])


@pytest.mark.parametrize("compare", NEAREST)
@pytest.mark.parametrize("kind", ["", "LEFT "])
@given(left=SIDE, right=SIDE, double=st.booleans())
@settings(max_examples=6, deadline=None)
def test_rows_are_those_of_a_loop_in_every_split(
    compare: str, kind: str, left: list[Any], right: list[Any], double: bool
) -> None:
    data = sides(left, right, pa.float64() if double else pa.int64())
    columns, on = "a.k, a.at, a.v, b.at AS near, b.p", f"a.k = b.k AND a.at {compare} b.at"
    text = f"SELECT {columns} FROM a ASOF {kind}JOIN b ON {on}"
    expected = in_order(by_loop(left, right, compare, outer=bool(kind)))
    assert in_order(joined(text, data)) == expected
    turned = {name: reversed_rows(table) for name, table in data.items()}
    assert in_order(joined(text, turned, batch_rows=1)) == expected


@given(left=SIDE, right=SIDE)
@settings(max_examples=6, deadline=None)
def test_rows_are_those_of_duckdb(left: list[Any], right: list[Any]) -> None:
    duckdb = pytest.importorskip("duckdb")
    only = {(key, at): price for key, at, price in right}  # DuckDB takes any of several nearest rows
    data = sides(left, [(*where, price) for where, price in only.items()], pa.int64())
    text = f"SELECT a.k, a.at, a.v, b.at AS near, b.p FROM a ASOF LEFT JOIN b ON {ON}"
    connection = duckdb.connect()
    for name, table in data.items():
        connection.register(name, table)
    assert in_order(joined(text, data)) == in_order(connection.execute(text).fetchall())


A = [("x", 10, 1), ("x", 20, 2), ("y", 15, 3)]
B = [("x", 9, 1), ("x", 15, 3), ("x", 15, 2), ("y", 30, 9)]


def test_a_condition_of_where_filters_the_joined_rows() -> None:
    text = f"SELECT a.v, b.p FROM a ASOF JOIN b ON {ON} WHERE b.p > 1"
    assert joined(text, sides(A, B, pa.int64())) == [(2, 2)]
    text = f"SELECT a.v, b.p FROM a ASOF JOIN b ON {ON} WHERE b.p > 2"
    assert joined(text, sides(A, B, pa.int64())) == []
    text = "SELECT a.v, b.p FROM a ASOF JOIN (SELECT k, at, p FROM b WHERE p > 2) b ON " + ON
    assert joined(text, sides(A, B, pa.int64())) == [(2, 3)]


def test_the_right_side_may_be_a_query_and_the_comparison_may_be_turned() -> None:
    text = """SELECT a.v, q.m FROM a ASOF JOIN (SELECT k, at, max(p) AS m FROM b GROUP BY k, at) q
              ON q.k = a.k AND q.at <= a.at ORDER BY a.v"""
    assert joined(text, sides(A, B, pa.int64())) == [(1, 1), (2, 3)]


def test_rows_of_other_windows_are_no_partners() -> None:
    data = {
        "a": pa.table({"ts": [11_000_000, 3_000_000], "v": [1, 2]}).cast(
            pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
        ),
        "b": pa.table({"ts": [9_000_000, 2_000_000], "p": [5, 6]}).cast(
            pa.schema([("ts", pa.timestamp("us", "UTC")), ("p", pa.int64())])
        ),
    }
    text = """SELECT a.v, max(b.p) AS p FROM a ASOF JOIN b ON a.ts >= b.ts
              GROUP BY TUMBLE(a.ts, INTERVAL '10' SECOND), a.v"""
    found = run_streams(parse(text), data)
    assert {index: table.to_pylist() for index, table in found.items() if table.num_rows} == {
        0: [{"v": 2, "p": 6}]
    }


def test_the_plan_and_the_label_name_the_join() -> None:
    statement = parse(f"SELECT a.v, b.p FROM a ASOF JOIN b ON {ON}")
    assert "asof inner join on a.k = b.k, the nearest row with a.at >= b.at" in str(explain(statement))
    steps = [step for step in relation_steps(statement.relation) if "ASOF" in step.why]
    assert steps
    assert all(step.gate == frozenset(("a.k", "interval")) for step in steps)


test_a_wrong_join_is_refused_where_it_is_wrong = refusing(
    (f"SELECT a.v FROM a ASOF RIGHT JOIN b ON {ON}", 1, 0, "ASOF takes JOIN or LEFT JOIN", "a.ts >= b.ts"),
    ("SELECT a.v FROM a ASOF JOIN b USING (k, at)", 1, 0, "and ON", "a.ts >= b.ts"),
    ("SELECT a.v FROM a ASOF JOIN b ON a.k = b.k", 1, 0, "has no comparison of both sides", "a.ts >= b.ts"),
    (f"SELECT a.v FROM a ASOF JOIN b ON {ON} AND b.p > 1", 1, 0, "no other condition", "Filter in WHERE"),
    (f"SELECT a.v FROM a ASOF JOIN b ON {ON} AND a.v < b.p", 1, 0, "several comparisons", ""),
    (
        f"SELECT a.v FROM a ASOF JOIN b ON {ON} WITHIN INTERVAL '5' SECOND",
        1,
        0,
        "has no WITHIN",
        "one window",
    ),
    (f"SELECT a.v FROM a ASOF JOIN lookup.b b ON {ON}", 1, 0, "a lookup table has no ASOF JOIN", "no order"),
)
