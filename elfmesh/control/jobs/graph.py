"""The typed graph of tasks and edges over the jobs of a fleet or a directory.

A task is a job, an input from which jobs read (a stream of records, the results of a job outside the graph, a
lookup file, or a TABLE of a text), or a sink. An edge leads from a task to a job that reads it, or from a job
to a sink. The graph knows statements, not labels, rates or places; coordination and planning make their
graphs from it.

Invariants: tasks are unique by kind and name. An edge ends at a job or at a sink. A job that reads another is
listed behind it, unless they read each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property

from elfmesh.errors import DataError
from elfmesh.ql.plan.statement import LATEST, SAME, LookupJoin, Statement, job_read


class TaskKind(Enum):
    """What a task is."""

    JOB = "job"
    STREAM = "stream"
    RESULTS = "results"
    LOOKUP = "lookup"
    TABLE = "table"
    SINK = "sink"


class EdgeKind(Enum):
    """How a task reads: records as they arrive, closed records, one closed record, or rows of a table.

    A sink reads closed records, or also revisions of open ones.
    """

    RECORDS = "records"
    RESULTS = "results"
    LATEST = "latest"
    SAME = "same"
    ROWS = "rows"
    REVISIONS = "revisions"


@dataclass(frozen=True, slots=True)
class JobSink:
    """Sink of an agent's configuration.

    Attributes:
        name: name in `[sinks.NAME]`.
        type: type of the sink, such as "webhook".
        jobs: names of jobs, or patterns such as "shop/*".
        revisions: whether it also stores revisions of open intervals.
        idempotent: whether a record that it receives twice changes nothing.
        source: file and line of its declaration, for messages.
        line: line in the file; 0 if it is unknown.
    """

    name: str
    type: str
    jobs: tuple[str, ...]
    revisions: bool = False
    idempotent: bool = True
    source: str = ""
    line: int = 0

    def takes(self, job: str) -> bool:
        """Return whether the sink stores the results of a job, "namespace/name"."""
        return any(fnmatchcase(job, each.replace(".", "/", 1)) for each in self.jobs)


@dataclass(frozen=True, slots=True)
class JobTask:
    """Task; a job has its statement, and a sink its settings."""

    kind: TaskKind
    name: str
    statement: Statement | None = None
    sink: JobSink | None = None


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


@dataclass(frozen=True)
class JobGraph:
    """Tasks and edges of a set of statements."""

    tasks: tuple[JobTask, ...]
    edges: tuple[TaskEdge, ...]

    @property
    def jobs(self) -> tuple[JobTask, ...]:
        return tuple(each for each in self.tasks if each.kind is TaskKind.JOB)

    @cached_property
    def _into(self) -> Mapping[str, list[TaskEdge]]:
        found: dict[str, list[TaskEdge]] = {}
        for each in self.edges:
            if each.target.kind is TaskKind.JOB:
                found.setdefault(each.target.name, []).append(each)
        return found

    @property
    def sinks(self) -> tuple[JobTask, ...]:
        return tuple(each for each in self.tasks if each.kind is TaskKind.SINK)

    def into(self, job: JobTask) -> list[TaskEdge]:
        """Return what a job reads, by part."""
        return self._into.get(job.name, [])


def job_graph(statements: Iterable[Statement], sinks: Iterable[JobSink] = ()) -> JobGraph:
    """Return the graph of statements, with a sink task for each job that a sink stores.

    Queries without CREATE JOB are named after their position.

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
    cyclic = _cyclic(reads)
    edges = [
        TaskEdge(
            kind,
            source,
            jobs[name],
            part,
            inner,
            kind is not EdgeKind.SAME and source.kind is TaskKind.JOB and (name, source.name) in cyclic,
        )
        for name, found in reads.items()
        for kind, source, part, inner in found
    ]
    inputs = dict.fromkeys(each.source for each in edges if each.source.kind is not TaskKind.JOB)
    stored = [
        TaskEdge(
            EdgeKind.REVISIONS if sink.revisions else EdgeKind.RESULTS,
            job,
            JobTask(TaskKind.SINK, f"{sink.name} {job.name}", sink=sink),
            0,
        )
        for sink in sinks
        for job in jobs.values()
        if job.statement and job.statement.job and sink.takes(job.name)
    ]
    tasks = (*inputs, *jobs.values(), *(each.target for each in stored))
    return JobGraph(tasks, (*edges, *stored))


_Read = tuple[EdgeKind, JobTask, int, bool]


def _reads(task: JobTask, jobs: Mapping[str, JobTask]) -> list[_Read]:
    statement = task.statement
    assert statement is not None
    found: list[_Read] = []
    own = {each.name for each in statement.job.tables} if statement.job else set()
    for part, each in enumerate(statement.over_records):
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


def _cyclic(reads: Mapping[str, Sequence[_Read]]) -> set[tuple[str, str]]:
    """Return the pairs (reader, job that it reads) whose job also depends on the reader.

    Jobs without a way in or out are taken away first, so that only cycles and what lies between them is
    searched.
    """
    before = {
        name: {source.name for _, source, _, _ in found if source.kind is TaskKind.JOB}
        for name, found in reads.items()
    }
    size = -1
    while size != len(before):
        size = len(before)
        read = set().union(*before.values()) if before else set()
        before = {name: found & before.keys() for name, found in before.items() if name in read}
        before = {name: found for name, found in before.items() if found}
    pairs: set[tuple[str, str]] = set()
    for name in before:
        seen, fresh = set[str](), [name]
        while fresh:
            for other in before.get(fresh.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    fresh.append(other)
        pairs |= {(reader, name) for reader in seen if name in before.get(reader, ())}
    return pairs
