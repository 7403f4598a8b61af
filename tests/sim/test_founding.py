"""A job that is applied while its fleet is still being put together, with whole agents on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from elfmesh.control.master.founding import GROWING_S
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.network import Weather
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop
from tests.sim.world.network import Faults

HOSTS = 12


async def _founders(
    scenario: Scenario, system: SimOS, path: type[SimPath], after_s: float
) -> tuple[int, int]:
    """How many a job was told to have, and how many it has from its beginning."""
    swarm = Swarm(scenario, system, path, None)
    swarm.network.swarm_link.set(scenario.weather)
    for host in swarm.hosts:
        host.start()
        await asyncio.sleep(0.05)
    last = swarm.hosts[-1].local
    assert last is not None
    await last.pump.joined.wait()
    await asyncio.sleep(after_s)
    applied = await swarm.hosts[0].ask("apply", {"text": scenario.jobs[0].text})
    assert applied.status == 200, applied.body
    await asyncio.sleep(3.0)
    described = await swarm.hosts[0].ask("describe", {"job": "sim/ids"})
    await swarm.end()
    founders = [each for each in described.body["roster"]["agents"] if each["from"] is None]
    return applied.body["expected"], len(founders)


@pytest.mark.parametrize("delays_s", [(0.0005, 0.02), (0.03, 0.2)])
@pytest.mark.parametrize(("seed", "after_s"), [(0, 0.0), (1, 0.0), (2, GROWING_S), (3, GROWING_S)])
def test_all_agents_of_a_fresh_fleet_are_founding_members(
    seed: int, after_s: float, delays_s: tuple[float, float]
) -> None:
    quiet()
    weather = Weather(Faults(delay_min=delays_s[0], delay_max=delays_s[1]))
    scenario = replace(calm(seed, HOSTS), weather=weather)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        assert vloop.run(_founders(scenario, system, path, after_s)) == (HOSTS, HOSTS)
