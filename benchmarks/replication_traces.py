"""Planned replication on recorded data: requests of the World Cup's servers, and losses of cloud zones.

`worldcup` is Fig. 12's Q1 with the requests per minute of June 30, 1998. The log itself is not among the
data, so that servers and objects are drawn: the shares of the servers are those of `q1`, and each region has
its own popularity for a third of its requests. `failures` replays the losses of nine zones, which come
together more often than by chance, against whole agents on virtual time. The disks of the agents return with
them.

The data are no part of the project. A part is skipped where they are absent.
"""

from __future__ import annotations

import asyncio
import csv
import json
import random
import statistics
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import ROOT, Figure, checked
from benchmarks.planners import q1
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.planning.planner import plan
from elfmesh.control.planning.structure_aware import structure_aware

DATA = ROOT.parent / "shared/data"
DAY = "1998-06-30"
SLICES, OBJECTS, TOP = 24, 2000, 100
BUDGETS = {False: (0.1, 0.3, 0.5, 0.7, 0.9), True: (0.5,)}


def requests_by_slice(path: Path) -> list[int]:
    """Return the requests of the day in equal slices."""
    with path.open() as file:
        minutes = [int(row["count"]) for row in csv.DictReader(file) if row["period"].startswith(DAY)]
    size = len(minutes) // SLICES
    return [sum(minutes[at : at + size]) for at in range(0, SLICES * size, size)]


class WorldCup:
    """The requests of each slice by server and object, and what a plan keeps of its top 100."""

    def __init__(self, slices: list[int]) -> None:
        self.topology = q1()
        self._sources = list(self.topology.operators[0].tasks)
        links = next(stream for (_, at), stream in self.topology.pairs if at == 1)
        self._merge_of = dict(zip(links.senders.tolist(), links.receivers.tolist(), strict=True))
        self._sink = self.topology.operators[2].first
        rates = self.topology.rates[self._sources]
        dice = np.random.default_rng(1998)
        common = 1 / np.arange(1, OBJECTS + 1) ** 0.8
        own = {merge: dice.permutation(common) for merge in sorted({*self._merge_of.values()})}
        popular = [2 / 3 * common + own[self._merge_of[task]] / 3 for task in self._sources]
        shares = np.concatenate([rate * each / each.sum() for rate, each in zip(rates, popular, strict=True)])
        drawn = [dice.multinomial(total, shares / shares.sum()) for total in slices]
        self._counts = np.array(drawn).reshape(len(slices), len(self._sources), OBJECTS)
        self._whole = [self._top(each) for each in self._counts.sum(axis=1)]

    def accuracy(self, alive: Collection[int]) -> float:
        """Return the mean share of a slice's 100 most requested objects that the tasks alive find."""
        if self._sink not in alive:
            return 0.0
        inside = [
            at for at, task in enumerate(self._sources) if task in alive and self._merge_of[task] in alive
        ]
        found = [self._top(each) for each in self._counts[:, inside].sum(axis=1)]
        return statistics.fmean(
            len(some & whole) / TOP for some, whole in zip(found, self._whole, strict=True)
        )

    @staticmethod
    def _top(counts: NDArray[np.int64]) -> set[int]:
        order = np.lexsort((np.arange(len(counts)), -counts))
        return {int(each) for each in order[:TOP] if counts[each]}


def worldcup(*, small: bool) -> list[Figure]:
    path = DATA / "worldcup98/requests_per_minute.csv"
    if not path.exists():
        return [Figure("World Cup", 0.0, "", skipped="the requests per minute are not here")]
    slices = requests_by_slice(path)
    cup = WorldCup(slices[:2] if small else slices)
    topology, tasks = cup.topology, {name: at for at, name in enumerate(cup.topology.names)}
    checked(cup.accuracy(range(len(topology))) == 1.0, "World Cup: the whole answer is not accurate")
    figures = [Figure(f"World Cup, {DAY}: requests", float(sum(slices)), "requests")]
    for share in BUDGETS[small]:
        budget = round(share * len(topology))
        best = frozenset(tasks[each] for each in plan(topology, budget).replicate)
        plans = {"auto": best, "structure-aware": structure_aware(topology, budget)}
        for name, alive in plans.items():
            value = cup.accuracy(alive)
            why = "" if value else "0: no MC-tree is replicated"
            figures.append(
                Figure(f"World Cup, budget {share:.0%}: accuracy, {name}", value, "1", skipped=why)
            )
    return figures


# -- losses of zones -----------------------------------------------------------------------------------

TICKS = {False: 60, True: 6}
"""Points of the trace, one in `TICK_S` of virtual time; in the trace one in 195 s."""

TICK_S, EACH = 5.0, 2
WINDOWS_S = {False: (10, 90), True: (10,)}
"""90 s of virtual time are as many points of the trace as an hour."""

SETTLE_S = 40.0
CLAUSES = {
    "none": "",
    "REPLICAS 1": "REPLICAS 1",
    "STANDBY '25 %'": "STANDBY '25 %' ACROSS region LAG '100 ms'",
    "STANDBY ALL": "STANDBY ALL ACROSS region LAG '100 ms'",
}
FAILURES = "failures/aws-02-15-2023"


