"""What a job at several sites gains and costs: whole agents on virtual time, with recorded latencies.

Parts: `latency` compares one tree, PATHS 1 and PATHS 3 from the last seal to readers in all regions, and
`unlabelled` does so where no agent states a region. `faults` kills agents and cuts links between them.
`traffic` counts bytes between regions. `legs` compares the latency with the sum of the legs on the close
path, at constant latencies; an interval whose last seal is at the reader's own site is sooner. `deaths`
counts agents of the Seattle trace that others take for dead.

Virtual time has no processing and no queues; a link delivers in order. Each run is a fleet of its own with
the same traces, so that the clauses are compared at the same moments.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.harness import Figure, percentile
from benchmarks.wide_fleet import TraceLink, WideFleet
from benchmarks.wide_traces import STEP_S, WideNetwork, constant, reference, seattle
from tests.overlay.crowd import Crowd
from tests.sim.world import vloop

TREE, ONE, THREE, COPIES = "", "PATHS 1 ACROSS region", "PATHS 3 ACROSS region", "PATHS 3, 2 ACROSS region"
PER_REGION = int(os.environ.get("ELF_WIDE_AGENTS", "30")) // 5
"""Agents of each region of the reference network."""

SLICES = {False: 14, True: 1}
"""Slices of 15.7 s that a run of `latency` has."""

READERS = 5
SETTLED_S = 10.0
BACKLOG_S = 90.0
"""How long readers may take at most for the intervals that are measured."""


def name_of(paths: str) -> str:
    return paths or "one tree"


# -- latency -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run of `latency`, in seconds from the last seal to the readers."""

    latencies: list[float]
    requested: float
    parts: float
    """Parts with records that arrive at a site for each interval and copy of a group."""


