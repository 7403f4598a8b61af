"""Which sites vote: also where the first voters have no log of the job, and with more sites than voters.

Whole agents on virtual time.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from elfmesh import ids
from tests.control.paths.test_groups import REGIONS
from tests.control.paths.test_site import has_grant, voted
from tests.control.paths.test_sites import SITES, Wan, _term, sites
from tests.sim.test_agents import closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, until

AGENTS = 12
WAIT_S = 200.0


async def closes_by_votes(fleet: SimFleet, text: str, directory: Path) -> None:
    """Apply a job; votes close its intervals, with the rows of one process over the members' logs."""
    await fleet.start()
    Wan(fleet)
    members = [agent for agent in fleet.agents if agent.stream == "log"]
    await fleet.apply(text, members[0].number)
    writing = asyncio.create_task(write(fleet, 2 * WAIT_S, random.Random(1)))

    async def granted() -> bool:
        return has_grant(fleet)

    await until(granted, WAIT_S)
    before = voted(fleet)
    await asyncio.sleep(20)
    assert voted(fleet) > before
    assert has_grant(fleet)
    voters = {each.id for each in _term(masters(fleet)[0]).cell.contacts}
    assert voters <= {each.id for each in sites(fleet)}
    writing.cancel()
    upto = ended_us()
    results = await closed(fleet, upto, members[-1].number)
    fleet.check()
    expected = oracle(members, directory, upto)
    compare(results, {at: rows for at, rows in expected.items() if at > min(results)}, len(members))


def test_voters_without_the_log_of_a_job_make_way_for_its_sites(tmp_path: Path) -> None:
    """The agents nearest to the job in each region have no log of it, so they can be no sites."""

    async def main() -> None:
        fleet = SimFleet(5, AGENTS, regions=REGIONS)
        for place in ids.job_placements("sim/sums", "local"):
            for region in REGIONS:
                inside = [agent for agent in fleet.agents if agent.region == region]
                min(inside, key=lambda agent: ids.distance(agent.id, place)).stream = "other"
        await closes_by_votes(fleet, SITES, tmp_path)

    vloop.run(main())


@pytest.mark.parametrize("paths", [4, 5])
def test_voters_close_the_intervals_of_a_job_with_more_sites_than_voters(paths: int, tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(6, AGENTS, regions=REGIONS)
        await closes_by_votes(fleet, SITES.replace("PATHS 3", f"PATHS {paths}"), tmp_path)
        assert len(sites(fleet)) == paths

    vloop.run(main())
