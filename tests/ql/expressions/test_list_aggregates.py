"""Lists keep their order also where their arguments are columns that OVER has computed."""

from __future__ import annotations

import pytest

from tests.ql.conftest import run

ROWS = {"x": ["a", "b", "c"], "y": [3, 2, 1]}


@pytest.mark.parametrize("aggregate", ["array_agg(x ORDER BY y)", "collect_list(x ORDER BY y)"])
def test_an_order_inside_the_call_holds_over_rows_too(aggregate: str) -> None:
    (table,) = run(f"SELECT y, {aggregate} OVER () AS t FROM s ORDER BY y", ROWS).values()
    assert table.column("t").to_pylist() == [["c", "b", "a"]] * 3


def test_an_order_within_group_holds_over_partitions_too() -> None:
    text = (
        "SELECT y, listagg(x, ',') WITHIN GROUP (ORDER BY y) OVER (PARTITION BY y > 1) AS t FROM s ORDER BY y"
    )
    (table,) = run(text, ROWS).values()
    assert table.column("t").to_pylist() == ["c", "b,a", "b,a"]
