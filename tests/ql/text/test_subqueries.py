"""Subqueries on the parser's tree."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from elfmesh.ql.text.subqueries import (
    columns_named,
    conjuncts,
    drop_what_keeps_a_row,
    input_names,
    own_nodes,
    put_where,
)


def tree(text: str) -> Any:
    return sqlglot.parse_one(text, dialect="spark")


def test_conditions_are_taken_apart_at_and_only() -> None:
    select = tree("SELECT a FROM s WHERE a = 1 AND (b = 2 AND c = 3) AND (d = 4 OR e = 5)")
    parts = conjuncts(select.args["where"].this)
    assert [each.sql() for each in parts] == ["a = 1", "b = 2", "c = 3", "(d = 4 OR e = 5)"]
    put_where(select, parts[1:2])
    assert select.sql() == "SELECT a FROM s WHERE b = 2"
    put_where(select, [])
    assert select.sql() == "SELECT a FROM s"


def test_inputs_are_called_by_their_alias() -> None:
    assert input_names(tree("SELECT 1 FROM A JOIN b AS Q ON x = y, (SELECT 2 FROM z) t")) == {"a", "q", "t"}
    assert input_names(tree("SELECT 1 UNION SELECT 2")) == set()


def test_what_stands_in_a_query_inside_is_not_of_the_one_around() -> None:
    select = tree("SELECT a FROM s WHERE a IN (1) AND EXISTS (SELECT 1 FROM t WHERE b IN (2))")
    assert [each.this.name for each in own_nodes(select, exp.In)] == ["a"]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("SELECT a FROM s LIMIT 2", "SELECT a FROM s"),
        ("SELECT a FROM s LIMIT 0", "SELECT a FROM s LIMIT 0"),
        ("SELECT max(a) FROM s GROUP BY b", "SELECT 1 FROM s"),
        ("SELECT max(a) FROM s GROUP BY b + 1", "SELECT MAX(a) FROM s GROUP BY b + 1"),
        ("SELECT b FROM s GROUP BY b HAVING max(a) > 1", "SELECT b FROM s GROUP BY b HAVING MAX(a) > 1"),
    ],
)
def test_exists_leaves_out_what_keeps_a_row(given: str, left: str) -> None:
    select = tree(given)
    drop_what_keeps_a_row(select)
    assert select.sql() == left


def test_columns_are_named_in_a_copy() -> None:
    union = tree("SELECT a, b AS x FROM s UNION SELECT c, d FROM t")
    assert columns_named(union).sql() == 'SELECT a AS "c0", b AS "c1" FROM s UNION SELECT c, d FROM t'
    assert union.sql() == "SELECT a, b AS x FROM s UNION SELECT c, d FROM t"
    star = tree("SELECT * FROM s")
    assert columns_named(star).sql() == "SELECT * FROM s"
    assert columns_named(star, 1).sql().startswith('SELECT "c0" FROM (SELECT * FROM s) AS ')
