"""Plan of a job: the streams, labels, windows and straggler policy in its text.

Owns the step from ELF-QL to the parameters of masters and members. `ql.Query` evaluates the statement, in
workers and in the finaliser.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

from msgspec import Struct

from elfmesh import ql
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX, JobNames
from elfmesh.errors import QueryError
from elfmesh.lazy import lazy_module
from elfmesh.ql.expressions.standby_budget import ALL_MEMBERS, StandbyBudget
from elfmesh.ql.plan.delivery import TopicDelivery
from elfmesh.ql.plan.fidelity_shape import ONE_INPUT, FidelityShape

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


MICROS = 1_000_000
PLANS_MAX = 1024
PARTITIONS_MAX = 64
"""Maximum number of trees of one job, because each member has a parent in every tree."""


class JobPlan(Struct, frozen=True):
    """Parameters of a job for masters and members.

    Attributes:
        inputs: the streams that it reads, each with the labels that an agent must have to take part.
        size_us: width of a window.
        slide_us: distance of two windows; the number of an interval counts slides since the epoch 1970.
        deadline_s: time for which an interval that a member has passed waits before missing members are
            probed.
        on_straggler: "wait", "correct" or "skip".
        horizon_s: maximum time for corrections of a tentative result; None: defaults of the straggler policy.
        replicas: number of peers that keep a copy of a contribution until its interval is closed.
        replicas_across: label in which an agent and these peers differ; "": the text names none, so rack.
        lookups: lookup tables that every member needs.
        reads: jobs whose results it reads, "namespace/name"; such a job reads no stream.
        latest: side inputs besides streams, "latest namespace/name": the newest result of a job.
        columns: columns of its results.
        keys: those that are made of the group keys; None: the last step of the text groups nothing.
        functions: whether the text contains Python functions.
        sources: by input, the stream or job that it reads; a stream joined with itself is two inputs.
        shape: how the shares of the inputs that are inside become the fidelity of the result.
        spans: word of the window whose rows span intervals (SESSION, SEALED, ROWS, WITHIN); an interval's
            rows are the groups that ended in it. Otherwise "".
        after_us: how long a partition of SEALED without its seals stays open after its last record; 0: groups
            may end in any later interval, because `spans` is another word.
        lateness_us: delay of an agent's watermark behind the newest record that it has read.
        early_us: period of early rows; None: there are none.
        stable: columns of early rows that do not change later.
        growing: columns of early rows that are lower bounds.
        history_us: how long before its submission the job begins; None: as its streams are configured.
        until_us: how long after its submission the job ends; 0: with the records of now; None: never.
        dated: whether `history_us`, and `until_us` unless it is 0, are times since 1970.
        ordered: whether it is an ordered topic, whose master puts the posts of its stream in order.
        standby_s: time between the deltas that a member ships to its standby; None: it has none.
        standbys: which members have a standby.
        standby_across: label in which a member and its standby differ.
        paths: number of sites; 0: one tree reduces the contributions of all members.
        copies: number of trees of each group of members.
        cost: bound of the network cost, in units of that of one site; None: no bound.
        across: label that forms groups of members; "": the outermost one that tells members apart.
    """

    inputs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    size_us: int
    slide_us: int
    deadline_s: float
    on_straggler: str
    horizon_s: float | None = None
    replicas: int = 0
    replicas_across: str = ""
    lookups: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    shape: FidelityShape = ONE_INPUT
    spans: str = ""
    after_us: int = 0
    reads: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    functions: bool = False
    lateness_us: int = 0
    early_us: int | None = None
    stable: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()
    history_us: int | None = None
    until_us: int | None = None
    dated: bool = False
    ordered: bool = False
    standby_s: float | None = None
    standbys: StandbyBudget = ALL_MEMBERS
    standby_across: str = "rack"
    paths: int = 0
    copies: int = 1
    cost: float | None = None
    across: str = ""

    @property
    def has_no_members(self) -> bool:
        """Whether no agent evaluates the job: its master has all of its input."""
        return bool(self.reads) or self.ordered

    @property
    def domains(self) -> tuple[str, ...]:
        """The labels that the text names for its groups and its copies; an agent must state each of them."""
        return tuple(each for each in (self.across, self.replicas_across) if each)

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(ql.job_read, (*self.reads, *self.latest))))

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for stream, _ in self.inputs))

    def read_at(self, streams: Collection[str], labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the streams of an agent that the job reads; if there are none, the agent is no member."""
        mine = labels.items()
        wanted = {name for name, needed in self.inputs if all(label in mine for label in needed)}
        return tuple(name for name in self.streams if name in wanted and name in streams)

    def window(self, interval: int) -> tuple[int, int]:
        """Return start and exclusive end of an interval in microseconds UTC."""
        start = interval * self.slide_us
        return start, start + self.size_us

    @property
    def pane_us(self) -> int:
        return gcd(self.size_us, self.slide_us)

    def panes(self, interval: int) -> range:
        """Return the panes of which the window of an interval consists."""
        first = interval * (self.slide_us // self.pane_us)
        return range(first, first + self.size_us // self.pane_us)

    def first_after(self, end_us: int) -> int:
        """Return the first interval that begins at or after `end_us`."""
        return -(-end_us // self.slide_us)


def read_job(text: str, *, source: str = "query") -> tuple[JobNames, JobPlan]:
    """Return the names and the plan of a CREATE JOB statement.

    Raises:
        QueryError: the text is not ELF-QL, not a job, or a job without windows; or a subquery has an
            ambiguous name, which may be a field of the outer row.
    """
    names, plan = _read(text, source)
    _refuse_unclear_names(ql.parse(text, source=source))
    return names, plan


def _refuse_unclear_names(statement: ql.Statement) -> None:
    """Refuse names without an input in the WHERE clause of subqueries.

    An agent learns the fields of records only when it reads them, and agents may read different records.

    Raises:
        QueryError: at the first such name.
    """
    for each in statement.bare:
        if each.unclear:
            message = f"{each.path} may be a field of {each.stream} or of a row outside"
            raise statement.origin.error(message, each.at, each.remedy)


def _read(text: str, source: str) -> tuple[JobNames, JobPlan]:
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise QueryError(f"the text is longer than {TEXT_BYTES_MAX} bytes", source=source)
    statement = ql.parse(text, source=source)
    job, window = statement.job, statement.window
    if job is None:
        raise QueryError(
            "a job needs a name",
            line=1,
            column=1,
            source=source,
            hint="Write CREATE JOB namespace.name AS before the query, or use `elf run` for a single answer.",
        )
    if window is None:
        raise QueryError(
            "a job needs intervals: without a window its result would never be final",
            line=1,
            column=1,
            source=source,
            hint="Write EVERY '30 s' before AS, or GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).",
        )
    if not 1 <= job.partitions <= PARTITIONS_MAX:
        raise QueryError(f"PARTITIONS is 1 to {PARTITIONS_MAX}, not {job.partitions}", source=source)
    reads = tuple(name for name in statement.streams if ql.job_read(name) and name not in statement.latest)
    if reads:
        _check_reader(statement, reads)
    elif job.qualified in map(ql.job_read, statement.latest):
        hint = "Feed results back with a job of its own."
        raise statement.origin.error("a job cannot read its own results", statement.offset, hint)
    apart = {at for at, part in enumerate(statement.parts) if part.stream in statement.latest}
    plan = JobPlan(
        inputs=() if reads else tuple(each for each in statement.inputs if not ql.job_read(each[0])),
        size_us=window.size_us,
        slide_us=window.slide_us,
        deadline_s=job.deadline_us / MICROS,
        on_straggler=job.on_straggler,
        replicas=job.replicas,
        replicas_across=job.replicas_across,
        lookups=statement.tables_read,
        sources=tuple(part.stream for part in statement.parts) or (statement.stream,),
        shape=ql.fidelity_shape(statement.relation, apart),
        reads=reads,
        latest=statement.latest,
        columns=statement.columns,
        keys=ql.key_columns(statement),
        functions=bool(statement.functions),
        horizon_s=None if job.horizon_us is None else job.horizon_us / MICROS,
        spans=window.kind.upper() if statement.spans_intervals else "",
        after_us=0 if statement.plan.seal is None else statement.plan.seal.after_us,
        lateness_us=job.lateness_us,
        early_us=job.early_us,
        stable=ql.stable_columns(statement) if job.early_us is not None else (),
        growing=ql.growing_columns(statement) if job.early_us is not None else (),
        history_us=job.history_us,
        until_us=job.until_us,
        dated=job.dated,
        ordered=job.delivery is TopicDelivery.ORDERED,
        standby_s=None if job.standby_us is None else job.standby_us / MICROS,
        standbys=job.standbys,
        standby_across=job.standby_across,
        paths=job.paths,
        copies=job.copies,
        cost=job.cost,
        across=job.across,
    )
    return job, plan


def reads_jobs(text: str) -> bool:
    return _says(text, lambda plan: bool(plan.jobs))


def has_no_members(text: str) -> bool:
    return _says(text, lambda plan: plan.has_no_members)


def _says(text: str, what: Callable[[JobPlan], bool]) -> bool:
    try:
        return what(read_plan(text))
    except QueryError:  # the submission of the job reports it
        return False


def _check_reader(statement: ql.Statement, reads: tuple[str, ...]) -> None:
    """Refuse clauses that a job that reads other jobs cannot have.

    Raises:
        QueryError: at the statement.
    """
    job, window = statement.job, statement.window
    assert job is not None
    assert window is not None
    problem, hint = "", "What it reads is at its master already: leave that out."
    if job.qualified in reads:
        problem, hint = "a job cannot read its own results", "Name another job."
    elif len(reads) < len(statement.streams):
        problem = "a job on agents reads streams or other jobs, not both; `elf run` can"
        hint = "Write JOIN LATEST namespace.job j ON ..., or the query of the other job in brackets."
    elif statement.functions:
        problem = "a job that reads another has no Python functions"
        hint = "Results are read by the job's master: call the function in the job that is read."
    elif statement.tables_read:
        problem, hint = "a job that reads another has no lookup tables", "Join them in the job that is read."
    elif window.kind in ("session", "sealed"):
        problem, hint = "a job that reads another has no SESSION and no SEALED", "Write TUMBLE, HOP or ROWS."
    elif any(statement.time_of(name) != ql.TIME_COLUMN for name in reads):
        problem = f"results are dated by `{ql.TIME_COLUMN}`, the start of their interval, and by nothing else"
        hint = "Write EVERY '60 s' before AS, or GROUP BY TUMBLE(ts, ...)."
    elif job.partitions > 1 or job.replicas:
        problem = "PARTITIONS and REPLICAS are for jobs that read streams"
    elif job.on_straggler == "skip":
        problem = "ON STRAGGLER SKIP is for jobs that read streams"
        hint = "Write it in the job that is read: what it skips is declared here."
    if problem:
        raise statement.origin.error(problem, statement.offset, hint)


def check_result_columns(statement: ql.Statement, name: str, columns: Iterable[str]) -> None:
    """Refuse fields that the results of the job `name`, which have these columns, do not have.

    Raises:
        QueryError: at the field.
    """
    known = dict.fromkeys((*columns, ql.TIME_COLUMN))
    ql.Query(statement).check_schema(pa.schema([(column, pa.null()) for column in known]), name)


@lru_cache(maxsize=PLANS_MAX)
def read_plan(text: str) -> JobPlan:
    """Return the plan of an accepted text, from a cache, because soft state repeats texts often.

    Raises:
        QueryError: see `read_job`; ambiguous names in subqueries are accepted.
    """
    return _read(text, "query")[1]


def check_columns(text: str, schema: pa.Schema | None, stream: str, *, is_new: bool = False) -> str:
    """Return why the job cannot read a stream, "" if it can; `schema` None: the format does not fix it.

    Comparisons with a constant that no value can equal are refused only in new jobs, because an upgrade must
    not end a running job.
    """
    try:
        query = ql.Query(ql.parse(text))
        if schema is not None:
            query.check_schema(schema, stream)
            if is_new:
                query.check_constants(schema, stream)
    except QueryError as error:
        return str(error)
    return ""
