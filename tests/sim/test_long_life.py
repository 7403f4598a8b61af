"""Agents that have seen many jobs begin and end hold no more than those that have seen some."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from elfmesh.control import causes
from elfmesh.control.master import rendezvous
from elfmesh.control.member import admission
from elfmesh.control.programs import beside
from elfmesh.control.register import acceptor, registers
from elfmesh.control.replicas import epochs
from elfmesh.overlay import routing, vicinity
from elfmesh.srt import multicast
from tests.exhaustive import nightly
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until
from tests.sim.world.containers import entries, grown

BOUNDS = (
    (causes, "STEPS_MAX"),
    (acceptor, "ENDED_MAX"),
    (registers, "IDLE_MAX"),
    (epochs, "TOMBSTONES_MAX"),
    (epochs, "EPOCHS_MAX"),
    (admission, "STOPPED_MAX"),
    (rendezvous, "WITHDRAWN_MAX"),
    (routing, "SEEN_MAX"),
    (vicinity, "ANSWERS_MAX"),
    (multicast, "LOG_MAX"),
    (beside, "PARENTS_MAX"),
)
"""Everything that remembers jobs that are over: all of it is full before it is counted first."""

FEW = 3
QUIET_S = 60.0
"""Longer than anything waits for what a job has left behind."""


async def live(fleet: SimFleet, first: int, cycles: int) -> None:
    """Jobs begin, have results and end, one after the other; then nothing happens for a while."""
    for number in range(first, first + cycles):
        text = f"CREATE JOB sim.j{number} DEADLINE '5 s' AS SELECT k, count(*) AS n FROM log"
        await fleet.apply(f"{text} GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k", number % len(fleet.agents))
        await asyncio.sleep(1.5)
        asked = fleet.agents[(number + 1) % len(fleet.agents)]
        await until(partial(gone, asked, number), 60)
    await asyncio.sleep(QUIET_S)


async def gone(agent: SimAgent, number: int) -> bool:
    return (await agent.ask("delete", {"job": f"sim/j{number}"})).status == 200


def held(fleet: SimFleet) -> Counter[str]:
    """Entries in memory and files on disk, of all agents. Logs grow until they are worth a rewrite."""
    found: Counter[str] = Counter()
    for agent in fleet.agents:
        assert agent.local is not None
        found += entries(agent.local)
        del found["MemoryFile.data"]
        found["files"] += len(agent.storage.names())
        found["results"] += len(agent.results.logs) + len(agent.results.earlier)
    return found


async def grows(agents: int, filling: int, cycles: int) -> dict[str, tuple[int, int]]:
    """What there is more of after each half of some jobs, once others have filled what is bounded.

    What is bounded holds a few entries more or less, by the last jobs; what grows without a bound does so in
    both halves.
    """
    fleet = SimFleet(1, agents)
    await fleet.start()
    await live(fleet, 0, filling)
    counts = [await steady(fleet)]
    for half in range(2):
        await live(fleet, filling + half * (cycles // 2), cycles // 2)
        counts.append(await steady(fleet))
    fleet.check()
    first, middle, last = counts
    twice = grown(first, middle).keys() & grown(middle, last).keys()
    return {name: (first[name], last[name]) for name in sorted(twice)}


async def steady(fleet: SimFleet) -> Counter[str]:
    """Return what the agents hold at each of four times in a minute.

    A question that is under way is held for a moment only, so that it does not count.
    """
    found = held(fleet)
    for _ in range(3):
        await asyncio.sleep(QUIET_S / 3.1)  # no multiple of the pauses between questions
        found &= held(fleet)
    return found


def test_what_agents_hold_does_not_grow_with_the_jobs_they_have_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in BOUNDS:
        monkeypatch.setattr(module, name, FEW)

    assert vloop.run(grows(3, 30, 20)) == {}


@nightly
def test_what_an_agent_holds_does_not_grow_over_10_000_jobs() -> None:
    assert vloop.run(grows(1, 5000, 5000)) == {}
