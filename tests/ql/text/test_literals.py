"""Numbers, signs and strings as they are written. The expected values are a real Spark's (ANSI off)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.local.embedded import answers
from tests.ql.refusals import refusing

ONE = {"one": [1], "a": ["x"]}
CASES: dict[str, Any] = {
    "-128Y": -128,
    "- 128Y": -128,
    "-32768S": -32768,
    "-2147483648": -2147483648,
    "-9223372036854775808L": -(2**63),
    "-9223372036854775808": -(2**63),
    "-128::tinyint": -128,
    "-200::tinyint": 56,
    "127Y": 127,
    "-1.5BD": Decimal("-1.5"),
    "9223372036854775808": Decimal(2**63),
    "-9223372036854775809": Decimal(-(2**63) - 1),
    "typeof(12345678901234567890)": "decimal(20,0)",
    "12345678901234567890 % 123": Decimal(78),
    "-1e3": -1000.0,
    "1 - 5Y": -4,
    "+'5'": 5.0,
    "+'abc'": None,
    "+ 5": 5,
    "1 - +5": -4,
    "1 + +'2'": 3.0,
    "positive('5')": 5.0,
    "positive(-3)": -3,
    "negative('5')": -5.0,
    "negative(3)": -3,
    '"S"\'par\'"k"': "Spark",
    "'S' 'par' 'k'": "Spark",
    "'a'\"b\"": "ab",
    "'it''s'": "it's",
    '"a""b"': 'a"b',
    r"r'\n' 'x'": r"\nx",
    r"r'\n'": r"\n",
    "nullifzero('abc')": "abc",
    "nullifzero('0')": None,
    "nullifzero(0)": None,
    "nullifzero(1.5)": 1.5,
    "nullifzero(true)": True,
    "zeroifnull('abc')": "abc",
    "zeroifnull('5')": "5",
    "zeroifnull(CAST(NULL AS STRING))": "0",
    "zeroifnull(NULL)": 0,
    "power(-1, double('inf'))": math.nan,
    "power(1, double('inf'))": math.nan,
    "power(1, double('NaN'))": math.nan,
    "pow(double('nan'), 0)": 1.0,
    "typeof(date'2011-11-11' + NULL)": "timestamp",
    "date'2011-11-11' + NULL": None,
    "power(2, 0.5)": 1.4142135623730951,
}


@pytest.mark.parametrize("expression", CASES)
def test_values_are_sparks(expression: str, rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    ((value,),) = rows_of(f"SELECT {expression} AS x FROM t", ONE)
    wanted = CASES[expression]
    assert type(value) is type(wanted)
    assert value == wanted or (isinstance(wanted, float) and math.isnan(wanted) and math.isnan(value))


@pytest.mark.parametrize(
    ("expression", "message", "column"),
    [
        ("128Y", "128Y does not fit into a TINYINT", 8),
        ("-129Y", "-129Y does not fit into a TINYINT", 9),
        ("1 - 128Y", "128Y does not fit into a TINYINT", 12),
        ("32768S", "32768S does not fit into a SMALLINT", 8),
        ("9223372036854775808L", "9223372036854775808L does not fit into a BIGINT", 8),
        ("0x1F", "0x1F is not a number", 8),
        ("1e400", "1e400 does not fit into a double", 8),
        ("+(a = 'x')", "`+` does not work on BOOLEAN", 10),
        ("count(t.*)", "count(t.*) is not supported", 8),
        ("count(DISTINCT t.*)", "count(t.*) is not supported", 8),
    ],
)
def test_what_spark_refuses_is_refused_at_its_place(
    expression: str, message: str, column: int, rows_of: Callable[..., list[tuple[Any, ...]]]
) -> None:
    with pytest.raises(QueryError) as caught:
        rows_of(f"SELECT {expression} AS x FROM t", ONE)
    assert (caught.value.message, caught.value.column) == (message, column)


def test_a_column_of_an_input_comes_before_a_part_of_a_column_called_as_the_input(
    rows_of: Callable[..., list[tuple[Any, ...]]],
) -> None:
    inner = "SELECT from_json(j, 'a BIGINT, b BIGINT') AS s, 5 AS b FROM t"
    text = f"WITH s AS ({inner}) SELECT s.a AS a, s.b AS b, s.s.b AS c FROM s"
    assert rows_of(text, {"j": ['{"a": 1, "b": 3}']}) == [(1, 5, 3)]
    text = "WITH t2 AS (SELECT v AS t2 FROM t) SELECT t2.t2 AS x FROM t2"
    assert rows_of(text, {"v": [7]}) == [(7,)]


test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (f"SELECT {'9' * 39} FROM s", 1, 8, "has more than 38 digits", f"{'9' * 39}D"),
)  # fmt: skip


def test_a_star_among_the_arguments_of_a_function_means_the_columns() -> None:
    text = (
        "SELECT struct(*) AS s, struct(t.*, 3 AS x) AS t, array(*) AS l, coalesce(* EXCEPT (a)) AS c,"
        " struct(u.* EXCEPT (d)) AS e FROM (SELECT NULL AS a, 2 AS b) t JOIN (SELECT 4 AS c, 5 AS d) u"
    )
    (found,) = answers(text, [])
    assert found.table.to_pylist() == [
        {
            "s": {"a": None, "b": 2, "c": 4, "d": 5}, "t": {"a": None, "b": 2, "x": 3},
            "l": [None, 2, 4, 5], "c": 2, "e": {"c": 4},
        }
    ]  # fmt: skip


test_a_star_without_known_columns_is_refused = refusing(
    ("SELECT struct(*) AS x FROM s", 1, 15, "* needs the columns of s", "Name the fields."),
    ("SELECT struct(*) AS x", 1, 15, "does not say FROM which stream it reads, and `*`", "Add FROM stream."),
    ("SELECT struct(u.*) AS x FROM (SELECT 1 AS a) t", 1, 17, "`.*` works on", "name the fields"),
    ("SELECT struct(* EXCEPT (b)) AS x FROM (SELECT 1 AS a) t", 1, 15, "b", ""),
)


ASOF = "takes equations and one comparison"

test_an_error_at_interval_true_false_or_null_is_at_the_keyword = refusing(
    ("SELECT s.a FROM s ASOF JOIN t ON true", 1, 34, ASOF, "a.ts >= b.ts"),
    ("SELECT s.a FROM s ASOF JOIN t ON s.k = t.k AND s.ts >= t.ts AND FALSE", 1, 65, ASOF, ""),
    ("WITH q AS (SELECT a FROM s WHERE true) SELECT s.a FROM q s ASOF JOIN t ON true", 1, 75, ASOF, ""),
    ("SELECT true AS a, s.a AS b FROM s ASOF JOIN t ON true WHERE true", 1, 50, ASOF, ""),
    ("SELECT first(a, null) AS x FROM s", 1, 17, "whether to ignore nulls", "first"),
    (
        "WITH q AS (SELECT ts + INTERVAL '1' SECOND AS t FROM s) SELECT t + INTERVAL '1' FROM q",
        1, 68, "INTERVAL '1' is not a duration", "SECOND",
    ),
)  # fmt: skip
