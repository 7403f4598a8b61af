"""A stream beside another job's result of the same interval: waited for, and of that interval alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.upstream.buffer import NOTHING, Quality
from elfmesh.control.upstream.side_input import SameRead
from tests.control.clicks import SLIDE, fill
from tests.control.harness import World
from tests.control.upstream.test_side_input import seal

SHARE = """CREATE JOB shop.share EVERY '10 s' DEADLINE '1 s' AS
SELECT c.product, count(*) AS hits, max(s.hits) AS before
FROM clicks c LEFT JOIN SAME shop.top s ON c.product = s.product GROUP BY c.product"""


def check(world: World, *, upto: int) -> list[tuple[ResultRecord, Any]]:
    """All intervals up to `upto`, each once, in order, beside the other job's rows of the same one."""
    found = world.results(world.living[0], "shop/share")
    counts = {index: rows for index, rows in world.expected(SLIDE).items() if index < upto}
    assert [record.index for record, _ in found] == sorted(counts)
    for record, rows in found:
        assert rows == [row | {"before": row["hits"]} for row in counts[record.index]]
    return found


def test_an_interval_sees_the_result_of_the_same_interval() -> None:
    world = World(4)
    fill(world, intervals=6)
    fill(world, first=1010, intervals=2)
    world.apply(world[0])
    assert world.apply(world[1], SHARE).status == 200
    for upto in (1001, 1004, 1007, 1012):
        seal(world, upto)
        world.run(8.0)
        found = check(world, upto=upto)
    assert {(record.state, record.completeness) for record, _ in found} == {("FINAL", 1.0)}


def test_it_waits_for_the_other_job_and_why_reports_it() -> None:
    world = World(4)
    fill(world, intervals=8)
    world.apply(world[0])
    world.apply(world[1], SHARE)
    seal(world, 1003)
    world.run(8.0)
    world.ask(world[0], "pause", {"job": "shop/top"})
    world.run(1.0)
    seal(world, 1008)
    world.run(60.0)
    assert len(world.results(world.living[0], "shop/share")) < 8
    why = str(world.ask(world[0], "why", {"job": "shop/share"}).body)
    assert "shop.top" in why
    world.ask(world[0], "resume", {"job": "shop/top"})
    world.run(30.0)
    check(world, upto=1008)


@pytest.mark.parametrize("victim", ["shop/share", "shop/top"])
def test_a_new_master_of_either_job_takes_the_same_results(victim: str) -> None:
    rng = random.Random(victim)
    world = World(6)
    fill(world, intervals=10)
    world.apply(world[0])
    world.apply(world[1], SHARE)
    for upto in range(1001, 1006):
        seal(world, upto)
        world.run(rng.choice([0.002, 0.3, 1.0]))
    world.kill(world.master(victim))
    for upto in range(1006, 1011):
        seal(world, upto)
        world.run(2.0)
    world.run(60.0)
    found = world.results(world.living[0], "shop/share")
    assert [record.index for record, _ in found] == list(range(1000, 1010))
    top = {record.index: rows for record, rows in world.results(world.living[0])}
    for record, rows in found:
        seen = {row["product"]: row["hits"] for row in top[record.index]}
        assert all(row["before"] == seen.get(row["product"]) for row in rows), record.index


def record(index: int, **given: Any) -> tuple[ResultRecord, bytes]:
    """The record of an interval without rows."""
    fields: dict[str, Any] = {
        "job": "shop/top", "index": index, "start_us": index, "end_us": index + 1, "state": "FINAL", "rev": 1,
        "completeness": 1.0, "fidelity": 1.0, "agents_in": 1, "agents_expected": 1, "missing": [],
        "version": 1, "epoch": 1, "counts": {},
    }  # fmt: skip
    return ResultRecord(**(fields | given)), b""


def test_it_is_as_complete_as_that_interval_and_no_other() -> None:
    read = SameRead("same shop/top", ())
    read.size_us = read.slide_us = SLIDE
    read.want(5 * SLIDE)
    read.take([record(3, state="FINAL_PARTIAL", completeness=0.5), record(4)], SLIDE)
    assert read.knows(4 * SLIDE)
    assert read.knows(5 * SLIDE)
    assert not read.knows(6 * SLIDE)
    assert read.quality(4 * SLIDE).completeness == 0.5
    assert read.quality(5 * SLIDE) == Quality()
    assert read.seen_by(5 * SLIDE) is None
    read.lost(6 * SLIDE)
    assert read.quality(6 * SLIDE) == NOTHING
    assert read.has_lost(6 * SLIDE)
    assert not read.has_lost(5 * SLIDE)
    read.prune(5 * SLIDE)
    assert all(piece.at_us >= 4 * SLIDE for piece in read.pieces)
