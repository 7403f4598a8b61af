"""Closed intervals made again from the raw logs: equal, different, or nobody can say."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.messages_safety import Verified
from elfmesh.machine import Received
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.members import TEXT


def closed(agents: int = 3, text: str = TEXT) -> World:
    world = World(agents)
    fill(world, intervals=3)
    world.apply(world[0], text)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    assert len(world.results(world[0])) == 3
    return world


def verify(world: World, interval: int = 1001, **body: Any) -> dict[str, Any]:
    for _ in range(100):
        reply = world.ask(world[1], "verify", {"job": "shop/top", "interval": interval, **body})
        assert reply.status == 200, reply.body
        if reply.body["state"] != "running":
            return reply.body
        body = {}
        world.run(0.1)
    raise AssertionError("the verification does not end")


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_interval_whose_logs_are_as_they_were_is_equal(partitions: int) -> None:
    world = closed(text=TEXT.replace("DEADLINE '1 s'", f"PARTITIONS {partitions}"))
    found = verify(world)
    assert (found["state"], found["errors"]) == ("equal", [])
    assert found["recomputed"]["contributed"] == found["published"]["contributed"] > 0
    assert [agent["agent"] for agent in found["agents"]] == ["agent-0", "agent-1", "agent-2"]


def test_a_log_that_says_something_else_is_found_with_the_rows_that_differ() -> None:
    world = closed()
    assert verify(world)["state"] == "equal"
    world[2].feed("clicks", [(BASE + SLIDE + 5, "smuggled")])
    assert verify(world)["state"] == "equal", "an outcome is kept"
    found = verify(world, again=True)
    assert found["state"] == "different"
    assert {"published": None, "recomputed": {"product": "smuggled", "hits": 1}} in found["differences"]
    assert found["recomputed"]["contributed"] == found["published"]["contributed"] + 1


def test_who_does_not_answer_makes_it_incomplete_not_different() -> None:
    world = closed()
    dead = next(agent for agent in world.living if agent not in (world.master(), world[1]))
    world.kill(dead)
    world.ask(world[1], "verify", {"job": "shop/top", "interval": 1001})
    world.run(1000.0)
    found = verify(world)
    assert found["state"] == "incomplete"
    assert found["errors"] == [{"agent": f"agent-{dead.number}", "error": "no answer"}]


def test_an_interval_that_is_open_or_gone_cannot_be_verified() -> None:
    found = verify(closed(), 1007)
    assert (found["state"], found["error"]) == ("unknown", "interval 1007 has no final record")


def test_answers_of_others_and_damaged_ones_change_nothing() -> None:
    world = closed()
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    world.lost = lambda source, target, message: isinstance(message, Verified)
    world.ask(world[1], "verify", {"job": "shop/top", "interval": 1001})
    world.run(0.1)
    check = master.control.leadership.masters[job].verifier._check
    assert check is not None
    waiting = dict(check.waits_for)
    number = next(iter(waiting))
    assert len(waiting) == 2, "the master's own answer needs no network"
    for message, payload in [
        (Verified(job, check.token + 1, number, (1,), (0,)), b""),
        (Verified(job, check.token, 77, (1,), (0,)), b""),
        (Verified(job, check.token, number, (1,), (5,)), b"1234"),
        (Verified(job, check.token, number, (1,), (-1, 1)), b""),
        (Verified(job, check.token, number, (1,), (0, 0)), b""),
    ]:
        world.post(0.0, master, Received(world[2].me, message, payload))
    world.run(1.0)
    assert check.waits_for == waiting


def test_a_master_that_checks_itself_verifies_one_interval_in_so_many() -> None:
    world = World(3)
    fill(world, intervals=4)
    for agent in world.living:
        agent.control.office.facts = lambda topic: {"self_check": 2} if topic == "limits" else {}
    world.apply(world[0])
    world.seal_all(BASE + 4 * SLIDE)
    world.run(10.0)
    verifier = next(iter(world.master().control.leadership.masters.values())).verifier
    assert (verifier.equal, verifier.different) == (2, 0)
