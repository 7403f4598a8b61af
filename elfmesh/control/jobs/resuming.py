"""Continuation of a job from a savepoint: the first interval and the records before it. Pure functions."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.errors import QueryError

INDEX_MAX = 1 << 55
"""Bound of the first interval; it is far above the number of any interval and far below the limit of
`Index`."""


def why_not(plan: JobPlan) -> str:
    """Return why a savepoint cannot contain the state of a job; "" if the logs contain all of it."""
    if plan.spans:
        return f"a job with {plan.spans} has open groups, which are in no log any more"
    if plan.reads or plan.latest:
        return "a job that reads results of others goes on where those are"
    return ""


def resumed_at(manifest: Manifest, first: object) -> tuple[Manifest, int]:
    """Return the manifest of a job that begins at an interval, and that interval.

    Records before its window count as filtered, because the earlier results represent them.

    Raises:
        QueryError: `first` is no interval, or a savepoint cannot contain the job.
    """
    plan = read_plan(manifest.text)
    if problem := why_not(plan):
        raise QueryError(f"no savepoint of this job: {problem}")
    if not isinstance(first, int) or isinstance(first, bool) or not -INDEX_MAX < first < INDEX_MAX:
        raise QueryError("first is the number of an interval")
    if first == FIRST or not plan.slide_us:
        raise QueryError("a job without windows has no interval at which it could continue")
    return replace(manifest, resumed=True, since_us=plan.window(first)[0]), first
