"""Jobs with ROWS: counts of groups outlive masters, and a window is a row of the interval that fills it."""

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
from tests.ql.counting import full_windows
from tests.ql.sessions import Record

JOB = "shop/threes"
SIZE, STEP = 3, 2
ROWS = f"""CREATE JOB shop.threes EVERY '10 s' DEADLINE '1 s' AS
SELECT k AS product, window_start AS first, window_end AS last, count(*) AS hits FROM clicks
GROUP BY ROWS({SIZE}, {STEP}), k"""
READER = """CREATE JOB shop.pairs EVERY '20 s' AS SELECT product, sum(hits) AS hits, window_start AS first
FROM shop.top GROUP BY ROWS(2), product"""


def feed(agent: Agent, *records: tuple[float, str]) -> None:
    """Records so many slides behind the first interval."""
    agent.feed("clicks", [(BASE + int(at * SLIDE), key) for at, key in records])


def wanted(agents: list[Agent]) -> list[dict[str, Any]]:
    """All windows that are full, as rows; the interval that shows each, first."""
    records: list[Record] = [(at, key, 1) for agent in agents for at, key in agent.logs.get("clicks", [])]
    rows = [
        {"at": interval, "product": key, "first": iso_us(window[0][0]), "last": iso_us(window[-1][0])}
        | {"hits": len(window)}
        for interval, key, window in full_windows(records, SIZE, STEP, SLIDE)
    ]
    return sorted(rows, key=lambda row: (row["at"], row["product"], row["first"], row["last"]))


def found(world: World) -> list[dict[str, Any]]:
    return [
        {"at": record.index, **row} for record, rows in world.results(world.living[0], JOB) for row in rows
    ]


def traffic(agents: list[Agent], seed: int, first: int, last: int) -> None:
    """Records of some keys, every record at any agent, some of them at the same time."""
    rng = random.Random(seed)
    for key in "abcdef":
        at = first + rng.random() * 2
        while at < last:
            feed(rng.choice(agents), (at, key))
            at += rng.choice([0.0, 0.2, 0.5, 1.0, 2.5])


def test_windows_span_intervals_and_agents() -> None:
    world = World(3)
    world.apply(world[0], ROWS)
    traffic(world.living, 1, 0, 12)
    world.seal_all(BASE + 16 * SLIDE)
    world.run(5.0)
    assert found(world) == wanted(world.living) != []
    records = world.results(world[0], JOB)
    assert all((record.state, record.completeness) == ("FINAL", 1.0) for record, _ in records)
    assert all(not record.open for _, log in world[1].results.values() for record, _ in log)


def heir_of(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Windows of a job whose master dies while some are open: those that are, and those that shall be."""
    world, stay = led_by_a_successor(ROWS, JOB, seed, lambda agents, _: traffic(agents, seed, 0, 12))
    return found(world), wanted(stay)


@pytest.mark.parametrize("seed", range(4))
def test_a_successor_goes_on_with_the_counts(seed: int) -> None:
    are, shall_be = heir_of(seed)
    assert are == shall_be


def test_a_successor_that_did_not_find_them_would_lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation of the test before."""
    monkeypatch.setattr(OpenGroups, "restore", lambda self, tail: None)
    outcomes = [heir_of(seed) for seed in range(4)]
    assert any(are != shall_be for are, shall_be in outcomes)


def test_a_late_record_of_an_open_interval_is_counted_in_its_place() -> None:
    world = World(3)
    world.apply(world[0], ROWS)
    feed(world[0], (0.1, "a"), (0.9, "a"))
    feed(world[1], (0.95, "a"))
    world[0].seal("clicks", BASE + 2 * SLIDE)
    world.run(0.3)
    world[0].late("clicks", [(BASE + SLIDE // 2, "a")])
    world.run(0.3)
    for agent in world.living:
        agent.seal("clicks", BASE + 4 * SLIDE)
    world.run(5.0)
    (row,) = found(world)
    assert (row["first"], row["last"]) == (iso_us(BASE + SLIDE // 10), iso_us(BASE + SLIDE * 9 // 10))
    assert [row] == wanted(world.living)


def test_after_an_interval_that_lacks_a_member_all_windows_are_partial() -> None:
    world = World(4)
    world.apply(world[0], ROWS)
    master = world.master(JOB)
    dead, stays = [agent for agent in world.living if agent is not master][:2]
    feed(stays, *((at + 0.5, "a") for at in range(12)))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    world.kill(dead)
    world.run(1.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(40.0)
    records = [record for record, _ in world.results(world.living[0], JOB)]
    assert (records[0].state, records[0].completeness) == ("FINAL", 1.0)
    assert {record.completeness for record in records[1:]} == {0.75}
    assert {record.state for record in records[1:]} == {"FINAL_PARTIAL"}
    assert records[-1].index > 1005


def test_after_a_skipped_interval_the_counts_begin_again() -> None:
    world = World(3)
    world.apply(world[0], ROWS)
    feed(world[0], (0.5, "a"))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    feed(world[0], (1.1, "a"), (2.1, "a"), (2.2, "a"), (2.3, "a"))
    world.poison = True
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    world.poison = False
    world.kill(world.master(JOB))
    world.run(3.0)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(30.0)
    records = {record.index: (record, rows) for record, rows in world.results(world.living[0], JOB)}
    assert records[1001][0].state == "SKIPPED"
    record, rows = records[1002]
    assert [row["first"] for row in rows] == [iso_us(BASE + int(2.1 * SLIDE))]
    assert (record.state, record.completeness) == ("FINAL_PARTIAL", 0.0)


def test_another_number_of_records_begins_the_counts_again() -> None:
    world = World(3)
    world.apply(world[0], ROWS)
    feed(world[0], (0.5, "a"), (0.6, "a"))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    assert world.apply(world[0], ROWS.replace("ROWS(3, 2)", "ROWS(2, 2)")).status == 200
    world.seal_all(BASE + 5 * SLIDE)
    world.run(3.0)
    feed(world[1], (8.1, "a"), (8.2, "a"), (8.3, "a"))
    world.seal_all(BASE + 12 * SLIDE)
    world.run(5.0)
    assert [(row["at"], row["hits"]) for row in found(world)] == [(1008, 2)]


def test_the_results_of_a_job_are_counted_as_records() -> None:
    world = World(4)
    fill(world, intervals=20)
    world.apply(world[0])
    assert world.apply(world[1], READER).status == 200
    world.seal_all(BASE + 13 * SLIDE)
    world.run(10.0)
    world.kill(world.master("shop/pairs"))
    world.run(5.0)
    world.seal_all(BASE + 22 * SLIDE)
    world.run(20.0)
    shown = [
        {"at": record.index, **row}
        for record, rows in world.results(world.living[0], "shop/pairs")
        for row in rows
    ]
    given: list[Record] = [
        (record.start_us or 0, row["product"], row["hits"])
        for record, rows in world.results(world.living[0])
        for row in rows
    ]
    rows = [
        {
            "at": at,
            "product": key,
            "hits": sum(hits or 0 for _, _, hits in window),
            "first": iso_us(window[0][0]),
        }
        for at, key, window in full_windows(given, 2, 2, 2 * SLIDE)
    ]
    assert shown == sorted(rows, key=lambda row: (row["at"], row["product"], row["hits"]))
    assert len(shown) > 20
