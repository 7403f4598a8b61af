"""A job with several sites: what a successor gets from them when the master dies.

Whole agents on virtual time. `pytest -s` prints the seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.master.grants import Grants
from elfmesh.control.paths.part_requests import LAG_S_FIRST
from elfmesh.control.paths.site_parts import PENDING_S, SiteParts
from elfmesh.control.protocol.messages import Answered
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bits_of
from tests.control.paths.test_groups import REGIONS, settled
from tests.exhaustive import few
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.test_agents import JOB, closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until, wall_us
from tests.sim.world.memnet import MemoryTransport
from tests.sim.world.network import Faults

SITES = JOB.replace("DEADLINE", "PATHS 3 ACROSS region DEADLINE")
TWO = JOB.replace("DEADLINE", "PATHS 2 ACROSS region DEADLINE")
"""A master and one site: no votes close an interval."""

AGENTS = 9
BETWEEN_S = 0.05
"""One way between two regions."""

LAST = 8
"""Intervals of a segment that are looked at."""


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


class Wan:
    """The links of a fleet: regions are `BETWEEN_S` apart, and parts to one agent may be stalled.

    Attributes:
        answers: requests that were answered from another region.
        stalled: the agent that gets no parts.
        cut: an agent and a region between which no message arrives.
        slow_s: how much later parts arrive that are sent from one region to another.
        covered: by site and interval: the members in the parts that it holds.
    """

    def __init__(self, fleet: SimFleet) -> None:
        self.stalled, self.answers = b"", 0
        self.cut, self.slow_s = (b"", ""), 0.0
        self.covered: dict[tuple[bytes, int], int] = defaultdict(int)
        network, send = fleet.network, fleet.network.send
        deliveries = network.link.deliveries
        regions = defaultdict(str, {each.id: each.region for each in fleet.agents})  # a seed has no id yet

        def far(source: bytes, target: bytes, now: float, rng: random.Random) -> list[float]:
            more = BETWEEN_S if regions[source] != regions[target] else 0.0
            return [delay + more for delay in deliveries(source, target, now, rng)]

        def sent(source: MemoryTransport, to: Contact, frame: bytes) -> None:
            message, _ = network.codec.decode(frame)
            assert source.me is not None
            if isinstance(message, Answered) and regions[source.me.id] != regions[to.id]:
                self.answers += 1
            between = {source.me.id: regions[source.me.id], to.id: regions.get(to.id, "")}  # a seed has no id
            is_cut = between.get(self.cut[0]) is not None and self.cut[1] in between.values()
            if (isinstance(message, Part | SitePart) and to.id == self.stalled) or is_cut:
                return
            if self.slow_s and isinstance(message, Part) and regions[source.me.id] != regions[to.id]:
                asyncio.get_running_loop().call_later(self.slow_s, send, source, to, frame)
            else:
                send(source, to, frame)

        def taken(site: SiteParts, message: Part, payload: bytes) -> bool:
            segment = message.segment  # the first one begins at the beginning of time
            for interval in range(max(segment.start, segment.stop - LAST), segment.stop):
                self.covered[site._context.me.id, interval] |= bits_of(segment.coverage)
            return take(site, message, payload)

        take = SiteParts.take
        mock.patch.object(SiteParts, "take", taken).start()
        mock.patch.object(network.link, "deliveries", far).start()
        mock.patch.object(network, "send", sent).start()


@dataclass
class TakeOver:
    """Seconds from the death of a master.

    Attributes:
        led_s: until another agent led the job.
        closed_s: until that agent had closed the interval that was open when the master died.
    """

    led_s: float
    closed_s: float


def sites(fleet: SimFleet) -> tuple[Contact, ...]:
    for agent in masters(fleet):
        assert agent.local is not None
        for master in agent.local.control.leadership.masters.values():
            layout = master.term.layouts.layout
            return () if layout is None else layout.sites
    return ()


def _term(agent: SimAgent) -> Any:
    masters = agent.local.control.leadership.masters if agent.local is not None else {}
    return next((master.term for master in masters.values()), None)


def take_over(text: str, directory: Path, seed: int = 1) -> TakeOver:
    """The master dies for good before the parts of an interval have reached it; the sites have them."""

    async def main() -> TakeOver:
        loop = asyncio.get_running_loop()
        fleet = SimFleet(seed, AGENTS, regions=REGIONS)
        await fleet.start()
        wan = Wan(fleet)
        await settled(fleet, text)
        led = masters(fleet)[0]
        chosen = sites(fleet)
        wan.stalled = led.id
        wan.covered.clear()
        writing = asyncio.create_task(write(fleet, 400, random.Random(seed)))
        await asyncio.sleep(1)
        at = _term(led).closer.next

        async def held() -> bool:
            return all(wan.covered[each.id, at] == (1 << AGENTS) - 1 for each in chosen[1:])

        await (until(held, 20, 0.01) if chosen else asyncio.sleep(3))
        await asyncio.sleep(2 * BETWEEN_S)
        assert _term(led).closer.next == at
        upto = (at + 1) * 2_000_000
        led.crash()
        died = loop.time()

        async def leads() -> Any:
            return [each for each in fleet.agents if each is not led and _term(each) is not None]

        async def done() -> bool:
            return any(_term(each).closer.closed > at for each in await leads())

        await until(leads, 60, 0.005)
        led_s = loop.time() - died
        await until(done, 200, 0.005)
        found = TakeOver(led_s, loop.time() - died)
        other = next(each.number for each in fleet.agents if each is not led)
        results = {record.index: (record, rows) for record, rows in await fleet.results("sim/sums", other)}
        writing.cancel()
        expected = oracle(fleet.agents, directory, upto)
        compare(results, {at: expected[at]}, AGENTS)
        return found

    found: TakeOver = vloop.run(main())
    return found


def closes_at_once() -> None:
    """The dead master's own contribution is in the record, although its host never comes back."""
    with TemporaryDirectory() as directory:
        found = take_over(TWO, Path(directory))
    print(f"PATHS 2: led after {found.led_s:.2f} s, closed after {found.closed_s:.2f} s")
    assert found.closed_s < 60, "the deadline of the job"
    assert found.closed_s - found.led_s <= 6 * BETWEEN_S, "a request, its answer, and the register's round"


