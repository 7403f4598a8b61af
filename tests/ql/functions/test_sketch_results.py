"""The last step of aggregates: what they take, and the value that is shown of a finished state."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.ql.conftest import run
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusal


def value(expression: str, **columns: Any) -> Any:
    (table,) = run(f"SELECT {expression} AS v FROM t", columns).values()
    return table.column("v").to_pylist()[0]


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("sum(a)", {"a": [1, 2, None]}, 3),
        ("sum(a)", {"a": ["1.5", "x"]}, 1.5),
        ("avg(a)", {"a": [1, 2]}, 1.5),
        ("avg(a)", {"a": [None]}, None),
        ("avg(a)", {"a": [Decimal("1.0"), Decimal("2.5")]}, Decimal("1.75")),
        ("var_pop(a)", {"a": [1, 3]}, 1.0),
        ("var_samp(a)", {"a": [1, 3]}, 2.0),
        ("var_samp(a)", {"a": [1]}, None),
        ("stddev_pop(a)", {"a": [1, 3]}, 1.0),
        ("covar_pop(a, b)", {"a": [1, 3], "b": [2, 6]}, 2.0),
        ("covar_samp(a, b)", {"a": [1, 3], "b": [2, 6]}, 4.0),
        ("covar_samp(a, b)", {"a": [1], "b": [2]}, None),
        ("corr(a, b)", {"a": [0, 2, 0, 2], "b": [2, -2, 2, -2]}, -1.0),
        ("corr(a, b)", {"a": [1, 1], "b": [2, 6]}, None),
        ("listagg(a, ';')", {"a": ["x", None, "y"]}, "x;y"),
        ("listagg(a)", {"a": [None]}, None),
        ("array_agg(a, 2)", {"a": [3, 1, 2]}, [1, 2]),
        ("approx_count_distinct(a)", {"a": [1, 1, 2]}, 2),
        ("approx_percentile(a, 0.5)", {"a": [1, 2, 3]}, 2),
        ("approx_percentile(a, array(0.0, 1.0))", {"a": [1, 2, 3]}, [1, 3]),
        ("max_by(a, b)", {"a": ["x", "y"], "b": [Decimal("1.5"), Decimal("1.25")]}, "x"),
        ("count(*) FILTER (WHERE a)", {"a": [True, None, False]}, 1),
    ],
)
def test_an_aggregate_shows(expression: str, columns: dict[str, Any], expected: Any) -> None:
    found = value(expression, **columns)
    assert (sorted(found) if expression.startswith("array_agg") else found) == expected


@pytest.mark.parametrize(
    ("expression", "column", "expected"),
    [
        ("sum(a)", [True], "sum and avg do not work on BOOLEAN | Write count(*) FILTER (WHERE x)."),
        ("sum(a)", [date(2024, 1, 1)], "sum and avg do not work on DATE | Write unix_timestamp(x)."),
        (
            "listagg(split(a, ','))",
            ["x"],
            "listagg does not work on ARRAY<STRING> | Write array_join(x, ',').",
        ),
        ("max_by(a, a)", ["x"], "order by a number or a time, not by STRING | Convert it: CAST(x AS DOUBLE)"),
        (
            "hll_union_agg(a)",
            ["x"],
            "hll_union_agg merges sketches, which are BINARY, not STRING | Write unb",
        ),
        (
            "hll_sketch_estimate(a)",
            ["x"],
            "28: hll_sketch_estimate reads sketches, which are BINARY, not STR",
        ),
        ("theta_union(unhex(a), unhex(a), 15)", ["x"], "the logarithm of the entries is from 4 to 14"),
        ("kll_sketch_get_quantile_double(unhex(a), 1.5)", ["x"], "takes a constant share from 0 to 1"),
    ],
)
def test_types_without_a_meaning_are_refused(expression: str, column: list[Any], expected: str) -> None:
    assert expected in refusal(f"SELECT {expression} AS x FROM t", a=column)


@pytest.mark.parametrize(
    "expression",
    [
        "hll_sketch_estimate(a)",
        "theta_sketch_estimate(a)",
        "hll_union(a, a)",
        "theta_union(a, a)",
        "theta_intersection(a, a)",
        "kll_sketch_get_quantile_double(a, 0.5)",
    ],
)
def test_bytes_that_are_no_sketch_are_null(expression: str) -> None:
    assert values(expression, a=[b"no sketch", b"", None]) == [None, None, None]


def test_sketches_are_read_and_united() -> None:
    rows = {"k": ["x", "x", "y"], "a": [1, 2, 2]}
    inner = "SELECT k, hll_sketch_agg(a) AS h, theta_sketch_agg(a) AS t FROM s GROUP BY k"
    (table,) = run(
        "SELECT hll_sketch_estimate(hll_union_agg(h)) AS h, theta_sketch_estimate(theta_union_agg(t)) AS t "
        f"FROM ({inner})", rows,
    ).values()  # fmt: skip
    assert table.to_pylist() == [{"h": 2, "t": 2}]
