"""From which interval on a job of a savepoint goes on, and which records are before it. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.errors import QueryError

INDEX_MAX = 1 << 55
"""Far beyond any interval, and far below what an index may be."""


def why_not(plan: JobPlan) -> str:
    """Why a job has state that no savepoint holds, "" if all of it can be made again from logs."""
    if plan.sessions:
        return "a job with SESSION has open sessions, which are in no log any more"
    if plan.reads or plan.latest:
        return "a job that reads results of others goes on where those are"
    return ""


def resumed_at(manifest: Manifest, first: object) -> tuple[Manifest, int]:
    """The manifest of a job that begins at an interval, and that interval.

    Records from before its window count as filtered: those of earlier intervals are in the earlier results.

    Raises:
        QueryError: this is no interval, or a job that no savepoint holds.
    """
    plan = read_plan(manifest.text)
    if problem := why_not(plan):
        raise QueryError(f"no savepoint of this job: {problem}")
    if not isinstance(first, int) or isinstance(first, bool) or not -INDEX_MAX < first < INDEX_MAX:
        raise QueryError("first is the number of an interval")
    if first == FIRST or not plan.slide_us:
        raise QueryError("a job without windows has no interval at which it could continue")
    return replace(manifest, resumed=True, since_us=plan.window(first)[0]), first
