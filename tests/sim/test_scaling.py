"""A fleet that is scaled down by more than half, seeds and all, and up again, on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from elfmesh.control.jobs.records import ResultRecord
from tests.exhaustive import few
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop

HOSTS, SEEDS = 7, 4
"""The first four are what all others are configured to join by."""


async def _last(swarm: Swarm) -> ResultRecord:
    found = await swarm.results(swarm.current["ids"])
    return found[max(found)][0]


async def _scaled(scenario: Scenario, system: SimOS, path: type[SimPath], *, together: bool) -> None:
    swarm = Swarm(scenario, system, path, None)
    await swarm.begin()
    await asyncio.sleep(scenario.calm_s)
    going, staying = swarm.hosts[:SEEDS], swarm.hosts[SEEDS:]
    now = asyncio.get_running_loop().time
    for hosts in [going] if together else [[host] for host in going]:
        began = now()
        await asyncio.gather(*(host.leave() for host in hosts))
        assert now() - began < 60.0, "in order, not switched off"
    before = await _last(swarm)
    applied = await staying[0].ask("apply", {"text": scenario.jobs[0].text.replace("sim.ids", "sim.more")})
    assert applied.body.get("state") == "new", "of seven that were there a moment ago three are"
    await asyncio.sleep(10.0)
    after = await _last(swarm)
    assert after.index > before.index + 5
    assert (after.agents_in, after.agents_expected) == (3, 3)

    for host in staying:
        host.kill()
    for host in staying:
        host.start()
    await asyncio.sleep(30.0)
    again = await _last(swarm)
    assert again.index > after.index + 15, "no peer was left to join by but each other"
    assert (again.agents_in, again.agents_expected) == (3, 3)

    for host in going[:2]:
        host.left = False
        host.start()
    await asyncio.sleep(20.0)
    back = await _last(swarm)
    assert (back.agents_in, back.agents_expected) == (5, 5), "who has left comes back like any other"
    for host in swarm.hosts[2:SEEDS]:
        assert not host.up
    await swarm.end()


@pytest.mark.parametrize("together", few((True, False), 1))
def test_a_fleet_is_scaled_down_restarted_and_scaled_up_again(together: bool) -> None:
    quiet()
    scenario = calm(1, HOSTS)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        vloop.run(_scaled(scenario, system, path, together=together))
