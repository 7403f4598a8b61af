"""The order of a result: no more columns are compared than decide, no more rows put in order than LIMIT."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql.engine.finalise import Finaliser
from tests.ql.conftest import run

KEYS = st.tuples(
    st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "ä"])),
    st.one_of(st.none(), st.sampled_from([float("-inf"), -1.0, 0.0, 1.5, float("nan")])),
)


def _sql(outputs: str, order: str, limit: int | None) -> str:
    text = f"SELECT {outputs} FROM log GROUP BY k, j"
    text += f" ORDER BY {order}" if order else ""
    return text if limit is None else f"{text} LIMIT {limit}"


@given(
    outputs=st.permutations(["k", "j", "count(*) AS n", "SUM(v) AS s"]),
    width=st.integers(1, 4),
    order=st.sampled_from(["", "count(*) DESC", "SUM(v), k DESC NULLS LAST", "j, k", "j DESC"]),
    limit=st.one_of(st.none(), st.integers(0, 12)),
    groups=st.lists(st.tuples(KEYS, st.integers(1, 2), st.integers(-1, 1)), max_size=20, unique_by=repr),
)
def test_the_rows_are_those_of_a_sort_by_all_columns(
    outputs: list[str],
    width: int,
    order: str,
    limit: int | None,
    groups: list[tuple[tuple[str | None, float | None], int, int]],
) -> None:
    distinct = {repr(keys): (keys, n, s) for keys, n, s in groups}.values()
    statement = ql.parse(_sql(", ".join(outputs[:width]), order, limit))
    aggregates = statement.tables[0].aggregates
    columns = {
        "k0": pa.array([keys[0] for keys, _, _ in distinct], pa.string()),
        "k1": pa.array([keys[1] for keys, _, _ in distinct], pa.float64()),
    }
    for name, (kind, _) in aggregates.items():
        columns[name] = pa.array([n if kind == "count" else s for _, n, s in distinct], pa.int64())
    table = pa.table(columns)

    finaliser, thorough = (
        Finaliser(statement),
        Finaliser(ql.parse(_sql(", ".join(outputs[:width]), order, None))),
    )
    thorough._ties = len(thorough.statement.plan.outputs)
    rows = [repr(row) for row in thorough.finalise({"main": table}, None).to_pylist()]
    found = [repr(row) for row in finaliser.finalise({"main": table}, None).to_pylist()]
    assert found == (rows if limit is None else rows[:limit])


@pytest.mark.parametrize(
    ("text", "compared"),
    [
        ("SELECT k, j, count(*) AS n FROM log GROUP BY k, j", 2),
        ("SELECT k, count(*) AS n, j FROM log GROUP BY k, j", 3),
        ("SELECT k, count(*) AS n FROM log GROUP BY k, j", 2),
        ("SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY n DESC, k", 0),
        ("SELECT upper(k) AS u, count(*) AS n FROM log GROUP BY k", 2),
        ("SELECT count(*) AS n FROM log", 0),
    ],
)
def test_outputs_are_compared_until_all_keys_were(text: str, compared: int) -> None:
    assert Finaliser(ql.parse(text))._ties == compared


LISTS = pa.table({"k": ["a", "a", "b", "b", "c", "d"], "v": [10, 9, 9, 10, 10, -3]})
INNER = "(SELECT k, collect_list(v) AS l FROM t GROUP BY k)"


def test_lists_are_ordered_by_their_elements_and_not_by_their_text() -> None:
    (rows,) = run("SELECT k, collect_list(v) AS l FROM t GROUP BY k ORDER BY l DESC", LISTS).values()
    assert rows.column("l").to_pylist() == [[10], [9, 10], [9, 10], [-3]]
    assert rows.column("k").to_pylist() == ["c", "a", "b", "d"]


def test_lists_are_keys_of_joins_and_partitions() -> None:
    text = f"SELECT x.k AS a, y.k AS b FROM {INNER} x JOIN {INNER} y ON x.l = y.l WHERE x.k < y.k"
    (rows,) = run(text, LISTS).values()
    assert rows.to_pylist() == [{"a": "a", "b": "b"}]
    text = f"SELECT k, row_number() OVER (PARTITION BY l ORDER BY k) AS n FROM {INNER} x ORDER BY k"
    (rows,) = run(text, LISTS).values()
    assert rows.column("n").to_pylist() == [1, 2, 1, 1]


@pytest.mark.parametrize("order", ["map('a', n)", "array(map('a', n))"])
def test_a_map_has_no_order(order: str) -> None:
    with pytest.raises(QueryError, match=r"ORDER BY does not work on .*MAP<STRING,BIGINT>") as found:
        run(f"SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY {order.replace('n', 'count(*)')}", LISTS)
    assert "map_entries(m)" in found.value.hint


@pytest.mark.parametrize(
    ("function", "clause"),
    [
        ("row_number() OVER (ORDER BY m)", "ORDER BY"),
        ("lag(k) OVER (ORDER BY k, array(m))", "ORDER BY"),
        ("count(*) OVER (ORDER BY m)", "ORDER BY"),
        ("rank() OVER (PARTITION BY m ORDER BY k)", "PARTITION BY"),
    ],
)
def test_a_map_orders_and_divides_no_rows_of_over(function: str, clause: str) -> None:
    inner = INNER.replace("collect_list(v) AS l", "map('a', count(*)) AS m")
    with pytest.raises(QueryError, match=rf"{clause} does not work on .*MAP<STRING,BIGINT>"):
        run(f"SELECT k, {function} AS n FROM {inner} x", LISTS)


def test_a_map_is_no_key_of_a_join() -> None:
    inner = INNER.replace("collect_list(v)", "map('a', count(*))")
    with pytest.raises(QueryError, match="cannot be compared"):
        run(f"SELECT x.k AS a FROM {inner} x JOIN {inner} y ON x.l = y.l", LISTS)
