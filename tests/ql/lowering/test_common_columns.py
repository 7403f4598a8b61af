"""USING and NATURAL JOIN: one column for both sides, its value by the kind of the join."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.ql import expand, parse
from tests.ql.conftest import run_streams
from tests.ql.refusals import refusing

A = pa.table({"k": [1, 2, 3], "n": [1, None, 3], "v": ["x", "y", "z"]})
B = pa.table({"k": [1, 2, 4], "w": [10, 20, 40]})
X, Y = "(SELECT k, n, v FROM a) x", "(SELECT w, k FROM b) y"

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (f"SELECT k FROM {X} JOIN {Y} USING (n)", 1, 0, "y has no column n", "Write x.n"),
    (f"SELECT k FROM {X} JOIN {Y} USING (z)", 1, 0, "x has no column z", ""),
    ("SELECT k FROM a JOIN b USING (k) JOIN c ON c.z = a.z", 1, 8, "several inputs", "a.k or b.k or c.k"),
)  # fmt: skip


def rows(text: str) -> list[tuple[object, ...]]:
    statement = parse(text)
    for stream, table in (("a", A), ("b", B)):
        statement = expand(statement, table.column_names, stream) if statement.star else statement
    (table,) = run_streams(statement, {"a": A, "b": B}).values()
    return [tuple(table.column_names), *(tuple(row.values()) for row in table.to_pylist())]


FIRST, SECOND = (1, 1, "x", 10), (2, None, "y", 20)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", [FIRST, SECOND]),
        ("LEFT", [FIRST, SECOND, (3, 3, "z", None)]),
        ("RIGHT", [FIRST, SECOND, (4, None, None, 40)]),
        ("FULL", [FIRST, SECOND, (3, 3, "z", None), (4, None, None, 40)]),
    ],
)
@pytest.mark.parametrize("join", [f"{X} {{}} JOIN {Y} USING (k)", f"{X} NATURAL {{}} JOIN {Y}",
                                  "a {} JOIN b USING (k)", "a NATURAL {} JOIN b"])  # fmt: skip
def test_the_common_column_is_first_and_has_the_value_of_the_side_that_is_kept(
    kind: str, expected: list[tuple[object, ...]], join: str
) -> None:
    assert rows(f"SELECT * FROM {join.format(kind)} ORDER BY k") == [("k", "n", "v", "w"), *expected]


@pytest.mark.parametrize(("kind", "expected"), [("SEMI", [1, 2]), ("ANTI", [3])])
def test_a_semi_join_keeps_the_columns_of_its_left_side(kind: str, expected: list[int]) -> None:
    head, *found = rows(f"SELECT * FROM {X} LEFT {kind} JOIN {Y} USING (k) ORDER BY k")
    assert (head, [row[0] for row in found]) == (("k", "n", "v"), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT k, x.k AS a, y.k AS b FROM {x} FULL JOIN {y} USING (k) WHERE k > 2 ORDER BY k",
         [("k", "a", "b"), (3, 3, None), (4, None, 4)]),
        ("SELECT K, count(*) AS c FROM {x} FULL JOIN {y} USING (k) GROUP BY k HAVING k > 3",
         [("K", "c"), (4, 1)]),
        ("SELECT k, z.w FROM a JOIN b USING (k) JOIN b z USING (k) WHERE k = 2", [("k", "w"), (2, 20)]),
        ("SELECT * FROM {x} NATURAL JOIN (SELECT w FROM b WHERE w = 40) y WHERE v = 'z'",
         [("k", "n", "v", "w"), (3, 3, "z", 40)]),
        ("SELECT k AS n, max(v) AS k FROM {x} NATURAL JOIN {y} GROUP BY k ORDER BY k DESC LIMIT 1",
         [("n", "k"), (2, "y")]),
    ],
)  # fmt: skip
def test_the_name_means_the_common_column(text: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(text.format(x=X, y=Y)) == expected
