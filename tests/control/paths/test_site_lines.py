"""Complete records that a site shows before they are closed, to readers of its region (points 13 and 19).

Whole agents on virtual time. `pytest -s` prints the seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from statistics import median
from unittest import mock

import pytest

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from tests.control.paths.test_site import begun
from tests.control.paths.test_sites import BETWEEN_S, SITES, _term, sites
from tests.sim.test_agents import masters
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


class Follower:
    """A reader of all states at one agent, which asks as `elf results --follow --state all` does.

    Attributes:
        seen: the records and their rows, with the time at which each was here.
        sources: what has counted the revisions, in order, each once.
    """

    def __init__(self, agent: SimAgent, start: int) -> None:
        self.agent, self.next = agent, start
        self.seen: list[tuple[float, ResultRecord, bytes]] = []
        self.sources: list[str] = []

    async def follow(self) -> None:
        revision, near, site = 0, "", ""
        while True:
            body = {"job": "sim/sums", "from": self.next, "state": "all", "revision": revision, "limit": 100}
            reply = await self.agent.ask("results", body | {"near": near, "site": site, "wait": 10})
            if reply.status != 200:
                await asyncio.sleep(0.1)
                continue
            at, page = asyncio.get_running_loop().time(), decode_page(reply.payload)
            self.seen += [(at, record, rows) for record, rows in page]
            revision, near, site = (reply.body[name] for name in ("revision", "incarnation", "site"))
            self.sources += [site] if site not in self.sources[-1:] else []
            self.next = reply.body["next"] if page else self.next

    @property
    def finals(self) -> dict[int, tuple[float, ResultRecord, bytes]]:
        return {each[1].index: each for each in self.seen if each[1].state != "TENTATIVE"}

    def check(self) -> None:
        """Each interval ends once, and nothing of it follows its end."""
        ended = [record.index for _, record, _ in self.seen if record.state != "TENTATIVE"]
        assert ended == sorted(set(ended))
        for at, (_, record, _) in enumerate(self.seen):
            before = [each for _, each, _ in self.seen[:at] if each.index == record.index]
            assert all(each.state == "TENTATIVE" for each in before)


def near_a_site(fleet: SimFleet) -> tuple[SimAgent, SimAgent]:
    """A reader, and the site of its region, which is not the master."""
    site = next(each for each in fleet.agents if each.id == sites(fleet)[1].id)
    reader = next(each for each in fleet.agents if each.region == site.region and each is not site)
    return reader, site


def test_a_reader_near_a_site_has_complete_records_before_their_votes_are_known() -> None:
    async def main() -> None:
        fleet, _, writing = await begun(SITES, 2)
        reader, site = near_a_site(fleet)
        follower = Follower(reader, _term(masters(fleet)[0]).copy.latest + 1)
        following = asyncio.create_task(follower.follow())
        await asyncio.sleep(30)
        following.cancel()
        writing.cancel()
        follower.check()
        assert [each.partition("/")[0] for each in follower.sources][-1] == site.name
        shown = [each for each in follower.seen if each[1].state == "TENTATIVE"]
        earlier = []
        for at, record, rows in shown[:-1]:
            end, final, final_rows = follower.finals[record.index]
            assert (record.completeness, record.counts, rows) == (1.0, final.counts, final_rows)
            earlier.append(end - at)
        print(f"{len(shown)} of {len(follower.finals)} intervals, {median(earlier):.3f} s before their end")
        assert len(shown) >= 0.8 * len(follower.finals)
        assert median(earlier) >= 0.7 * BETWEEN_S, "one leg instead of two"
        fleet.check()

    vloop.run(main())


def test_a_follower_of_all_states_begins_again_when_its_site_or_its_master_changes() -> None:
    async def main() -> None:
        fleet, _, writing = await begun(SITES, 4)
        reader, site = near_a_site(fleet)
        led = masters(fleet)[0]
        assert reader is not led
        follower = Follower(reader, _term(led).copy.latest + 1)
        following = asyncio.create_task(follower.follow())
        await asyncio.sleep(6)
        assert follower.sources[-1].startswith(f"{site.name}/")
        site.crash()
        await asyncio.sleep(10)
        assert not follower.sources[-1].startswith(f"{site.name}/")
        await site.start(fleet.seeds(site))
        await asyncio.sleep(10)
        led.crash()
        await asyncio.sleep(20)
        await led.start(fleet.seeds(led))
        await asyncio.sleep(20)
        upto = max(follower.finals)

        async def read() -> bool:
            return max(follower.finals) > upto

        await until(read, 60)
        following.cancel()
        writing.cancel()
        follower.check()
        assert len({each.partition("/")[0] for each in follower.sources}) >= 3, follower.sources
        published = {record.index: record for record, _ in await fleet.results("sim/sums", reader.number)}
        wanted = {at: each for at, each in published.items() if min(follower.finals) <= at <= upto}
        assert {at: each[1] for at, each in follower.finals.items() if at <= upto} == wanted
        fleet.check()

    vloop.run(main())
