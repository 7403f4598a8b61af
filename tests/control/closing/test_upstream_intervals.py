"""A job that reads another on agents: each interval once, in order, of exactly what the other has closed."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.jobs.records import ResultRecord
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.election.test_takeover import closer_than
from tests.control.harness import World

READER = """CREATE JOB shop.best EVERY '30 s' AS
SELECT product, max(hits) AS best, sum(hits) AS hits, count(*) AS n FROM shop.top
GROUP BY product ORDER BY product"""
SLIDING = """CREATE JOB shop.best AS SELECT product, max(hits) AS best, sum(hits) AS hits, count(*) AS n
FROM shop.top GROUP BY HOP(ts, INTERVAL '20' SECOND, INTERVAL '40' SECOND), product ORDER BY product"""
FINER = READER.replace("'30 s'", "'5 s'")
WINDOWS = {READER: (30, 30), SLIDING: (40, 20), FINER: (5, 5)}
US = 1_000_000


def expected(world: World, size_s: int, slide_s: int) -> dict[int, list[dict[str, Any]]]:
    """What one process would compute over the results of the job that is read."""
    groups: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, rows in world.expected(SLIDE).items():
        at = index * SLIDE
        last = at // (slide_s * US)
        for window in range(last - size_s // slide_s + 1, last + 1):
            if window * slide_s * US <= at < (window * slide_s + size_s) * US:
                for row in rows:
                    groups[window][row["product"]].append(row["hits"])
    return {
        window: [
            {"product": key, "best": max(hits), "hits": sum(hits), "n": len(hits)}
            for key, hits in sorted(found.items())
        ]
        for window, found in sorted(groups.items())
    }


def check(world: World, text: str, *, upto: int) -> list[tuple[ResultRecord, Any]]:
    """All intervals that end at or before interval `upto` of the job that is read, and no others."""
    size_s, slide_s = WINDOWS[text]
    found = world.results(world.living[0], "shop/best")
    wanted = {
        window: rows
        for window, rows in expected(world, size_s, slide_s).items()
        if (window * slide_s + size_s) * US <= upto * SLIDE
    }
    assert [record.index for record, _ in found] == sorted(wanted), "each once, in order"
    assert {record.index: rows for record, rows in found} == wanted
    assert {record.state for record, _ in found} <= {"FINAL"}
    for record, rows in found:
        assert record.counts["contributed"] == sum(row["n"] for row in rows)
    return found


@pytest.mark.parametrize("text", [READER, SLIDING, FINER])
def test_a_reader_has_what_the_other_has_closed(text: str) -> None:
    world = World(4)
    fill(world, intervals=20)
    world.apply(world[0])
    reply = world.apply(world[1], text)
    assert (reply.status, reply.body["state"]) == (200, "new")
    assert "hint" not in reply.body
    for upto in (1001, 1004, 1005, 1012, 1020):
        world.seal_all(BASE + (upto - 1000) * SLIDE)
        world.run(4.0)
        check(world, text, upto=upto)


@pytest.mark.parametrize("text", [READER, SLIDING, FINER])
def test_a_reader_that_comes_later_reads_everything_that_is_kept(text: str) -> None:
    world = World(3)
    fill(world, intervals=12)
    world.apply(world[0])
    world.seal_all(BASE + 12 * SLIDE)
    world.run(3.0)
    world.apply(world[2], text)
    world.run(5.0)
    check(world, text, upto=1012)


@pytest.mark.parametrize("victim", ["shop/best", "shop/top"])
@pytest.mark.parametrize("seed", range(6))
def test_a_new_master_of_either_job_repeats_and_leaves_out_nothing(victim: str, seed: int) -> None:
    rng = random.Random(seed)
    world = World(7)
    first, second = (ids.job_id(name, "local") for name in ("shop/top", "shop/best"))
    masters = {world.closest(key)[0].number for key in (first, second)}
    for agent in world.living:
        if agent.number in masters:
            agent.streams = {}
    silent = [number for number in range(7) if number in masters]
    world = World(0)
    for number in range(7):
        world.add(number, streams={} if number in silent else {"clicks": None})
    world.run(2.0)
    fill(world, intervals=15, seed=seed)
    world.apply(world[0])
    world.apply(world[1], READER)
    for upto in range(1001, 1008):
        world.seal_all(BASE + (upto - 1000) * SLIDE)
        world.run(rng.choice([0.002, 0.01, 0.3, 1.0]))
    dead = world.master(victim)
    assert dead.number in silent, "who contributes nothing is missed by no interval"
    world.kill(dead)
    for upto in range(1008, 1016):
        world.seal_all(BASE + (upto - 1000) * SLIDE)
        world.run(rng.choice([0.002, 0.5, 2.0]))
    world.run(40.0)
    found = check(world, READER, upto=1015)
    if victim == "shop/best":
        assert found[-1][0].epoch == 2


def test_what_is_missing_there_is_missing_here() -> None:
    world = World(5)
    fill(world, intervals=6)
    world.apply(world[0])
    world.apply(world[1], READER)
    masters = {world.master("shop/top").number, world.master("shop/best").number}
    dead = next(agent for agent in world.living if agent.number not in masters)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    world.kill(dead)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(30.0)
    top = {record.index: record for record, _ in world.results(world.living[0])}
    assert {record.state for record in top.values()} == {"FINAL", "FINAL_PARTIAL"}
    for record, _ in world.results(world.living[0], "shop/best"):
        inside = [each for index, each in top.items() if index * SLIDE // (30 * US) == record.index]
        assert record.completeness == min(each.completeness for each in inside)
        assert record.fidelity == min(each.fidelity for each in inside)
        assert record.missing == sorted({name for each in inside for name in each.missing})
        assert (record.state == "FINAL") == all(each.state == "FINAL" for each in inside)


def test_a_skipped_interval_is_declared() -> None:
    world = World(3)
    fill(world, intervals=6)
    world.apply(world[0])
    world.apply(world[1], READER)
    world.poison = True
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    world.poison = False
    world.seal_all(BASE + 6 * SLIDE)
    world.run(3.0)
    states = {record.index: record.state for record, _ in world.results(world[0])}
    assert states == {index: "SKIPPED" if index < 1003 else "FINAL" for index in range(1000, 1006)}
    found = {record.index: (record, rows) for record, rows in world.results(world[0], "shop/best")}
    assert {index: each[0].completeness for index, each in found.items()} == {333: 0.0, 334: 0.0}
    assert all(each[0].state == "FINAL_PARTIAL" for each in found.values())
    assert found[333][1] == []
    assert found[334][1] != []


def test_a_job_that_is_read_cannot_be_deleted() -> None:
    world = World(4)
    world.apply(world[0])
    world.apply(world[1], READER)
    refused = world.ask(world[2], "delete", {"job": "shop/top"})
    assert (refused.status, refused.body["error"]) == (409, "shop/best reads this job")
    assert "30 s after it was deleted" in refused.body["hint"]
    assert world.ask(world[2], "delete", {"job": "shop/best"}).status == 200
    world.run(31.0)
    assert world.ask(world[2], "delete", {"job": "shop/top"}).status == 200
    assert world.ask(world[2], "list").body["jobs"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (READER.replace("shop.top", "shop.nobody"), "there is no job shop.nobody"),
        (READER.replace("hits", "hitz"), "has no column hitz"),
        (READER.replace("shop.best", "shop.top"), "a job cannot read its own results"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_is_written(text: str, message: str) -> None:
    world = World(4)
    world.apply(world[0])
    reply = world.apply(world[1], "\n\n" + text)
    assert reply.status == 400
    assert message in reply.body["error"]
    assert reply.body["line"] >= 3
    assert len(world.ask(world[0], "list").body["jobs"]) == 1, "nothing is left of it"


def force_delete(world: World) -> None:
    """Delete shop/top at a moment when its master knows no reader: a new master, or readers cut off."""
    for master in world.master("shop/top").control.leadership.masters.values():
        master.term.result_service.feed._asked.clear()
    assert world.ask(world[0], "delete", {"job": "shop/top"}).status == 200


def test_a_reader_goes_on_with_a_job_that_is_applied_again() -> None:
    world = World(4)
    fill(world, intervals=12)
    world.apply(world[0])
    world.apply(world[1], READER)
    world.seal_all(BASE + 5 * SLIDE)
    world.run(4.0)
    force_delete(world)
    world.run(4.0)
    why = world.ask(world[2], "why", {"job": "shop/best"}).body
    assert "there is no such job" in why["because"]
    world.apply(world[0])
    world.run(4.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(8.0)
    check(world, READER, upto=1012)


def test_a_circle_is_refused() -> None:
    world = World(5)
    world.apply(world[0])
    world.apply(world[1], READER)
    third = (
        READER.replace("shop.best", "shop.third").replace("shop.top", "shop.best").replace("max(hits)", "1")
    )
    assert world.apply(world[1], third).status == 200
    changed = "CREATE JOB shop.top EVERY '10 s' AS SELECT product, hits FROM shop.third"
    assert "cannot be changed" in world.apply(world[2], changed).body["error"]
    force_delete(world)
    reply = world.apply(world[2], changed)
    assert "that would be a cycle" in reply.body["error"]


def test_a_reader_reports_what_it_waits_for_and_stays_while_its_upstream_job_is_paused() -> None:
    world = World(4)
    fill(world, intervals=9)
    world.apply(world[0])
    world.apply(world[1], READER)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(4.0)
    world.ask(world[0], "pause", {"job": "shop/top"})
    world.run(4.0)
    why = world.ask(world[2], "why", {"job": "shop/best"}).body
    assert why["state"] == "running"
    assert why["because"] == "waiting for the job that it reads: shop.top: it is paused"
    world.ask(world[0], "resume", {"job": "shop/top"})
    world.ask(world[0], "pause", {"job": "shop/best"})
    world.seal_all(BASE + 9 * SLIDE)
    world.run(40.0)
    assert world.ask(world[2], "delete", {"job": "shop/top"}).status == 409, "a paused reader is one"
    assert [record.index for record, _ in world.results(world[0], "shop/best")] == [333]
    world.ask(world[0], "resume", {"job": "shop/best"})
    world.run(3.0)
    check(world, READER, upto=1009)


def test_its_text_stays_as_it_is() -> None:
    world = World(4)
    world.apply(world[0])
    world.apply(world[1], READER)
    assert world.apply(world[2], READER).body["state"] == "unchanged"
    for reply in (
        world.apply(world[2], READER.replace("30 s", "60 s")),
        world.ask(world[2], "empty", {"job": "shop/best"}),
        world.ask(world[2], "verify", {"job": "shop/best", "interval": 1}),
    ):
        assert reply.status == 409


@pytest.mark.parametrize("agents", range(2, 9))
def test_records_that_are_published_together_are_read_together_or_later(agents: int) -> None:
    world = World(agents)
    fill(world, intervals=40)
    world.apply(world[0])
    world.apply(world[1], FINER)
    for upto in range(1004, 1041, 4):
        world.seal_all(BASE + (upto - 1000) * SLIDE)
        world.run(1.5)
    check(world, FINER, upto=1040)


def test_results_that_are_not_kept_any_more_are_declared() -> None:
    world = World(6)
    fill(world, intervals=12)
    world.apply(world[0])
    world.apply(world[1], READER)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    world.ask(world[0], "pause", {"job": "shop/best"})
    world.seal_all(BASE + 10 * SLIDE)
    world.run(3.0)
    top, dead = world.master("shop/top"), world.master("shop/best")
    assert top is not dead, "else its death would be another case"
    for agent in world.living:
        agent.expired[ids.job_id("shop/top", "local")] = 1006
    world.kill(dead)
    world.run(10.0)
    world.ask(top, "resume", {"job": "shop/best"})
    world.run(10.0)
    found = {record.index: (record, rows) for record, rows in world.results(top, "shop/best")}
    assert {index: record.state for index, (record, _) in found.items()} == {
        333: "FINAL",
        334: "FINAL_PARTIAL",
        335: "FINAL_PARTIAL",
    }
    assert [found[index][0].completeness for index in (333, 334, 335)] == [1.0, 0.0, 0.0]
    assert found[334][1] == []
    assert sum(row["n"] for row in found[335][1]) == sum(
        len(rows) for index, rows in world.expected(SLIDE).items() if index == 1007
    )


def test_a_closer_newcomer_takes_the_reader_over() -> None:
    world = World(4)
    fill(world, intervals=12)
    world.apply(world[0])
    world.apply(world[1], READER)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    number = closer_than(world, ids.job_id("shop/best", "local"))
    world.add(number, streams={})
    world.run(8.0)
    assert world.master("shop/best").number == number
    world.seal_all(BASE + 12 * SLIDE)
    world.run(8.0)
    check(world, READER, upto=1012)
