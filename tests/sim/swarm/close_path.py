"""The way of an interval from its last seal to a reader, in a fleet whose hosts are far from each other.

Owns the counting of *legs*: messages between hosts, each of which waits for the one before. The steps that
the agents note (`control/causes.py`) name their causes, so the legs are counted and not inferred from times.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from elfmesh.control.causes import Step
from elfmesh.control.jobs.pages import decode_page
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.network import Weather
from tests.sim.swarm.scenario import Scenario
from tests.sim.world import vloop
from tests.sim.world.network import Faults

LEG_S = 0.2
"""Above the time between two polls of a log, so that the last contribution is one of another host."""
FAR = Weather(Faults(delay_min=LEG_S, delay_max=LEG_S))
WARM_S = 30.0
RECORDS = 5


@dataclass(frozen=True)
class ClosePath:
    """The way of one interval.

    Attributes:
        hosts: those of its steps from the seal to the publication, each change of which is a leg.
        to_reader_s: from the publication to the answer to a reader at another host.
    """

    hosts: tuple[str, ...]
    to_reader_s: float

    @property
    def legs(self) -> int:
        return len(self.hosts) - 1 + round(self.to_reader_s / LEG_S)


class _AnyTree:
    """All trees of all jobs."""

    def __contains__(self, tree: object) -> bool:
        return True


def close_paths(seed: int, hosts: int = 3) -> list[ClosePath]:
    """The ways of some intervals of one job whose members are one leg from each other."""
    scenario = replace(calm(seed, hosts), weather=FAR)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        return vloop.run(_close_paths(scenario, system, path))


async def _close_paths(scenario: Scenario, system: SimOS, path: type[SimPath]) -> list[ClosePath]:
    swarm = Swarm(scenario, system, path, None)
    await swarm.begin()
    swarm.network.swarm_link.set(scenario.weather)
    await asyncio.sleep(WARM_S)
    leads = swarm.master()
    reader = next(host for host in swarm.hosts if host is not leads)
    job = next(iter(swarm.current.values()))[0]
    newest = decode_page((await reader.ask("results", {"job": job, "limit": 1000})).payload)[-1][0].index
    answered: dict[int, float] = {}
    for _ in range(RECORDS):
        reply = await reader.ask("results", {"job": job, "from": newest + 1, "wait": 15})
        newest = decode_page(reply.payload)[-1][0].index
        answered[newest] = asyncio.get_running_loop().time()
    found = [_path(swarm, index, at) for index, at in answered.items()]
    await swarm.end()
    return found


def _path(swarm: Swarm, index: int, answered: float) -> ClosePath:
    steps: dict[bytes, tuple[str, Step]] = {}
    for host in swarm.hosts:
        assert host.local is not None
        for step in host.local.control.context.causes.of(_AnyTree(), index):
            steps[step.name] = host.name, step
    published = next(each for each in steps.values() if each[1].kind == "published")
    hosts, (name, step) = [published[0]], published
    while step.kind != "sealed":
        name, step = steps[step.cause]
        if name != hosts[-1]:
            hosts.append(name)
    return ClosePath(tuple(reversed(hosts)), answered - published[1].at)
