"""Functions that take lambda functions: Spark's values, nulls and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql.values.growth import STEPS_MAX, TooLarge
from tests.ql.conftest import run
from tests.ql.functions.evaluating import values

NULL = "cast(null AS bigint)"
DOWN = "(l, r) -> CASE WHEN l > r THEN -1 WHEN l < r THEN 1 ELSE 0 END"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("transform(array(1, 2), x -> x + 1)", [2, 3]),
        ("transform(array(1, 2), (x, i) -> x * i)", [0, 2]),
        (f"transform(array(1, {NULL}), x -> x IS NULL)", [False, True]),
        ("transform(array(1, 2), x -> 'a')", ["a", "a"]),
        ("transform(array(1, 2), 42)", [42, 42]),
        ("reduce(array(1, 2), 0, 100)", 100),
        ("array_sort(array(3, 1, 2), 1)", [3, 1, 2]),
        ("transform(array(1, 2), x -> -x)", [-1, -2]),
        ("transform(array(), x -> x)", []),
        ("transform(array(array(1, 2), array(3)), x -> transform(x, x -> x + 1))", [[2, 3], [4]]),
        ("transform(array(1, 2), x -> transform(array(10, 20), y -> x + y))", [[11, 21], [12, 22]]),
        ("transform('[{\"a\": 1}, {\"b\": 2}]', x -> x.a)", ["1", None]),
        ("transform(from_json('[{\"a\": 1}]', 'ARRAY<STRUCT<a: BIGINT>>'), x -> x.a + 1)", [2]),
        (f"filter(array(1, {NULL}, 3), x -> x > 1)", [3]),
        ("filter(array(5, 6, 7), (x, i) -> i <> 1)", [5, 7]),
        ("exists(array(1, 2), x -> x > 1)", True),
        (f"exists(array(1, {NULL}), x -> x > 1)", None),
        (f"exists(array(2, {NULL}), x -> x > 1)", True),
        ("exists(array(), x -> x)", False),
        (f"forall(array(2, {NULL}), x -> x > 1)", None),
        (f"forall(array(1, {NULL}), x -> x > 1)", False),
        ("forall(array(), x -> x)", True),
        ("reduce(array(1, 2, 3), 0, (acc, x) -> acc + x)", 6),
        ("aggregate(array(1, 2), 10, (acc, x) -> acc - x, acc -> concat('=', acc))", "=7"),
        ("reduce(array(), 5, (acc, x) -> 1)", 5),
        ("reduce(array(1.5, 2), 0, (acc, x) -> acc + x)", 3.5),
        (f"reduce(array(1, {NULL}), 0, (acc, x) -> acc + x)", None),
        ("reduce(array(1, 2), 0, (acc, x) -> null)", None),
        ("reduce(array('a', 'b'), array(), (acc, x) -> array_append(acc, x))", ["a", "b"]),
        ("zip_with(array(1, 2), array('a'), (x, y) -> concat(x, coalesce(y, '-')))", ["1a", "2-"]),
        ("map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1 OR k = 'c')", [("b", 2)]),
        ("transform_keys(map('a', 1), (k, v) -> concat(k, v))", [("a1", 1)]),
        ("transform_keys(map('a', 1, 'b', 1), (k, v) -> v)", None),
        (f"transform_keys(map('a', 1), (k, v) -> {NULL})", None),
        ("transform_values(map('a', 1, 'b', 2), (k, v) -> concat(k, v))", [("a", "a1"), ("b", "b2")]),
        (
            "map_zip_with(map('a', 1, 'b', 2), map('b', 5, 'c', 6), (k, x, y) -> concat_ws('', k, x, y))",
            [("a", "a1"), ("b", "b25"), ("c", "c6")],
        ),
        (f"array_sort(array(3, {NULL}, 1))", [1, 3, None]),
        ("array_sort(array('NaN', 1.5D, -1D))", ["-1.0", "1.5", "NaN"]),
        (f"array_sort(array(3, 1, 2, 5, 4), {DOWN})", [5, 4, 3, 2, 1]),
        ("array_sort(array('cc', 'bb', 'a'), (l, r) -> length(l) - length(r))", ["a", "cc", "bb"]),
        (f"array_sort(array(1, 2), (l, r) -> {NULL})", None),
        (f"array_sort(array(1), (l, r) -> {NULL})", [1]),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


ROWS: dict[str, list[Any]] = {"s": ["a,b", None, "", "c"], "n": [1, 2, None, 4]}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("transform(split(s, ','), x -> concat(x, n))", [["a1", "b1"], None, [None], ["c4"]]),
        ("filter(split(s, ','), x -> x <> 'b' AND n > 0)", [["a"], None, [], ["c"]]),
        ("exists(split(s, ','), x -> n = 4)", [False, None, None, True]),
        ("forall(split(s, ','), x -> n = 4)", [False, None, None, True]),
        ("reduce(split(s, ','), n, (acc, x) -> acc * 10 + n)", [111, None, None, 44]),
        ("reduce(split(s, ','), '', (acc, x) -> concat(x, acc), a -> a || n)", ["ba1", None, None, "c4"]),
        ("zip_with(split(s, ','), array(n), (x, y) -> concat(x, y))", [["a1", None], None, [None], ["c4"]]),
        ("array_sort(split(s, ','), (l, r) -> if(l > r, -n, n))", [["b", "a"], None, [""], ["c"]]),
        ("element_at(transform_values(map('k', n), (k, v) -> v + n), 'k')", [2, 4, None, 8]),
        ("transform(array(1, 2), x -> reduce(array(x, n), 0, (acc, y) -> acc + y + x))", [
            [4, 7], [5, 8], [None, None], [7, 10],
        ]),
    ],
)  # fmt: skip
def test_fields_outside_of_the_lambda_are_those_of_its_row(expression: str, expected: list[Any]) -> None:
    assert values(expression, **ROWS) == expected


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("filter(array(1), x -> x)", "a condition must be BOOLEAN, not BIGINT", "x <> 0"),
        ("transform(1, x -> x)", "transform takes a list, not BIGINT", "Lists come from"),
        ("transform(array(1), x -> upper(x.a))", "BIGINT has no field a", "one of its fields"),
        ("transform(array(1), x -> CAST(x AS FLOAT))", "a FLOAT is a step", "DOUBLE"),
        ("reduce(array(1.5), true, (acc, x) -> x)", "the start of reduce is BOOLEAN", "AS DOUBLE"),
        ("array_sort(array(1), (l, r) -> l > r)", "a comparator returns a number", "CASE WHEN"),
        ("array_sort(array(array(1)))", "cannot compare ARRAY<BIGINT>", "comparator"),
        ("transform_keys(map('a', 1), (k, v) -> array(k))", "ARRAY<STRING> cannot be the key", "plain"),
        ("map_zip_with(map('a', 1), map(1, 1), (k, x, y) -> x)", "keys of STRING and BIGINT", "transform_k"),
    ],
)  # fmt: skip
def test_types_that_spark_refuses_are_refused_in_the_body(expression: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        values(expression)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.line == 1


def test_a_body_runs_once_for_all_rows_and_a_field_once_for_each_row() -> None:
    expression = "transform(from_json(xs, 'ARRAY<BIGINT>'), x -> x + length(repeat(s, 3)))"
    found = values(expression, xs=["[1, 2, 3]", "[4]", "[]", None, "[5, 6]"], s=["a", "bb", "c", "d", None])
    assert found == [[4, 5, 6], [10], [], None, [None, None]]


@given(st.lists(st.none() | st.lists(st.text("abc", max_size=5), max_size=70), max_size=12))
def test_a_comparator_sorts_stably_as_python_does(lists: list[list[str] | None]) -> None:
    expected = [None if each is None else sorted(each, key=len) for each in lists]
    texts = [None if each is None else json.dumps(each) for each in [*lists, []]]
    sort = "array_sort(from_json(xs, 'ARRAY<STRING>'), (l, r) -> length(l) - length(r))"
    assert values(sort, xs=texts) == [*expected, []]


def test_a_long_list_and_a_short_one_are_sorted_together() -> None:
    xs = [list(range(9_000, 0, -1)), [3, 1, 2]]
    sort = "array_sort(from_json(xs, 'ARRAY<BIGINT>'), (l, r) -> l - r)"
    assert values(sort, xs=list(map(json.dumps, xs))) == [sorted(each) for each in xs]


def test_a_list_of_more_steps_than_allowed_is_too_large() -> None:
    with pytest.raises(TooLarge):
        values("reduce(xs, 0, (acc, x) -> acc + x)", xs=[[1] * (STEPS_MAX + 1)])


def test_a_field_that_is_repeated_beyond_the_limit_is_too_large() -> None:
    with pytest.raises(TooLarge):
        values("size(transform(xs, x -> reverse(s)))", xs=[[1] * 2_000], s=["x" * 1_000_000])
    with pytest.raises(TooLarge):
        values("exists(xs, x -> exists(xs, y -> x + y = -1))", xs=[list(range(20_000))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a, transform(array_agg(b), x -> x + max(b)) y FROM s GROUP BY a ORDER BY 1", [[3, 4], [6]]),
        ("SELECT a, filter(array_agg(b), x -> x > 1) AS y FROM s GROUP BY a ORDER BY a", [[2], [3]]),
        ("SELECT reduce(array(b, 1), 0, (p, x) -> p + x) AS y FROM s GROUP BY 1 ORDER BY 1", [2, 3, 4]),
        ("SELECT a AS y FROM s GROUP BY a HAVING exists(array_agg(b), x -> x = 3)", ["y"]),
        (
            "SELECT a, reduce(array_agg(b), array(), (p, x) -> array_append(p, x)) AS y FROM s GROUP BY a"
            " ORDER BY a", [[1, 2], [3]],
        ),
        ("SELECT transform(array(b), x -> x + sum(b) OVER ()) AS y FROM s ORDER BY b", [[7], [8], [9]]),
        (
            "SELECT transform(array(b, sum(b) OVER ()), x -> x * b) AS y FROM s ORDER BY b",
            [[1, 6], [4, 12], [9, 18]],
        ),
        (
            "SELECT grouping(a) AS g, transform(array(sum(b)), x -> x + grouping(a)) AS y FROM s"
            " GROUP BY ROLLUP(a) ORDER BY 1, y[0]", [[3], [3], [7]],
        ),
        ("SELECT e AS y FROM s LATERAL VIEW explode(transform(array(b), x -> x + b)) t AS e", [2, 4, 6]),
        ("SELECT y FROM (SELECT b, transform(array(b), x -> x + 1) y FROM s) t ORDER BY b", [[2], [3], [4]]),
        ("SELECT b y FROM s WHERE exists(array(b), x -> x = 3) AND NOT exists(array(a), e -> e = 'x')", [3]),
        ("SELECT b AS c, transform(array(1), c -> c + b) AS y FROM s ORDER BY b", [[2], [3], [4]]),
        ("SELECT b AS c, transform(array(1), x -> x + c) AS y FROM (SELECT b FROM s) t ORDER BY b", [
            [2], [3], [4],
        ]),
        (
            "SELECT s.b, transform(array(t.b), s -> s + t.b) AS y FROM s JOIN s AS t ON s.b = t.b ORDER BY 1",
            [[2], [4], [6]],
        ),
    ],
)  # fmt: skip
def test_lambda_functions_stand_wherever_an_expression_does(text: str, expected: list[Any]) -> None:
    (table,) = run(text, {"a": ["x", "x", "y"], "b": [1, 2, 3]}).values()
    assert table.column("y").to_pylist() == expected
