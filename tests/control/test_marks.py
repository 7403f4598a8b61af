"""Members hear what is closed: soon where somebody waits for it, and else a few intervals at a time."""

from __future__ import annotations

import pytest

from elfmesh.control.master import trees
from elfmesh.control.master.trees import LAZY_MARK_S, LIGHT_INTERVALS, MARK_S
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.members import Agent


def told(world: World, agent: Agent) -> int:
    """Multicasts that reached an agent."""
    return [(name, kind) for _, name, kind in world.trace].count((f"agent-{agent.number}", "Delivered"))


def held(world: World) -> int:
    """Segments with records that agents keep since they do not know them closed."""
    return sum(
        bool(segment.entries)
        for agent in world.living
        for kept in agent.contributed.values()
        for segment, _ in kept
    )


def filled(intervals: int) -> World:
    world = World(4)
    fill(world, intervals=intervals)
    world.apply(world[0])
    world.run(5.0)
    return world


def test_marks_of_three_windows_of_a_second_are_one_multicast() -> None:
    world = filled(12)
    before = told(world, world[1])
    for index in range(1, 13):
        world.seal_all(BASE + index * SLIDE)
        world.run(1.0)
    world.run(LAZY_MARK_S)
    assert 3 <= told(world, world[1]) - before <= 5
    assert held(world) == 0
    exact(world, world[2])
    assert world.sent["Waiting"] == 0, "nobody had to ask"


def test_the_mark_of_what_catches_up_comes_at_once() -> None:
    world = filled(LIGHT_INTERVALS + 1)
    world.seal_all(BASE + (LIGHT_INTERVALS + 1) * SLIDE)
    world.run(2 * MARK_S)
    assert held(world) == 0


def test_the_mark_of_many_records_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled(2)
    world.seal_all(BASE + SLIDE)
    world.run(2 * MARK_S)
    assert held(world) > 0
    monkeypatch.setattr(trees, "LIGHT_RECORDS", 20)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2 * MARK_S)
    assert held(world) == 0


def test_the_mark_of_what_somebody_is_missing_from_comes_at_once() -> None:
    world = filled(1)
    late = next(agent for agent in world.living if agent is not world.master())
    world.kill(late)
    world.seal_all(BASE + SLIDE)
    while not world.results(world.master()):
        world.run(0.1)
    ((record, _),) = world.results(world.master())
    assert record.state == "FINAL_PARTIAL"
    world.run(2 * MARK_S)
    assert held(world) == 0


def test_who_leaves_does_not_wait_for_others_intervals() -> None:
    world = filled(4)
    world.seal_all(BASE + SLIDE)
    world.run(2 * LAZY_MARK_S)
    leaver = next(agent for agent in world.living if agent is not world.master())
    world.request(leaver, "leave", {})
    world.run(1.0)
    before = told(world, leaver)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2 * MARK_S)
    assert told(world, leaver) - before == 1
