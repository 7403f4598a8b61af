"""A job over several regions: what crosses between them, and what a lost gateway costs.

Whole agents on virtual time. `pytest -s` prints the numbers.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import pytest

from elfmesh.control.jobs.terms import Gateway
from elfmesh.control.protocol.messages_parts import Part
from elfmesh.machine import Contact
from elfmesh.srt.messages import SegmentUp
from tests.exhaustive import few
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.test_agents import JOB, closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, until
from tests.sim.world.memnet import MemoryTransport
from tests.sim.world.network import Faults

REGIONS = ("ap", "eu", "us")
PATHS = JOB.replace("DEADLINE", "PATHS 1 ACROSS region DEADLINE")
SECONDS = 12.0


@dataclass
class Crossings:
    """What contributions cost between regions.

    Attributes:
        messages: segments and parts with records, by kind.
        nbytes: of all segments and parts, with their headers.
        intervals: that were closed meanwhile.
    """

    messages: Counter[str] = field(default_factory=Counter)
    nbytes: int = 0
    intervals: int = 0

    @property
    def per_interval(self) -> float:
        return sum(self.messages.values()) / self.intervals


def count_crossings(fleet: SimFleet) -> Crossings:
    """Count from now on what passes between two regions."""
    found, send, codec = Crossings(), fleet.network.send, fleet.network.codec

    def counted(source: MemoryTransport, to: Contact, frame: bytes) -> None:
        target = fleet.network.hosts.get((to.host, to.port))
        mine = source.me.region if source.me is not None else ""
        if target is not None and target.me is not None and target.me.region != mine:
            message, _ = codec.decode(frame)
            if isinstance(message, SegmentUp | Part):
                found.nbytes += len(frame)
                if message.segment.entries:
                    found.messages[type(message).__name__] += 1
        send(source, to, frame)

    mock.patch.object(fleet.network, "send", counted).start()
    return found


def gateways(fleet: SimFleet) -> tuple[Gateway, ...]:
    for agent in masters(fleet):
        assert agent.local is not None
        for master in agent.local.control.leadership.masters.values():
            layout = master.term.layouts.layout
            return () if layout is None else layout.gateways
    return ()


async def settled(fleet: SimFleet, text: str) -> None:
    """Apply a job, and let its trees grow."""
    answer = await fleet.apply(text)
    assert answer["acknowledged"] == answer["expected"] == len(fleet.agents)
    await write(fleet, 6, random.Random(0))


def crossings(per_region: int, text: str, directory: Path, seed: int = 1) -> Crossings:
    async def main() -> Crossings:
        fleet = SimFleet(seed, per_region * len(REGIONS), regions=REGIONS)
        await fleet.start()
        await settled(fleet, text)
        found, begin = count_crossings(fleet), ended_us()
        await write(fleet, SECONDS, random.Random(seed))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, directory, upto), len(fleet.agents))
        found.intervals = sum(begin <= index * 2_000_000 < upto for index in results)
        return found

    outcome: Crossings = vloop.run(main())
    return outcome


@pytest.mark.parametrize("seed", few([1, 2], 1))
def test_what_crosses_between_regions_does_not_grow_with_the_agents_of_a_region(
    seed: int, tmp_path: Path
) -> None:
    found = {}
    for name, text in (("one tree", JOB), ("PATHS 1", PATHS)):
        for per_region in (2, 6):
            (folder := tmp_path / f"{name} {per_region}").mkdir()
            each = found[name, per_region] = crossings(per_region, text, folder, seed)
            size = each.nbytes / each.intervals
            print(f"{name}, 3 x {per_region}: {each.per_interval:.2f} messages, {size:.0f} bytes an interval")
    few, many = found["PATHS 1", 2], found["PATHS 1", 6]
    assert few.messages.keys() == many.messages.keys() == {"Part"}
    assert many.per_interval <= len(REGIONS), "a part of each group"
    assert many.nbytes / many.intervals <= 1.1 * few.nbytes / few.intervals
    assert found["one tree", 6].per_interval > 2 * many.per_interval


def a_lost_gateway(directory: Path, seed: int = 3) -> None:
    """The gateway of a region dies for good while its members contribute; another one takes its place."""

    async def main() -> None:
        fleet = SimFleet(seed, 9, regions=REGIONS)
        await fleet.start()
        await settled(fleet, PATHS)
        led = masters(fleet)[0]
        lost = next(each for each in gateways(fleet) if each.group != led.region)
        victim = next(agent for agent in fleet.agents if agent.id == lost.contact.id)
        victim.crash()
        await write(fleet, 3, random.Random(1))

        async def replaced() -> bool:
            return all(each.contact.id != lost.contact.id for each in gateways(fleet))

        await until(replaced, 60)
        await write(fleet, 3, random.Random(2))
        await victim.start(fleet.seeds(victim))
        await write(fleet, 6, random.Random(3))
        upto = ended_us()
        results = await closed(fleet, upto, fleet.agents.index(led))
        fleet.check()
        compare(results, oracle(fleet.agents, directory, upto), 9)

    vloop.run(main())


@pytest.mark.parametrize("seed", [3, 4])
def test_a_gateway_that_dies_loses_nothing(seed: int, tmp_path: Path) -> None:
    a_lost_gateway(tmp_path, seed)


def test_a_gateway_that_comes_back_before_it_is_replaced_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(5, 9, regions=REGIONS)
        await fleet.start()
        await settled(fleet, PATHS)
        led = masters(fleet)[0]
        for turn, lost in enumerate(each for each in gateways(fleet) if each.group != led.region):
            victim = next(agent for agent in fleet.agents if agent.id == lost.contact.id)
            victim.crash()
            await write(fleet, 0.6, random.Random(turn))
            await victim.start(fleet.seeds(victim))
            await write(fleet, 5, random.Random(turn + 10))
        upto = ended_us()
        results = await closed(fleet, upto, fleet.agents.index(led))
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 9)

    vloop.run(main())


def test_a_dead_master_of_a_job_with_groups_is_followed_by_another_layout(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(6, 9, regions=REGIONS)
        await fleet.start()
        await settled(fleet, PATHS)
        led = masters(fleet)[0]
        led.crash()
        await write(fleet, 4, random.Random(1))
        await led.start(fleet.seeds(led))
        await write(fleet, 6, random.Random(2))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 9)
        assert {each.group for each in gateways(fleet)} == set(REGIONS)

    vloop.run(main())


def test_paths_come_and_go_while_the_job_runs(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(7, 6, regions=REGIONS)
        await fleet.start()
        await settled(fleet, JOB)
        assert gateways(fleet) == ()
        for text, groups in ((PATHS, 3), (JOB, 0)):
            answer = await fleet.apply(text)
            assert answer["state"] == "keep", answer
            await write(fleet, 5, random.Random(groups))
            assert len(gateways(fleet)) == groups
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 6)

    vloop.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(30), 0, 4))  # seeds from 300 on draw groups
def test_groups_hold_every_invariant(seed: int) -> None:
    """The members of each rack are a group, under the faults of the seed."""
    drawn = draw(seed)
    grouped = replace(drawn, hosts=max(5, drawn.hosts), racks=2 + seed % 2)
    outcome = run(replace(grouped, jobs=tuple(replace(job, paths=1) for job in drawn.jobs)))
    assert check(outcome) == {}


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_crashes_and_bad_links_change_no_answer_of_groups(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        fleet = SimFleet(seed, 9, fanout=rng.choice((1, 2, 32)), regions=REGIONS)
        await fleet.start()
        await settled(fleet, PATHS)
        fleet.network.link.faults = Faults.swarm(rng)
        for _ in range(4):
            await write(fleet, rng.uniform(0.5, 3), rng)
            lost = {each.contact.id for each in gateways(fleet)}
            victims = [agent for agent in fleet.agents if agent.id in lost] or fleet.agents
            victim = rng.choice(victims if rng.random() < 0.6 else fleet.agents)
            victim.crash()
            await write(fleet, rng.uniform(0.2, 8), rng)
            await victim.start(fleet.seeds(victim))
        await write(fleet, 2, rng)
        fleet.network.link.faults = Faults()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 9)

    vloop.run(main())
