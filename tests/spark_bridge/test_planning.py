"""What the planner of a stream asks agents; no Spark runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.spark_bridge.joblog import JobLog

pytest.importorskip("pyspark.sql.datasource", reason="needs pyspark")


def reader(agent: Any) -> Any:
    from elfmesh.spark_bridge.source import Options, StreamReader

    options = Options.of({"startingInterval": "earliest", "longPoll": "0"}, "latest", 2)
    return StreamReader(JobLog.of("shop/top", agent.api), options, pa.schema([]))


def test_a_batch_is_planned_with_what_told_its_end(agent: Any) -> None:
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
    later = {**end, "interval": 5}  # a plan that nobody has asked for yet
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
