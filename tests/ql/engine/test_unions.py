"""Columns of the queries of a UNION: the type they have in common, as Spark's."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.conftest import run_streams

DATA = pa.table({"v": [1.5, 2.25], "k": ["a", "b"], "n": [1, 2**62]})


def column(text: str) -> pa.ChunkedArray:
    (found,) = run_streams(parse(text), {"t": DATA}).values()
    return found.column(0)


def test_a_sum_beyond_64_bits_stays_exact_beside_others() -> None:
    rows = {"t": pa.table({"n": [2**62, 2**62, 2**62]})}
    (table,) = run_streams(parse("SELECT sum(n) AS x FROM t UNION ALL SELECT min(n) FROM t"), rows).values()
    assert set(table.column("x").to_pylist()) == {Decimal(3 * 2**62), Decimal(2**62)}


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ("v", "DATE '2015-05-17'", "DOUBLE and DATE"),
        ("k = 'a'", "n", "BOOLEAN and BIGINT"),
        ("CAST(v AS DECIMAL(10,1))", "DATE '2015-05-17'", "DECIMAL(10,1) and DATE"),
        ("CAST(n AS DECIMAL(10,0))", "CAST(k AS BINARY)", "DECIMAL(10,0) and BINARY"),
        ("k", "CAST(k AS BINARY)", "STRING and BINARY"),
    ],
)
def test_types_without_a_common_one_are_refused_by_their_names(one: str, other: str, named: str) -> None:
    with pytest.raises(QueryError, match="in the queries that are combined") as caught:
        column(f"SELECT {one} AS x FROM t UNION ALL SELECT {other} FROM t")
    assert named in caught.value.message
    assert caught.value.line == 1
