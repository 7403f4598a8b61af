"""A standby whose clock is wrong or whose disk is full: whole agents on virtual time.

Two jobs of one fleet have the same text, one with standbys and one without. A host is killed for good while
its standby is in trouble. The trouble may cost the standby's host its own place in both jobs. It must cost
the job with standbys nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.member.pane_sender import PaneSender
from elfmesh.errors import DiskFull
from tests.exhaustive import few
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, wall_us

AGENTS, WINDOW_S, RATE = 9, 20, 4
HOURS_S = 3 * 3600.0
LATER_S = 20.0
"""From the trouble to the death of the member.

An agent notices a full disk with its next write, at the end of a window. It is away to its peers then, so the
member has another standby, as if its standby had died.
"""

LOST_MAX, DELAY_MAX_S = 2, 0.3
JOB = (
    "CREATE JOB sim.{} DEADLINE '1 s' HORIZON '2 s' {} AS"
    f" SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND), k ORDER BY k"
)


async def write(fleet: SimFleet, seconds: float, each_time: Callable[[], None] = lambda: None) -> None:
    """Each log gets lines with the name of its agent."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            if agent.local is not None:
                agent.log.write(line(wall_us(), agent.name, 1))
        for _ in range(10):
            each_time()
            await asyncio.sleep(0.1 / RATE)


def sender(agent: SimAgent) -> PaneSender:
    assert agent.local is not None
    members = agent.local.control.member_host.members.values()
    return next(each.panes for each in members if each.plan.standby_s is not None)


def refuse(*_: Any) -> NoReturn:
    raise DiskFull("the disk is full: of a test")


def fill(agent: SimAgent) -> None:
    agent.storage.write = refuse  # type: ignore[assignment, method-assign]  # nothing is written from now on
    agent.results.write = refuse  # type: ignore[assignment, method-assign]  # no room
    for file in agent.storage.files.values():
        file.append = refuse  # type: ignore[assignment, method-assign]  # no room


def ahead(agent: SimAgent) -> None:
    agent.clock_s = HOURS_S


def behind(agent: SimAgent) -> None:
    agent.clock_s = -HOURS_S


def nothing(agent: SimAgent) -> None:
    """The standby is well."""


@dataclass
class Ended:
    """What a run ended with: the member that was killed, the host of its standby, and when that was.

    `results` and `closed_at_s` are by job, the latter also by interval.
    """

    down: str
    host: str
    at_us: int
    results: dict[str, dict[int, tuple[ResultRecord, list[dict[str, Any]]]]]
    closed_at_s: dict[str, dict[int, float]] = field(default_factory=dict)

    def of(self, job: str) -> tuple[ResultRecord, dict[str, int]]:
        """The record of the window in which the member was killed, and its rows."""
        record, rows = self.results[job][self.at_us // (WINDOW_S * 1_000_000)]
        return record, {row["k"]: row["n"] for row in rows}

    @property
    def later_s(self) -> list[float]:
        """By interval from the death on: how much later the job with standbys closed it than the other job.

        It closes the window of the death later, because it waits for the answer of the standby.
        """
        shipped, alone = self.closed_at_s["n"], self.closed_at_s["m"]
        return [shipped[index] - alone[index] for index in sorted(shipped.keys() & alone.keys())[1:]]


async def lost(trouble: Callable[[SimAgent], None]) -> Ended:
    fleet = SimFleet(7, AGENTS)
    await fleet.start()
    for name, clause in (("n", "STANDBY ALL LAG '100 ms'"), ("m", "")):
        await fleet.apply(JOB.format(name, clause))
    await write(fleet, 6.0)
    await write(fleet, WINDOW_S - wall_us() / 1e6 % WINDOW_S + WINDOW_S / 2)
    by_id = {agent.id: agent for agent in fleet.agents}
    terms = {
        master.term.manifest.name: master.term
        for agent in fleet.agents
        if agent.local is not None
        for master in agent.local.control.leadership.masters.values()
    }
    spared = {contact.id for term in terms.values() for contact in term.terms.acceptors}
    spared |= {term.context.me.id for term in terms.values()}
    pairs = [(each, by_id[standby.id]) for each in fleet.agents if (standby := sender(each).standby)]
    down, host = next(each for each in pairs if not {each[0].id, each[1].id} & spared)
    trouble(host)
    await write(fleet, LATER_S)
    at_us = wall_us()
    down.crash()
    times: dict[str, dict[int, float]] = {"n": {}, "m": {}}

    def look() -> None:
        for name, term in terms.items():
            times[name].setdefault(term.committer.closed, wall_us() / 1e6)

    await write(fleet, 1.9 * WINDOW_S, look)
    number = next(agent.number for agent in fleet.agents if agent.id in spared)
    results = {
        name: {each[0].index: each for each in await fleet.results(f"sim/{name}", number)} for name in terms
    }
    fleet.check()
    return Ended(down.name, host.name, at_us, results, times)


@cache
def of_a_well_standby() -> list[float]:
    return vloop.run(lost(nothing)).later_s


@pytest.mark.parametrize("trouble", few((fill, ahead, behind), 1))
def test_a_standby_in_trouble_costs_nothing_that_its_host_does_not_cost_anyway(
    trouble: Callable[[SimAgent], None],
) -> None:
    ended = vloop.run(lost(trouble))
    record, rows = ended.of("n")
    plain, expected = ended.of("m")
    assert ended.down in record.missing
    assert (record.missing, record.completeness) == (plain.missing, plain.completeness)
    of_down = {each.agent: each for each in record.partly}[ended.down]
    read = round((ended.at_us / 1e6 % WINDOW_S) * RATE)
    assert read - LOST_MAX <= rows.pop(ended.down) == of_down.contributed <= read + 1
    assert {each: rows[each] for each in rows.keys() - {ended.host}} == {
        each: expected[each] for each in expected.keys() - {ended.host}
    }
    later_s = [*zip(ended.later_s, of_a_well_standby(), strict=False)]
    assert len(later_s) >= 2
    assert [each for each in later_s if each[0] > each[1] + DELAY_MAX_S] == []
