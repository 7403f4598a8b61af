"""Agents that come late, die, lag or spoil an interval: who is missing is said, and intervals close."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PartsDropped
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT


def test_a_late_joiner_takes_part_from_a_declared_interval() -> None:
    world = World(3)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    late = world.add(77)
    world.run(2.0)
    described = world.ask(world[1], "describe", {"job": "shop/top"}).body
    entry = next(each for each in described["roster"]["agents"] if each["agent"] == "agent-77")
    assert entry["from"] == 1000 + 3 + 2
    late.feed("clicks", [(BASE + index * SLIDE, "late") for index in range(12)])
    fill(world, intervals=6, first=1003, seed=2)
    world.seal_all(BASE + 9 * SLIDE)
    world.run(1.0)
    for record, rows in world.results(world[0]):
        has_late = any(row["product"] == "late" for row in rows)
        assert record.agents_expected == (4 if record.index >= 1005 else 3)
        assert has_late == (record.index >= 1005)
        assert record.state == "FINAL"


def test_a_dead_agent_is_named_as_missing_and_the_interval_closes() -> None:
    world = World(5)
    fill(world, intervals=6)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    master = world.master()
    victim = next(agent for agent in world.living if agent is not master)
    world.kill(victim)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(4.0)
    found = world.results(master)
    assert [record.index for record, _ in found] == list(range(1000, 1006))
    for record, _ in found[2:]:
        assert record.state == "FINAL_PARTIAL"
        assert record.missing == [f"agent-{victim.number}"]
        assert (record.agents_in, record.agents_expected) == (4, 5)
        assert record.completeness == pytest.approx(0.8)


def test_an_agent_that_comes_back_is_counted_again() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    victim = next(agent for agent in world.living if agent is not world.master())
    world.kill(victim)
    world.run(2.0)
    world.restart(victim)
    world.run(3.0)
    fill(world, intervals=2, first=1002, seed=5)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(2.0)
    exact(world, world.master())
    assert all(record.state == "FINAL" for record, _ in world.results(world.master()))


def test_an_alive_straggler_is_waited_for() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    slow = world[2]
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 2 * SLIDE)
    world.run(20.0)
    assert world.results(world[0]) == []
    described = world.ask(world[1], "describe", {"job": "shop/top"}).body
    assert described["collecting"]["missing"] == ["agent-2"]
    assert described["collecting"]["due_for_seconds"] >= 15
    slow.seal("clicks", BASE + 2 * SLIDE)
    world.run(1.0)
    exact(world, world[0])


def test_a_straggler_without_progress_is_given_up_at_the_horizon() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0])
    for number in (0, 1):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(70.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing) == ("FINAL_PARTIAL", ["agent-2"])


def test_on_straggler_skip_leaps_over_the_interval() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP"))
    for number in (0, 1):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(5.0)
    ((record, rows),) = world.results(world[0])
    assert (record.state, rows, record.missing) == ("SKIPPED", [], ["agent-2"])


def test_a_straggler_behind_a_barrier_is_found_and_leapt_over() -> None:
    world = World(4)
    world.barrier = True
    fill(world, intervals=2)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP"))
    for number in (0, 1, 3):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(1.5)
    assert world.results(world[0]) == [], "nothing was said yet, the barrier holds"
    world.run(8.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing, record.agents_in) == ("SKIPPED", ["agent-2"], 3)


@given(
    st.lists(st.sampled_from((0.01, 0.1, 0.2, 0.24, 0.26, 0.4, 0.7, 1.1)), min_size=1, max_size=6),
    st.sampled_from((1, 4)),
)
@example([0.2] * 6, 1)
@example([1.1] * 6, 4)
@settings(max_examples=12, deadline=None)
def test_newer_intervals_do_not_put_off_what_is_decided_about_an_older_one(
    gaps_s: list[float], deadline_s: int
) -> None:
    world = World(3)
    fill(world, intervals=len(gaps_s) + 1)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", f"DEADLINE '{deadline_s} s' ON STRAGGLER SKIP"))
    master = world.master()
    sealed_at: list[float] = []
    skipped_at: dict[int, float] = {}

    def run(until: float) -> None:
        while world.now < until:
            world.run(0.01)
            for _, records in master.results.values():
                for record, _ in records:
                    skipped_at.setdefault(record.index, world.now)

    for gap_s in [*gaps_s, deadline_s + 1.0]:
        sealed_at.append(world.now)
        for number in (0, 1):
            world[number].seal("clicks", BASE + len(sealed_at) * SLIDE)
        run(world.now + gap_s)
    assert list(skipped_at) == [1000 + place for place in range(len(sealed_at))]
    for at, sealed in zip(skipped_at.values(), sealed_at, strict=True):
        assert sealed + deadline_s <= at < sealed + deadline_s + 0.1


def test_an_agent_that_died_behind_a_barrier_is_named() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.barrier = True
    dead = next(agent for agent in world.living if agent is not world.master())
    world.kill(dead)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(8.0)
    for record, _ in world.results(world.living[0]):
        assert (record.state, record.missing) == ("FINAL_PARTIAL", [f"agent-{dead.number}"])


def test_contributions_that_cannot_be_merged_are_named_and_the_interval_closes() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0])
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    entry = master.control.leadership.masters[job].term.book.active[0]
    dropped = PartsDropped(job, 1, 1000, 1001, bitmap_of(1 << entry.number), "column v0: string and int64")
    world.post(0.0, master, dropped)
    for agent in world.living:
        if agent.me.id != entry.contact.id:
            agent.seal("clicks", BASE + SLIDE)
    world.agents[entry.contact.id].seal("clicks", BASE)
    world.run(2.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing) == ("FINAL_PARTIAL", [entry.name])
    errors = world.ask(world[1], "describe", {"job": "shop/top"}).body["errors"]
    assert any("string and int64" in error for error in errors)


def test_a_result_that_cannot_be_finalised_is_skipped_and_reported() -> None:
    world = World(2)
    fill(world, intervals=1)
    world.apply(world[0])
    world.poison = True
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    ((record, _),) = world.results(world[0])
    assert record.state == "SKIPPED"
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["errors"]
