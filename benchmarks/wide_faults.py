"""Latency over time when a replica stops and dies (Fig. 2): votes and one tree against other approaches.

Owns the series. `votes` and `failover` are whole agents on virtual time: a job with PATHS 3, and one with one
tree. The approaches of the paper are models on the same latencies at the same times, with the paper's query:
two unions of the readings of all servers, a join of both, and two places for each union.

- *none*: one replica of each union, at different places.
- *first-wins*: two of each; the join takes the first copy.
- *synchronisation*: a primary holds what it sends until its backup has acknowledged the determinants.
- *deterministic*: both replicas sort; each waits for a punctuation of every input. After a failure the join
  switches when it has missed the primary for `DETECTED_S`.

One place (for agents: a site that is not the master) is stopped for two seconds at 45 s and killed at 60 s.

Paper: Hwang et al. VI-B. Deviation: with agents, the host that is stopped and killed has a log itself, as
every site has, so the intervals behind the fault wait for its records or for the deadline.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Figure
from benchmarks.wide_fleet import WideFleet
from benchmarks.wide_traces import WideNetwork, reference
from tests.sim.world import vloop

EVERY_S, LENGTH_S = 0.5, 80.0
STOPPED_S, STOP_S, KILLED_S = 45.0, 2.0, 60.0
DETECTED_S = 0.5
DEADLINE_S = 1
BEGIN_S = 30.0
"""From when on the series counts."""

Series = dict[float, float]
"""Seconds from the end of an interval to the reader, by the end of the interval."""


def approaches(network: WideNetwork) -> dict[str, Series]:
    """Return the series of the paper's approaches: the places are the first two regions' central agents."""
    usual, regions = network.usual, network.regions
    centres = [
        min(
            (at for at, each in enumerate(regions) if each == region),
            key=lambda at: float(usual[at].sum()),
        )
        for region in dict.fromkeys(regions)
    ]
    killed, other, join = centres[:3]

    def via(union: int) -> float:
        """From the slowest server by a union to the join."""
        return float(usual[:, union].max() + usual[union, join])

    def unstopped(at: float, spent: float) -> float:
        """A tuple that passes the stopped place waits until that continues."""
        arrives = at + spent
        return STOPPED_S + STOP_S + spent - at if STOPPED_S <= arrives < STOPPED_S + STOP_S else spent

    synchronised = 2 * float(usual[killed, other])
    found: dict[str, Series] = {
        name: {} for name in ("none", "first-wins", "synchronisation", "deterministic")
    }
    for at in np.arange(BEGIN_S, LENGTH_S - 5, EVERY_S):
        end, dead = float(at), at >= KILLED_S
        one, two = unstopped(end, via(killed)), via(other)
        sorts = EVERY_S / 2
        found["none"][end] = np.inf if dead else max(one, two)
        found["first-wins"][end] = two if dead else min(one, two)
        gone_s = max(0.0, KILLED_S + DETECTED_S - end) if dead else 0.0
        held = 0.0 if dead else synchronised
        found["synchronisation"][end] = max(two + held, gone_s + two if dead else one + held)
        found["deterministic"][end] = (max(gone_s, 0.0) + two if dead else max(one, two)) + sorts
    return found


def agents(network: WideNetwork, paths: str) -> Series:
    """Return the series of a job; its reader is in the region of the master."""

    async def main() -> Series:
        fleet = WideFleet(network, paths, width_s=EVERY_S, deadline_s=DEADLINE_S)
        with fleet.watched():
            await fleet.begin()
            loop = asyncio.get_running_loop()
            (victim,) = fleet.target("a site is killed")
            master = fleet.master
            assert master is not None
            led = master.term.terms.master
            near = [each for each in fleet.fleet.agents if each.region == led.region and each.id != victim]
            fleet.add_readers([near[-1].number])
            began = loop.time()
            await asyncio.sleep(STOPPED_S)
            fleet.link.stopped[victim] = loop.time() + STOP_S
            await asyncio.sleep(KILLED_S - STOPPED_S)
            fleet.strike((victim,))
            await asyncio.sleep(LENGTH_S - KILLED_S)
            await fleet.wait_read(fleet.interval - 1, 60.0)
            await fleet.end()
        ends = {index: fleet.ended(index) - began for index in fleet.read}
        return {
            end: at - began - end
            for index, end in ends.items()
            for at in fleet.read[index].values()
            if BEGIN_S <= end < LENGTH_S - 5
        }

    found: Series = vloop.run(main())
    return found


def figure_2(*, small: bool) -> Iterator[Figure]:
    """The median before the faults, and the longest and the usual latency around each fault."""
    network = reference(2 if small else 3, 1, 1).calm
    series = approaches(network)
    series |= {"failover (one tree)": agents(network, "")} if not small else {}
    series["votes (PATHS 3)"] = agents(network, "PATHS 3 ACROSS region")
    for name, points in series.items():
        before = statistics.median(each for end, each in points.items() if end < STOPPED_S - 1)
        yield Figure(f"Fig. 2, {name}: median before", before, "s")
        spans = {
            "while it is stopped": (STOPPED_S, STOPPED_S + STOP_S),
            "within 5 s of the kill": (KILLED_S, KILLED_S + 5),
        }
        for when, (begin, end) in spans.items():
            longest = max(each for at, each in points.items() if begin - 1 <= at < end)
            if np.isinf(longest):
                yield Figure(f"Fig. 2, {name}: longest {when}", 0.0, "", skipped="nothing comes any more")
            else:
                yield Figure(
                    f"Fig. 2, {name}: longest {when}", longest, "s", "median before", longest / before
                )
        after = statistics.median(each for at, each in points.items() if at >= KILLED_S + 5)
        if np.isfinite(after):
            yield Figure(
                f"Fig. 2, {name}: median after the kill", after, "s", "median before", after / before
            )


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {"figure_2": figure_2}
