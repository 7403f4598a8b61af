"""A canary beside its job: whose records it counts; what is undone and promoted when one cannot be asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from elfmesh.api.web.rollout import promote, undo
from elfmesh.control.protocol.events import Reply
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.fakes import recorded
from tests.control.harness import World
from tests.control.member.support import TEXT, rows_of

JOB = {"job": "shop/top"}
AWAY = Reply(0, 503, {"error": "the job has no master now; ask again soon", "code": 69})
NONE = Reply(0, 404, {"error": "there is no such job", "code": 1})
FOUND = Reply(0, 200, recorded("describe"))


class Jobs:
    """Answers by verb, and remembers what was asked."""

    def __init__(self, **replies: Reply) -> None:
        self.replies, self.asked = replies, list[tuple[str, str]]()

    async def ask(self, verb: str, body: dict[str, Any]) -> Reply:
        self.asked.append((verb, body["job"]))
        return self.replies.get(verb, Reply(0, 200, {"job": body["job"], "state": verb}))


@pytest.mark.parametrize("gone", [NONE, Reply(0, 200, {"state": "deleted"})])
def test_undo_is_about_the_job_only_if_there_is_no_canary(gone: Reply) -> None:
    jobs = Jobs(delete=gone)
    assert asyncio.run(undo(jobs.ask, JOB)).body["state"] == "undo"
    assert jobs.asked == [("delete", "shop/top-canary"), ("undo", "shop/top")]


def test_a_canary_that_cannot_be_asked_now_does_not_cost_its_job_a_version() -> None:
    jobs = Jobs(delete=AWAY)
    assert asyncio.run(undo(jobs.ask, JOB)) == AWAY
    assert jobs.asked == [("delete", "shop/top-canary")]


def test_a_promotion_reports_a_canary_that_continues() -> None:
    jobs = Jobs(describe=FOUND, delete=AWAY)
    reply = asyncio.run(promote(jobs.ask, JOB))
    assert reply.status == 200
    assert "The canary continues" in reply.body["hint"]


def test_a_text_that_is_refused_ends_no_canary() -> None:
    jobs = Jobs(describe=FOUND, apply=AWAY)
    assert asyncio.run(promote(jobs.ask, JOB)) == AWAY
    assert [verb for verb, _ in jobs.asked] == ["describe", "apply"]


def test_a_canary_runs_beside_its_job_on_the_agents_with_its_label() -> None:
    world = World()
    for number in range(4):
        world.add(number, labels={"zone": "eu" if number == 2 else "us"})
    world.run(2.0)
    fill(world, intervals=6)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    text = TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY")
    asked = {"text": text, "canary": {"zone": "eu"}, **JOB}
    reply = world.ask(world[1], "apply", asked)
    assert (reply.status, reply.body["job"], reply.body["expected"]) == (200, "shop/top-canary", 1)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(2.0)
    exact(world, world[0])
    canary = {record.index: rows for record, rows in world.results(world[0], "shop/top-canary")}
    own = [key for at, key in world[2].logs["clicks"] if at // SLIDE == 1004 and key != "apple"]
    assert canary[1004] == rows_of(Counter(own))