def measured(network: WideNetwork, paths: str, seconds: float) -> Run:
    """Follow a job while its links have the latencies of the network's slices."""

    async def main() -> Run:
        fleet = WideFleet(network, paths)
        with fleet.watched():
            await fleet.begin()
            fleet.slices_begin()
            size = len(network.regions)
            fleet.add_readers([size * number // READERS for number in range(READERS)])
            await asyncio.sleep(SETTLED_S)
            first = fleet.interval
            fleet.direct.clear()
            before = fleet.stats()["control.requested_bytes"]
            await asyncio.sleep(seconds)
            stop = fleet.interval - 1
            await fleet.wait_read(stop, BACKLOG_S)
            layout = fleet.layout
            streams = 0 if layout is None else len(layout.gateways) * max(1, len(layout.sites))
            requested = fleet.stats()["control.requested_bytes"] - before
            await fleet.end()
        parts = fleet.direct["Parts"] / (stop - first) / streams if streams else 0.0
        return Run(fleet.latencies(first, stop), requested / max(1, fleet.direct["Part"]), parts)

    found: Run = vloop.run(main())
    return found


def latency(*, small: bool) -> Iterator[Figure]:
    """Compare the clauses on the reference network."""
    per_region = 1 if small else PER_REGION
    network = reference(per_region, 60, 1, developing=small)
    clauses = (TREE, THREE) if small else (TREE, ONE, THREE, COPIES)
    yield from _compared(network, clauses, SLICES[small] * STEP_S)


def unlabelled(*, small: bool) -> Iterator[Figure]:
    """Compare the clauses on the Seattle trace, whose agents state no labels."""
    network = seattle(5 if small else 30, 60, 1, developing=small)
    yield from _compared(network, (TREE, "PATHS 3"), SLICES[small] * STEP_S)


def _compared(network: WideNetwork, clauses: Sequence[str], seconds: float) -> Iterator[Figure]:
    usual: Run | None = None
    for paths in clauses:
        run = measured(network, paths, seconds)
        usual = usual or run
        about = f"{network.name}, {len(network.regions)} agents, {name_of(paths)}"
        for share in (0.5, 0.9, 0.99):
            value, peer = percentile(run.latencies, share), percentile(usual.latencies, share)
            other = "" if run is usual else "one tree"
            ratio = value / peer if other else 0.0
            yield Figure(f"seal to reader, {about}: p{share * 100:g}", value, "s", other, ratio)
        yield Figure(f"seal to reader, {about}: longest", max(run.latencies), "s")
        if run.parts:
            yield Figure(f"parts at a site, interval and copy, {about}", run.parts, "messages")
            yield _share(f"requested bytes, {about}", run.requested)


def _share(name: str, share: float) -> Figure:
    if not share:
        return Figure(name, 0.0, "", skipped="0: nothing was requested")
    return Figure(name, 100 * share, "% of direct")


# -- faults --------------------------------------------------------------------------------------------

AROUND_S = 10.0
"""How long before and after a fault intervals are measured."""

DEADLINE_S = 1
FAULTS = tuple(f"{what} is killed" for what in ("the master", "a site", "a gateway", "a member"))
CUT = "a link is cut"


@dataclass(frozen=True)
class Fault:
    """Seconds from the last seal of the living members to the readers."""

    before: list[float]
    in_flight: list[float]
    """Of the interval that all members had sealed when the fault happened."""
    after: list[float]
    requested: float


def broken(network: WideNetwork, paths: str, fault: str) -> Fault | None:
    """Measure the intervals around a fault that happens when an interval has just been sealed.

    Returns None if one tree has no such agent.
    """

    async def main() -> Fault | None:
        fleet = WideFleet(network, paths, width_s=1, deadline_s=DEADLINE_S)
        with fleet.watched():
            await fleet.begin()
            target = fleet.target(fault)
            if not target:
                await fleet.end()
                return None
            alive = [each for each in fleet.fleet.agents if each.id not in target]
            readers = [
                next(each.number for each in alive if each.region == region)
                for region in dict.fromkeys(network.regions)
            ]
            fleet.add_readers(readers)
            await asyncio.sleep(SETTLED_S)
            first = fleet.interval
            await asyncio.sleep(AROUND_S)
            at = fleet.interval
            await fleet.wait_sealed(at)
            fleet.direct.clear()
            requested = fleet.stats()["control.requested_bytes"]
            fleet.strike(target)
            await asyncio.sleep(AROUND_S)
            stop = fleet.interval
            await fleet.wait_read(stop, BACKLOG_S)
            requested = fleet.stats()["control.requested_bytes"] - requested
            await fleet.end()
        share = requested / max(1, fleet.direct["Part"])
        spans = (first, at), (at, at + 1), (at + 1, stop)
        before, in_flight, after = (fleet.latencies(*span) for span in spans)
        return Fault(before, in_flight, after, share)

    found: Fault | None = vloop.run(main())
    return found


def faults(*, small: bool) -> Iterator[Figure]:
    """Kill agents and cut links at constant latencies."""
    network = reference(2 if small else PER_REGION, 1, 1).calm
    for fault in (CUT,) if small else (*FAULTS, CUT):
        for paths in (THREE,) if small else (TREE, THREE, COPIES):
            found = broken(network, paths, fault)
            if found is None:
                continue
            about = f"{fault}, {name_of(paths)}"
            usual = percentile(found.before, 0.99)
            yield Figure(f"{about}: before, p99", usual, "s")
            for when, values in (("in flight", found.in_flight), ("10 s after", found.after)):
                worst = percentile(values, 0.99)
                yield Figure(f"{about}: {when}, p99", worst, "s", "before", worst / usual)
            if fault == CUT and paths:
                yield _share(f"requested bytes, {about}", found.requested)


# -- traffic, legs, deaths -------------------------------------------------------------------------------

LINES, TRAFFIC_S = 150, 40.0


def traffic(*, small: bool) -> Iterator[Figure]:
    """Count what passes between three regions for an interval, without readers and heartbeats."""
    per_region = 2 if small else int(os.environ.get("ELF_WIDE_TRAFFIC", "10"))
    usual = 0.0
    for paths in (TREE, ONE, THREE, COPIES):
        found = crossing(paths, per_region)
        total = sum(found.values())
        usual = usual or total
        about = f"bytes between 3 regions of {per_region} agents, {name_of(paths)}"
        yield Figure(about, total, "B/interval", "one tree", total / usual)
        for kind, size in sorted(found.items(), key=lambda each: -each[1])[:4]:
            yield Figure(f"{about}: {kind}", size, "B/interval")


def crossing(paths: str, per_region: int) -> dict[str, float]:
    """Return the bytes between regions for an interval, by kind of message; most agents have most keys."""
    regions = tuple(f"r{at % 3}" for at in range(3 * per_region))
    one_way = [[0.001 if one == two else 0.05 for two in regions] for one in regions]

    async def main() -> dict[str, float]:
        fleet = WideFleet(constant(one_way, regions), paths, lines=LINES)
        with fleet.watched():
            await fleet.begin()
            fleet.crossed.clear()
            await asyncio.sleep(TRAFFIC_S)
            await fleet.end()
        return {kind: size * fleet.width_s / TRAFFIC_S for kind, size in fleet.crossed.items()}

    found: dict[str, float] = vloop.run(main())
    return found


LEG_S, INSIDE_S = 0.05, 0.0005


def legs(*, small: bool) -> Iterator[Figure]:
    """Compare the latency of readers in other regions than the master with the legs on the close path."""
    regions = ("ap", "eu", "us") * (1 if small else 3)
    one_way = [[INSIDE_S if one == two else LEG_S for two in regions] for one in regions]
    for at in range(len(regions)):
        one_way[at][at] = 0.0
    for paths, count in ((ONE, 4), (THREE, 2)):

        async def main(paths: str = paths) -> list[float]:
            fleet = WideFleet(constant(one_way, regions), paths)
            with fleet.watched():
                await fleet.begin()
                master = fleet.master
                assert master is not None
                home = fleet.agent(master.term.terms.master.id).region
                fleet.add_readers([regions.index(each) for each in dict.fromkeys(regions) if each != home])
                await asyncio.sleep(SETTLED_S)
                first = fleet.interval
                await asyncio.sleep(SETTLED_S)
                stop = fleet.interval - 1
                await fleet.end()
            return fleet.latencies(first, stop)

        found: list[float] = vloop.run(main())
        about = f"seal to readers in other regions, {count} legs of 50 ms, {paths}"
        yield Figure(about, percentile(found, 0.5), "s")
        longest, legs_s = max(found), count * LEG_S
        yield Figure(f"{about}: longest", longest, "s", "the sum of the legs", longest / legs_s)


def deaths(*, small: bool) -> Iterator[Figure]:
    """Count how often an agent is taken for dead in an hour while all agents of the Seattle trace live."""
    agents, hours = (12, 0.02) if small else (99, float(os.environ.get("ELF_WIDE_HOURS", "0.25")))
    network = seattle(agents, 60, 1, developing=small)
    crowd = Crowd(agents, seed=1)
    link = TraceLink(network, {each: number for number, each in enumerate(crowd.agents)})
    crowd.network.link = crowd.link = link
    crowd.network.run_for(60.0)
    before = sum(len(crowd.downs(each)) for each in crowd.alive)
    link.began = crowd.network.now
    crowd.network.run_for(hours * 3600)
    found = [down for each in crowd.alive for _, down in crowd.downs(each)]
    count = (len(found) - before) / hours
    about = f"Seattle, {agents} agents, {hours:g} h"
    if not count:
        yield Figure(f"agents taken for dead, {about}", 0.0, "", skipped="0: none")
    else:
        yield Figure(f"agents taken for dead, {about}", count, "reports/h")
        yield Figure(f"different agents taken for dead, {about}", len({*found[before:]}), "agents")


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {
    "latency": latency,
    "unlabelled": unlabelled,
    "faults": faults,
    "traffic": traffic,
    "legs": legs,
    "deaths": deaths,
}
