"""What the trees alone must hold: forests of agents without jobs, on the same cores (`grove`).

A safeguard that only a forest's own promise rests on is asked here: what reaches a root is disjoint or
reported, and who joins hears what was said. The jobs above survive its absence by safeguards of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.srt import Publish
from tests.sim.world.grove import Grove

Trees = Callable[[int], None]
"""Runs one seed; raises AssertionError if anything is wrong."""


def partitions(seed: int) -> None:
    """Agents are cut off for a while, twice, and find other parents with what they have sent already."""
    grove = Grove(24, 2, seed=seed, fanout=3)
    grove.form()
    grove.declare()
    grove.roll(1)
    for _ in range(2):
        ids = [agent.me.id for agent in grove.alive]
        grove.rng.shuffle(ids)
        grove.link.partition(ids[:9], ids[9:])
        grove.roll(12)
        grove.link.heal()
        grove.roll(1)
    grove.check_all(limit=15.0)


def latecomers(seed: int) -> None:
    """An agent joins a tree after something was said in it."""
    grove = Grove(12, 1, seed=seed)
    tree = grove.trees[0]
    grove.form()
    root = grove.closest(tree)
    grove.give(root, Publish(tree, b"before", 1.0))
    grove.network.run_for(1.0)
    grove.join(99)
    grove.network.run_for(2.0)
    grove.form()
    grove.network.run_for(8.0)
    assert all(agent.delivered[tree, b"before"] == 1 for agent in grove.alive)
