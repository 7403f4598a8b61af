"""Structs that are made of values: the names of their fields, as elements, keys and text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.conftest import run
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusal

COLUMNS: dict[str, Any] = {"a": [1, None], "b": ["x", None], "user.id": [7, None]}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("struct(a, b)", [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
        ("struct(a, a + 1, a + 2 AS c, 'q')", [
            {"a": 1, "col2": 2, "c": 3, "col4": "q"}, {"a": None, "col2": None, "c": None, "col4": "q"},
        ]),
        ("struct(t.a, user.id)", [{"a": 1, "id": 7}, {"a": None, "id": None}]),
        ("named_struct('p', a, 'q q', struct(b))", [
            {"p": 1, "q q": {"b": "x"}}, {"p": None, "q q": {"b": None}},
        ]),
        ("named_struct('p', a, 'q', b).q", ["x", None]),
        ("struct(a, b) IS NULL", [False, False]),
        ("struct(a, NULL) = struct(1 AS a, 2)", [False, False]),
        ("struct(a) = struct(2 - a)", [True, True]),
        ("struct(array(struct(a, 'z' AS z))) = struct(array(struct(1, 'z')))", [True, False]),
        ("struct(a, b) IN (struct(1, 'x'), struct(2, 'y'))", [True, False]),
        ("struct(a AS p) <=> named_struct('p', 1)", [True, False]),
        ("transform(array(a, 5), e -> struct(e, e * 2 AS twice).twice)", [[2, 10], [None, 10]]),
        ("array(struct(a AS p), struct(1.5 AS p))", [[{"p": 1.0}, {"p": 1.5}], [{"p": None}, {"p": 1.5}]]),
        ("CASE WHEN a = 1 THEN struct(a, NULL AS n) ELSE named_struct('a', 2.5, 'n', 'y') END", [
            {"a": 1.0, "n": None}, {"a": 2.5, "n": "y"},
        ]),
        ("coalesce(IF(a = 1, map('k', a), NULL), map('k', 0.5))['k']", [1.0, 0.5]),
        ("map_from_entries(array(struct('k', a)))['k']", [1, None]),
        ("typeof(struct(a, b AS c, array(map('k', a)) AS l))", [
            "struct<a:bigint,c:string,l:array<map<string,bigint>>>"] * 2),
        ("to_json(struct(a, b))", ['{"a":1,"b":"x"}', "{}"]),
        ("CAST(struct(a, b, array(a, NULL)) AS STRING)", ["{1, x, [1, null]}", "{null, null, [null, null]}"]),
        ("array_repeat(struct(a, b), 2)[1].b", ["x", None]),
    ],
)  # fmt: skip
def test_a_struct_is_the_one_of_spark(expression: str, expected: list[Any]) -> None:
    assert values(expression, **COLUMNS) == expected


def test_structs_are_keys_of_groups_and_their_fields_are_selected() -> None:
    text = "SELECT struct(a % 2 AS odd, b) AS k, count(*) AS n FROM t GROUP BY k ORDER BY k"
    data = {"a": [1, 2, 3, 4, None], "b": ["x", "x", "x", None, "x"]}
    (table,) = run(text, data).values()
    assert table.to_pylist() == [
        {"k": {"odd": None, "b": "x"}, "n": 1},
        {"k": {"odd": 0, "b": None}, "n": 1},
        {"k": {"odd": 0, "b": "x"}, "n": 1},
        {"k": {"odd": 1, "b": "x"}, "n": 2},
    ]
    (table,) = run(
        f"SELECT k.odd AS odd, sum(n) AS n FROM ({text}) q GROUP BY k.odd ORDER BY odd", data
    ).values()
    assert table.to_pylist() == [{"odd": None, "n": 1}, {"odd": 0, "n": 2}, {"odd": 1, "n": 2}]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("ORDER BY k.odd DESC", [1, 0]),
        ("ORDER BY k.inner.name", [1, 0]),
        ("HAVING k.odd = 0", [0]),
        ("HAVING K.inner.name < 'b' ORDER BY k.odd", [1]),
    ],
)
def test_having_and_order_by_read_the_fields_of_a_struct_by_its_alias(tail: str, expected: list[int]) -> None:
    item = "struct(a % 2 AS odd, named_struct('name', b) AS inner) AS k"
    data = {"a": [1, 2, 3], "b": ["a", "b", "a"], "k.odd": [9, 9, 9], "z": [1, 1, 1]}
    (table,) = run(f"SELECT {item}, count(*) AS n FROM t GROUP BY k {tail}", data).values()
    assert [row["k"]["odd"] for row in table.to_pylist()] == expected
    assert refusal(f"SELECT {item}, count(*) FROM t GROUP BY k ORDER BY k.z", **data).startswith(
        "107: k.z must"
    )


def test_the_column_of_a_struct_has_the_name_of_its_call() -> None:
    (table,) = run("SELECT struct(a, b), named_struct('p', a) FROM t", COLUMNS).values()
    assert table.column_names == ["struct(a, b)", "named_struct(p, a)"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("struct(a, a)", "8: two fields of struct have the name a | Write struct(x AS p, y AS q)."),
        ("named_struct('p', a, 'p', b)", "8: two fields of named_struct have the name p"),
        ("named_struct('p', a, 'q')", "8: named_struct takes alternating names and values"),
        ("named_struct(1, a)", "21: the name of a field is a STRING, not BIGINT"),
        ("named_struct(b, a)", "21: the name of a field of named_struct must be a constant"),
        ("named_struct(CAST(NULL AS STRING), a)", "8: the name of a field is null"),
        ("struct()", "8: struct does not take 0 arguments"),
        ("struct(*)", "15: * needs the columns of t"),
        ("struct(a, INTERVAL 1 DAY)", "8: struct does not take an INTERVAL"),
        ("struct(a, CAST(a AS FLOAT))", "8: struct does not take a FLOAT"),
        ("array(struct(a), struct(b))", "25: ARRAY mixes STRUCT<a: BIGINT> and STRUCT<b: STRING>"),
        ("struct(a) = struct(b)", "8: `=` cannot compare STRUCT<a: BIGINT> with STRUCT<b: STRING>"),
        ("struct(a).c", "8: STRUCT<a: BIGINT> has no field c"),
        ("upper(a AS c)", "14: ELF-QL does not have `a AS c`"),
    ],
)
def test_what_is_no_struct_is_refused_where_it_stands(item: str, expected: str) -> None:
    assert refusal(f"SELECT {item} FROM t", **COLUMNS).startswith(expected)
