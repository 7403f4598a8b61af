"""Hosts that keep their data in a region: what is sent elsewhere, whichever agent leads the job and fails.

Whole agents on virtual time. The watch knows whose data a message contains from the contributions that hosts
make, and not from the rule that travels with them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import pytest

from elfmesh import ids
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.messages_early import Early
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.control.protocol.messages_safety import Keep, KeptCopy, Verified
from elfmesh.control.protocol.messages_standby import Delta, Prefix
from elfmesh.interval_map import numbers
from elfmesh.machine import Contact, Message
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.messages import SegmentUp
from tests.control.paths.test_groups import REGIONS
from tests.exhaustive import few
from tests.sim.test_agents import JOB, closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until
from tests.sim.world.memnet import MemoryTransport
from tests.sim.world.network import Faults

AGENTS = 9
JOBS = 12
SUCCEEDED_ELSEWHERE = 3
"""A seed whose master is in eu, and the next one is not."""
TEXTS = {
    "one tree": JOB,
    "groups": JOB.replace("DEADLINE", "PATHS 1 ACROSS region PARTITIONS 2 DEADLINE"),
    "sites": JOB.replace("DEADLINE", "PATHS 3 ACROSS region REPLICAS 1 DEADLINE"),
    "standbys": JOB.replace("DEADLINE", "STANDBY ALL LAG '500 ms' REPLICAS 1 DEADLINE"),
}


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


@dataclass
class DataWatch:
    """What is sent to other regions of the data of hosts that keep it in their own.

    Attributes:
        hosts: region of each such host, by id.
        sent: messages with their data, within the region and elsewhere.
    """

    fleet: SimFleet
    hosts: dict[bytes, str]
    owners: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: int = 0
    elsewhere: list[str] = field(default_factory=list)

    def watch(self) -> None:
        send, codec, up = self.fleet.network.send, self.fleet.network.codec, Contributions._send_range

        def sending(source: MemoryTransport, to: Contact, frame: bytes) -> None:
            message, _ = codec.decode(frame)
            region = next((each.region for each in self.fleet.agents if each.id == to.id), "")
            assert source.me is not None
            for owner in self.owners_of(message, source.me.id):
                if owner in self.hosts:
                    self.sent += 1
                    if region != self.hosts[owner]:
                        self.elsewhere.append(f"{type(message).__name__} to {region}")
            send(source, to, frame)

        def contributed(contributions: Contributions, event: Sealed, start: int, stop: int) -> None:
            key = contributions._epoch, contributions._number
            self.owners[key] = contributions._context.me.id
            up(contributions, event, start, stop)

        mock.patch.object(self.fleet.network, "send", sending).start()
        mock.patch.object(Contributions, "_send_range", contributed).start()

    def owners_of(self, message: Message, sender: bytes) -> list[bytes]:
        match message:
            case SegmentUp() | Part() | SitePart():
                epoch, coverage = message.segment.epoch, bits_of(message.segment.coverage)
                return [self.owners[epoch, number] for number in numbers(coverage)]
            case Keep() | Delta():
                return [message.member]
            case KeptCopy():
                return [message.copy.member]
            case Prefix():
                return [delta.member for delta in message.deltas]
            case Early() | Verified():
                return [sender]
        return []


def fleet_of(seed: int, kept: str = "eu") -> tuple[SimFleet, DataWatch]:
    """Nine agents in three regions; those of one region keep their data there."""
    fleet = SimFleet(seed, AGENTS, regions=REGIONS)
    ruled = [agent for agent in fleet.agents if agent.region == kept]
    for agent in ruled:
        agent.policy = replace(OPEN, keep_in=((f"region={kept}",),))
    return fleet, DataWatch(fleet, {agent.id: kept for agent in ruled})


async def begun(fleet: SimFleet, data: DataWatch, text: str) -> list[SimAgent]:
    """Apply a job; returns the agents that take part, which are all if its master is in the region."""
    await fleet.start()
    data.watch()
    answer = await fleet.apply(text)
    led = masters(fleet)[0]
    inside = led.region in data.hosts.values()
    members = [agent for agent in fleet.agents if inside or agent.id not in data.hosts]
    excluded = [agent.name for agent in fleet.agents if agent not in members]
    assert answer["expected"] == len(members)
    assert [each.split()[0] for each in answer.get("excluded") or []] == excluded
    await write(fleet, 6, random.Random(0))
    return members


@pytest.mark.parametrize("kept", REGIONS)
@pytest.mark.parametrize("name", TEXTS)
def test_no_data_of_a_host_leaves_its_region_and_its_records_count_if_the_master_is_there(
    name: str, kept: str, tmp_path: Path
) -> None:
    async def main() -> None:
        fleet, data = fleet_of(3, kept)
        members = await begun(fleet, data, TEXTS[name])
        await write(fleet, 8, random.Random(1))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(members, tmp_path, upto), len(members))
        assert data.elsewhere == []
        assert bool(data.sent) == (len(members) == AGENTS)

    vloop.run(main())


@pytest.mark.parametrize("name", TEXTS)
def test_the_judge_notices_what_hosts_without_a_rule_send(name: str) -> None:
    async def main() -> None:
        fleet, data = fleet_of(3, "us")
        for agent in fleet.agents:
            agent.policy = OPEN
        await fleet.start()
        data.watch()
        await fleet.apply(TEXTS[name])
        await write(fleet, 4, random.Random(0))
        assert data.elsewhere != []

    vloop.run(main())


def test_a_master_elsewhere_is_followed_by_records_without_the_hosts_that_it_must_not_see(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        fleet, data = fleet_of(SUCCEEDED_ELSEWHERE, "eu")
        members = await begun(fleet, data, TEXTS["sites"].replace("60 s", "2 s"))
        assert len(members) == AGENTS
        led = masters(fleet)[0]
        led.crash()

        async def elsewhere() -> bool:
            (agent, *_) = masters(fleet)
            assert agent.local is not None
            return bool(agent.local.control.leadership.masters) and agent.region != led.region

        await write(fleet, 4, random.Random(1))
        await until(elsewhere, 30)
        await write(fleet, 12, random.Random(2))
        reply = await masters(fleet)[0].ask("plan", {"job": "sim/sums"})
        assert any("takes no part: its keep_in" in note for note in reply.body["notes"]), reply.body
        results = await closed(fleet, ended_us() - 4_000_000, fleet.agents.index(masters(fleet)[0]))
        last = results[max(results)][0]
        assert last.agents_in <= AGENTS - len(data.hosts)
        fleet.check()
        assert data.elsewhere == []
        assert data.sent > 0

    vloop.run(main())


@pytest.mark.parametrize("seed", few(range(12), 1))
def test_crashes_and_bad_links_send_no_data_elsewhere(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        fleet, data = fleet_of(seed, rng.choice(REGIONS))
        await begun(fleet, data, TEXTS[rng.choice(sorted(TEXTS))].replace("60 s", "2 s"))
        fleet.network.link.faults = Faults.swarm(rng)
        for _ in range(4):
            await write(fleet, rng.uniform(0.5, 3), rng)
            victim = rng.choice([*masters(fleet), *fleet.agents])
            victim.crash()
            await write(fleet, rng.uniform(0.2, 8), rng)
            await victim.start(fleet.seeds(victim))
        fleet.network.link.faults = Faults()
        await write(fleet, 6, rng)
        await asyncio.sleep(60)
        fleet.check()
        assert data.elsewhere == []

    vloop.run(main())


def test_of_the_two_places_of_a_new_job_the_one_is_taken_that_the_rule_of_the_asked_agent_allows() -> None:
    async def main() -> set[tuple[bool, ...]]:
        fleet, data = fleet_of(1)
        asked = next(number for number, agent in enumerate(fleet.agents) if agent.id in data.hosts)
        await fleet.start()
        seen = set()
        for number in range(JOBS):
            await fleet.apply(JOB.replace("sim.sums", f"sim.job{number}"), asked)
            places = ids.job_placements(f"sim/job{number}", "local")
            regions = [
                min(fleet.agents, key=lambda each: ids.distance(each.id, place)).region for place in places
            ]
            inside = tuple(region == "eu" for region in regions)
            (led,) = [agent for agent in masters(fleet) if leads(agent, f"sim/job{number}")]
            assert (led.region == "eu") == any(inside)
            seen.add(inside)
        return seen

    assert {(True, False), (False, True), (False, False)} <= vloop.run(main())


def test_the_place_is_taken_that_satisfies_the_most_rules_which_a_request_names() -> None:
    """The asked agent has no rule; the request names those of the hosts that are to take part."""

    async def main() -> set[bool]:
        fleet = SimFleet(1, AGENTS, regions=REGIONS)
        await fleet.start()
        rule = (("region=eu", "region=us"), ("region=us",))
        seen = set()
        for number in range(JOBS):
            text = JOB.replace("sim.sums", f"sim.job{number}")
            reply = await fleet.agents[0].ask("apply", {"text": text, "keep_in": rule})
            assert reply.status == 200, reply.body
            regions = [
                min(fleet.agents, key=lambda each: ids.distance(each.id, place)).region
                for place in ids.job_placements(f"sim/job{number}", "local")
            ]
            (led,) = [agent for agent in masters(fleet) if leads(agent, f"sim/job{number}")]
            worth = {"us": 2, "eu": 1, "ap": 0}
            assert worth[led.region] == max(worth[region] for region in regions)
            seen.add(led.region == regions[0])
        return seen

    assert vloop.run(main()) == {True, False}


def leads(agent: SimAgent, job: str) -> bool:
    assert agent.local is not None
    led = agent.local.control.leadership.masters.values()
    return any(each.term.manifest.qualified == job for each in led)
