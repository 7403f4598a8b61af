"""Lambda functions: their parameters, what hides what, and what their bodies cannot contain."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from elfmesh.ql.expressions.nodes import Call, Lambda, Parameter, walk
from elfmesh.ql.plan.render import full_text
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT exists(a, (x, y) -> x) FROM s", 1, 19, "argument 2 of exists must be a lambda", "x ->"),
    ("SELECT transform(a,\n (x, y, z) -> x) FROM s", 2, 3, "lambda function of 1 or 2 parameters", "(x, i)"),
    ("SELECT reduce(a, x -> x, 0) FROM s", 1, 18, "a lambda function is not a value", "transform(x"),
    ("SELECT exists(a) FROM s", 1, 8, "exists does not take 1 argument", "exists(list, x -> condition)"),
    ("SELECT zip_with(a, b, (x, X) -> x) FROM s", 1, 24, "two parameters have the same name", "Rename"),
    ("SELECT transform(a, x -> (SELECT max(b) FROM t)) FROM s", 1, 0, "contains a subquery", "outside"),
    ("SELECT transform(a, x -> sum(x)) FROM s", 1, 21, "sum cannot use the parameter", "outside"),
    ("SELECT transform(a, x -> explode(x)) FROM s", 1, 21, "explode cannot use the parameter", "outside"),
    ("SELECT transform(a, x -> rank() OVER (ORDER BY x)) FROM s", 1, 21, "OVER cannot use", "outside"),
    ("SELECT transform(a, x -> *) FROM s", 1, 0, "* is not a value", ""),
    ("SELECT transform(a, () -> 1) FROM s", 1, 0, "missing", ""),
    ("SELECT transform(a, x -> regexp_extract(x, '(')) FROM s", 1, 44, "regular expression", "RE2"),
)  # fmt: skip


def body_of(text: str) -> Lambda:
    (key,) = parse(f"SELECT 1 FROM s WHERE {text}").plan.where.children[:1]  # type: ignore[union-attr]  # it has WHERE
    return next(each for each in walk(key) if isinstance(each, Lambda))


def test_a_parameter_hides_a_field_of_its_name_in_any_case() -> None:
    found = body_of("size(transform(tags, X -> concat(x, `X`, y))) > 0")
    assert found.parameters == ("x",)
    assert full_text(found.body) == "concat(x, x, y)"
    assert [isinstance(each, Parameter) for each in found.body.children] == [True, True, False]


def test_a_dot_after_a_parameter_is_a_field_of_the_element() -> None:
    found = body_of("size(filter(tags, t -> t.name = 'a')) > 0").body.children[0]
    assert isinstance(found, Call)
    assert (found.name, found.option, found.args) == ("field of", "name", (Parameter("t"),))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("SELECT transform(a, x -> x + b) AS y FROM s", ("a", "b")),
        ("SELECT exists(a, x -> x > x.b) AS y FROM s", ("a",)),
        ("SELECT transform(a, x -> transform(x, x -> x + c)) AS y FROM s", ("a", "c")),
        ("SELECT max(x) AS y FROM s WHERE forall(a, x -> x > 0)", ("a", "x")),
    ],
)
def test_the_fields_of_a_statement_are_those_outside_of_parameters(
    text: str, fields: tuple[str, ...]
) -> None:
    assert parse(text).fields == fields


def test_the_subquery_of_exists_is_still_one() -> None:
    assert parse("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a)").parts
    assert parse("SELECT a, count(*) FILTER (WHERE b > 1) AS n FROM s GROUP BY a").fields == ("a", "b")


def test_a_column_without_a_name_is_called_as_it_is_written() -> None:
    statement = parse("SELECT zip_with(a, b, (x, y) -> x + y), filter(a, e -> e > 1) FROM s")
    names = [name for name, _ in statement.plan.outputs]
    assert names == ["zip_with(a, b, (x, y) -> (x + y))", "filter(a, e -> (e > 1))"]
