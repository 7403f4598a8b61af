"""The typed graph of tasks and edges over the jobs of a fleet or a directory.

A task is a job, or an input from which jobs read: a stream of records, the
results of a job outside the graph, a lookup file, or a TABLE of a text. An edge leads from a task to a job
that reads it. The graph knows statements, not labels, rates or places; coordination and planning make their
graphs from it.

Invariants: tasks are unique by kind and name. An edge ends at a job. A job that reads another is listed
behind it, unless they read each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from elfmesh.errors import DataError
from elfmesh.ql.plan.statement import LATEST, SAME, LookupJoin, Statement, job_read


class TaskKind(Enum):
    """What a task is."""

    JOB = "job"
    STREAM = "stream"
    RESULTS = "results"
    LOOKUP = "lookup"
    TABLE = "table"


class EdgeKind(Enum):
    """How a job reads: records as they arrive, closed records, one closed record, or rows of a table."""

    RECORDS = "records"
    RESULTS = "results"
    LATEST = "latest"
    SAME = "same"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class JobTask:
    """Task; a job has its statement."""

    kind: TaskKind
    name: str
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class TaskEdge:
    """What part `part` of a job reads; `inner` for a lookup whose misses drop the record.

    With `delayed`, the reader's records belong to later intervals, and the edge is part of a cycle.
    """

    kind: EdgeKind
    source: JobTask
    target: JobTask
    part: int
    inner: bool = True
    delayed: bool = False


@dataclass(frozen=True, slots=True)
class JobGraph:
    """Tasks and edges of a set of statements."""

    tasks: tuple[JobTask, ...]
    edges: tuple[TaskEdge, ...]

    @property
    def jobs(self) -> tuple[JobTask, ...]:
        return tuple(each for each in self.tasks if each.kind is TaskKind.JOB)

    def into(self, task: JobTask) -> tuple[TaskEdge, ...]:
        """Return what a job reads, by part."""
        return tuple(each for each in self.edges if each.target == task)


def job_graph(statements: Iterable[Statement]) -> JobGraph:
    """Return the graph of statements. Queries without CREATE JOB are named after their position.

    Raises:
        DataError: two statements create the same job.
    """
    jobs: dict[str, JobTask] = {}
    for number, each in enumerate(statements, 1):
        name = each.job.qualified if each.job else f"query {number}"
        if name in jobs:
            raise DataError(f"the job {name} is created twice", where=each.source)
        jobs[name] = JobTask(TaskKind.JOB, name, each)
    reads = {name: _reads(each, jobs) for name, each in jobs.items()}
    edges = [
        TaskEdge(kind, source, jobs[name], part, inner, _is_cyclic(kind, source, name, reads))
        for name, found in reads.items()
        for kind, source, part, inner in found
    ]
    inputs = dict.fromkeys(each.source for each in edges if each.source.kind is not TaskKind.JOB)
    return JobGraph((*inputs, *jobs.values()), tuple(edges))


_Read = tuple[EdgeKind, JobTask, int, bool]


def _reads(task: JobTask, jobs: Mapping[str, JobTask]) -> list[_Read]:
    statement = task.statement
    assert statement is not None
    found: list[_Read] = []
    own = {each.name for each in statement.job.tables} if statement.job else set()
    for part, each in enumerate(statement.parts or (statement,)):
        kind, source = _input(each.stream, jobs)
        found.append((kind, source, part, True))
        found += [_lookup(join, own, part) for join in each.lookups]
    return found


def _input(stream: str, jobs: Mapping[str, JobTask]) -> tuple[EdgeKind, JobTask]:
    if job := job_read(stream):
        kind = (
            EdgeKind.LATEST if stream.startswith(LATEST)
            else EdgeKind.SAME if stream.startswith(SAME)
            else EdgeKind.RESULTS
        )  # fmt: skip
        return kind, jobs.get(job) or JobTask(TaskKind.RESULTS, job)
    return EdgeKind.RECORDS, JobTask(TaskKind.STREAM, stream)


def _lookup(join: LookupJoin, own: set[str], part: int) -> _Read:
    kind = TaskKind.TABLE if join.name in own else TaskKind.LOOKUP
    return EdgeKind.ROWS, JobTask(kind, join.name), part, join.inner


def _is_cyclic(kind: EdgeKind, source: JobTask, target: str, reads: Mapping[str, Sequence[_Read]]) -> bool:
    """Return whether an edge carries rows to later intervals and its target leads back to its source."""
    if source.kind is not TaskKind.JOB or kind is EdgeKind.SAME:
        return False
    followers: dict[str, list[str]] = {}
    for name, found in reads.items():
        for _, each, _, _ in found:
            if each.kind is TaskKind.JOB:
                followers.setdefault(each.name, []).append(name)
    seen, fresh = {target}, [target]
    while fresh:
        for name in followers.get(fresh.pop(), ()):
            if name not in seen:
                seen.add(name)
                fresh.append(name)
    return source.name in seen
