"""What the control plane reads in a job's text: its stream, labels, windows and waiting rules.

Owns the step from ELF-QL to the few numbers that masters and members work with. Refuses to evaluate anything:
that is `ql.Query`, run by workers and by the finaliser.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from elfmesh.control import ql
from elfmesh.control.manifest import TEXT_BYTES_MAX, JobNames
from elfmesh.errors import QueryError

MICROS = 1_000_000
PLANS_MAX = 1024
PARTITIONS_MAX = 64
"""Trees of one job: each costs every member a parent."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The control plane's view of a job.

    Attributes:
        stream: name of the stream it reads.
        labels: what an agent must be labelled with to take part.
        size_us: width of a window.
        slide_us: distance of two windows; their index counts slides since the epoch.
        deadline_s: how long an interval that some have passed waits for the others before they are probed.
        on_straggler: "wait", "correct" or "skip".
        horizon_s: how long a tentative result may be corrected; None: the defaults of the judge.
        replicas: peers that keep a contribution until its interval is closed.
    """

    stream: str
    labels: tuple[tuple[str, str], ...]
    size_us: int
    slide_us: int
    deadline_s: float
    on_straggler: str
    horizon_s: float | None = None
    replicas: int = 0

    def window(self, interval: int) -> tuple[int, int]:
        """Start and exclusive end of an interval in microseconds UTC."""
        start = interval * self.slide_us
        return start, start + self.size_us

    def first_after(self, end_us: int) -> int:
        """The first interval that begins at or after `end_us`."""
        return -(-end_us // self.slide_us)


def read_job(text: str, *, source: str = "query") -> tuple[JobNames, Plan]:
    """The names and the plan of a CREATE JOB statement.

    Raises:
        QueryError: not ELF-QL, not a job, or a job that would never publish anything.
    """
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
            "a job needs intervals: without a window its answer would never be final",
            line=1,
            column=1,
            source=source,
            hint="Write EVERY '30 s' before AS, or GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).",
        )
    if not 1 <= job.partitions <= PARTITIONS_MAX:
        raise QueryError(f"PARTITIONS is 1 to {PARTITIONS_MAX}, not {job.partitions}", source=source)
    plan = Plan(
        stream=statement.stream,
        labels=statement.labels,
        size_us=window.size_us,
        slide_us=window.slide_us,
        deadline_s=job.deadline_us / MICROS,
        on_straggler=job.on_straggler,
        replicas=job.replicas,
        horizon_s=None if job.horizon_us is None else job.horizon_us / MICROS,
    )
    return job, plan


@lru_cache(maxsize=PLANS_MAX)
def read_plan(text: str) -> Plan:
    """The plan of a text; raises what `read_job` raises. Soft state is said again often: texts are kept."""
    return read_job(text)[1]


def check_columns(text: str, schema: pa.Schema) -> str:
    """Why a stream with this fixed schema cannot serve the job, "" if it can."""
    try:
        ql.Query(ql.parse(text)).check_schema(schema)
    except QueryError as error:
        return str(error)
    return ""
