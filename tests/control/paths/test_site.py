"""Sites that vote: intervals close without the master, and readers of other regions have them sooner.

Whole agents on virtual time. `pytest -s` prints the seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.context import Context
from elfmesh.control.jobs.pages import decode_page
from tests.control.paths.test_groups import REGIONS, settled
from tests.control.paths.test_sites import AGENTS, BETWEEN_S, SITES, Wan, _term
from tests.sim.test_agents import JOB, closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until

ONE = JOB.replace("DEADLINE", "PATHS 1 ACROSS region DEADLINE")
INTERVALS = 10
RECENT = 4


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


class Seals:
    """When each agent has sealed an interval.

    Attributes:
        at: seconds, by interval and agent.
    """

    def __init__(self) -> None:
        self.at: dict[int, dict[bytes, float]] = defaultdict(dict)
        note = Context.note

        def noted(
            context: Context, kind: str, job: bytes, start: int, stop: int, *more: Any, **most: Any
        ) -> None:
            if kind == "sealed":
                for interval in range(max(start, stop - RECENT), stop):
                    self.at[interval].setdefault(context.me.id, asyncio.get_running_loop().time())
            note(context, kind, job, start, stop, *more, **most)

        mock.patch.object(Context, "note", noted).start()

    def last(self, interval: int) -> float | None:
        """When the last agent has sealed an interval; None: not all have."""
        found = self.at.get(interval, {})
        return max(found.values()) if len(found) == AGENTS else None


def has_grant(fleet: SimFleet) -> bool:
    terms = [_term(agent) for agent in masters(fleet)]
    return bool(terms) and terms[0].cell.value.grant is not None


def voted(fleet: SimFleet) -> int:
    """How many records votes have closed, at all agents."""
    living = [agent.local.control for agent in fleet.agents if agent.local is not None]
    return sum(control.stats().get("control.closed_by_votes", 0) for control in living)


async def begun(text: str, seed: int) -> tuple[SimFleet, Wan, asyncio.Task[None]]:
    """A job over three regions whose voters are its sites; with three sites, its value holds a grant."""
    fleet = SimFleet(seed, AGENTS, regions=REGIONS)
    await fleet.start()
    wan = Wan(fleet)
    await settled(fleet, text)
    writing = asyncio.create_task(write(fleet, 900, random.Random(seed)))

    async def ready() -> bool:
        spread = {each.region for each in _term(masters(fleet)[0]).cell.contacts}
        return has_grant(fleet) if text == SITES else len(spread) == len(set(REGIONS))

    await until(ready, 200)
    return fleet, wan, writing


async def _follow(reader: SimAgent, term: Any, seen: dict[int, list[float]], count: int) -> None:
    """Read the next records and note when each is here."""
    index = term.copy.latest + 1
    for _ in range(count):
        body = {"job": "sim/sums", "from": index, "wait": 30, "state": "final"}
        reply = await reader.ask("results", body | {"incarnation": term.manifest.incarnation})
        for record, _ in decode_page(reply.payload):
            seen[record.index].append(asyncio.get_running_loop().time())
            index = record.index + 1


def far_latency(text: str, seed: int = 3) -> float:
    """Median seconds from the last seal until a reader in another region than the master has the record."""

    async def main() -> float:
        fleet, _, writing = await begun(text, seed)
        seals, seen, led = Seals(), defaultdict[int, list[float]](list), masters(fleet)[0]
        await asyncio.sleep(3)
        readers = {agent.region: agent for agent in fleet.agents if agent.region != led.region}
        await asyncio.gather(*(_follow(each, _term(led), seen, INTERVALS) for each in readers.values()))
        writing.cancel()
        last = {index: seals.last(index) for index in seen}
        return median(
            at - since for index, found in seen.items() if (since := last[index]) is not None for at in found
        )

    found: float = vloop.run(main())
    mock.patch.stopall()
    return found


def test_a_reader_in_another_region_waits_for_two_legs_and_not_for_the_master() -> None:
    by_master, by_votes = far_latency(ONE), far_latency(SITES)
    print(f"seal to reader in another region: PATHS 1 {by_master:.3f} s, PATHS 3 {by_votes:.3f} s")
    assert by_votes < 0.75 * by_master


def close_without_master(text: str, seed: int = 4) -> tuple[float, float]:
    """The master dies when all agents have sealed an interval, before it has the parts of other regions.

    Returns:
        Seconds until another agent leads, and until an agent in another region has the record.
    """

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        fleet, _, writing = await begun(text, seed)
        seals, led = Seals(), masters(fleet)[0]
        await asyncio.sleep(5)
        job = _term(led).job
        at = max(seals.at) + 1

        async def sealed() -> bool:
            return seals.last(at) is not None

        await until(sealed, 20, 0.002)
        await asyncio.sleep(0.02)
        led.crash()
        died = loop.time()

        async def leads() -> list[SimAgent]:
            return [each for each in fleet.agents if each is not led and _term(each) is not None]

        async def readable() -> bool:
            living = [each.local.control.leadership for each in fleet.agents if each.local is not None]
            copies = [each.held(job)[1] for each in living]
            return any(copy is not None and copy.latest is not None and copy.latest >= at for copy in copies)

        async def first(done: Any) -> float:
            await until(done, 200, 0.002)
            return loop.time() - died

        led_s, closed_s = await asyncio.gather(first(leads), first(readable))
        await asyncio.sleep(2)
        writing.cancel()
        others = [each.number for each in fleet.agents if each is not led]
        results = {
            record.index: (record, rows) for record, rows in await fleet.results("sim/sums", others[0])
        }
        with TemporaryDirectory() as directory:
            expected = oracle(fleet.agents, Path(directory), (at + 1) * 2_000_000)
        if text == SITES:  # otherwise the record lacks the dead agent
            compare(results, {at: expected[at]}, AGENTS)
        fleet.check()
        return led_s, closed_s

    found: tuple[float, float] = vloop.run(main())
    mock.patch.stopall()
    return found


def closes_without_master() -> None:
    led_s, closed_s = close_without_master(SITES)
    print(f"PATHS 3: another agent led after {led_s:.2f} s, the interval was closed after {closed_s:.2f} s")
    assert closed_s < led_s, "votes have closed it before another agent led"
    assert closed_s <= 4 * BETWEEN_S


def test_votes_close_an_interval_whose_master_has_died() -> None:
    closes_without_master()
    led_s, closed_s = close_without_master(ONE)
    print(f"PATHS 1: another agent led after {led_s:.2f} s, the interval was closed after {closed_s:.2f} s")
    assert closed_s > led_s


def test_intervals_close_by_votes_while_the_master_gets_no_parts(tmp_path: Path) -> None:
    async def main() -> None:
        fleet, wan, writing = await begun(SITES, 2)
        before = voted(fleet)
        wan.stalled = masters(fleet)[0].id
        await asyncio.sleep(20)
        wan.stalled = b""
        assert voted(fleet) - before >= 3 * 6
        assert has_grant(fleet)
        writing.cancel()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), AGENTS)

    vloop.run(main())


def test_why_names_the_sites_that_have_voted_and_those_that_have_not() -> None:
    """While an interval waits for its second vote, the master says whose vote it has."""

    async def main() -> None:
        fleet, _, writing = await begun(SITES, 2)
        led = masters(fleet)[0]
        term = _term(led)
        names = {
            agent.name
            for agent in fleet.agents
            if agent.id in {each.id for each in term.layouts.layout.sites}
        }
        found = list[dict[str, Any]]()
        for _ in range(400):
            reply = (await led.ask("why", {"job": "sim/sums"})).body
            if "sites" in reply:
                assert {*reply["sites"]["voted"], *reply["sites"]["lacking"]} == names
                assert not {*reply["sites"]["voted"]} & {*reply["sites"]["lacking"]}
                found.append(reply)
            await asyncio.sleep(0.01)
        writing.cancel()
        some = [each for each in found if each["sites"]["voted"] and each["sites"]["lacking"]]
        assert some, "an interval waits for the second vote for about 50 ms"
        for each in some:
            assert f"of its sites, {', '.join(each['sites']['voted'])} voted" in each["because"]
            assert f", and {', '.join(each['sites']['lacking'])} not" in each["because"]

    vloop.run(main())


def test_why_names_no_site_of_a_job_that_its_master_closes() -> None:
    async def main() -> None:
        fleet, _, writing = await begun(ONE, 2)
        assert "sites" not in (await masters(fleet)[0].ask("why", {"job": "sim/sums"})).body
        writing.cancel()

    vloop.run(main())
