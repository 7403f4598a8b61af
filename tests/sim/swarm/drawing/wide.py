"""Jobs that close by votes, whose rows span intervals, or whose rows are early under a promise of the text.

Nothing else of a seed depends on them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.sim.swarm.drawing.distances import Distances
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.workload import OWN, SHARED, Traffic

FROM, TO = 300, 1_000_000
"""The seeds that draw these kinds; those below, and those of schedules, say what they said."""

KEEPING_FROM = 600
"""The seeds that draw hosts which keep their data in their rack; those below have none."""

PLANNED_FROM = 1_000
BUDGETS = ("ALL", "1", "3", "'50 %'", "'100 KB/s'", "KEEPS 0.7", "KEEPS 0.95")
"""The seeds from which jobs with standbys have one of these budgets; those below have none."""

PRUNED_FROM = 1_500
COSTS = ("", "1", "2.5", "4", "6")
"""The seeds from which jobs that votes close have several trees for each group, and bounds of their cost."""

DISTANT_FROM = 1_200
"""The seeds from which jobs that close by votes have links of different latencies; those below have equal
ones."""

SITES = 3
VOTES = "VOTES"
STATED, ASSUMED = "STATED", "ASSUMED"
KINDS = (VOTES, VOTES, "SESSION", "ROWS", "WITHIN", "", "")
PROMISES = (STATED, ASSUMED)
"""What a seed is that is none of the others: partitions with stated records, or assumptions."""

ASSUMPTIONS = ("v >= 0", "v >= -900, v <= 990", "id >= 0, id -> k", "k -> v, v >= -950")
"""Some hold always, and some are contradicted in most intervals."""

SUMMED = (300, 1000)


def kind_of(seed: int) -> str:
    """Return what the jobs of a seed are; "": what they are without this."""
    if not FROM <= seed < TO:
        return ""
    return random.Random(f"votes/{seed}").choice(KINDS) or random.Random(f"promises/{seed}").choice(PROMISES)


def keeping_rack(seed: int, racks: int) -> str:
    """Return the rack whose hosts keep their data inside, in every second seed; "": none."""
    rng = random.Random(f"keeping/{seed}")
    if not KEEPING_FROM <= seed < TO or rng.random() < 1 / 2:
        return ""
    return f"r{rng.randrange(racks)}"


def planned(seed: int, jobs: Sequence[Job]) -> tuple[tuple[Job, ...], bool]:
    """Return the jobs with a budget of standbys, if one has standbys, and whether a rack loses its disks."""
    if not PLANNED_FROM <= seed < TO or all(job.standby_ms is None for job in jobs):
        return tuple(jobs), False
    rng = random.Random(f"budget/{seed}")
    budget = rng.choice(BUDGETS) + rng.choice((" ACROSS rack", ""))
    return tuple(replace(job, standbys=budget) for job in jobs), rng.random() >= 1 / 2


def distances(seed: int) -> Distances | None:
    """Return the latencies of a seed whose jobs close by votes, in every second one; None: they are equal."""
    rng = random.Random(f"distances/{seed}")
    if not DISTANT_FROM <= seed < TO or rng.random() < 1 / 2:
        return None
    return Distances(rng.choice((0.02, 0.1, 0.25)), rng.choice((7.0, 20.0)))


def voting(jobs: Sequence[Job], seed: int) -> tuple[Job, ...]:
    """Return the same jobs with sites, and without what a record depends on beside contributions."""
    found = tuple(
        replace(job, paths=SITES, early_ms=None, standby_ms=None, sealed="", delivery="") for job in jobs
    )
    if seed < PRUNED_FROM:
        return found
    rng = random.Random(f"pruned/{seed}")
    return tuple(replace(job, copies=rng.choice((1, 2, 2, 3)), cost=rng.choice(COSTS)) for job in found)


def spanning(job: Job, kind: str, rng: random.Random) -> Job:
    """Return the job with rows that span intervals, in one tree, without what such a job may not have."""
    plain = replace(
        job, name=kind.lower(), ids=False, size_s=job.slide_s, partitions=1, early_ms=None, standby_ms=None,
        enough=1, sealed="", delivery="", spans=kind, paths=rng.choice((0, 0, SITES)),
    )  # fmt: skip
    if kind == "ROWS":
        number = rng.choice((1, 2, 3, 5))
        return replace(plain, rows=number, step=rng.choice((number, number, 1, 2, number + 2)))
    if kind == "WITHIN":
        return replace(plain, least=None, within_s=rng.choice((1, job.slide_s, 2 * job.slide_s)))
    return plain


def stated(job: Job, producers: str, early_ms: int) -> Job:
    """Return the job with early rows of partitions whose producers state their records."""
    return replace(
        job, name="parts", ids=False, size_s=job.slide_s, least=None, enough=1, early_ms=early_ms,
        standby_ms=None, paths=0, delivery="", sealed=producers, stated=True,
    )  # fmt: skip


def in_partitions(traffic: Traffic, job: Job) -> Traffic:
    """Return the traffic with the partitions that a job with stated records reads."""
    return replace(traffic, parts=OWN if job.sealed == "1" else SHARED, parts_s=2 * job.slide_s)


def assuming(jobs: Sequence[Job], rng: random.Random) -> tuple[Job, ...]:
    """Return the jobs with assumptions; the last one has sums by key, and its early rows may rely on one."""
    *others, last = (
        replace(job, assume=rng.choice(ASSUMPTIONS), standby_ms=None, sealed="", delivery="") for job in jobs
    )
    last = replace(last, name="sums", ids=False)
    if rng.random() < 1 / 2:
        early_ms, summed = rng.choice((100, 250, 1000)), rng.choice(SUMMED)
        last = replace(last, assume=ASSUMPTIONS[0], early_ms=early_ms, enough=1, summed=summed)
    return (*others, last)
