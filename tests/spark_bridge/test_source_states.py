"""Tentative results in Spark, filters on the state, and reads that spread over agents."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.spark_bridge.joblog import JobLog
from elfmesh.spark_bridge.source_options import Options
from tests.patience import PATIENCE_S
from tests.spark_bridge.supervisor import Supervised

pytestmark = [pytest.mark.spark]
Read = Callable[..., Any]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((row.interval_index, row.state, row.rev, row.clicks) for row in frame.collect())


def test_all_states_show_open_intervals_and_final_ones_do_not(agent: Any, elf: Read) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    agent.publish("shop/top", [("a", 2)], completeness=0.5)
    agent.show("shop/top", "a", 3)
    final = [(0, "FINAL", 1, 1), (1, "FINAL_PARTIAL", 1, 2)]
    assert rows(elf()) == final
    assert rows(elf(state="all")) == [*final, (2, "TENTATIVE", 1, 3)]
    assert rows(elf(state="all", endInterval=1)) == final


def test_a_filter_on_the_state_is_answered_by_agents_where_spark_pushes_it(
    agent: Any, elf: Read, spark: Any
) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    agent.publish("shop/top", [("a", 2)], completeness=0.5)
    for pushed in ("true", "false"):
        agent.requests.clear()
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
        try:
            assert rows(elf().where("state = 'FINAL_PARTIAL'")) == [(1, "FINAL_PARTIAL", 1, 2)]
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        asked = [request for request in agent.requests if "/arrow?" in request]
        assert all(("only=FINAL_PARTIAL" in request) == (pushed == "true") for request in asked)


def test_a_stream_of_all_states_gives_each_revision_and_then_the_final_one(
    agent: Any, spark: Any, tmp_path: Path
) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    seen: list[tuple[Any, ...]] = []
    reader = spark.readStream.format("elf").option("job", "shop/top").option("api", agent.api)
    reader = reader.option("state", "all").option("startingInterval", "earliest")

    def upsert(frame: Any, _: int) -> None:
        seen.extend(rows(frame))

    writer = reader.load().writeStream.foreachBatch(upsert)
    query = Supervised(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)

    def wait_for(row: tuple[Any, ...]) -> None:
        until = time.monotonic() + PATIENCE_S
        while row not in seen:
            failed = query.exception()
            assert failed is None, str(failed)
            assert time.monotonic() < until, seen
            time.sleep(0.05)

    try:
        wait_for((0, "FINAL", 1, 1))
        agent.show("shop/top", "a", 5)
        wait_for((1, "TENTATIVE", 1, 5))
        agent.show("shop/top", "a", 6)
        wait_for((1, "TENTATIVE", 2, 6))
        agent.publish("shop/top", [("a", 7)])
        wait_for((1, "FINAL", 1, 7))
    finally:
        query.stop()
    assert [row for row in seen if row[1] == "FINAL"] == [(0, "FINAL", 1, 1), (1, "FINAL", 1, 7)]


def test_each_task_asks_another_agent_first() -> None:
    log = JobLog.of("shop/top", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
    ranges = Options.of({}, "earliest", len(log.addresses)).ranges(0, 9, 1)
    assert [(each.after, each.upto) for each in ranges] == [(0, 3), (3, 6), (6, 9)]
    assert [log.turned(each.turn).addresses[0] for each in ranges] == list(log.addresses)
    assert {frozenset(log.turned(each.turn).addresses) for each in ranges} == {frozenset(log.addresses)}


def test_an_unknown_view_is_refused(agent: Any, spark: Any) -> None:
    reader = spark.read.format("elf").option("job", "shop/top").option("api", agent.api)
    with pytest.raises(Exception, match="ELF_BAD_OPTION: view='paos' is none of rows, pao"):
        reader.option("view", "paos").load()


def test_maps_and_times_with_zones_arrive(agent: Any, elf: Read) -> None:
    import pyarrow as pa

    agent.create("shop/typed", "product STRING, clicks BIGINT, m MAP<STRING, BIGINT>, at TIMESTAMP")
    table = pa.table(
        {
            "product": ["a"],
            "clicks": [1],
            "m": pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64())),
            "at": pa.array([3_600_000_000], pa.timestamp("us", tz="Europe/Berlin")),
        }
    )
    agent.publish("shop/typed", table)
    row = elf("shop/typed").selectExpr("m", "unix_micros(at) AS at").first()
    assert (row.m, row.at) == ({"x": 1}, 3_600_000_000)


def test_results_takes_the_view(agent: Any, spark: Any) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    assert rows(spark_bridge.results(spark, "shop/top", api=agent.api, view="rows")) == [(0, "FINAL", 1, 1)]
