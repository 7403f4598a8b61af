"""A plan of standbys follows the load, and nothing less: whole agents on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.exhaustive import nightly
from tests.sim.test_stories import master
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, wall_us

JOB = """CREATE JOB sim.n STANDBY 4 ACROSS region LAG '100 ms' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), k"""
REGIONS, AGENTS = ("eu", "us"), 6
HEAVY, LIGHT, LOOK_S = 12, 1, 0.5
MOVED_S = 90.0


class Planned:
    """A fleet with a plan: what its master plans, and whether each member of a plan has a chain.

    Attributes:
        plans: each plan in force, one after the other, with the time at which it was seen.
        unheld: members of a plan and of the one before it without an agent that holds their windows.
    """

    def __init__(self, fleet: SimFleet) -> None:
        self.fleet = fleet
        self.plans: list[tuple[float, frozenset[str]]] = []
        self.unheld: list[str] = []
        self._held: set[str] = set()

    def look(self) -> None:
        leader = master(self.fleet).local
        assert leader is not None
        (leading,) = leader.control.leadership.masters.values()
        term = leading.term
        names = {entry.number: entry.name for entry in term.book.active}
        plan = frozenset(names[each] for each in term.standby_plans.standbys or () if each in names)
        if not self.plans or self.plans[-1][1] != plan:
            self.plans.append((asyncio.get_running_loop().time(), plan))
        holders = {agent.name for agent in self.fleet.agents if self._has_chain(agent)}
        self.unheld += sorted((self._held & plan) - holders)
        self._held = {name for name in plan if name in holders}

    def _has_chain(self, member: SimAgent) -> bool:
        """Whether an agent that is up holds a chain of the member."""
        stores = [
            agent.local.control.member_host.copy_store.panes
            for agent in self.fleet.agents
            if agent.local is not None
        ]
        return any(chains.get(member.id) for store in stores for chains in store._chains.values())

    async def write(self, seconds: float, lines: Callable[[SimAgent], int]) -> None:
        """Write so many lines to each log, once in `LOOK_S`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            for agent in self.fleet.agents:
                agent.log.write(*(line(wall_us(), "ab"[at % 2], 1) for at in range(lines(agent))))
            await asyncio.sleep(LOOK_S)
            self.look()


def more_in(region: str) -> Callable[[SimAgent], int]:
    return lambda agent: HEAVY + agent.number if agent.region == region else LIGHT


async def begun() -> Planned:
    fleet = SimFleet(7, AGENTS, regions=REGIONS)
    await fleet.start()
    await fleet.apply(JOB)
    planned = Planned(fleet)
    await planned.write(70.0, more_in("eu"))
    return planned


def regions(planned: Planned, names: frozenset[str]) -> Counter[str]:
    return Counter(agent.region for agent in planned.fleet.agents if agent.name in names)


async def moves() -> tuple[Counter[str], Counter[str], float, int, list[str]]:
    """The load moves to another region: members of the plan by region before and after; and when it changes.

    Returns also the seconds until it has changed, how often it has, and which members had no chain.
    """
    planned = await begun()
    before, changes, at_s = planned.plans[-1][1], len(planned.plans), asyncio.get_running_loop().time()
    await planned.write(MOVED_S + 30.0, more_in("us"))
    planned.fleet.check()
    moved_s, after = planned.plans[-1]
    return (
        regions(planned, before), regions(planned, after), moved_s - at_s,
        len(planned.plans) - changes, planned.unheld,
    )  # fmt: skip


def test_the_plan_follows_the_load_to_another_region_within_90_seconds() -> None:
    before, after, seconds, changes, unheld = vloop.run(moves())
    assert (before, after) == ({"eu": 3, "us": 1}, {"eu": 1, "us": 3})
    assert 0 < seconds <= MOVED_S
    assert changes == 1, "the usual rates approach the new ones over some intervals"
    assert unheld == []


async def trembles(seconds: float) -> int:
    """How often the plan changes while the load of each agent changes by a tenth."""
    planned, dice = await begun(), random.Random(3)
    changes = len(planned.plans)
    usual = more_in("eu")
    await planned.write(seconds, lambda agent: round(usual(agent) * dice.uniform(0.9, 1.1)))
    planned.fleet.check()
    return len(planned.plans) - changes


@pytest.mark.exhaustive
def test_a_load_that_changes_by_a_tenth_moves_nothing() -> None:
    assert vloop.run(trembles(180.0)) == 0


@nightly
def test_a_load_that_changes_by_a_tenth_moves_nothing_for_an_hour() -> None:
    assert vloop.run(trembles(3600.0)) == 0
