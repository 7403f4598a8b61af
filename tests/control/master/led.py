"""A job that runs on three agents, with its master."""

from __future__ import annotations

from elfmesh.control.master.master import Master
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import TEXT


def running() -> tuple[World, Master]:
    world = World(3)
    fill(world, intervals=8)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    (master,) = world.master().control.leadership.masters.values()
    return world, master


def update(world: World) -> None:
    assert world.apply(world[0], TEXT + " LIMIT 100").status == 200
