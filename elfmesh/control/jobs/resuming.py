"""Beginning of a job at an interval, from a savepoint or by HISTORY, and its end. Pure functions."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh import ql
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
    if plan.history_us is not None or plan.until_us is not None:
        return "HISTORY and UNTIL state where it begins and ends"
    if plan.ordered:
        return "the order of an ordered topic is in no log"
    if plan.reads or plan.latest:
        return "a job that reads results of others goes on where those are"
    return ""


def within_range(manifest: Manifest, wall_us: int, *, leased: bool) -> tuple[Manifest, int]:
    """Return the manifest of a job with the times that HISTORY and UNTIL mean now, and its first interval.

    The job begins with the interval that contains the time; if it has one interval, at the time itself.

    Args:
        manifest: without these times.
        wall_us: the clock of the agent that receives the request.
        leased: whether the job ends when its client is gone.

    Raises:
        QueryError: a job without an end cannot be leased.
    """
    plan, first, since_us = read_plan(manifest.text), FIRST, None
    if leased and plan.until_us is None:
        raise QueryError("a query of a client needs an end", hint="Write UNTIL HISTORY or UNTIL '10 min'.")
    if plan.history_us is not None:
        since_us = plan.history_us if plan.dated else max(0, wall_us - plan.history_us)
        is_one = plan.slide_us == ql.ONE_INTERVAL_US
        is_past = is_one or plan.dated or plan.history_us > 0
        first = since_us // plan.slide_us if is_past else plan.first_after(wall_us)
        if not is_one:
            since_us = plan.window(first)[0]
    until_us = plan.until_us
    if until_us is not None and not (plan.dated and until_us):
        until_us += wall_us
    resumed = plan.history_us is not None
    changed = replace(manifest, since_us=since_us, until_us=until_us, resumed=resumed, leased=leased)
    return changed, first


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
