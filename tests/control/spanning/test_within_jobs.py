"""Jobs with WITHIN: records that wait for a match outlive masters, and each pair is a row of one interval."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.ql.values.row_json import iso_us
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import Agent
from tests.control.succession import led_by_a_successor
from tests.ql.counting import near_pairs
from tests.ql.sessions import Record

JOB = "shop/pairs"
WITHIN = 15_000_000
TEXT = """CREATE JOB shop.pairs EVERY '10 s' DEADLINE '1 s' AS
SELECT l.k AS product, l.ts AS at, r.ts AS other FROM clicks l {} JOIN clicks r
ON l.k = r.k AND l.ts < r.ts WITHIN INTERVAL '15' SECOND"""
READER = """CREATE JOB shop.rises EVERY '20 s' AS
SELECT l.product AS product, l.ts AS at, r.hits - l.hits AS more
FROM shop.top l LEFT JOIN shop.top r ON l.product = r.product AND l.ts < r.ts WITHIN '11 s'"""


def feed(agent: Agent, *records: tuple[float, str]) -> None:
    """Records so many slides behind the first interval."""
    agent.feed("clicks", [(BASE + int(at * SLIDE), key) for at, key in records])


def row(interval: int, left: Record, right: Record | None) -> dict[str, Any]:
    other = None if right is None else iso_us(right[0])
    return {"at interval": interval, "product": left[1], "at": iso_us(left[0]), "other": other}


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: tuple(map(str, each.values())))


def later_pairs(records: list[Record], within: int, width: int, kind: str) -> list[Any]:
    """Pairs of the paper in which the right record is later; alone are the others."""
    near = near_pairs(records, records, within, width, "")
    pairs = [each for each in near if each[2] is not None and each[1][0] < each[2][0]]
    if kind == "LEFT":
        matched = [one for _, one, _ in pairs]
        alone = [each for each in records if each not in matched]
        pairs += [((each[0] + within - 1) // width, each, None) for each in alone]
    return pairs


def wanted(agents: list[Agent], kind: str) -> list[dict[str, Any]]:
    records: list[Record] = [(at, key, 1) for agent in agents for at, key in agent.logs.get("clicks", [])]
    return ordered([row(*each) for each in later_pairs(records, WITHIN, SLIDE, kind)])


def found(world: World, job: str = JOB) -> list[dict[str, Any]]:
    records = world.results(world.living[0], job)
    return ordered([{"at interval": record.index, **each} for record, rows in records for each in rows])


def traffic(agents: list[Agent], seed: int, first: int, last: int) -> None:
    rng = random.Random(seed)
    for key in "abcd":
        at = first + rng.random() * 2
        while at < last:
            feed(rng.choice(agents), (at, key))
            at += rng.choice([0.2, 0.9, 1.5, 2.5])


@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_pairs_span_intervals_and_agents(kind: str) -> None:
    world = World(3)
    world.apply(world[0], TEXT.format(kind))
    traffic(world.living, 1, 0, 8)
    world.seal_all(BASE + 16 * SLIDE)
    world.run(5.0)
    assert found(world) == wanted(world.living, kind) != []
    records = world.results(world[0], JOB)
    assert all((record.state, record.completeness) == ("FINAL", 1.0) for record, _ in records)
    assert all(not record.open for _, log in world[1].results.values() for record, _ in log)


def heir_of(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Pairs of a job whose master dies while records wait: those that are, and those that shall be."""
    text = TEXT.format("LEFT")
    world, stay = led_by_a_successor(text, JOB, seed, lambda agents, _: traffic(agents, seed, 0, 10))
    return found(world), wanted(stay, "LEFT")


@pytest.mark.parametrize("seed", range(4))
def test_a_successor_goes_on_with_the_records_that_wait(seed: int) -> None:
    are, shall_be = heir_of(seed)
    assert are == shall_be


def test_a_successor_that_did_not_find_them_would_lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation of the test before."""
    monkeypatch.setattr(OpenGroups, "restore", lambda self, tail: None)
    outcomes = [heir_of(seed) for seed in range(4)]
    assert any(are != shall_be for are, shall_be in outcomes)


def test_a_left_row_goes_out_alone_in_an_interval_without_records() -> None:
    world = World(3)
    world.apply(world[0], TEXT.format("LEFT"))
    feed(world[0], (0.1, "a"))
    world.seal_all(BASE + 12 * SLIDE)
    world.run(3.0)
    records = world.results(world[0], JOB)
    assert [(record.index, len(rows)) for record, rows in records] == [(1000, 0), (1001, 1)]


def test_a_late_record_of_an_open_interval_finds_its_match() -> None:
    world = World(3)
    world.apply(world[0], TEXT.format(""))
    feed(world[0], (0.9, "a"))
    world[0].seal("clicks", BASE + 2 * SLIDE)
    world.run(0.3)
    world[0].late("clicks", [(BASE + SLIDE // 2, "a")])
    world.run(0.3)
    for agent in world.living:
        agent.seal("clicks", BASE + 4 * SLIDE)
    world.run(5.0)
    assert found(world) == wanted(world.living, "") != []


def test_rows_after_an_interval_that_lacks_a_member_are_partial_for_the_time_of_the_join() -> None:
    world = World(4)
    world.apply(world[0], TEXT.format(""))
    master = world.master(JOB)
    dead, stays = [agent for agent in world.living if agent is not master][:2]
    feed(stays, *((at + 0.5, "a") for at in range(20)))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    world.kill(dead)
    world.run(1.0)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(40.0)
    world.restart(dead)
    world.run(5.0)
    world.seal_all(BASE + 20 * SLIDE)
    world.run(10.0)
    records = {record.index: record for record, _ in world.results(world.living[0], JOB)}
    lacks = [index for index, record in records.items() if record.missing]
    partial = [index for index, record in records.items() if record.state != "FINAL"]
    assert lacks == [1001, 1002, 1003]
    assert partial == [*lacks, 1004, 1005], "15 s after the end reach into two intervals"
    assert {records[index].completeness for index in partial} == {0.75}


@pytest.mark.parametrize("kill", [False, True])
def test_results_of_jobs_are_joined_across_intervals(kill: bool) -> None:
    world = World(4)
    fill(world, intervals=16)
    world.apply(world[0])
    assert world.apply(world[1], READER).status == 200
    world.seal_all(BASE + 9 * SLIDE)
    world.run(10.0)
    if kill:
        world.kill(world.master("shop/rises"))
        world.run(5.0)
    world.seal_all(BASE + 24 * SLIDE)
    world.run(20.0)
    top: list[Record] = [
        (record.start_us or 0, each["product"], each["hits"])
        for record, rows in world.results(world.living[0])
        for each in rows
    ]
    shall_be = [
        {"at interval": at, "product": one[1], "at": iso_us(one[0])}
        | {"more": None if two is None else two[2] - one[2]}
        for at, one, two in later_pairs(top, 11_000_000, 2 * SLIDE, "LEFT")
    ]
    are = found(world, "shop/rises")
    last = max(each["at interval"] for each in are)
    assert are == ordered([each for each in shall_be if each["at interval"] <= last])
    assert sum(each["more"] is None for each in are) >= 1
    assert len(are) > 20