def availability(folder: Path) -> dict[str, list[int]]:
    """Return for each zone whether it is there, 1 or 0, point by point."""
    paths = sorted(folder.glob("*.json"))
    return {path.name.partition("_")[0]: json.loads(path.read_text())["data"] for path in paths}


def losses(zones: dict[str, list[int]]) -> Counter[int]:
    """Return how many zones are lost at each point."""
    found: Counter[int] = Counter()
    for points in zones.values():
        found.update(at for at in range(1, len(points)) if points[at - 1] > points[at])
    return found


def busiest(zones: dict[str, list[int]], ticks: int) -> int:
    """Return the first point of the stretch with most losses in which four zones are always there."""
    lost = losses(zones)
    count = len(next(iter(zones.values())))
    there = [sum(points[at] for points in zones.values()) for at in range(count)]
    starts = [at for at in range(0, count - ticks, ticks // 2) if min(there[at : at + ticks]) >= 4]
    return max(starts, key=lambda at: (sum(lost[each] for each in range(at, at + ticks)), -at))


def failures(*, small: bool) -> list[Figure]:
    """Lines that are missing from the records of the windows in which their hosts were lost."""
    from tests.sim.world import vloop

    if not (DATA / FAILURES).exists():
        return [Figure("losses of zones", 0.0, "", skipped="the traces of zones are not here")]
    zones = availability(DATA / FAILURES)
    lost = losses(zones)
    moments = [at for at in lost if lost[at] > 1 or lost[at - 1] or lost[at + 1]]
    start = busiest(zones, TICKS[small])
    stretch = {name: points[start : start + TICKS[small]] for name, points in zones.items()}
    figures = [
        Figure("moments of loss within 195 s of that of another zone", 100 * len(moments) / len(lost), "%"),
        Figure("losses in the stretch", float(sum(losses(stretch).values())), f"of {len(zones)} zones"),
    ]
    for window_s in WINDOWS_S[small]:
        without = 0
        for name in ("none", "STANDBY ALL") if small else CLAUSES:
            title = f"windows of {window_s} s, {name}"
            missing = vloop.run(_replayed(stretch, CLAUSES[name], window_s))
            without = without or missing
            ratio = missing / without if without else 0.0
            why = "" if missing else "0: nothing is missing"
            figures.append(
                Figure(f"{title}: lines missing", float(missing), "lines", "none", ratio, skipped=why)
            )
    return figures


async def _replayed(zones: dict[str, list[int]], clause: str, window_s: int) -> int:
    """Return the lines that are in no record of their window.

    A record of which something is not true fails the run.
    """
    from tests.sim.test_stories import master
    from tests.sim.world.agents import SimAgent, SimFleet, line, until, wall_us

    fleet, names = SimFleet(7, EACH * len(zones), regions=tuple(zones)), list(zones)
    await fleet.start()
    job = f"CREATE JOB sim.n DEADLINE '500 ms' HORIZON '1 s' {clause} AS SELECT k, count(*) AS n FROM log"
    await fleet.apply(f"{job} GROUP BY TUMBLE(ts, INTERVAL '{window_s}' SECOND), k")
    loop, written = asyncio.get_running_loop(), Counter[tuple[int, str]]()
    dice = random.Random(1)

    async def write(seconds: float) -> None:
        end = loop.time() + seconds
        while loop.time() < end:
            for agent in fleet.agents:
                if agent.local is not None:
                    agent.log.write(line(wall_us(), "a", 1))
                    written[wall_us() // 1_000_000 // window_s, agent.name] += 1
            await asyncio.sleep(0.2)

    async def change(agent: SimAgent, there: int) -> None:
        if there and agent.local is None:
            await agent.start(fleet.seeds(agent))
        elif not there and agent.local is not None:
            agent.crash()

    await write(20.0 + window_s)
    begin = wall_us() // 1_000_000 // window_s
    for tick in range(len(zones[names[0]])):
        await write(TICK_S * dice.uniform(0.1, 0.4))  # in the midst of windows
        for agent in fleet.agents:
            await change(agent, zones[names[agent.number % len(names)]][tick])
        await write(TICK_S / 2)
    end = wall_us() // 1_000_000 // window_s
    for agent in fleet.agents:
        await change(agent, 1)
    await write(SETTLE_S + window_s)

    async def closed() -> list[ResultRecord]:
        records = [record for record, _ in await fleet.results("sim/n", master(fleet).number)]
        return records if records and records[-1].index >= end else []

    records = [each for each in await until(closed, 120.0) if begin <= each.index < end]
    fleet.check()
    missing = 0
    for record in records:
        of_window = {name: count for (index, name), count in written.items() if index == record.index}
        total = sum(of_window.values())
        prefixes = {each.agent: each.contributed for each in record.partly}
        inside = sum(count for name, count in of_window.items() if name not in record.missing)
        checked({*prefixes} <= {*record.missing}, f"{record.index}: a prefix of an agent that is not missing")
        checked(
            all(count <= of_window.get(name, 0) for name, count in prefixes.items()),
            f"{record.index}: a prefix with more lines than were written",
        )
        checked(
            record.counts["contributed"] == inside + sum(prefixes.values()),
            f"{record.index}: {record.counts['contributed']} lines, not {inside} and {prefixes}",
        )
        missing += total - record.counts["contributed"]
    return missing


PARTS = {"worldcup": worldcup, "failures": failures}
