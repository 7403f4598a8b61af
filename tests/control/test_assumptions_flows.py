"""Violations of ASSUME in a fleet: from the contributions of members to unclean records and health."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member import support

ASSUMING = support.TEXT.replace("DEADLINE", "ASSUME (hits >= 0) DEADLINE")
SEALED = support.SEALED.replace("DEADLINE", "ASSUME (v -> k) DEADLINE").replace("'1 h')", "'1 h'), v")


def breaking(monkeypatch: pytest.MonkeyPatch, broken: dict[tuple[int, int], int]) -> None:
    """Let the workers of agents count violations: by number of the agent and interval."""
    counted = support.count

    def count(agent: support.Agent, plan: Any, partitions: int, index: int, *more: Any, **by: Any) -> Any:
        counts, payloads = counted(agent, plan, partitions, index, *more, **by)
        found = broken.get((agent.number, index), 0)
        return ((*counts, found) if found else counts), payloads

    monkeypatch.setattr(support, "count", count)


def health(world: World) -> list[tuple[str, str | None]]:
    bodies = [world.ask(agent, "health").body for agent in world.living]
    return [(each["status"], each.get("problem")) for each in bodies if each["status"] != "ok"]


def test_violations_make_records_unclean_and_the_leader_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, {(0, 1001): 2, (2, 1001): 3, (1, 1002): 1})
    world = World(3)
    world.apply(world[0], ASSUMING)
    fill(world, intervals=4)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    exact(world, world[0])
    records = [record for record, _ in world.results(world[0], "shop/top")]
    broken = {record.index: record.counts.get("assumption_broken", 0) for record in records}
    assert broken == {1000: 0, 1001: 5, 1002: 1, 1003: 0}
    assert [record.index for record in records if not record.is_clean] == [1001, 1002]
    assert all(record.state == "FINAL" and record.completeness == 1.0 for record in records)
    reason = "shop/top: violations of ASSUME in recent intervals: 6"
    assert health(world) == [("degraded", reason)]
    described = world.ask(world.master(), "describe", {"job": "shop/top"}).body
    assert described["counts"]["assumption_broken"] == 6
    fill(world, intervals=9, first=1004)
    world.seal_all(BASE + 13 * SLIDE)
    world.run(6.0)
    assert health(world) == [], "the recent intervals hold"


def test_violations_among_records_of_no_result_count_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaking(monkeypatch, {(2, 1000): 4})
    world = World(3)
    world.apply(world[0], ASSUMING.replace("'1 s'", "'1 s' ON STRAGGLER SKIP", 1))
    fill(world, intervals=3)
    for agent in world.living[:2]:
        agent.seal("clicks", BASE + SLIDE)
    world.run(30.0)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(5.0)
    fill(world, intervals=2, first=1003)
    world.seal_all(BASE + 5 * SLIDE)
    world.run(5.0)
    records = {record.index: record for record, _ in world.results(world[0], "shop/top")}
    assert records[1000].missing == ["agent-2"]
    assert all("assumption_broken" not in record.counts for record in records.values())
    assert any(record.counts["expired"] for record in records.values())


def test_open_partitions_of_several_agents_contradict_a_dependency() -> None:
    world = World(3)
    world.apply(world[0], SEALED.replace("ALL", "ONE"))
    for number, at, key in ((0, 0.1, "a"), (1, 1.2, "b"), (1, 1.3, "b"), (0, 2.1, "a!"), (2, 3.1, "b!")):
        world[number].feed("clicks", [(BASE + int(at * SLIDE), key)])
    world.seal_all(BASE + 6 * SLIDE)
    world.run(3.0)
    found = {record.index: (record.counts.get("assumption_broken", 0), record.is_clean)
             for record, _ in world.results(world[0], "ads/ends")}  # fmt: skip
    assert found == {1000: (0, True), 1001: (1, False), 1002: (0, True), 1003: (0, True)}
    assert [status for status, _ in health(world)] == ["degraded"]
