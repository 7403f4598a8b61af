"""The paper's use case: busiest users live, joined with history in Spark, fed back as a filter."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.local.embedded import answers
from tests.e2e.fleet import Fleet, eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EXAMPLE = Path(__file__).parents[2] / "examples/spark/feed_back.py"
BEGIN = 1_767_225_600
USERS = ("ann", "bob", "eve", "mallory")
HISTORY = [("ann", "good"), ("eve", "fraud"), ("mallory", "fraud"), ("nobody", "fraud")]


def write(fleet: Fleet, start: int, seconds: int) -> None:
    for agent in fleet:
        with fleet.log(agent.number, "clicks").open("a") as file:
            for at in range(start, start + seconds):
                for user in USERS[: 3 + at % 2]:
                    file.write(json.dumps({"ts": BEGIN + at, "user": user}) + "\n")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path / "fleet") as fleet:
        fleet.start(2, stream="clicks", options=",format=json,idle=1 h")
        eventually(lambda: len(fleet[0].get("/v1/streams")["streams"][0]["agents"]) == 2, what="agents")
        yield fleet


def test_suspects_found_in_history_filter_the_running_job(spark: Any, fleet: Fleet) -> None:
    example = runpy.run_path(str(EXAMPLE))
    write(fleet, 0, 31)
    example["begin"](fleet[0].api)
    closed = BEGIN // 10 + 2
    eventually(lambda: fleet[1].results("shop/busiest", closed), what="the busiest users")
    history = spark.createDataFrame(HISTORY, "user STRING, verdict STRING")
    (reported,) = example["feed_back"](spark, fleet[1].api, history)
    assert (reported["job"], reported["rows"], reported["acknowledged"]) == ("shop/watch", 2, 2)
    write(fleet, 31, 40)
    last = BEGIN // 10 + 6
    eventually(lambda: fleet[1].results("shop/watch", last), what="what is watched")
    frame = spark_bridge.results(spark, "shop/watch", api=fleet[0].api)
    got = sorted((row.interval_index, row.user, row.verdict, row.clicks) for row in frame.collect())
    assert {user for _, user, _, _ in got} == {"eve", "mallory"}
    assert min(index for index, *_ in got) == reported["effective_interval"]
    paths = [str(fleet.log(agent.number, "clicks")) for agent in fleet]
    text = fleet[0].get("/v1/jobs/shop/watch")["text"]
    alone = [
        (result.record.index, row["user"], row["verdict"], row["clicks"])
        for result in answers(text, paths, format="json")
        for row in result.table.to_pylist()
        if reported["effective_interval"] <= result.record.index <= last
    ]
    assert got == sorted(alone)
