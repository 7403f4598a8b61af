"""Who leaves says so: its last interval is declared, and no interval misses it (D-14)."""

from __future__ import annotations

from elfmesh.control.messages import Leaving
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.members import Agent


def started(agents: int = 4) -> tuple[World, Agent]:
    world = World(agents)
    fill(world, intervals=8)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    leaver = next(agent for agent in world.living if agent is not world.master())
    return world, leaver


def states(world: World) -> list[tuple[str, int]]:
    return [(record.state, record.agents_expected) for record, _ in world.results(world.master())]


def test_no_interval_misses_who_leaves() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(3.0)
    assert token not in leaver.replies, "its last intervals are open"
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    assert leaver.replies[token].body == {"agent": f"agent-{leaver.number}", "state": "left", "jobs": 1}
    world.kill(leaver)
    world.run(5.0)
    found = states(world)
    assert {state for state, _ in found} == {"FINAL"}
    expected = [number for _, number in found]
    assert expected == sorted(expected, reverse=True)
    assert (expected[0], expected[-1]) == (4, 3)


def test_what_it_has_for_later_intervals_is_nobodys() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(2.0)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    assert token in leaver.replies
    for record, rows in world.results(world.master()):
        with_it = world.expected(SLIDE)[record.index]
        if record.agents_expected == 4:
            assert rows == with_it
        else:
            assert sum(row["hits"] for row in rows) < sum(row["hits"] for row in with_it)
            assert sum(row["hits"] for row in rows) == record.counts["contributed"]


def test_it_takes_part_in_nothing_new() -> None:
    world, leaver = started()
    world.request(leaver, "leave")
    world.run(1.0)
    answer = world.apply(
        world.master(), "CREATE JOB shop.other EVERY '10 s' AS SELECT count(*) AS n FROM clicks"
    )
    assert answer.body["expected"] == 3


def test_a_question_that_is_lost_is_asked_again_and_a_repeated_one_changes_nothing() -> None:
    world, leaver = started()
    world.request(leaver, "leave")
    world.run(5.0)
    master = next(iter(world.master().control.leadership.masters.values()))
    version = master.book.version
    entry = next(each for each in master.book.entries if each.contact.id == leaver.me.id)
    assert entry.until is not None
    master.leaving(Leaving(master.job, master.manifest.incarnation, entry.number, leaver.me))
    other = next(agent for agent in world.living if agent is not leaver)
    master.leaving(Leaving(master.job, master.manifest.incarnation, entry.number, other.me))
    assert master.book.version == version


def test_an_agent_without_jobs_leaves_at_once() -> None:
    world = World(2)
    assert world.ask(world[1], "leave").body["jobs"] == 0


def test_a_job_goes_on_when_its_last_agent_but_one_has_left() -> None:
    world = World(2)
    fill(world, intervals=6)
    world.apply(world[0])
    leaver = next(agent for agent in world.living if agent is not world.master())
    world.request(leaver, "leave")
    world.run(1.0)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(3.0)
    world.kill(leaver)
    world.run(3.0)
    assert {state for state, _ in states(world)} == {"FINAL"}


def test_nobody_leaves_and_everything_is_exact() -> None:
    world, _ = started()
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    exact(world, world.master())
