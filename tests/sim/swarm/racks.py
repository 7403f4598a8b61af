"""A rack is lost for good, with whole agents on virtual time: whether its jobs close their next interval."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from elfmesh.control.jobs.failure_domains import domain_text
from elfmesh.control.master.master import Master
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import LAN, calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.scenario import Scenario
from tests.sim.world import vloop

HOSTS, RACKS = 9, 3
RUN_S = 60.0
PATIENCE_S = 60.0


def _leads(swarm: Swarm) -> Master | None:
    """The master with the newest term among the agents that are up."""
    masters = [
        master
        for host in swarm.hosts
        if host.local is not None and host.wanted
        for master in host.local.control.leadership.masters.values()
    ]
    return max(masters, key=lambda each: each.term.epoch, default=None)


async def _lose_a_rack(scenario: Scenario, system: SimOS, path: type[SimPath]) -> tuple[int, bool]:
    """The most voters in one rack, and whether the job closes an interval after that rack is lost."""
    swarm = Swarm(scenario, system, path, None)
    await swarm.begin()
    swarm.network.swarm_link.set(scenario.weather)
    await asyncio.sleep(RUN_S)
    master = _leads(swarm)
    assert master is not None
    racks = Counter(domain_text(voter) for voter in master.term.cell.contacts)
    rack, voters = max(racks.items(), key=lambda each: (each[1], each[0]))
    for host in swarm.hosts:
        if host.rack == rack:
            host.wanted = False
            host.kill()
    closed, until = master.term.closer.closed, asyncio.get_running_loop().time() + PATIENCE_S
    closes = False
    while not closes and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.1)
        led = _leads(swarm)
        closes = led is not None and led.term.closer.closed > closed
    await swarm.end()
    return voters, closes


def lose_a_rack(seed: int) -> tuple[int, bool]:
    scenario = replace(calm(seed, HOSTS, straggler="skip"), weather=LAN, racks=RACKS)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        return vloop.run(_lose_a_rack(scenario, system, path))
