"""A job beside another's newest result: its text changes while it runs, and what it said can be verified."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.protocol.messages import Answered
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.upstream.test_side_input import GROWTH, check, expected, seal

JOB = {"job": "shop/growth"}
WITHOUT = GROWTH.replace("GROUP BY", "WHERE c.product <> 'apple' GROUP BY")


def running(agents: int = 4, upto: int = 1003) -> World:
    world = World(agents)
    fill(world, intervals=12)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    seal(world, upto)
    world.run(8.0)
    check(world, upto=upto)
    return world


def verify(world: World, interval: int) -> dict[str, Any]:
    asked = {**JOB, "interval": interval, "again": True}
    world.ask(world[2], "verify", asked)
    world.run(3.0)
    del asked["again"]
    return dict(world.ask(world[2], "verify", asked).body)


def changed(world: World, first: int) -> dict[int, list[dict[str, Any]]]:
    """All intervals; from `first` on, apples are left out."""
    return {
        index: [row for row in rows if index < first or row["product"] != "apple"]
        for index, rows in expected(world).items()
    }


def found(world: World) -> dict[int, list[dict[str, Any]]]:
    records = world.results(world.living[0], "shop/growth")
    assert {record.state for record, _ in records} == {"FINAL"}
    return {record.index: rows for record, rows in records}


@pytest.mark.parametrize("after_s", [None, 0.0, 0.003, 0.01, 0.1, 1.0])
def test_another_text_begins_at_one_interval_whichever_agent_leads(after_s: float | None) -> None:
    candidates = [
        candidate for name in ("shop/top", "shop/growth") for candidate in ids.job_placements(name, "local")
    ]
    plain = World(7)
    masters = {plain.closest(candidate)[0].number for candidate in candidates}
    world = World(0)
    for number in range(7):  # who leads contributes nothing, so that no interval misses it
        world.add(number, streams={} if number in masters else {"clicks": None})
    world.run(2.0)
    fill(world, intervals=12)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    seal(world, 1003)
    world.run(8.0)
    reply = world.apply(world[2], WITHOUT)
    assert (reply.status, reply.body["state"]) == (200, "warm up")
    first = reply.body["effective_interval"]
    if after_s is not None:
        dead = world.master("shop/growth")
        world.run(after_s)
        world.kill(dead)
    seal(world, 1012)
    world.run(40.0)
    assert found(world) == changed(world, first)
    assert world.apply(world.living[0], WITHOUT).body["state"] == "unchanged"


def test_undo_brings_the_text_before_back() -> None:
    world = running()
    first = world.apply(world[2], WITHOUT).body["effective_interval"]
    seal(world, first + 2)
    world.run(8.0)
    reply = world.ask(world[0], "undo", JOB)
    assert (reply.status, reply.body["version"]) == (200, 3)
    back = reply.body["effective_interval"]
    seal(world, 1012)
    world.run(10.0)
    wanted = expected(world) | {index: changed(world, first)[index] for index in range(first, back)}
    assert found(world) == wanted


def test_another_window_begins_a_new_numbering() -> None:
    world = running()
    reply = world.apply(world[1], GROWTH.replace("10 s", "20 s"))
    assert (reply.status, reply.body["state"]) == (200, "reset")
    world.run(3.0)
    seal(world, 1012)
    world.run(10.0)
    top = {record.index: rows for record, rows in world.results(world[0])}
    records = world.results(world[0], "shop/growth")
    assert [record.index for record, _ in records] == [502, 503, 504, 505]
    for record, rows in records:
        before = {row["product"]: row["hits"] for row in top[2 * record.index - 1]}
        assert [row["before"] for row in rows] == [before.get(row["product"]) for row in rows]


def test_another_text_is_refused_if_the_other_job_has_no_such_column_or_is_not_there() -> None:
    world = running()
    for text, error in (
        (GROWTH.replace("l.hits", "l.hitz"), "no column hitz"),
        (GROWTH.replace("LATEST shop.top", "LATEST shop.tip"), "there is no job shop.tip"),
    ):
        for dry_run in (False, True):
            reply = world.ask(world[1], "apply", {"text": text, "dry_run": dry_run})
            assert reply.status == 400
            assert error in reply.body["error"]
    seal(world, 1008)
    world.run(8.0)
    check(world, upto=1008)


def test_a_canary_of_it_sees_the_same_results() -> None:
    world = running()
    zoned = world.add(9, labels={"zone": "eu"})
    world.run(3.0)
    fill(world, intervals=6, first=1004, seed=3)
    reply = world.ask(world[1], "apply", {"text": WITHOUT, "canary": {"zone": "eu"}, **JOB})
    assert (reply.status, reply.body["expected"]) == (200, 1)
    seal(world, 1009)
    world.run(10.0)
    top = {record.index: rows for record, rows in world.results(world[0])}
    canary = {record.index: rows for record, rows in world.results(world[0], "shop/growth-canary")}
    own = [key for at, key in zoned.logs["clicks"] if at // SLIDE == 1008 and key != "apple"]
    before = {row["product"]: row["hits"] for row in top[1007]}
    assert {row["product"]: row["hits"] for row in canary[1008]} == {key: own.count(key) for key in own}
    assert all(row["before"] == before.get(row["product"]) for row in canary[1008])


# -- verification


def test_an_interval_is_made_again_beside_what_it_saw() -> None:
    world = running(upto=1006)
    for interval in (1000, 1001, 1004):
        assert verify(world, interval)["state"] == "equal"
    world[3].logs["clicks"].append((BASE + 4 * SLIDE, "apple"))
    different = verify(world, 1004)
    assert different["state"] == "different"
    assert "apple" in {each["published"]["product"] for each in different["differences"]}
    assert verify(world, 1005)["state"] == "equal", "it sees what the other job has published"


def test_what_the_other_job_does_not_keep_any_more_is_incomplete_not_different() -> None:
    world = running(upto=1006)
    for candidate in ids.job_placements("shop/top", "local"):
        for agent in world.living:
            agent.expired[candidate] = 1003
    gone = verify(world, 1003)
    assert gone["state"] == "incomplete"
    assert gone["errors"] == [
        {"agent": "shop.top", "error": "its records before this interval are not kept any more"}
    ]
    assert verify(world, 1005)["state"] == "equal"


def test_a_verification_ends_though_the_other_jobs_master_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.control.master.verification.VERIFY_S", 12.0)
    world = running(upto=1005)
    silent, verifier = world.master("shop/top"), world.master("shop/growth")
    assert silent is not verifier
    world.lost = lambda source, target, message: (
        source is silent and target is verifier and isinstance(message, Answered)
    )
    assert verify(world, 1003)["state"] == "running"
    world.run(12.0)
    done = world.ask(world[2], "verify", {**JOB, "interval": 1003}).body
    assert done["state"] == "incomplete"
    assert done["errors"][0]["agent"] == "the jobs that it reads"
