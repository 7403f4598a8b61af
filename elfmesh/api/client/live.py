"""Queries over results of jobs through the API of any agent (`elf query`, `Client.query`).

The module owns the choice of the interval, the wait for it or for a better one, and the error if none comes.
Rows are transferred as Arrow, so that no number loses digits. The caller evaluates the query, not the agent.
"""

from __future__ import annotations

import http.client
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from elfmesh.api.client.client_base import error_from, job_path, parse_json
from elfmesh.api.client.failures import failure_of
from elfmesh.api.client.result_interval import html_of
from elfmesh.api.client.result_range import ResultSource, interval_from
from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs.spark_types import HEAD
from elfmesh.control.protocol.replies import ResultOffsets, read_reply
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.ql.engine.live import evaluate, parse_live
from elfmesh.ql.plan.windows import TIME_COLUMN
from elfmesh.units import parse_duration_us

LOOKED_AT = 16
"""Number of newest intervals among which a result is searched, because skipped intervals have none."""

POLL_S = 0.2
FINAL = ("FINAL", "FINAL_PARTIAL")


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """Result of a query over results; usable as a pyarrow table.

    It has the methods of a table, `answer["hits"]` is a column, and `pyarrow.table(answer)`, pandas, polars
    and DuckDB accept it.

    Attributes:
        table: the rows.
        of: for each job, the record from which the rows come, as `elf results -o json` prints it without
            rows.
        failed: records with a reason and without rows: of the time, or newer than those of `of`.

    Example:
        >>> client = elfmesh.connect("127.0.0.1:7401")
        >>> query = "SELECT product, COUNT(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' DAY), product"
        >>> applied = client.apply(f"CREATE JOB shop.answered AS {query}")
        >>> client.query("SELECT product, n FROM shop.answered", wait_s=60).to_arrow().to_pylist()
        [{'product': 'lamp', 'n': 3}]
    """

    table: pa.Table
    of: tuple[dict[str, Any], ...]
    failed: tuple[dict[str, Any], ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in type(self).__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.table, name)

    def __getitem__(self, column: str | int) -> pa.ChunkedArray:
        return self.table[column]

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        heads = (f"{each['job']}: interval {each['interval']['index']}" for each in self.of)
        return html_of(", ".join(heads), self.table)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def query(
    client: ResultSource,
    text: str,
    *,
    min_fidelity: float | None = None,
    wait_s: float = 0.0,
    tentative: bool = False,
    at: datetime | None = None,
    begin: datetime | None = None,
    end: datetime | None = None,
    source: str = "query",
) -> LiveAnswer:
    """Evaluate ELF-QL over one result of each job that the text names, or over those of a time.

    Args:
        client: client of any agent.
        text: SELECT ... FROM job. The columns are those of the job, `ts` (the start of the interval, unless
            the job has such a column), interval_index, interval_start, interval_end, state, rev and
            completeness.
        min_fidelity: refuse results with a lower fidelity.
        wait_s: total time to wait for a result with sufficient fidelity, or until the interval is closed.
        tentative: also use tentative results of open intervals.
        at: read from each job the interval that ends at this time. The rows do not depend on the agent that
            answers, or on when it does, because a closed record does not change.
        begin: use the final results of all intervals that start at this time or later; their rows have the
            types that fit all of them.
        end: use those of all intervals that start before this time.
        source: name of the text in errors.

    Raises:
        QueryError: the text is wrong.
        RuntimeFailure: the job does not exist, has no result, or has none with sufficient fidelity; the
            message names the missing agents. No interval ends at `at`, or it is open or not kept any more.
        UsageError: `tentative` with `at`.
        Unreachable: no agent answers.
    """
    if at is not None and tentative:
        raise UsageError(
            "tentative results change: --at reads closed intervals", hint="Leave --tentative out."
        )
    statement = parse_live(text, source=source)
    deadline = time.monotonic() + wait_s
    if begin is not None or end is not None:
        if min_fidelity is not None or tentative or wait_s or at is not None:
            raise UsageError("min_fidelity, wait, tentative and at are for one result of each job")
        heads = {job: _between(client, job, begin, end) for job in statement.streams}
        tables = {job: _rows_between(client, job, found) for job, found in heads.items()}
    else:
        heads = {
            job: [
                _awaited(client, job, min_fidelity, deadline, tentative=tentative)
                if at is None
                else _of_time(client, job, at, min_fidelity, deadline)
            ]
            for job in statement.streams
        }
        tables = {job: _rows(client, job, head, tentative=tentative) for job, (head,) in heads.items()}
    first = next(iter(tables.values()), None)
    star = () if first is None else [name for name in first.column_names if name not in _ADDED]
    used = tuple(itertools.chain(*heads.values()))
    failed = () if at is not None else (_failed(client, job, found) for job, found in heads.items())
    return LiveAnswer(evaluate(statement, tables, star), used, tuple(itertools.chain(*failed)))


