from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

pytestmark = [pytest.mark.spark]
Read = Callable[..., Any]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((row.interval_index, row.product, row.clicks) for row in frame.collect())


def test_every_interval_arrives_with_its_columns(agent: Any, elf: Read) -> None:
    agent.create("shop/top", first=7)
    agent.publish("shop/top", [("a", 3), ("b", 2)])
    agent.publish("shop/top", [("a", 1)], completeness=0.875)
    frame = elf()
    assert frame.columns == [
        "interval_index", "interval_start", "interval_end", "state", "rev", "completeness",
        "product", "clicks",
    ]  # fmt: skip
    assert rows(frame) == [(7, "a", 3), (7, "b", 2), (8, "a", 1)]
    last = frame.where("interval_index = 8").first()
    assert (last.state, last.rev, last.completeness) == ("FINAL_PARTIAL", 1, 0.875)
    assert last.interval_end - last.interval_start == dt.timedelta(seconds=5)
    assert frame.selectExpr("unix_micros(interval_start) AS start").first().start == 35_000_000


def test_options_choose_the_intervals_and_the_tasks(agent: Any, elf: Read) -> None:
    agent.create("shop/top")
    for index in range(10):
        agent.publish("shop/top", [("a", index)])
    frame = elf(startingInterval=2, endInterval=8, numPartitions=3)
    assert [index for index, *_ in rows(frame)] == [2, 3, 4, 5, 6, 7, 8]
    asked = {request.split("arrow?")[1] for request in agent.requests if "arrow?" in request}
    assert asked == {f"from={first}&to={stop}&incarnation=a1" for first, stop in ((1, 3), (3, 5), (5, 8))}
    assert [index for index, *_ in rows(elf(startingInterval="latest"))] == [9]


def test_a_job_without_results_or_with_empty_intervals_gives_no_rows(
    agent: Any, elf: Read, spark: Any
) -> None:
    agent.create("shop/top", first=100)
    declared = spark.read.format("elf").schema("interval_index BIGINT, product STRING, clicks BIGINT")
    assert rows(declared.option("job", "shop/top").option("api", agent.api).load()) == []
    agent.publish("shop/top", [])
    assert rows(elf()) == []
    agent.publish("shop/top", [("a", 1)])
    assert rows(elf(numPartitions=4)) == [(101, "a", 1)]
    assert rows(elf(numPartitions=4, startingInterval=3)) == [(101, "a", 1)]


def test_the_format_is_found_without_registration(agent: Any, spark: Any) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    fresh = spark.newSession()
    frame = fresh.read.format("elf").option("job", "shop/top").option("api", agent.api).load()
    assert rows(frame) == [(0, "a", 1)]


def test_a_schema_of_ones_own_reorders_and_leaves_out(agent: Any, spark: Any) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    reader = spark.read.format("elf").schema("clicks DOUBLE, interval_index BIGINT")
    frame = reader.option("job", "shop.top").option("api", agent.api).load()
    assert [tuple(row) for row in frame.collect()] == [(1.0, 0)]


UTC = pa.timestamp("us", tz="UTC")
MOMENT = dt.datetime(2026, 2, 3, 4, 5, 6, 789012)
SECOND = dt.datetime(1970, 1, 1, 0, 0, 1)
DAY = dt.date(2026, 2, 3)
TEXT = "\u00fc\x00\U0001f600"
INFINITE = float("inf")
TYPES: dict[str, tuple[str, pa.Array, Any]] = {
    "int64": ("BIGINT", pa.array([-(2**63), None]), -(2**63)),
    "int32_as_bigint": ("BIGINT", pa.array([1, None], pa.int32()), 1),
    "uint8_as_bigint": ("BIGINT", pa.array([255, None], pa.uint8()), 255),
    "int32": ("INT", pa.array([7, None], pa.int32()), 7),
    "float64": ("DOUBLE", pa.array([INFINITE, None]), INFINITE),
    "int64_as_double": ("DOUBLE", pa.array([2, None]), 2.0),
    "text": ("STRING", pa.array([TEXT, None]), TEXT),
    "large_text": ("STRING", pa.array(["a", None], pa.large_string()), "a"),
    "text_view": ("STRING", pa.array(["a", None], pa.string_view()), "a"),
    "coded_text": ("STRING", pa.array(["a", None]).dictionary_encode(), "a"),
    "truth": ("BOOLEAN", pa.array([False, None]), False),
    "micros": ("TIMESTAMP", pa.array([MOMENT, None], UTC), MOMENT),
    "nanos": ("TIMESTAMP", pa.array([1_000_000_001, None], pa.timestamp("ns", "UTC")), SECOND),
    "zoneless": ("TIMESTAMP", pa.array([MOMENT, None], pa.timestamp("us")), MOMENT),
    "day": ("DATE", pa.array([DAY, None]), DAY),
    "exact": ("DECIMAL(20,3)", pa.array([Decimal("1.250"), None], pa.decimal128(20, 3)), Decimal("1.250")),
    "rescaled": ("DECIMAL(20,3)", pa.array([Decimal("1.2"), None], pa.decimal128(5, 1)), Decimal("1.200")),
    "wide": ("DECIMAL(38,0)", pa.array([Decimal(10**30), None], pa.decimal128(38, 0)), Decimal(10**30)),
    "raw": ("BINARY", pa.array([b"\x00\xff", None]), b"\x00\xff"),
    "nothing": ("STRING", pa.nulls(2), None),
    "several": ("ARRAY<BIGINT>", pa.array([[1, None], None]), [1, None]),
    "nested": ("STRUCT<x: BIGINT>", pa.array([{"x": 1}, None]), (1,)),
}


