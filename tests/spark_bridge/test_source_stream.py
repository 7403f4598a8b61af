from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.spark_bridge.supervisor import Supervised
from tests.spark_tests import long_spark

pytestmark = [pytest.mark.spark]


class Sink:
    """A sink keyed by batch: a batch that Spark was stopped in comes again, and must be the same."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, str, int]]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        rows = sorted((row.interval_index, row.product, row.clicks) for row in frame.collect())
        assert self.batches.setdefault(batch, rows) == rows

    @property
    def rows(self) -> list[tuple[int, str, int]]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    @property
    def intervals(self) -> list[int]:
        return [index for index, *_ in self.rows]


Start = Callable[..., Any]


@pytest.fixture
def start(spark: Any, agent: Any, tmp_path: Path) -> Iterator[Start]:
    queries: list[Any] = []

    def run(
        sink: Sink, *, checkpoint: str = "checkpoint", available_now: bool = False, **options: object
    ) -> Any:
        reader = spark.readStream.format("elf").option("job", "shop/top").option("api", agent.api)
        if "schema" in options:
            reader = reader.schema(str(options.pop("schema")))
        for name, value in options.items():
            reader = reader.option(name, str(value))
        writer = reader.load().writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        query = Supervised((writer.trigger(availableNow=True) if available_now else writer).start)
        queries.append(query)
        return query

    yield run
    for query in queries:
        query.stop()


def wait_until(holds: Callable[[], bool], query: Any, timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        if (failed := query.exception()) is not None:
            raise AssertionError(str(failed)[-3000:])
        assert time.monotonic() < end, f"not in time: {query.status} {query.lastProgress}"
        time.sleep(0.05)


def test_new_intervals_arrive_as_they_close(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("old", 1)])
    sink = Sink()
    query = start(sink, startingInterval="latest", longPoll=5)
    wait_until(lambda: any("after=0" in request for request in agent.requests), query)
    agent.publish("shop/top", [("a", 1)])
    wait_until(lambda: sink.intervals == [1], query)
    agent.publish("shop/top", [])
    agent.publish("shop/top", [("b", 2), ("c", 3)])
    wait_until(lambda: sink.rows == [(1, "a", 1), (3, "b", 2), (3, "c", 3)], query)


@long_spark
def test_an_idle_stream_asks_seldom_and_stops_at_once(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 1)])
    query = start(Sink(), startingInterval="latest", longPoll=3600)
    wait_until(lambda: any("wait=3600" in request for request in agent.requests), query)
    before = len(agent.requests)
    time.sleep(1.0)
    assert len(agent.requests) == before
    query.stop()  # or the test ends before the poll does


def test_a_restart_from_the_checkpoint_gives_each_interval_once(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    for index in range(3):
        agent.publish("shop/top", [("a", index)])
    sink = Sink()
    query = start(sink, startingInterval="earliest")
    wait_until(lambda: sink.intervals == [0, 1, 2], query)
    query.stop()
    for index in range(3, 5):
        agent.publish("shop/top", [("a", index)])
    query = start(sink, startingInterval="earliest")
    agent.publish("shop/top", [("a", 5)])
    wait_until(lambda: len(sink.intervals) >= 6, query)
    assert sink.intervals == [0, 1, 2, 3, 4, 5]


def test_a_batch_that_failed_comes_again_with_the_same_intervals(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])

    class Failing(Sink):
        def __call__(self, frame: Any, batch: int) -> None:
            super().__call__(frame, batch)
            raise ValueError("the sink is full")

    failing, sink = Failing(), Sink()
    query = start(failing, startingInterval="earliest")
    with pytest.raises(Exception, match="the sink is full"):
        query.awaitTermination(PATIENCE_S)
    agent.publish("shop/top", [("a", 1)])
    query = start(sink, startingInterval="earliest")
    wait_until(lambda: len(sink.rows) == 2, query)
    assert failing.batches[0] == sink.batches[0]
    assert sink.intervals == [0, 1]


def test_available_now_reads_what_is_there_in_steps_and_ends(agent: Any, start: Start) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 reads all at once")
    agent.create("shop/top", first=10)
    for index in range(5):
        agent.publish("shop/top", [("a", index)])
    sink = Sink()
    query = start(sink, startingInterval="earliest", maxIntervalsPerTrigger=2, available_now=True)
    assert query.awaitTermination(PATIENCE_S)
    assert [sorted({index for index, *_ in rows}) for rows in sink.batches.values()] == [
        [10, 11],
        [12, 13],
        [14],
    ]
    agent.publish("shop/top", [("a", 5)])
    query = start(sink, startingInterval="earliest", available_now=True)
    assert query.awaitTermination(PATIENCE_S)
    assert sink.intervals == [10, 11, 12, 13, 14, 15]


@long_spark
def test_a_quiet_year_between_two_intervals_is_no_work(agent: Any, start: Start) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 reads all at once")
    agent.create("shop/top", first=1_000)
    for skip in (0, 0, 0, 5_000_000, 0, 5_000_000):
        agent.publish("shop/top", [("a", 1)], skip=skip)
    sink = Sink()
    query = start(sink, startingInterval="earliest", maxIntervalsPerTrigger=2, available_now=True)
    assert query.awaitTermination(PATIENCE_S)
    assert [[index for index, *_ in rows] for rows in sink.batches.values()] == [
        [1_000, 1_001],
        [1_002, 5_001_003],
        [5_001_004, 10_001_005],
    ]


@long_spark
def test_a_stream_ends_at_its_end_interval_and_begins_at_its_start(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    for index in range(6):
        agent.publish("shop/top", [("a", index)])
    sink = Sink()
    query = start(sink, startingInterval=2, endInterval=4, numPartitions=2, available_now=True)
    assert query.awaitTermination(PATIENCE_S)
    assert sink.intervals == [2, 3, 4]


def failure(query: Any) -> str:
    with pytest.raises(Exception, match=r"ELF_\w+") as caught:
        query.awaitTermination(PATIENCE_S)
    return str(caught.value)


def test_a_recreated_job_stops_the_stream_by_name(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])
    sink = Sink()
    assert start(sink, startingInterval="earliest", available_now=True).awaitTermination(PATIENCE_S)
    agent.create("shop/top", incarnation="b2")
    agent.publish("shop/top", [("other", 0)])
    agent.publish("shop/top", [("other", 1)])
    reported = failure(start(sink, startingInterval="earliest"))
    assert "ELF_JOB_RECREATED: job 'shop/top' was deleted and created again" in reported
    assert sink.intervals == [0]
    fresh = Sink()
    query = start(fresh, checkpoint="new", startingInterval="earliest", available_now=True)
    assert query.awaitTermination(PATIENCE_S)
    assert fresh.rows == [(0, "other", 0), (1, "other", 1)]


def test_a_stream_that_is_behind_has_the_numbering_before_an_update_first(agent: Any, start: Start) -> None:
    agent.create("shop/top", first=100)
    agent.publish("shop/top", [("a", 0)])
    sink = Sink()
    assert start(sink, startingInterval="earliest", available_now=True).awaitTermination(PATIENCE_S)
    for clicks in (1, 2, 3):
        agent.publish("shop/top", [("a", clicks)])
    agent.renumber("shop/top", "b2", first=7)
    agent.publish("shop/top", [("b", 4)])
    query = start(sink, startingInterval="earliest")
    wait_until(lambda: len(sink.rows) == 5, query)
    agent.publish("shop/top", [("b", 5)])
    wait_until(lambda: len(sink.rows) == 6, query)
    assert sink.intervals == [100, 101, 102, 103, 7, 8]
    assert [clicks for *_, clicks in sink.rows] == list(range(6))


def test_intervals_that_are_gone_stop_the_stream_by_name(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])
    assert start(Sink(), startingInterval="earliest", available_now=True).awaitTermination(PATIENCE_S)
    for index in range(1, 5):
        agent.publish("shop/top", [("a", index)])
    agent.expire("shop/top", 3)
    assert "ELF_INTERVALS_EXPIRED: job 'shop/top' no longer holds interval 1" in failure(
        start(Sink(), startingInterval="earliest")
    )


@long_spark
def test_a_job_deleted_under_a_stream_stops_it_by_name(agent: Any, start: Start) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])
    sink = Sink()
    query = start(sink, startingInterval="earliest", longPoll=0.2)
    wait_until(lambda: sink.intervals == [0], query)
    del agent.jobs["shop/top"]
    assert "ELF_JOB_UNKNOWN: no job 'shop/top' runs on this overlay" in failure(query)


def test_a_stream_may_begin_before_the_first_result(agent: Any, start: Start) -> None:
    agent.create("shop/top", first=70_000_000)
    sink = Sink()
    schema = "interval_index BIGINT, product STRING, clicks BIGINT"
    query = start(sink, startingInterval="earliest", schema=schema, numPartitions=3, maxIntervalsPerTrigger=2)
    wait_until(lambda: any("offsets?" in request for request in agent.requests), query)
    for clicks in range(5):
        agent.publish("shop/top", [("a", clicks)])
    wait_until(lambda: len(sink.rows) == 5, query)
    assert sink.intervals == [70_000_000 + i for i in range(5)]
