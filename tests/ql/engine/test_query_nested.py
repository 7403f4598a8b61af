"""Lists and structs as keys of groups, as in Spark; every form that a statement has for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt import Panes
from elfmesh.errors import QueryError
from elfmesh.ql import Query, expand, parse
from elfmesh.ql.engine.finalise_parts import finalise_parts
from elfmesh.ql.engine.partials import partial_table
from tests.ql.conftest import run

LISTS = [[1, 2], [1, 2], [3], None, [], [3, None]]
STRUCTS = [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}, {"a": 2, "b": None}, None, {"a": None, "b": None}, None]
TEXTS = ["a,b", "a,b", "c", None, "", "c"]
DATA = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "l": pa.array(LISTS, pa.list_(pa.int64())),
        "st": pa.array(STRUCTS, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "s": TEXTS,
        "days": [-800_000, -800_000, 3_000_000, 3_000_000, 0, None],
    }
)


def rows(text: str, table: pa.Table = DATA) -> list[tuple[Any, ...]]:
    (found,) = run(text, table, batch_rows=2).values()
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT l, count(*) AS n, sum(id) AS t FROM t GROUP BY l",
            [(None, 1, 4), ([], 1, 5), ([1, 2], 2, 3), ([3], 1, 3), ([3, None], 1, 6)],
        ),
        (
            "SELECT st, count(*) AS n FROM t GROUP BY st ORDER BY st DESC",
            [(STRUCTS[2], 1), (STRUCTS[0], 2), (STRUCTS[4], 1), (None, 2)],
        ),
        (
            "SELECT split(s, ',') AS k, max(id) AS m FROM t GROUP BY split(s, ',') HAVING size(k) > 0",
            [([""], 5), (["a", "b"], 2), (["c"], 6)],
        ),
        ("SELECT l[0] AS first, count(*) AS n FROM t WHERE l[0] = 3 GROUP BY l", [(3, 1), (3, 1)]),
        ("SELECT DISTINCT l FROM t WHERE id < 4", [([1, 2],), ([3],)]),
        ("SELECT DISTINCT st, size(l) AS n FROM t WHERE id < 3", [(STRUCTS[0], 2)]),
        (
            "SELECT count(DISTINCT l) AS a, count(DISTINCT st, l) AS b,"
            " count(DISTINCT split(s, ',')) AS c FROM t",
            [(4, 3, 3)],
        ),
        (
            "SELECT l, count(DISTINCT s) AS a, count(DISTINCT st) AS b, median(id) AS m FROM t GROUP BY l",
            [
                (None, 0, 0, 4.0),
                ([], 1, 1, 5.0),
                ([1, 2], 1, 1, 1.5),
                ([3], 1, 1, 3.0),
                ([3, None], 1, 0, 6.0),
            ],
        ),
        (
            "SELECT seen, count(*) AS n FROM (SELECT s, array_agg(id % 2) AS seen FROM t GROUP BY s) x"
            " GROUP BY seen",
            [([0], 1), ([0, 1], 2), ([1], 1)],
        ),
        (
            "SELECT l, s, count(*) AS n FROM t WHERE id < 4 GROUP BY ROLLUP (l, s)",
            [
                (None, None, 3),
                ([1, 2], None, 2),
                ([1, 2], "a,b", 2),
                ([3], None, 1),
                ([3], "c", 1),
            ],
        ),
        (
            "SELECT l FROM t UNION SELECT array(1, 2) AS l FROM t",
            [(None,), ([],), ([1, 2],), ([3],), ([3, None],)],
        ),
        (
            "SELECT min(l) AS a, max(l) AS b, any_value(st) AS c, count(st) AS d, max_by(l, id) AS e,"
            " array_agg(l) AS f, collect_set(l, 2) AS g FROM t",
            [([], [3, None], STRUCTS[4], 4, [3, None], [[], [1, 2], [1, 2], [3], [3, None]], [[], [1, 2]])],
        ),
        (
            "SELECT id % 2 AS a, max(struct(id, s)).s AS s, min(l) FILTER (WHERE id > 4) AS l FROM t"
            " WHERE st IS NOT NULL GROUP BY id % 2 HAVING max(l) >= array(1)",
            [(0, "a,b", None), (1, "", [])],
        ),
        ("SELECT max(l) AS m FROM (SELECT id % 2 AS k, min(l) AS l FROM t GROUP BY id % 2) x", [([1, 2],)]),
        ("SELECT max(l) OVER (ORDER BY id) AS m FROM t WHERE id > 4 ORDER BY id", [([],), ([3, None],)]),
        ("SELECT min(l) AS a, array_agg(st) AS b FROM t WHERE false", [(None, [])]),
        ("SELECT array_agg(map(s, id)) AS m FROM t WHERE id > 4", [([[("", 5)], [("c", 6)]],)]),
        ("SELECT array(0.0D, id) AS k, count(*) AS n FROM t WHERE id < 2 GROUP BY k", [([0.0, 1.0], 1)]),
        (
            "SELECT count(*) AS n FROM t GROUP BY array(date_add(DATE'1970-01-01', days)) ORDER BY n",
            [(1,), (1,), (2,), (2,)],
        ),
    ],
)  # fmt: skip
def test_lists_and_structs_are_groups(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(text) == expected


ELEMENTS = st.lists(st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 0.5])), max_size=2)


@given(st.lists(st.tuples(ELEMENTS, st.integers(0, 2)), min_size=1, max_size=12))
def test_groups_of_lists_are_those_of_their_text(given: list[tuple[list[Any], int]]) -> None:
    """A batch may have integers where another one has doubles, as the blocks of a JSON log."""
    lists = [[None if each is None else float(each) + 0.0 for each in one] for one, _ in given]
    table = pa.table({"l": pa.array(lists, pa.list_(pa.float64())), "v": [value for _, value in given]})
    wanted: dict[str, list[int]] = {}
    for one, (_, value) in zip(lists, given, strict=True):
        wanted.setdefault(str(one), []).append(value)
    found = rows("SELECT l, count(*) AS n, sum(v) AS t, count(DISTINCT v) AS d FROM t GROUP BY l", table)
    assert {str(key): (n, t, d) for key, n, t, d in found} == {
        key: (len(values), sum(values), len({*values})) for key, values in wanted.items()
    }


def test_blocks_of_distinct_lists_are_counted_one_by_one() -> None:
    """A table that does not fit into memory is finished block by block, with the same counts."""
    query = Query(expand(parse("SELECT l, count(DISTINCT st) AS d FROM t GROUP BY l"), DATA.column_names))
    given = pa.concat_tables([DATA] * 2).combine_chunks().to_batches()[0]
    reduced = query.reduced("t", query.prepare(given).records)
    whole = finalise_parts(query.finaliser, reduced, None)
    assert whole == finalise_parts(query.finaliser, reduced, None, part_rows_min=0)
    assert whole.column("d").to_pylist() == [0, 1, 1, 1, 0]


def test_a_type_that_is_too_deep_for_a_key_is_refused_at_its_place() -> None:
    deep = "l"
    for _ in range(18):
        deep = f"array({deep})"
    with pytest.raises(QueryError, match="nested more than 16 deep") as found:
        rows(f"SELECT count(DISTINCT {deep}) AS n FROM t")
    assert found.value.column == 23


RECORDS = pa.table(
    {
        "ts": pa.array([7_000_000 * at for at in range(40)], pa.timestamp("us", "UTC")),
        "s": ["ab,c" if at % 3 else "d" for at in range(40)],
        "v": list(range(40)),
        "e": [at % 10 == 9 for at in range(40)],
    }
)


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(ts, INTERVAL '1' MINUTE), K",
        "HOP(ts, INTERVAL '10' SECOND, INTERVAL '2' MINUTE), K",
        "SESSION(ts, INTERVAL '10' SECOND), K",
        "ROWS(5, 2), K",
        "SEALED(K WHEN e PRODUCERS ONE AFTER '1 h'), v % 2",
    ],
)
def test_groups_of_lists_span_intervals_as_those_of_their_text(window: str) -> None:
    """The states of open groups are kept and joined by the same keys."""
    job = "CREATE JOB a.b EVERY '1 min' AS " if window.startswith("SEALED") else ""
    found, expected = (
        run(
            f"{job}SELECT {key} AS k, count(*) AS n, sum(v) AS t, count(DISTINCT {key}, v % 3) AS d FROM t"
            f" GROUP BY {window.replace('K', key)}",
            RECORDS,
        )
        for key in ("split(s, ',')", "s")
    )
    assert len(expected) >= (1 if "ROWS" in window else 2)
    assert found.keys() == expected.keys()
    for index, table in expected.items():
        shown = [row | {"k": ",".join(row["k"])} for row in found[index].to_pylist()]
        assert sorted(shown, key=str) == sorted(table.to_pylist(), key=str)


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(ts, INTERVAL '1' MINUTE)",
        "HOP(ts, INTERVAL '10' SECOND, INTERVAL '2' MINUTE)",
        "SESSION(ts, INTERVAL '10' SECOND)",
        "ROWS(5, 2)",
    ],
)
def test_states_of_lists_span_intervals_as_those_of_their_text(window: str) -> None:
    found, expected = (
        run(
            f"SELECT min({value}) AS a, max({value}) AS b, last({value}) AS c, array_agg({value}, 3) AS d,"
            f" count({value}) AS e FROM t GROUP BY {window}",
            RECORDS,
        )
        for value in ("split(s, ',')", "s")
    )
    assert found.keys() == expected.keys()
    for index, table in expected.items():
        assert found[index].to_pylist() == [
            {name: _split(value) for name, value in row.items()} for row in table.to_pylist()
        ]


def _split(value: Any) -> Any:
    if isinstance(value, list):
        return [_split(each) for each in value]
    return value.split(",") if isinstance(value, str) else value


def test_partial_aggregates_of_lists_have_the_lists() -> None:
    text = "SELECT l, count(*) AS n, count(DISTINCT st) AS d, max(st) AS m FROM t GROUP BY l"
    query = Query(expand(parse(text), DATA.column_names))
    panes = Panes(query.statement.tables, None)
    for name, batch in query.prepare(DATA.combine_chunks().to_batches()[0]).tables.items():
        panes.insert(name, np.zeros(batch.num_rows, np.int64), batch)
    window = panes.window(0)
    assert window is not None
    table = partial_table(query.statement, window).select(["l", "n", "m"])
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (None, 1, None), ([], 1, STRUCTS[4]), ([1, 2], 2, STRUCTS[0]), ([3], 1, STRUCTS[2]),
        ([3, None], 1, None),
    ]  # fmt: skip
