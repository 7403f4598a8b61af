"""Operators bind as in Spark's grammar. The expected values are a real Spark's (4.x, ANSI off, UTC)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ONE = {"one": [1]}
CASES: dict[str, Any] = {
    "5 | 2 & 2": 7,
    "1 | 2 ^ 3": 1,
    "7 ^ 2 & 3": 5,
    "1 + 2 << 1": 6,
    "1 << 2 + 1": 8,
    "1 << 1 || 1": 2048,
    "8 >> 1 & 3": 0,
    "2 << 1 << 1": 8,
    "6 & 3 = 2": True,
    "1 | 6 = 7": True,
    "5 & 3 + 1": 4,
    "~1 & 3": 2,
    "~1 + 2": 0,
    "'a' || 1 + 2": None,
    "1 || 2 * 3": "16",
    "1 - 2 || 3": "-13",
    "1 || 2 - 3": 9.0,
    "-1 || 2": "-12",
    "2 * 3 || 4": "64",
    "'a' < 'b' || 'c'": True,
    "1 + 7 % 4": 4,
    "2 * 7 % 4": 2,
    "7 % 4 DIV 2": 1,
    "5 DIV 2 * 3": 6,
    "-2 - -3": 1,
    "NOT 1 = 2": True,
    "NOT true AND false": False,
    "NOT true OR true": True,
    "true OR false AND false": True,
    "1 = 1 = true": True,
    "1 = NULL IS NULL": True,
    "1 < 2 IN (true)": True,
    "1 < 2 NOT IN (false)": True,
    "2 = 2 BETWEEN false AND true": True,
    "1 IS NOT DISTINCT FROM 1 = 1": True,
    "2 BETWEEN 1 | 2 & 2 AND 5 ^ 1 & 1": False,
    "CASE WHEN 1 = NULL IS NULL THEN 1 | 2 & 2 END": 3,
    "CASE 5 | 2 & 2 WHEN 7 THEN 'seven' END": "seven",
    "(5 | 2) & 2": 2,
    "-1::STRING": "-1",
    "- 1.50BD::STRING": "-1.50",
    "- - 1::STRING": 1.0,
    "-(1)::STRING": -1.0,
    "5 -1::STRING": 4.0,
    "-128Y::STRING || 'x'": "-128x",
    "(1 IS NULL) = false": True,
}


@pytest.mark.parametrize("expression", CASES)
def test_operators_bind_as_in_spark(expression: str, rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    ((value,),) = rows_of(f"SELECT {expression} AS x FROM t", ONE)
    assert value == CASES[expression]
    assert type(value) is type(CASES[expression])


def test_a_chain_binds_the_same_in_every_clause(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    data = {"k": ["a", "b", None], "v": [1, 2, 3]}
    assert rows_of("SELECT v FROM t WHERE k = 'a' IS NULL", data) == [(3,)]
    assert rows_of("SELECT v FROM t WHERE v | 4 & 4 = 5 OR k = 'b'", data) == [(1,), (2,)]
    text = "SELECT v | 4 & 4 AS x, count(*) AS n FROM t GROUP BY v | 4 & 4 HAVING sum(v) | 0 & 7 > 1"
    assert rows_of(text, data) == [(6, 1), (7, 1)]
    joined = "SELECT a.v FROM t a JOIN t b ON a.v | 0 & 8 = b.v ORDER BY a.v"
    assert rows_of(joined, data) == [(1,), (2,), (3,)]