def test_every_type_and_its_null_arrive_as_declared(agent: Any, elf: Read) -> None:
    agent.create("shop/top", ", ".join(f"{name} {ddl}" for name, (ddl, _, _) in TYPES.items()))
    agent.publish("shop/top", pa.table({name: column for name, (_, column, _) in TYPES.items()}))
    frame = elf()
    declared = {name: kind.upper() for name, kind in frame.dtypes}
    assert {name: declared[name] for name in TYPES} == {
        name: ddl.replace(" ", "").upper() for name, (ddl, _, _) in TYPES.items()
    }
    stamps = ["micros", "nanos", "zoneless"]  # collected as local times: compared as text in UTC instead
    plain = frame.withColumns({name: frame[name].cast("string") for name in stamps})
    full, empty = plain.collect()
    expected = {name: value for name, (_, _, value) in TYPES.items()}
    expected |= dict.fromkeys(("micros", "zoneless"), str(MOMENT)) | {"nanos": str(SECOND)}
    got = {name: full[name] for name in TYPES}
    assert {name: tuple(v) if isinstance(v, tuple) else v for name, v in got.items()} == expected
    assert {empty[name] for name in TYPES} == {None}


def test_a_type_that_changes_widens_or_is_named(agent: Any, elf: Read) -> None:
    agent.create("shop/top", "product STRING, clicks DOUBLE")
    agent.publish("shop/top", [("a", 1)])
    agent.publish("shop/top", pa.table({"product": ["b"], "clicks": [0.5]}))
    assert rows(elf()) == [(0, "a", 1.0), (1, "b", 0.5)]
    agent.jobs["shop/top"].ddl = agent.jobs["shop/top"].ddl.replace("DOUBLE", "BIGINT")
    with pytest.raises(Exception, match="ELF_SCHEMA_MISMATCH: column 'clicks' was int64"):
        elf().collect()


def test_many_rows_arrive_in_many_batches(agent: Any, elf: Read) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [(f"p{i}", i) for i in range(12_345)])
    totals = elf().selectExpr("count(*) AS n", "sum(clicks) AS s").first()
    assert (totals.n, totals.s) == (12_345, sum(range(12_345)))


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_on_the_interval_shrink_the_question_where_spark_lets_them(
    agent: Any, elf: Read, spark: Any, pushdown: str
) -> None:
    from pyspark.sql.datasource import DataSourceReader

    if pushdown == "true" and not hasattr(DataSourceReader, "pushFilters"):
        pytest.skip("PySpark before 4.1 pushes no filters")
    agent.create("shop/top")
    for index in range(10):
        agent.publish("shop/top", [("a", index), ("b", index)])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    try:
        frame = elf().where("interval_index > 3 AND interval_index <= 6 AND product = 'a'")
        assert rows(frame) == [(4, "a", 4), (5, "a", 5), (6, "a", 6)]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    asked = [request for request in agent.requests if "arrow?" in request]
    assert [request.split("arrow?")[1] for request in asked] == [
        f"{'from=3&to=6' if pushdown == 'true' else 'from=-1&to=9'}&incarnation=a1"
    ]
