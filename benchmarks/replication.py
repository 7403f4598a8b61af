"""Planned replication: what an answer is worth, and how soon it is back (PPA Fig. 7, 8, 10, 12).

Parts: `accuracy` is Fig. 12 and compares fidelity (OF) and internal completeness (IC) with the accuracy of
answers, on generated records. `recovery` is Figs. 7, 8 and 10: whole agents on virtual time, one of which is
killed for good, or all of a region but the voters. `replication_traces` has the parts on recorded data, and
`replication_agents` those with real agents. The planners themselves are in `benchmarks.planners`.
Recovery that does not end within 80 s fails the run. Virtual time has no cost of reading a log, so a run
without standbys takes as long as the victims are away.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from benchmarks import replication_agents, replication_traces
from benchmarks.harness import Figure, checked
from benchmarks.planners import q1, q2
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.planning.fidelity import TaskMeasure, fidelities, fidelity, internal_completenesses
from elfmesh.control.planning.planner import plan
from elfmesh.control.planning.structure_aware import structure_aware
from elfmesh.control.planning.topology import Topology

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
TOP, OBJECTS = 100, 2000
REQUESTS = {False: 300_000, True: 30_000}
INCIDENTS = {False: 20_000, True: 2_000}
DRAWN = {False: 20, True: 4}
"""Random plans for each budget, beside those of the planners."""

MEASURES: dict[str, TaskMeasure] = {"OF": fidelities, "IC": internal_completenesses}
Accuracy = Callable[[Collection[int]], float]


def requests(topology: Topology, *, small: bool) -> Accuracy:
    """Q1: the share of the 100 most requested objects that the answer has without what is not replicated.

    Each server has the popularity of its region for a third of its requests, and a common one for the rest.
    """
    dice = random.Random(1998)
    sources = list(topology.operators[0].tasks)
    merge_of = {int(s): int(r) for (_, at), stream in topology.pairs for s, r in _ends(stream) if at == 1}
    common = [1 / (rank + 1) ** 0.8 for rank in range(OBJECTS)]
    own = {merge: dice.sample(common, OBJECTS) for merge in sorted({*merge_of.values()})}
    total = sum(float(topology.rates[task]) for task in sources)
    counts: dict[int, Counter[int]] = {}
    for task in sources:
        wanted = round(REQUESTS[small] * float(topology.rates[task]) / total)
        drawn = dice.choices(range(OBJECTS), own[merge_of[task]], k=wanted // 3)
        counts[task] = Counter(drawn + dice.choices(range(OBJECTS), common, k=wanted - wanted // 3))
    sink = topology.operators[2].first
    whole = _top(counts.values())

    def accuracy(alive: Collection[int]) -> float:
        if sink not in alive:
            return 0.0
        inside = [counts[task] for task in sources if task in alive and merge_of[task] in alive]
        return len(_top(inside) & whole) / TOP

    return accuracy


def incidents(topology: Topology, *, small: bool) -> Accuracy:
    """Q2: the share of the incidents that are joined with the speed on their segment.

    A segment belongs to one source of locations, by its rate; an incident is reported by all users there.
    """
    dice = random.Random(2)
    locations = list(topology.operators[0].tasks)
    join_of = {int(s): int(r) for (one, _), stream in topology.pairs for s, r in _ends(stream) if one == 0}
    report_of = {int(r): int(s) for (one, _), stream in topology.pairs for s, r in _ends(stream) if one == 1}
    weights = [float(topology.rates[task]) for task in locations]
    drawn = Counter(dice.choices(locations, weights, k=INCIDENTS[small]))
    sink = topology.operators[3].first

    def accuracy(alive: Collection[int]) -> float:
        needs = {task: (task, join_of[task], report_of[join_of[task]], sink) for task in locations}
        seen = sum(count for task, count in drawn.items() if all(each in alive for each in needs[task]))
        return seen / INCIDENTS[small]

    return accuracy


def _ends(stream: Any) -> list[tuple[int, int]]:
    return list(zip(stream.senders.tolist(), stream.receivers.tolist(), strict=True))


def _top(counts: Collection[Counter[int]]) -> set[int]:
    added: Counter[int] = Counter()
    for each in counts:
        added.update(each)
    return {key for key, _ in sorted(added.items(), key=lambda item: (-item[1], item[0]))[:TOP]}


def figure_12(*, small: bool) -> list[Figure]:
    figures = []
    for name, topology, make in (("Q1", q1(), requests), ("Q2", q2(), incidents)):
        accuracy, dice = make(topology, small=small), random.Random(12)
        checked(accuracy(range(len(topology))) == 1.0, f"{name}: the whole answer is not accurate")
        points: list[tuple[float, float]] = []
        for share in SHARES[::4] if small else SHARES:
            budget = round(share * len(topology))
            found = {by: structure_aware(topology, budget, measure) for by, measure in MEASURES.items()}
            tasks = {topology.names[at]: at for at in range(len(topology))}
            best = frozenset(tasks[each] for each in plan(topology, budget).replicate)
            random_plans = [frozenset(dice.sample(range(len(topology)), budget)) for _ in range(DRAWN[small])]
            points += [
                (fidelity(topology, each), accuracy(each)) for each in (best, *found.values(), *random_plans)
            ]
            values = {by: accuracy(each) for by, each in found.items()}
            title = f"{name}, budget {share:.0%}: accuracy"
            ratio = values["OF"] / values["IC"] if values["IC"] else 0.0
            figures += [
                _figure(f"{title}, structure-aware by OF", values["OF"], "IC", ratio),
                _figure(f"{title}, structure-aware by IC", values["IC"]),
                _figure(f"{title}, auto", accuracy(best)),
            ]
        figures.append(
            Figure(f"{name}: rank correlation of OF and accuracy, {len(points)} plans", spearman(points), "1")
        )
    return figures


def _figure(name: str, value: float, peer: str = "", ratio: float = 0.0) -> Figure:
    if not value:
        return Figure(name, 0.0, "", skipped="0: no MC-tree is replicated")
    return Figure(name, value, "1", peer if ratio else "", ratio)


def spearman(points: list[tuple[float, float]]) -> float:
    """Return the rank correlation of pairs; equal values have their mean rank."""
    return statistics.correlation(
        *([_rank(side, each) for each in side] for side in zip(*points, strict=True))
    )


def _rank(values: tuple[float, ...], value: float) -> float:
    return sum(each < value for each in values) + (values.count(value) + 1) / 2


# -- recovery ------------------------------------------------------------------------------------------

AGENTS, REGIONS = 16, ("r1", "r2", "r3", "r4")
JOB = """CREATE JOB sim.n DEADLINE '500 ms' HORIZON '60 s' {} AS SELECT k, count(*) AS n FROM log
GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND), k"""
CLAUSES = {
    "log alone": "",
    "passive": "REPLICAS 1",
    "half": "STANDBY '50 %' ACROSS region LAG '{}'",
    "active": "STANDBY ALL ACROSS region LAG '{}'",
}
LAGS = {False: ("100 ms", "1 s", "5 s"), True: ("1 s",)}
BACK_S = 10.0
"""Time until the victims of the runs without a standby are started again."""


def recovery(*, small: bool) -> list[Figure]:
    """Seconds of virtual time from the kill to the first record that has the victims' windows again."""
    from tests.sim.world import vloop

    figures = []
    for many in (False,) if small else (False, True):
        what = "a region" if many else "one agent"
        for name, clause in CLAUSES.items():
            for lag in LAGS[small] if "{}" in clause else ("",):
                took, share = vloop.run(_killed(clause.format(lag), many=many))
                title = f"simulated, {what} killed, {name}{f' LAG {lag}' if lag else ''}"
                figures += [Figure(f"{title}: until its windows are in a record", took, "s")]
                figures += [Figure(f"{title}: fidelity of that record", share, "1")]
    return figures


