"""A version with other labels: agents join and leave the job in place."""

from __future__ import annotations

from collections import Counter

from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, rows_of


def test_labels_change_in_place() -> None:
    """Who is not meant any more ends at the boundary, who is meant now begins there."""
    world = World()
    for number in range(4):
        world.add(number, labels={"role": "web" if number < 3 else "api", "zone": f"z{number % 2}"})
    world.run(2.0)
    fill(world, intervals=12)
    world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (role = 'web')"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    reply = world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (zone = 'z1')"))
    assert (reply.status, reply.body["state"]) == (200, "keep")
    first = reply.body["effective_interval"]
    world.run(3.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(10.0)
    records = world.results(world[0])
    assert {record.state for record, _ in records} == {"FINAL"}
    assert [record.index for record, _ in records] == list(range(1000, 1012))
    meant = {1: [0, 1, 2], 2: [1, 3]}
    for record, rows in records:
        numbers = meant[1 if record.index < first else 2]
        counts: Counter[str] = Counter()
        for number in numbers:
            counts.update(key for at, key in world[number].logs["clicks"] if at // SLIDE == record.index)
        assert rows == rows_of(counts), record.index
        assert record.agents_expected == len(numbers)
    assert not world[0].workers
    assert world[3].workers


def test_members_whose_labels_are_wanted_again_before_they_have_left_come_back() -> None:
    """Each of their intervals expects them by one number, and they contribute to all of them."""
    world = World()
    for number in range(4):
        world.add(number, labels={"role": "web" if number < 3 else "api", "zone": f"z{number % 2}"})
    world.run(2.0)
    fill(world, intervals=12)
    web, zone = (
        TEXT.replace("FROM clicks", f"FROM clicks ON ({each})") for each in ("role = 'web'", "zone = 'z1'")
    )
    world.apply(world[0], web)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    firsts = []
    for text in (zone, web):
        firsts.append(world.apply(world[0], text).body["effective_interval"])
        world.run(1.0)
    for intervals in range(3, 13):
        world.seal_all(BASE + intervals * SLIDE)
        world.run(2.0)
    records = world.results(world[0])
    assert [record.index for record, _ in records] == list(range(1000, 1012))
    assert firsts[0] < firsts[1] < 1010
    for record, rows in records:
        numbers = [1, 3] if firsts[0] <= record.index < firsts[1] else [0, 1, 2]
        counts: Counter[str] = Counter()
        for number in numbers:
            counts.update(key for at, key in world[number].logs["clicks"] if at // SLIDE == record.index)
        assert (record.state, record.agents_expected, rows) == ("FINAL", len(numbers), rows_of(counts))
