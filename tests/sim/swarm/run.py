"""One seed from beginning to end: calm, faults, calm again; what happened is for the invariants to judge."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.drawing.distances import placing
from tests.sim.swarm.fidelity.watch import FidelityWatch
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.host import Killed
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.judging import invariants
from tests.sim.swarm.judging.absence import absences, cut_off
from tests.sim.swarm.judging.aftermath import limits_broken, misjudged, truths
from tests.sim.swarm.judging.ordered_topic import orders, posted
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.judging.settling import Settling
from tests.sim.swarm.judging.spreading import crowded, pruned, starving
from tests.sim.swarm.nemesis import Nemesis
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.world import vloop

SEED_CPU_S_MAX = 120.0


async def _watch(task: asyncio.Task[Outcome]) -> None:
    """End a run that takes far longer than any other: it goes round in circles."""
    began = time.process_time()
    while time.process_time() - began < SEED_CPU_S_MAX:  # noqa: ASYNC110 - virtual time costs nothing
        await asyncio.sleep(1.0)
    task.cancel(f"no end within {SEED_CPU_S_MAX} s of processor time")


async def _watched(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    task = asyncio.get_running_loop().create_task(work)
    watch = asyncio.get_running_loop().create_task(_watch(task))
    try:
        return await task
    except asyncio.CancelledError as error:
        raise TimeoutError(str(error)) from None
    finally:
        watch.cancel()


async def _run(
    scenario: Scenario, system: SimOS, path: type[SimPath], on_log: Callable[[str], None] | None
) -> Outcome:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_exception)
    swarm, fidelity = Swarm(scenario, system, path, on_log), FidelityWatch()
    residing = swarm.history.residence.listening() if scenario.keeping else nullcontext()
    with residing, fidelity.listening():
        outcome = await _lived(scenario, system, swarm)
    outcome.fidelity = fidelity
    return outcome


async def _lived(scenario: Scenario, system: SimOS, swarm: Swarm) -> Outcome:
    loop = asyncio.get_running_loop()
    await swarm.begin()
    await asyncio.sleep(scenario.calm_s)
    nemesis = Nemesis(swarm, random.Random(f"nemesis/{scenario.seed}"))
    await nemesis.run(scenario.safety_s)
    settling = Settling(swarm)
    closed = await settling.run()
    crowd, starved = await crowded(swarm.hosts), starving(swarm.hosts)
    final = {key: await swarm.results(key) for key in swarm.current.values()}
    replayed = await swarm.replay(settling.closed) if scenario.replay else []
    read = {} if swarm.ordered is None else await orders(swarm, swarm.ordered)
    limits = limits_broken(swarm.hosts, system)
    bugs = misjudged(swarm.hosts, swarm.history)
    now = loop.time()
    absent, cuts = absences(swarm.hosts, now), cut_off(swarm.hosts, swarm.network.swarm_link)
    pruned_paths = pruned(swarm.hosts)
    there = tuple(host.name for host in swarm.hosts if host.up and not host.left)
    wanted = posted(swarm) if read else frozenset()
    await swarm.end()
    return Outcome(
        scenario=scenario,
        history=swarm.history,
        truths=truths(swarm.hosts, swarm.history, swarm.jobs),
        final=final,
        due=settling.due,
        pending_corrections=settling.pending_corrections,
        counted=settling.counted,
        resting=settling.resting,
        there=there,
        closed_in_s=closed,
        absent=absent,
        cut_off=cuts,
        founders=swarm.founders,
        bugs=[*bugs, *(f"{host.name}: {host.bug!r}" for host in swarm.hosts if host.bug is not None)],
        replayed=replayed,
        limits=limits,
        crowded=crowd,
        starving=starved,
        pruned=pruned_paths,
        lost=swarm.lost,
        silent=settling.silent,
        orders=read,
        posted=wanted,
        written=tuple(tuple(host.server.ledger) for host in swarm.hosts),
        written_until_us=swarm.written_until_us,
        trace=swarm.network.trace,
        seconds=now,
        faults=nemesis.count,
        crashes=sum(host.lives for host in swarm.hosts) - len(swarm.hosts),
        messages=swarm.network.counters["delivered"],
    )


def _on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


def run(scenario: Scenario | int, on_log: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed, or a scenario made of one."""
    scenario = draw(scenario) if isinstance(scenario, int) else scenario
    system = SimOS()
    is_pruned = any(job.cost for job in scenario.jobs)
    at_once = placing(scenario.distances, is_pruned=is_pruned)
    with at_once, installed(system, scenario.poll_s, scenario.read_bytes) as path:
        return vloop.run(_watched(_run(scenario, system, path, on_log)))


def check(outcome: Outcome, names: tuple[str, ...] = invariants.ENFORCED) -> dict[str, list[str]]:
    """What is violated, by invariant."""
    found = {name: [*invariants.ALL[name](outcome)] for name in names}
    return {name: lines for name, lines in found.items() if lines}