_ADDED = frozenset({*HEAD.names, TIME_COLUMN})


def _awaited(
    client: ResultSource, job: str, min_fidelity: float | None, deadline: float, *, tentative: bool
) -> dict[str, Any]:
    while True:
        head = _newest(client, job, tentative=tentative)
        if head is not None and (min_fidelity is None or head["fidelity"] >= min_fidelity):
            return head
        left = deadline - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(POLL_S, left))
    if head is None:
        for each in reversed(_failed(client, job, [])):
            raise RuntimeFailure(f"{job} has no result yet; {failure_of(each)}")
        hint = "Wait with --wait 10s" + ("." if tentative else ", or take open intervals with --tentative.")
        raise RuntimeFailure(f"{job} has no result yet", hint=hint)
    raise _below(head, job, min_fidelity, "Wait longer with --wait, or lower --min-fidelity")


def _below(head: dict[str, Any], job: str, min_fidelity: float | None, remedy: str) -> RuntimeFailure:
    missing = ", ".join(head["agents"]["missing"]) or "none, but records were lost"
    return RuntimeFailure(
        f"interval {head['interval']['index']} of {job} has fidelity {head['fidelity']:g}, but "
        f"{min_fidelity:g} is required; missing: {missing}",
        hint=f"{remedy}; `elf why` shows what delays it.",
    )


def _of_time(
    client: ResultSource, job: str, at: datetime, min_fidelity: float | None, deadline: float
) -> dict[str, Any]:
    """Return the closed record of the interval that ends at a time."""
    slide = timedelta(microseconds=parse_duration_us(client.describe(job)["window"]["slide"]))
    while (head := _closed_at(client, job, at, slide)) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            hint = "Wait with --wait 10s; `elf why` shows what delays it."
            raise RuntimeFailure(
                f"the interval of {job} that ends at {at.isoformat()} is not closed", hint=hint
            )
        time.sleep(min(POLL_S, left))
    if min_fidelity is not None and head["fidelity"] < min_fidelity:
        raise _below(head, job, min_fidelity, "Lower --min-fidelity, because a closed record does not change")
    return head


def _closed_at(client: ResultSource, job: str, at: datetime, slide: timedelta) -> dict[str, Any] | None:
    """Return the record of the interval that ends at a time; None: it is not closed.

    A run of intervals without records has one record, the last one's. Its other intervals have no rows.
    """
    held = read_reply(ResultOffsets, client.offsets(job))
    newest = next(client.results(job, start=held.latest, limit=1, rows=False), None)
    if newest is None:
        return None
    behind = datetime.fromisoformat(newest["interval"]["end"]) - at
    if behind < timedelta(0):
        return None
    index = newest["interval"]["index"] - behind // slide
    if index < held.earliest or (held.expired is not None and index <= held.expired):
        hint = "`elf results` prints the records that are kept."
        raise RuntimeFailure(f"the interval of {job} that ends at {at.isoformat()} is not kept", hint=hint)
    head = next(client.results(job, start=index, limit=1, rows=False))
    end = datetime.fromisoformat(head["interval"]["end"])
    ahead = head["interval"]["index"] - index
    if end - ahead * slide != at:
        other = (end - ahead * slide).isoformat()
        hint = f"Intervals end every {slide.total_seconds():g} s; one ends at {other}."
        raise RuntimeFailure(f"no interval of {job} ends at {at.isoformat()}", hint=hint)
    if head["state"] not in FINAL:
        why = f"; {text}" if (text := failure_of(head)) else ""
        raise RuntimeFailure(
            f"the interval of {job} that ends at {at.isoformat()} was skipped: it has no rows{why}"
        )
    start = datetime.fromisoformat(head["interval"]["start"]) - ahead * slide
    interval = (
        {"index": index, "start": start.isoformat(), "end": at.isoformat()} if ahead else head["interval"]
    )
    return {key: value for key, value in head.items() if key != "rows"} | {"interval": interval}