def test_a_successor_closes_at_once_what_the_sites_of_a_dead_master_have() -> None:
    closes_at_once()


def read_near(seed: int = 2) -> None:
    """A reader in another region than the master waits for the next record."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        fleet = SimFleet(seed, AGENTS, regions=REGIONS)
        await fleet.start()
        wan = Wan(fleet)
        mock.patch.object(Grants, "grant", return_value=None).start()  # the master closes each interval
        await settled(fleet, SITES)
        term = _term(masters(fleet)[0])

        async def votes() -> bool:
            return {each.id for each in sites(fleet)} == {each.id for each in term.cell.contacts}

        writing = asyncio.create_task(write(fleet, 200, random.Random(seed)))
        await until(votes, 120)
        await asyncio.sleep(6)
        for reader in [each for each in fleet.agents if each.region != masters(fleet)[0].region]:
            latest, before = term.copy.latest, wan.answers
            body = {"job": "sim/sums", "from": latest + 1, "wait": 20, "state": "final"}
            asked = asyncio.create_task(
                reader.ask("results", body | {"incarnation": term.manifest.incarnation})
            )

            async def published(index: int = latest + 1) -> bool:
                return bool(term.copy.latest >= index)

            await until(published, 20, 0.005)
            at = loop.time()
            reply = await asked
            assert [record.index for record, _ in decode_page(reply.payload)] == [latest + 1]
            assert loop.time() - at <= 2 * BETWEEN_S, "two legs, well below an interval"
            assert wan.answers <= before + 1, "another site answers too at most once"
        writing.cancel()
        fleet.check()

    vloop.run(main())


def test_a_reader_has_a_record_from_the_site_of_its_region() -> None:
    read_near()


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_crashes_and_bad_links_change_no_answer_of_several_sites(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        fleet = SimFleet(seed, AGENTS, fanout=rng.choice((1, 2, 32)), regions=REGIONS)
        await fleet.start()
        await settled(fleet, SITES)
        fleet.network.link.faults = Faults.swarm(rng)
        for _ in range(4):
            await write(fleet, rng.uniform(0.5, 3), rng)
            named = {each.id for each in sites(fleet)}
            victims = [agent for agent in fleet.agents if agent.id in named] or fleet.agents
            victim = rng.choice(victims if rng.random() < 0.7 else fleet.agents)
            victim.crash()
            await write(fleet, rng.uniform(0.2, 8), rng)
            await victim.start(fleet.seeds(victim))
        await write(fleet, 2, rng)
        fleet.network.link.faults = Faults()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), AGENTS)

    vloop.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(30), 0, 4))  # seeds from 300 on draw several sites
def test_several_sites_hold_every_invariant(seed: int) -> None:
    """The members of each rack are a group, under the faults of the seed; masters die and find sites."""
    drawn = draw(seed)
    spread = replace(drawn, hosts=max(5, drawn.hosts), racks=2 + seed % 2)
    outcome = run(replace(spread, jobs=tuple(replace(job, paths=2 + seed % 2) for job in drawn.jobs)))
    assert check(outcome) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(12), 1, 2))
def test_sites_of_members_without_labels_hold_every_invariant(seed: int) -> None:
    """Each site collects a tree of all members."""
    drawn = draw(seed)
    spread = replace(drawn, hosts=max(5, drawn.hosts), racks=1)
    outcome = run(replace(spread, jobs=tuple(replace(job, paths=2 + seed % 2) for job in drawn.jobs)))
    assert check(outcome) == {}


def late_groups(
    directory: Path, text: str = TWO, seed: int = 1, slow_s: float = 0.0
) -> tuple[float, dict[str, int]]:
    """No message passes between the master and a region; the other site gets the region's parts.

    Args:
        slow_s: how much later parts arrive in other regions.

    Returns:
        The longest time from the end of an interval until the master had closed it, and its counters.
    """

    async def main() -> tuple[float, dict[str, int]]:
        fleet = SimFleet(seed, AGENTS, regions=REGIONS)
        await fleet.start()
        wan = Wan(fleet)
        await settled(fleet, text)
        writing = asyncio.create_task(write(fleet, 60, random.Random(seed)))
        await asyncio.sleep(6)
        led, term = masters(fleet)[0], _term(masters(fleet)[0])
        near = {led.region, *(each.region for each in sites(fleet))}
        region = next((each for each in REGIONS if each not in near), None)
        wan.cut = led.id, region or next(each for each in REGIONS if each != led.region)
        wan.slow_s = slow_s
        first, longest = term.closer.next, 0.0
        for index in range(first, first + 8):

            async def closed_it(index: int = index) -> bool:
                return bool(term.closer.closed > index)

            await until(closed_it, 30, 0.05)  # half of the deadline of the job
            longest = max(longest, wall_us() / 1e6 - (index + 1) * 2)
        wan.cut, wan.slow_s = (b"", ""), 0.0
        stats = led.local.control.stats() if led.local is not None else {}
        upto = (first + 8) * 2_000_000
        results = await closed(fleet, upto, led.number)
        writing.cancel()
        fleet.check()
        expected = oracle(fleet.agents, directory, upto)
        compare(results, {at: expected[at] for at in range(first, first + 8)}, AGENTS)
        return longest, stats

    found: tuple[float, dict[str, int]] = vloop.run(main())
    return found


def requested_in_time() -> None:
    with TemporaryDirectory() as directory:
        try:
            longest, stats = late_groups(Path(directory))
        except TimeoutError:
            raise AssertionError("it waits for the deadline of the job") from None
    requests = stats.get("control.part_requests")
    print(f"PATHS 2, link cut: closed {longest:.2f} s after its end at the latest, {requests} requests")


def test_a_master_without_a_link_to_a_group_closes_its_intervals_by_part_requests() -> None:
    requested_in_time()


def in_time_before_an_end() -> None:
    """Point 12: the site gets the parts of the cut region when it has forgotten the first request."""
    with TemporaryDirectory() as directory:
        late_groups(Path(directory), TWO.replace("60 s", "10 s"), slow_s=LAG_S_FIRST + PENDING_S + 2)


def test_a_partial_record_lacks_nothing_that_a_site_has() -> None:
    in_time_before_an_end()
