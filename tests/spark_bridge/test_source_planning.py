"""What the planner of a stream asks agents; no Spark runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.spark_bridge.joblog import JobLog

pytest.importorskip("pyspark.sql.datasource", reason="needs pyspark")


def reader(agent: Any) -> Any:
    from elfmesh.spark_bridge.source import StreamReader
    from elfmesh.spark_bridge.source_options import Options

    options = Options.of({"startingInterval": "earliest", "longPoll": "0"}, "latest", 2)
    return StreamReader(JobLog.of("shop/top", agent.api), options, pa.schema([]))


def test_a_batch_is_planned_with_the_answer_that_gave_its_end(agent: Any) -> None:
    agent.create("shop/top")
    for index in range(4):
        agent.publish("shop/top", [("a", index)])
    planner = reader(agent)
    start = planner.initialOffset()
    end = planner.latestOffset(start)
    asked = len(agent.requests)
    assert [(each.after, each.upto) for each in planner.partitions(start, end)] == [(-1, 1), (1, 3)]
    assert len(agent.requests) == asked
    agent.publish("shop/top", [("a", 4)])
    agent.publish("shop/top", [("a", 5)])
    later = {**end, "interval": 5}  # a plan that Spark has not asked for yet
    assert [each.upto for each in planner.partitions(end, later)] == [4, 5]
    assert len(agent.requests) == asked + 1


def test_a_batch_of_a_checkpoint_is_none_of_another_job(agent: Any) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])
    planner = reader(agent)
    start = planner.initialOffset()
    end = planner.latestOffset(start)
    agent.create("shop/top", incarnation="b2")
    agent.publish("shop/top", [("other", 0)])
    with pytest.raises(RuntimeFailure, match=r"^ELF_JOB_RECREATED"):
        reader(agent).partitions(start, end)
    (planned,) = planner.partitions(start, end)  # it has heard of the end before
    with pytest.raises(RuntimeFailure, match=r"^ELF_JOB_RECREATED"):
        list(planner.read(planned))


def test_what_is_left_of_the_numbering_before_an_update_is_planned_first(agent: Any) -> None:
    agent.create("shop/top", first=100)
    for index in range(5):
        agent.publish("shop/top", [("a", index)])
    planner = reader(agent)
    start = {**planner.initialOffset(), "interval": 101}
    agent.renumber("shop/top", "b2", first=7)
    rest = planner.latestOffset(start)
    assert rest == {"interval": 104, "incarnation": "a1"}
    planned = planner.partitions(start, rest)
    assert [(each.after, each.upto, each.incarnation) for each in planned] == [
        (101, 102, "a1"),
        (102, 104, "a1"),
    ]
    assert planner.latestOffset(rest) == rest, "the new numbering has no interval yet"
    agent.publish("shop/top", [("b", 1)])
    agent.renumber("shop/top", "c3", first=50)
    agent.publish("shop/top", [("c", 1)])
    for again in (planner, reader(agent)):
        second = again.latestOffset(rest)
        assert second == {"interval": 7, "incarnation": "b2"}
        assert [(each.after, each.upto) for each in again.partitions(rest, second)] == [(6, 7)]
        third = again.latestOffset(second)
        assert third == {"interval": 50, "incarnation": "c3"}
        (last,) = again.partitions(second, third)
        assert (last.after, last.upto, last.incarnation) == (49, 50, "c3")
        assert again.latestOffset(third) == third
        assert again.partitions(third, third) == []


def test_a_limit_holds_in_an_earlier_numbering_as_well(agent: Any) -> None:
    class AtMost:
        max_files = 2

    agent.create("shop/top", first=100)
    for index in range(5):
        agent.publish("shop/top", [("a", index)])
    planner = reader(agent)
    at = {"interval": 99, "incarnation": "a1"}
    agent.renumber("shop/top", "b2", first=7)
    ends = []
    for _ in range(4):
        at = planner.latestOffset(at, AtMost())
        ends.append(at["interval"])
    assert ends == [101, 103, 104, 104]


def test_a_numbering_that_no_agent_holds_stops_the_stream_and_names_its_intervals(agent: Any) -> None:
    agent.create("shop/top", first=100)
    for index in range(5):
        agent.publish("shop/top", [("a", index)])
    planner = reader(agent)
    start = {**planner.initialOffset(), "interval": 101}
    agent.renumber("shop/top", "b2", first=7, kept=False)
    end = planner.latestOffset(start)
    first = planner.partitions(start, end)[0]
    with pytest.raises(
        RuntimeFailure, match=r"^ELF_INTERVALS_EXPIRED.*intervals 102 to 104 of the numbering"
    ):
        list(planner.read(first))
