"""Whole agents whose jobs lose most of their voters, go on without them, and see them come back (D-4)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from elfmesh.control.jobs.register_value import generation
from tests.exhaustive import few
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.measure import broken
from tests.sim.swarm.network import Weather
from tests.sim.swarm.recovering import WAYS, YIELD_S, Recovering, Recovery
from tests.sim.swarm.scenario import RECOVERY, Scenario, draw
from tests.sim.swarm.shapes import BUSY, RECOVERIES
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop

pytestmark = [pytest.mark.apart]

SEEDS = (0, 1, 2, 3, 4)
WATCHED_S = 2 * YIELD_S


def scenario(seed: int) -> Scenario:
    """A fleet without other faults, of five to seven agents."""
    made = calm(seed, 5 + seed % 3, width_s=2)
    weather = (Weather(), BUSY)[seed % 2]
    return replace(made, faults=(RECOVERY,), poll_s=0.5, store_s=0.0, weather=weather)


async def _story(of: Scenario, system: SimOS, path: type[SimPath], way: str) -> tuple[Recovery, list[str]]:
    """One recovery; what happened, and the incarnations that are led in the end."""
    swarm = Swarm(of, system, path, None)
    await swarm.begin()
    swarm.network.swarm_link.set(of.weather)
    await asyncio.sleep(of.calm_s)
    rng = random.Random(f"{of.seed}/{way}")
    recovery = await Recovering(swarm, rng).recover(of.jobs[0], way)
    assert recovery is not None
    await asyncio.sleep(WATCHED_S)
    led = [
        master.term.manifest.incarnation
        for host in swarm.hosts
        if host.local is not None
        for master in host.local.control.leadership.masters.values()
        if generation(master.term.epoch) == 1
    ]
    await swarm.end()
    return recovery, led


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", few(SEEDS, 1))
def test_old_voters_that_come_back_yield_to_the_new_incarnation(seed: int, way: str) -> None:
    quiet()
    made, system = scenario(seed), SimOS()
    with installed(system, made.poll_s) as path:
        recovery, led = vloop.run(_story(made, system, path, way))
    assert recovery.after, "it was never recovered"
    assert led == [recovery.after]
    assert recovery.whole_at is not None
    longest_s = max((*recovery.rivals, *recovery.old), default=0.0)
    assert longest_s <= YIELD_S, "two generations are led, or the old one is read as the present one"
    assert not recovery.mixed


@pytest.mark.parametrize("seed", few(range(24), 1, 7))
def test_jobs_that_are_recovered_again_and_again_hold_every_invariant(seed: int) -> None:
    assert not broken(RECOVERIES(draw(seed)), None)