def _between(
    client: ResultSource, job: str, begin: datetime | None, end: datetime | None
) -> list[dict[str, Any]]:
    """Return the records of the intervals that start from `begin` on and before `end`, without rows."""
    start = None if begin is None else interval_from(client, job, begin)
    stop = None if end is None else interval_from(client, job, end)
    found = [
        {key: value for key, value in each.items() if key != "rows"}
        for each in client.results(job, start=start, state="final", rows=False)
        if stop is None or each["interval"]["index"] < stop
    ]
    if not found:
        raise RuntimeFailure(f"{job} has no result of this time", hint=f"`elf results {job}` prints them.")
    return found


def _rows_between(client: ResultSource, job: str, heads: Sequence[dict[str, Any]]) -> pa.Table:
    first, last = heads[0]["interval"]["index"], heads[-1]["interval"]["index"]
    return _timed(pa.concat_tables(list(arrow_tables(client, job, first - 1, last))))


def _newest(client: ResultSource, job: str, *, tentative: bool) -> dict[str, Any] | None:
    start = _looked_from(client, job)
    wanted = (*FINAL, "TENTATIVE") if tentative else FINAL
    found: dict[str, Any] | None = None
    for each in client.results(job, start=start, state="all" if tentative else "final", rows=False):
        if each["state"] in wanted and (found is None or _age(each) >= _age(found)):
            found = {key: value for key, value in each.items() if key != "rows"}
    return found


def _looked_from(client: ResultSource, job: str) -> int | None:
    held = read_reply(ResultOffsets, client.offsets(job))
    return max(held.earliest, held.latest - LOOKED_AT + 1) if held.latest >= held.earliest else None


def _failed(client: ResultSource, job: str, used: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records that failed: those among several records, or behind the only one, or the newest."""
    if len(used) > 1:
        return [each for each in used if failure_of(each)]
    start = used[0]["interval"]["index"] if used else _looked_from(client, job)
    newest = client.results(job, start=start, limit=LOOKED_AT, state="final", rows=False)
    return [
        {key: value for key, value in each.items() if key != "rows"} for each in newest if failure_of(each)
    ]


def _age(result: dict[str, Any]) -> tuple[int, int]:
    return result["interval"]["index"], result["rev"]


def _rows(client: ResultSource, job: str, head: dict[str, Any], *, tentative: bool) -> pa.Table:
    index = head["interval"]["index"]
    state = "all" if tentative else "final"
    table = pa.concat_tables(list(arrow_tables(client, job, index - 1, index, state=state, types="own")))
    if tentative and table.num_rows:  # the answer contains all revisions that are kept, one after the other
        newest = max(table.column("rev").to_pylist())
        table = table.filter(pc.equal(table.column("rev"), newest))
    return _timed(table)


def _timed(table: pa.Table) -> pa.Table:
    if TIME_COLUMN in table.column_names:
        return table
    return table.append_column(TIME_COLUMN, table.column("interval_start"))


def arrow_tables(
    client: ResultSource, job: str, after: int, upto: int, *, state: str = "final", types: str = "all"
) -> Iterator[pa.Table]:
    """Yield the rows of the intervals in (after, upto], with the columns of their interval.

    Args:
        client: client of any agent.
        job: name of the job.
        after: number of the interval before the first one.
        upto: number of the last interval.
        state: "final", or "all" for the revisions of open intervals too.
        types: "all" for types that fit all intervals, "own" for the newest interval with its own types.

    Raises:
        RuntimeFailure: the job does not exist, or the first interval has expired.
        Unreachable: no agent answers, or the answer breaks off.
    """
    question = {"from": after, "to": upto, "types": types, "state": state}
    target = f"{job_path(job)}/arrow?{urlencode(question)}"
    connection, response = client.open("GET", target, timeout_s=30.0)
    try:
        if response.status != http.client.OK:
            raise error_from(response.status, parse_json(response.read()), target)
        with pa.ipc.open_stream(response) as reader:
            schema = reader.schema
            yield schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch], schema)
    except (OSError, http.client.HTTPException, pa.ArrowException) as error:
        raise Unreachable(f"the agent at {client.address} closed the connection early: {error}") from None
    finally:
        response.close()
        connection.close()
