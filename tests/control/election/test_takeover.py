"""A job that its master hands over, and what is handed over during an attempt to lead it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.protocol.messages_succession import Handover
from elfmesh.control.replicas.epochs import Tombstones
from elfmesh.machine import Received
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import agent_id

JOB = ids.job_id("shop/top", "local")


def closer_than(world: World, key: bytes) -> int:
    """The number of an agent that would be closer to a key than all living ones."""
    best = ids.distance(world.closest(key)[0].me.id, key)
    return next(number for number in range(1000, 100_000) if ids.distance(agent_id(number), key) < best)


def test_a_closer_newcomer_is_handed_the_job_with_its_whole_log() -> None:
    world = World(4)
    fill(world, intervals=20)
    world.apply(world[0])
    world.seal_all(BASE + 20 * SLIDE)
    world.run(2.0)
    old = world.master()
    newcomer = world.add(closer_than(world, JOB), streams={})
    world.run(3.0)
    assert world.master() is newcomer
    assert world.ask(newcomer, "describe", {"job": "shop/top"}).body["epoch"] > 1
    exact(world, old)
    fill(world, intervals=2, first=1020, seed=8)
    world.seal_all(BASE + 22 * SLIDE)
    world.run(2.0)
    exact(world, newcomer)
    assert [record.index for record, _ in newcomer.results[JOB][1]] == list(range(1000, 1022))


def test_a_follower_meets_no_gap_across_a_handover() -> None:
    world = World(4)
    fill(world, intervals=30)
    world.apply(world[0])
    seen: list[int] = []
    asker = world[1]
    for step in range(1, 31):
        world.seal_all(BASE + step * SLIDE)
        world.run(0.2)
        if step == 10:
            world.add(closer_than(world, JOB), streams={})
        start = seen[-1] + 1 if seen else None
        body: dict[str, Any] = {} if start is None else {"from": start}
        seen += [record.index for record, _ in world.results(asker, "shop/top", **body)]
    world.run(5.0)
    seen += [record.index for record, _ in world.results(asker, "shop/top", **{"from": seen[-1] + 1})]
    assert seen == list(range(1000, 1030))


def test_a_handover_that_is_lost_delays_no_interval() -> None:
    world = World(5)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    old = world.master()
    world.kill(old)
    world.run(3.0)
    assert world.master() is not old
    received_from = world.now + 1.2
    world.lost = lambda sender, _, message: isinstance(message, Handover) and world.now < received_from
    world.restart(old)
    world.run(1.0)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.5)
    assert world.master() is old
    assert [record.index for record, _ in world.results(world[0])] == [1000, 1001, 1002]


def test_what_is_handed_over_during_an_attempt_is_taken_as_soon_as_that_has_failed() -> None:
    """A restarted master goes on with the term that it knew, while its successor hands over already."""
    world = World(5)
    fill(world, intervals=2)
    world.apply(world[0])
    world.run(1.0)
    master, heir = world.master(), world.closest(JOB)[1]
    leadership = heir.control.leadership
    terms = master.control.leadership.masters[JOB].term.terms
    leadership._context.after(0.0, lambda: leadership.take_over(replace(terms, epoch=terms.epoch - 1)))
    world.post(0.0005, heir, Received(master.me, Handover(terms, None)))
    world.run(0.1)
    assert world.master() is heir


def test_an_agent_that_is_asked_as_the_master_of_an_ended_job_learns_its_end_from_the_register() -> None:
    """Its tree has no members any more, so that no root looks for the master."""
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    master = world.master()
    terms = master.control.leadership.known(JOB)[0]
    assert terms is not None
    assert terms.master == master.me
    assert world.ask(world[1], "delete", {"job": "shop/top"}).status == 200
    world.run(5.0)
    leadership = master.control.leadership
    leadership._tombstones = Tombstones()  # as if it had learned of the end by its vote only
    leadership.keep(terms)
    assert world.ask(world[1], "delete", {"job": "shop/top"}).status == 503
    world.run(2.0)
    assert world.ask(world[1], "delete", {"job": "shop/top"}).body.get("earlier")
    assert JOB not in leadership.replicas
