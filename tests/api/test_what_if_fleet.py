"""What is predicted for a rack is what happens when the rack is killed a moment later."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.api.what_if import lost_agents, worth_without
from tests.control.clicks import BASE, SLIDE
from tests.control.harness import World
from tests.control.member.support import Agent
from tests.exhaustive import few

STEP_S, PATIENCE_S = 0.05, 8.0


def name_of(agent: Agent) -> str:
    return f"agent-{agent.number}"


def rows(world: World, racks: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name_of(agent),
            "address": f"{agent.me.host}:{agent.me.port}",
            "status": "alive",
            "labels": {"rack": rack},
        }
        for agent, rack in zip(world.living, racks, strict=True)
    ]


def until_closed(world: World, master: Agent, interval: int) -> float:
    """How long it takes until the master has the result of an interval, at most `PATIENCE_S`."""
    began = world.now
    while world.now - began < PATIENCE_S:
        if any(record.index >= interval for record, _ in world.results(master)):
            break
        world.run(STEP_S)
    return world.now - began


@pytest.mark.parametrize("seed", few(range(20), 5))
def test_the_prediction_is_the_record(seed: int) -> None:
    dice = random.Random(seed)
    racks = [f"r{at // 2}" for at in range(6)]
    world = World(6)
    world.apply(world[0])
    counts = [dice.randint(1, 40) for _ in racks]
    for interval in range(2):
        for agent, count in zip(world.living, counts, strict=True):
            agent.feed("clicks", [(BASE + interval * SLIDE + at, "a") for at in range(count)])
    world.seal_all(BASE + SLIDE)
    master = world.master()
    usual_s = until_closed(world, master, BASE // SLIDE)
    world.run(1.0)
    agents = rows(world, racks)
    lost = next(rack for rack in ("r0", "r1", "r2") if name_of(master) not in _members(agents, rack))
    gone = lost_agents(agents, [("rack", lost)])
    job = world.ask(world[0], "describe", {"job": "shop/top"}).body
    (predicted,) = worth_without(agents, [job], gone)
    for agent in [each for each in world.living if name_of(each) in gone]:
        world.kill(agent)
    world.seal_all(BASE + 2 * SLIDE)
    took_s = until_closed(world, master, BASE // SLIDE + 1)
    last, _ = world.results(master)[-1]
    if predicted.next_result == "none":
        assert predicted.late_seconds is None
        assert last.index == BASE // SLIDE, "no majority of the voters is left"
        return
    assert last.index == BASE // SLIDE + 1
    assert sorted(last.missing) == gone == list(predicted.lost)
    assert last.fidelity == pytest.approx(predicted.fidelity, abs=0.02)
    assert predicted.late_seconds is not None
    assert usual_s + 1.0 < took_s <= usual_s + predicted.late_seconds


def _members(agents: list[dict[str, Any]], rack: str) -> list[str]:
    return [each["name"] for each in agents if each["labels"]["rack"] == rack]
