"""The order of an ordered topic: one for all readers, through kills of masters and publishers' agents."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.master.ordering import AHEAD_US_MAX, PRODUCERS_MAX, encoded, restored
from elfmesh.control.protocol.messages_order import OrderPosts, Post, encode_posts
from elfmesh.units import MICROS
from tests.control.master.topic_world import BASE_US, JOB, TEXT, TopicWorld, storm
from tests.exhaustive import few


def topic(agents: int = 3) -> TopicWorld:
    world = TopicWorld(agents)
    reply = world.apply(world[0], TEXT)
    assert (reply.status, reply.body["state"]) == (200, "new"), reply.body
    world.run(1.0)
    return world


def test_posts_of_all_agents_are_in_one_order_and_each_once() -> None:
    world = topic()
    for number in range(3):
        world.publish(number, "p", 4)
        world.publish(number, "q")
        world.run(0.01)
    world.run(2.0)
    found = world.check()
    assert len(found) == 15
    records = [record for record, _ in world.results(world[1], "ads/clicks")]
    assert {record.state for record in records} == {"FINAL"}
    assert sum(record.counts["contributed"] for record in records) == 15
    assert all(record.is_clean for record in records)


def test_posts_that_arrive_while_the_register_closes_a_record_are_in_the_next() -> None:
    world = topic()
    for _ in range(30):
        world.publish(1, "p")
        world.run(0.001)
    world.run(2.0)
    assert len(world.check()) == 30
    assert 1 < len(world.results(world[0], "ads/clicks")) < 30


@pytest.mark.parametrize("seed", few(range(12), 2))
def test_kills_change_no_order_and_lose_no_post(seed: int) -> None:
    storm(seed, kills=4)


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_twenty_kills_change_no_order_and_lose_no_post(seed: int) -> None:
    storm(100 + seed, kills=20)


def noticed() -> None:
    """What is missed without any safeguard of the order."""
    for seed in range(6):
        storm(seed, kills=6)


def test_a_deleted_topic_stops_the_posts_and_a_new_one_begins_with_the_spool() -> None:
    world = topic()
    world.publish(1, "p", 2)
    world.run(2.0)
    assert world.ask(world[0], "delete", {"job": "ads/clicks"}).status == 200
    world.run(1.0)
    world.publish(1, "p")
    world.run(3.0)
    assert ("ordered", JOB) not in world[1].disk, "the agent has received the end of the topic"
    assert world.apply(world[0], TEXT).status == 200
    world.run(3.0)
    world.check()


def test_what_is_no_order_is_counted_and_dropped() -> None:
    world = topic()
    (master,) = world.master("ads/clicks").control.leadership.masters.values()
    ordering, sender = master.term.ordering, world[1].me
    assert ordering is not None
    message = OrderPosts(JOB, master.term.manifest.incarnation, "x")
    stats = master.term.context.stats
    ordering.on_order_posts(sender, message, b"\xc1")
    ordering.on_order_posts(sender, message, b"x" * (1 << 20))
    assert stats["control.malformed"] == 2
    big = [Post("p", number, 0, "x" * 30_000) for number in range(16)]
    for start in range(40):
        posts = [Post("p", start * 16 + each.position, 0, each.body) for each in big]
        ordering.on_order_posts(sender, message, encode_posts(posts))
    assert stats["control.order_dropped"] > 0, "what waits is bounded"


@pytest.mark.parametrize("master_is_wrong", [False, True])
def test_a_post_of_the_far_future_does_not_move_the_numbers_of_records(*, master_is_wrong: bool) -> None:
    """Also if the clock that is wrong is the master's, because most of its peers have another one."""
    world = topic()
    far = BASE_US + 10 * 365 * 86_400 * MICROS

    def clock(topic: str) -> dict[str, int]:
        agreed_us = BASE_US + round(world.now * 1e6)
        return {"now_us": far if master_is_wrong else agreed_us, "agreed_us": agreed_us}

    for agent in world.living:
        agent.control.context.facts = clock
    world.spools[1].append(Post("p", 0, far, '"1/p/0"'))
    world.publish(1, "p", 2)
    world.run(2.0)
    world.publish(2, "q")
    world.run(2.0)
    assert len(world.check()) == 4, "the post is in the order, like those behind it"
    records = [record for record, _ in world.results(world[0], "ads/clicks")]
    latest_us = BASE_US + round(world.now * 1e6) + AHEAD_US_MAX
    assert max(record.start_us or 0 for record in records) <= latest_us
    assert world.master("ads/clicks").control.context.stats["control.order_ahead"] > 0


def test_positions_are_restored_from_the_newest_record() -> None:
    world = topic()
    world.publish(2, "p", 3)
    world.run(2.0)
    (master,) = world.master("ads/clicks").control.leadership.masters.values()
    assert restored(master.term.cell.tail) == {(world[2].me.id, "p"): 2}
    assert restored(b"") == {}
    many = {(bytes(20), str(number)): number for number in range(PRODUCERS_MAX)}
    assert len(encoded(many)) < 1 << 20


def test_a_position_is_stored_after_its_posts_are_in_a_record() -> None:
    world = topic()
    world.lose(1.0)
    world.publish(1, "p", 2)
    world.run(3.0)
    assert ("ordered", JOB) not in world[1].disk
    world.lose(0.0)
    world.run(3.0)
    assert b"2" in world[1].disk["ordered", JOB]


@pytest.mark.parametrize("verb", ["verify", "undo", "empty"])
def test_what_needs_the_logs_of_members_is_refused(verb: str) -> None:
    world = topic(1)
    body: dict[str, Any] = {"job": "ads/clicks"} | ({"interval": 5} if verb == "verify" else {})
    assert world.ask(world[0], verb, body).status == 409