async def _killed(clause: str, *, many: bool) -> tuple[float, float]:
    """Kill agents inside a window; return the seconds to the first record with them, and its fidelity.

    Of the victims, those count that have a standby. Without STANDBY the victims are started again after
    `BACK_S`, and count when they contribute.
    """
    from tests.sim.test_stories import master, traffic
    from tests.sim.world.agents import SimFleet, until, wall_us

    fleet = SimFleet(7, AGENTS, fanout=2, regions=REGIONS)
    await fleet.start()
    await fleet.apply(JOB.format(clause))
    await traffic(fleet, 45.0)
    leader = master(fleet).local
    assert leader is not None
    (leading,) = leader.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {master(fleet).id}
    planned = leading.term.standby_plans.standbys
    ships = {
        each.contact.id for each in leading.term.book.active if planned is None or each.number in planned
    }
    free = [agent for agent in fleet.agents if agent.id not in spared]
    region = max(REGIONS, key=lambda each: sum(agent.contact.region == each for agent in free))
    down = [agent for agent in free if agent.contact.region == region]
    if not many:
        down = [agent for agent in free if agent.id in ships][:1]
    names = {agent.name for agent in down if agent.id in ships}
    first = leading.term.closer.next
    begin_s, at_us = asyncio.get_running_loop().time(), wall_us()
    for agent in down:
        agent.crash()
    writing = asyncio.create_task(traffic(fleet, 90.0))
    if "STANDBY" not in clause:
        await asyncio.sleep(BACK_S)
        for agent in down:
            await agent.start(fleet.seeds(agent))

    async def back() -> tuple[float, float] | None:
        asked = {"job": "sim/n", "from": first, "limit": 500, "state": "all", "revision": 0}
        reply = await master(fleet).ask("results", asked)
        for record, _ in decode_page(reply.payload):
            open_then = (record.start_us or 0) < at_us < (record.end_us or 0)
            inside = names - {*record.missing} | {each.agent for each in record.partly}
            if open_then and names <= inside:
                return asyncio.get_running_loop().time() - begin_s, record.fidelity
        return None

    took, share = await until(back, 80.0, 0.05)
    writing.cancel()
    fleet.check()
    return took, share


PARTS: dict[str, Callable[..., list[Figure]]] = {
    "accuracy": figure_12,
    "recovery": recovery,
    **replication_traces.PARTS,
    **replication_agents.PARTS,
}
