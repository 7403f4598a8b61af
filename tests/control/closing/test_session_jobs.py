"""Jobs with session windows: what is open behind an interval outlives masters, and ends in one interval."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.ql.values.row_json import iso_us
from tests.control.clicks import BASE, SLIDE
from tests.control.harness import World
from tests.control.member.support import SESSIONS, Agent
from tests.control.succession import led_by_a_successor
from tests.ql.sessions import walk

JOB = "shop/visits"


def feed(agent: Agent, *records: tuple[float, str]) -> None:
    """Records so many slides behind the first interval."""
    agent.feed("clicks", [(BASE + int(at * SLIDE), key) for at, key in records])


def wanted(agents: list[Agent]) -> list[dict[str, Any]]:
    """All sessions, as rows; the interval that shows each, first."""
    records = [(at, key, 1) for agent in agents for at, key in agent.logs.get("clicks", [])]
    rows = [
        {"at": one["last"] // SLIDE + 1, "product": one["k"], "start": iso_us(one["start"])}
        | {"end": iso_us(one["end"]), "hits": len(one["values"])}
        for one in walk(records, SLIDE)
    ]
    return sorted(rows, key=lambda row: (row["at"], row["product"], row["start"]))


def found(world: World) -> list[dict[str, Any]]:
    return [
        {"at": record.index, **row} for record, rows in world.results(world.living[0], JOB) for row in rows
    ]


def traffic(agents: list[Agent], seed: int, first: int, last: int) -> None:
    """Bursts and pauses of some keys, every record at any agent."""
    rng = random.Random(seed)
    for key in "abcdef":
        at = first + rng.random() * 2
        while at < last:
            feed(rng.choice(agents), (at, key))
            at += rng.choice([0.2, 0.5, 0.9, 1.0, 1.2, 2.5])


def test_sessions_span_intervals_and_agents_and_end_where_no_agent_has_records() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], (0.1, "a"), (1.9, "a"), (2.5, "b"))
    feed(world[1], (1.0, "a"), (2.8, "a"))
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    records = world.results(world[0], JOB)
    assert [record.index for record, _ in records] == [1000, 1001, 1002, 1003], "and none while none are open"
    assert [len(rows) for _, rows in records] == [0, 0, 0, 2]
    assert found(world) == wanted(world.living)
    assert all(record.state == "FINAL" for record, _ in records)
    assert all(not record.open for _, log in world[1].results.values() for record, _ in log)


def heir_of(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Sessions of a job whose master dies while some are open: those that are, and those that shall be."""
    world, stay = led_by_a_successor(SESSIONS, JOB, seed, lambda agents, _: traffic(agents, seed, 0, 12))
    return found(world), wanted(stay)


@pytest.mark.parametrize("seed", range(6))
def test_a_successor_goes_on_with_the_open_sessions(seed: int) -> None:
    are, shall_be = heir_of(seed)
    assert are == shall_be


def test_a_successor_that_did_not_find_them_would_lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation of the test before."""
    monkeypatch.setattr(OpenGroups, "restore", lambda self, tail: None)
    outcomes = [heir_of(seed) for seed in range(6)]
    assert any(are != shall_be for are, shall_be in outcomes)


def test_sessions_of_intervals_that_lack_a_member_are_partial() -> None:
    world = World(4)
    world.apply(world[0], SESSIONS)
    master = world.master(JOB)
    dead, stays = [agent for agent in world.living if agent is not master][:2]
    feed(dead, (0.5, "a"))
    feed(stays, (0.9, "a"), (1.3, "a"), (5.5, "b"))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    world.kill(dead)
    world.run(1.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(30.0)
    records = {record.index: (record, rows) for record, rows in world.results(world.living[0], JOB)}
    record, rows = records[1002]
    assert [row["hits"] for row in rows] == [3]
    assert (record.state, record.completeness) == ("FINAL_PARTIAL", 0.75)
    assert [row["product"] for row in records[1006][1]] == ["b"]


def test_a_skipped_interval_leaves_sessions_open_and_their_rows_incomplete() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], (0.5, "a"))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    feed(world[0], (1.1, "a"), (2.5, "b"))
    world.poison = True
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    world.poison = False
    world.kill(world.master(JOB))
    world.run(3.0)
    feed(world.living[0], (3.5, "c"))
    world.seal_all(BASE + 6 * SLIDE)
    world.run(30.0)
    records = {record.index: (record, rows) for record, rows in world.results(world.living[0], JOB)}
    assert [records[index][0].state for index in (1000, 1001)] == ["FINAL", "SKIPPED"]
    record, rows = records[1002]
    assert [(row["product"], row["hits"]) for row in rows] == [("a", 1)]
    assert (record.state, record.completeness) == ("FINAL_PARTIAL", 0.0)
    assert [row["product"] for row in records[1004][1]] == ["c"]


def test_no_tentative_results_are_shown() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], (0.5, "a"))
    world[0].seal("clicks", BASE + 4 * SLIDE)
    world.run(5.0)
    assert world.results(world[0], JOB, state="all") == []


def test_an_update_keeps_open_sessions_or_begins_them_again() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], (0.5, "a"), (1.4, "a"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    kept = world.apply(world[0], SESSIONS.replace("COUNT(*) AS hits", "COUNT(*) * 10 AS hits"))
    assert kept.status == 200
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    (row,) = found(world)
    assert (row["at"], row["start"]) == (1002, iso_us(BASE + SLIDE // 2))
    feed(world[0], (8.5, "b"), (9.5, "b"), (10.5, "b"), (11.5, "b"), (12.4, "b"))
    world.seal_all(BASE + 9 * SLIDE)
    world.run(2.0)
    changed = world.apply(world[0], SESSIONS.replace("GROUP BY", "WHERE k <> 'z' GROUP BY"))
    assert changed.status == 200
    world.seal_all(BASE + 20 * SLIDE)
    world.run(5.0)
    row = found(world)[-1]
    assert row["end"] == iso_us(BASE + int(13.4 * SLIDE))
    assert row["hits"] < 5, "what was open at the boundary is gone"


def test_a_verification_is_refused_with_the_reason() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], (0.5, "a"))
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    reply = world.ask(world[0], "verify", {"job": JOB, "interval": 1001})
    assert "refused" in str(reply.body)


def test_the_register_has_the_newest_open_sessions_only() -> None:
    world = World(3)
    world.apply(world[0], SESSIONS)
    feed(world[0], *((at / 2, "a") for at in range(8)))
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    job = ids.job_id(JOB, "local")
    cell: RegisterCell = world.master(JOB).control.leadership.masters[job].term.committer.cell
    opened = OpenGroups(world.master(JOB).control.leadership.masters[job].term.terms.stages)
    opened.restore(cell.tail)
    assert opened.due(1004, 1005, 0b1, 0b1) == 1004
