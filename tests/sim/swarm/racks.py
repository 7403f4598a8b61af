"""A rack is lost for good, with whole agents on virtual time: whether its jobs close their next interval."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace

from elfmesh import ids
from elfmesh.control.jobs.failure_domains import domain_text
from elfmesh.control.master.master import Master
from elfmesh.control.register.first_acceptors import Survey
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import LAN, calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.scenario import Scenario
from tests.sim.world import vloop

HOSTS, RACKS, NEAR = 9, 3, 8
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


@dataclass(frozen=True)
class Far:
    """A job whose nearest agents share a rack: where its voters are, and what a founder without them learns.

    Attributes:
        racks: of the voters.
        far: how many voters are not among the agents nearest to the job.
        holders: how many of the nearest agents hold the terms with these voters.
        learned: whether a founder that reaches no voter learns which agents vote.
    """

    racks: int
    far: int
    holders: int
    learned: bool


def _is_spread(master: Master | None) -> bool:
    value = None if master is None else master.term.cell.value
    return value is not None and not value.former and len({each.rack for each in value.acceptors}) == RACKS


async def _far_voters(
    scenario: Scenario, system: SimOS, path: type[SimPath], near: frozenset[bytes]
) -> tuple[Master, Far]:
    """Run a fleet whose hosts `near` are in one rack; then the voters are lost, and another agent asks."""
    swarm = Swarm(scenario, system, path, None)
    for number, host in enumerate(swarm.hosts):
        host.rack = "r0" if host.id in near or not near else f"r{1 + number % 2}"
    await swarm.begin()
    swarm.network.swarm_link.set(scenario.weather)
    await asyncio.sleep(scenario.calm_s)
    for _ in range(int(RUN_S) if near else 0):
        if _is_spread(_leads(swarm)):
            break
        await asyncio.sleep(1.0)
    master = _leads(swarm)
    assert master is not None
    job, contacts = master.job, master.term.cell.contacts
    voters = {voter.id for voter in contacts}
    held = [
        host.local.control.leadership.known(job)[0]
        for host in swarm.hosts
        if host.local is not None and host.id in near
    ]
    holders = sum(terms is not None and {each.id for each in terms.acceptors} == voters for terms in held)
    for host in swarm.hosts:
        if host.id in voters:
            host.wanted = False
            host.kill()
    asker = next(host for host in reversed(swarm.hosts) if host.wanted)
    assert asker.local is not None
    survey: asyncio.Future[Survey] = asyncio.get_running_loop().create_future()
    asker.local.control.leadership.first.survey(job, survey.set_result)
    named = (await survey).acceptors
    await swarm.end()
    racks = len({voter.rack for voter in contacts})
    far = len(voters - near)
    return master, Far(racks, far, holders, {each.id for each in named} == voters)


def far_voters(seed: int, hosts: int = 11) -> Far:
    """What becomes of a job whose eight nearest agents, and no others, are in one rack."""
    scenario = replace(calm(seed, hosts), weather=LAN)
    near: frozenset[bytes] = frozenset()
    found = None
    for _ in range(2):  # the first run shows the id of the job
        system = SimOS()
        with installed(system, scenario.poll_s) as path:
            master, found = vloop.run(_far_voters(scenario, system, path, near))
        agents = {entry.contact.id for entry in master.term.book.active}
        near = frozenset(sorted(agents, key=lambda each: ids.distance(each, master.job))[:NEAR])
    assert found is not None
    return found
