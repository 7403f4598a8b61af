"""Sites of a job that reads another job vote on its intervals (point 17).

Whole agents on virtual time. `pytest -s` prints the seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.machine import Contact
from tests.control.paths.test_site import Seals, begun
from tests.control.paths.test_sites import BETWEEN_S, SITES
from tests.exhaustive import few
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until
from tests.sim.world.network import Faults

READER = (
    "CREATE JOB sim.totals EVERY '2 s' PATHS 3 ACROSS region AS"
    " SELECT sum(n) AS n, sum(s) AS s, count(*) AS keys FROM sim.sums"
)
JOB, READ = "sim/totals", "sim/sums"


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


def leading(fleet: SimFleet, job: str) -> tuple[SimAgent, Any]:
    found = term_of(fleet, job)
    assert found is not None
    return found


def term_of(fleet: SimFleet, job: str) -> tuple[SimAgent, Any] | None:
    """The agent that leads a job, and its term."""
    for agent in fleet.agents:
        for master in agent.local.control.leadership.masters.values() if agent.local is not None else ():
            if master.term.manifest.qualified == job:
                return agent, master.term
    return None


async def reading(seed: int) -> tuple[SimFleet, asyncio.Task[None]]:
    """A job over three regions and one that reads it; the values of both hold grants."""
    fleet, _, writing = await begun(SITES, seed)
    await fleet.apply(READER)

    async def ready() -> bool:
        return all(
            (led := term_of(fleet, job)) and led[1].cell.value.grant is not None for job in (JOB, READ)
        )

    await until(ready, 120)
    return fleet, writing


def check(found: dict[int, tuple[ResultRecord, Any]], read: dict[int, tuple[ResultRecord, Any]]) -> None:
    """Each interval has the sums of the rows of the job that is read."""
    assert len(found) > 8
    for index, (record, rows) in found.items():
        given, keys = read[index]
        assert (record.state, record.completeness) == (given.state, given.completeness)
        assert rows == [
            {"n": sum(each["n"] for each in keys), "s": sum(each["s"] for each in keys), "keys": len(keys)}
        ]


def close_without_master(job: str, seed: int = 3) -> tuple[float, float]:
    """A master dies when all agents have sealed an interval, before any site has its record.

    Returns:
        Seconds until another agent leads the job, and until the interval of the reading job is closed.
    """

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        fleet, writing = await reading(seed)
        seals = Seals()
        await asyncio.sleep(8)
        (led, _), (_, reader) = (leading(fleet, each) for each in (job, JOB))
        at = max(seals.at) + 1

        async def sealed() -> bool:
            return seals.last(at) is not None

        await until(sealed, 20, 0.002)
        await asyncio.sleep(0.02)
        led.crash()
        died, living = loop.time(), [agent for agent in fleet.agents if agent is not led]

        async def closed() -> bool:
            held = [
                each.local.control.leadership.held(reader.job)[1] for each in living if each.local is not None
            ]
            return any(copy is not None and copy.latest is not None and copy.latest >= at for copy in held)

        async def leads() -> bool:
            return term_of(fleet, job) is not None

        async def first(done: Any) -> float:
            await until(done, 100, 0.002)
            return loop.time() - died

        led_s, closed_s = await asyncio.gather(first(leads), first(closed))
        await led.start(fleet.seeds(led))
        await asyncio.sleep(20)
        writing.cancel()
        await asyncio.sleep(10)
        fleet.check()
        found, read = [
            {record.index: (record, rows) for record, rows in await fleet.results(each, living[0].number)}
            for each in (JOB, READ)
        ]
        check(found, read)
        return led_s, closed_s

    found: tuple[float, float] = vloop.run(main())
    return found


@pytest.mark.parametrize("job", few((READ, JOB), 1))
def test_sites_of_a_reading_job_close_an_interval_while_a_master_is_dead(job: str) -> None:
    led_s, closed_s = close_without_master(job)
    print(f"{job}: another agent led after {led_s:.2f} s, the interval was closed after {closed_s:.2f} s")
    assert closed_s < led_s, "votes have closed it before another agent led"
    assert closed_s <= 8 * BETWEEN_S


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_crashes_and_bad_links_change_no_record_of_a_reading_job(seed: int) -> None:
    """Every agent has the same record of an interval, and it is that of the records that are read."""

    async def main() -> None:
        rng = random.Random(seed)
        fleet, writing = await reading(seed)
        fleet.network.link.faults = Faults.swarm(rng)
        for _ in range(4):
            await asyncio.sleep(rng.uniform(0.5, 3))
            voting = {each.id for job in (JOB, READ) for each in voters(fleet, job)}
            victim = rng.choice([each for each in fleet.agents if each.id in voting] or fleet.agents)
            victim.crash()
            await asyncio.sleep(rng.uniform(0.2, 8))
            await victim.start(fleet.seeds(victim))
        await asyncio.sleep(4)
        writing.cancel()
        fleet.network.link.faults = Faults()
        latest = (await fleet.results(READ))[-1][0].index

        async def done() -> bool:
            found = await fleet.results(JOB)
            return bool(found) and found[-1][0].index >= latest

        await until(done, 100)
        fleet.check()
        results = [
            {record.index: (record, rows) for record, rows in await fleet.results(JOB, number)}
            for number in (0, 4)
        ]
        # Each site answers with what it has: another one may have a later interval.
        last = min(map(max, results))
        found, other = ({index: each[index] for index in each if index <= last} for each in results)
        assert found == other

        async def read() -> bool:
            return (await fleet.results(READ))[-1][0].index >= last

        await until(read, 100)
        check(found, {record.index: (record, rows) for record, rows in await fleet.results(READ)})

    vloop.run(main())


def voters(fleet: SimFleet, job: str) -> tuple[Contact, ...]:
    found = term_of(fleet, job)
    return () if found is None else found[1].cell.contacts
