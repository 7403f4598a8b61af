"""Times and intervals: sums, differences, multiples, and what they are in a query's clauses."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from tests.ql.conftest import run
from tests.ql.functions.evaluating import values

DAY, TIME = date(2024, 2, 28), datetime(2024, 2, 29, 12, tzinfo=UTC)


def shown(text: str) -> str:
    return f"INTERVAL '{text}' DAY TO SECOND"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("t - d", shown("1 12:00:00")),
        ("d - t", shown("-1 12:00:00")),
        ("d - DATE '2024-01-01'", shown("58 00:00:00")),
        ("(t - d) * 2", shown("3 00:00:00")),
        ("2 * (t - d)", shown("3 00:00:00")),
        ("(t - d) * n", None),
        ("(t - d) / 0", None),
        ("-(t - d) / 3", shown("-0 12:00:00")),
        ("(t - d) div INTERVAL '1' HOUR", 36),
        ("(t - d) div INTERVAL '0' HOUR", None),
        ("t + (t - d)", datetime(2024, 3, 2, tzinfo=UTC)),
        ("d + (t - d)", TIME),
        ("d + INTERVAL '1' DAY", date(2024, 2, 29)),
        ("d - INTERVAL '1' DAY * 2", date(2024, 2, 26)),
        ("s + (t - d)", "2024-01-02 12:00:00"),
        ("d - INTERVAL '1' DAY * n", None),
        ("t + INTERVAL '1' DAY * 1000000000", None),
        ("INTERVAL 1 DAY 2 HOURS + INTERVAL '1:30' MINUTE TO SECOND", shown("1 02:01:30")),
        ("INTERVAL '36500000' DAY * 3", None),
        ("INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND / 2", shown("-53375995 14:00:27.387904")),
        ("t - d IN (INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND)", False),
        ("t + INTERVAL '-1-1' YEAR TO MONTH", datetime(2023, 1, 29, 12, tzinfo=UTC)),
        ("t - missing", None),
        ("DATE '2024-02-29' - d", shown("1 00:00:00")),
        ("missing - d", None),
        ("t - d > INTERVAL '36' HOUR", False),
        ("t - d >= INTERVAL '36' HOUR", True),
        ("(t - d) IN (INTERVAL '1' DAY, INTERVAL '36' HOUR)", True),
        ("coalesce(n * INTERVAL '1' DAY, t - d)", shown("1 12:00:00")),
        ("CASE WHEN n = 1 THEN t - d ELSE INTERVAL '1' MINUTE END", shown("0 00:01:00")),
        ("CAST(t - d AS STRING)", shown("1 12:00:00")),
        ("typeof(t - d)", "interval day to second"),
        ("transform(array(1, 2), x -> t - x * INTERVAL '1' DAY > d)", [True, False]),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    columns = {"d": pa.array([DAY]), "t": pa.array([TIME], pa.timestamp("us", "UTC"))}
    assert values(expression, **columns, n=pa.array([None], pa.int64()), s=["2024-01-01"]) == [expected]


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("t - s", "`-` does not work on TIMESTAMP and STRING", "CAST(... AS TIMESTAMP)"),
        ("t + 1", "`+` does not work on TIMESTAMP and BIGINT", "INTERVAL '1' DAY"),
        ("t - d + 1", "`+` does not work on", "multiplied by a number"),
        ("(t - d) / (t - d)", "`/` does not work on", "multiplied by a number"),
        ("(t - d) % 2", "% does not take an INTERVAL", "div INTERVAL '1' SECOND"),
        ("(t - d) < 5", "cannot compare INTERVAL DAY TO SECOND with BIGINT", "Convert"),
        ("(t - d) IN ('1')", "IN mixes INTERVAL DAY TO SECOND and STRING", "Convert"),
        (
            "CAST(t - d AS BIGINT)",
            "INTERVAL DAY TO SECOND cannot be cast to BIGINT",
            "div INTERVAL '1' SECOND",
        ),
        ("upper(t - d)", "upper does not take an INTERVAL", "CAST(x AS STRING)"),
        ("array(t - d)", "array does not take an INTERVAL", "CAST(x AS STRING)"),
        ("EXTRACT(YEAR FROM t - d)", "year does not take an INTERVAL", "CAST"),
        ("date_part('year', t - d)", "'year' is not a part of an INTERVAL", "day, hour, minute and second"),
        ("median(t - d)", "sum and avg do not work on INTERVAL", "div INTERVAL '1' SECOND"),
        ("approx_percentile(t - d, 0.5)", "sum and avg do not work on INTERVAL", "div INTERVAL '1' SECOND"),
    ],
)
def test_what_spark_refuses_or_is_not_supported_has_one_error(
    expression: str, message: str, hint: str
) -> None:
    columns = {"d": pa.array([DAY]), "t": pa.array([TIME], pa.timestamp("us", "UTC")), "s": ["x"]}
    with pytest.raises(QueryError) as caught:
        run(f"SELECT {expression} AS x FROM t", pa.table(columns))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT sum(t - d) AS x FROM s GROUP BY k ORDER BY k", ["1 00:00:00", "0 11:00:00.5"]),
        ("SELECT avg(t - d) AS x FROM s GROUP BY k ORDER BY x", ["0 05:30:00.25", "1 00:00:00"]),
        ("SELECT max(t) - min(t) AS x FROM s", ["0 23:00:00"]),
        ("SELECT t - d AS x FROM s GROUP BY 1 ORDER BY 1 DESC LIMIT 2", ["1 00:00:00", "0 10:00:00.5"]),
        ("SELECT x * 2 AS x FROM (SELECT t - d AS x FROM s) q WHERE x < INTERVAL '2' HOUR", ["0 02:00:00"]),
        ("SELECT DISTINCT t - d AS x FROM s WHERE k = 'b' ORDER BY x", ["0 01:00:00", "0 10:00:00.5"]),
        ("SELECT sum(DISTINCT t - d) AS x FROM s", ["1 11:00:00.5"]),
        (
            "SELECT t - lag(t) OVER (ORDER BY t) x FROM s WHERE k = 'b' ORDER BY 1 DESC LIMIT 1",
            ["0 09:00:00.5"],
        ),
        (
            "SELECT sum(t - d) OVER (ORDER BY t) x FROM s WHERE k = 'b' ORDER BY t DESC LIMIT 1",
            ["0 11:00:00.5"],
        ),
        (
            "SELECT t - d AS x FROM s QUALIFY t - lag(t) OVER (ORDER BY t) < INTERVAL '10' HOUR",
            ["0 10:00:00.5"],
        ),
        ("SELECT a.t - a.d AS x FROM s a JOIN s b ON a.t - a.d = b.t - b.d WHERE a.k = 'a'", ["1 00:00:00"]),
        ("SELECT t - d x FROM s WHERE t > '2024-01-02' UNION SELECT INTERVAL '1' DAY FROM s", ["1 00:00:00"]),
        ("SELECT max(t - d) x FROM s GROUP BY HOP(t, INTERVAL '12' HOUR, INTERVAL '1' DAY)", None),
    ],
)  # fmt: skip
def test_intervals_stand_wherever_a_value_does_and_are_text_in_results(
    text: str, expected: list[str] | None
) -> None:
    times = ["2024-01-02 00:00:00", None, "2024-01-01 10:00:00.5", "2024-01-01 01:00:00"]
    moments = pa.array(
        [each and datetime.fromisoformat(f"{each}+00:00") for each in times], pa.timestamp("us", "UTC")
    )
    data = pa.table({"t": moments, "d": pa.array([date(2024, 1, 1)] * 4), "k": ["a", "a", "b", "b"]})
    found = [row["x"] for table in run(text, data, batch_rows=2).values() for row in table.to_pylist()]
    wanted = expected or ["0 10:00:00.5", "0 10:00:00.5", "1 00:00:00", "1 00:00:00"]
    assert found == [shown(each) for each in wanted]


@pytest.mark.parametrize("group", ["", " GROUP BY p"])
@pytest.mark.parametrize(
    "expression",
    [
        "(max(t) - min(t)) div INTERVAL '1' SECOND",
        "abs(max(t) - min(t)) div INTERVAL '1' SECOND",
        "-(max(t) - min(t)) div INTERVAL '1' SECOND",
        "+(max(t) - min(t)) > INTERVAL '1' SECOND",
        "(max(t) - min(t)) * 2 div INTERVAL '1' SECOND",
        "extract(HOUR FROM max(t) - min(t))",
        "coalesce(max(t) - min(t), INTERVAL '1' HOUR) div INTERVAL '1' HOUR + NULL",
        "greatest(max(t) - min(t), INTERVAL '1' HOUR) div INTERVAL '1' HOUR + NULL",
        "CASE WHEN count(*) > 1 THEN max(t) - min(t) END div INTERVAL '1' SECOND",
        "avg(t - TIMESTAMP '2024-01-01 00:00:00') div INTERVAL '1' SECOND",
    ],
)
def test_where_no_record_passes_nothing_is_computed_or_refused(expression: str, group: str) -> None:
    """A table without rows has columns without types."""
    data = {"t": [TIME], "p": ["a"]}
    rows = run(f"SELECT {expression} AS x FROM s WHERE p = 'b'{group}", data)[0]
    assert rows.to_pylist() == ([] if group else [{"x": None}])
