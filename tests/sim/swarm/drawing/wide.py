"""Jobs that close by votes, and jobs whose rows span intervals: nothing else of a seed depends on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.sim.swarm.drawing.job import Job

FROM, TO = 300, 1_000_000
"""The seeds that draw these kinds; those below, and those of schedules, say what they said."""

SITES = 3
VOTES = "VOTES"
KINDS = (VOTES, VOTES, "SESSION", "ROWS", "WITHIN", "", "")


def kind_of(seed: int) -> str:
    """Return what the jobs of a seed are; "": what they are without this."""
    return random.Random(f"votes/{seed}").choice(KINDS) if FROM <= seed < TO else ""


def voting(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the same jobs with sites, and without what a record depends on beside contributions."""
    return tuple(
        replace(job, paths=SITES, early_ms=None, standby_ms=None, sealed="", delivery="") for job in jobs
    )


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
