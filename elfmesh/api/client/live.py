"""Queries over the latest results of jobs, through any agent's API: `elf query` and `Client.query`.

Owns which interval is asked, how long a better one is waited for, and what is said when none comes. The rows
travel as Arrow, so that no number loses a digit, and are evaluated by the caller, not by the agent.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.api.client.client_base import error_from, job_path, parse_json
from elfmesh.control.jobs.holds_table import HoldsTable
from elfmesh.control.jobs.spark_types import HEAD
from elfmesh.errors import RuntimeFailure, Unreachable
from elfmesh.ql.engine.live import evaluate, parse_live
from elfmesh.ql.plan.windows import TIME_COLUMN

LOOKED_AT = 16
"""Newest intervals among which a result is looked for: skipped ones have none."""

POLL_S = 0.2
FINAL = ("FINAL", "FINAL_PARTIAL")


class Results(Protocol):
    """What is asked of a client."""

    @property
    def address(self) -> str:
        """Of the agent."""
        ...

    def offsets(self, job: str) -> dict[str, Any]:
        """The first and the last interval of a results log."""
        ...

    def results(self, job: str, *, start: int | None, state: str, rows: bool) -> Iterator[dict[str, Any]]:
        """The intervals from `start` on, with or without their rows."""
        ...

    def open(
        self, method: str, target: str, *, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """The answer to a request, to be read by the caller."""
        ...


@dataclass(frozen=True, slots=True)
class LiveAnswer(HoldsTable):
    """The rows of a query over results: a pyarrow table to a caller that uses it as one.

    Attributes:
        table: the rows.
        of: per job what the rows are made of: the object that `elf results -o json` prints, without rows.
    """

    table: pa.Table
    of: tuple[dict[str, Any], ...]


def query(
    client: Results,
    text: str,
    *,
    min_fidelity: float | None = None,
    wait_s: float = 0.0,
    tentative: bool = False,
    source: str = "query",
) -> LiveAnswer:
    """Evaluate ELF-QL over the newest result of every job that it names.

    Args:
        client: of any agent.
        text: SELECT ... FROM job; the columns are the job's, `ts` (the start of the interval, unless the job
            has such a column) and interval_index, interval_start, interval_end, state, rev, completeness.
        min_fidelity: refuse results that stand for less of the input.
        wait_s: how long to wait, in all, for a result that is there and good enough.
        tentative: also take what an open interval looks like so far.
        source: what the text is called in errors.

    Raises:
        QueryError: the text is wrong.
        RuntimeFailure: no such job, no result, or none that is good enough: who is missing.
        Unreachable: no agent answers.
    """
    statement = parse_live(text, source=source)
    deadline = time.monotonic() + wait_s
    heads = {
        job: _awaited(client, job, min_fidelity, deadline, tentative=tentative) for job in statement.streams
    }
    tables = {job: _rows(client, job, head, tentative=tentative) for job, head in heads.items()}
    star = [name for name in next(iter(tables.values())).column_names if name not in _ADDED]
    return LiveAnswer(evaluate(statement, tables, star), tuple(heads.values()))


_ADDED = frozenset({*HEAD.names, TIME_COLUMN})


def _awaited(
    client: Results, job: str, min_fidelity: float | None, deadline: float, *, tentative: bool
) -> dict[str, Any]:
    """The newest result, once it is good enough."""
    while True:
        head = _newest(client, job, tentative=tentative)
        if head is not None and (min_fidelity is None or head["fidelity"] >= min_fidelity):
            return head
        left = deadline - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(POLL_S, left))
    if head is None:
        hint = "Wait with --wait 10s" + ("." if tentative else ", or take open intervals with --tentative.")
        raise RuntimeFailure(f"{job} has no result yet", hint=hint)
    missing = ", ".join(head["agents"]["missing"]) or "none, but records were lost"
    raise RuntimeFailure(
        f"interval {head['interval']['index']} of {job} has fidelity {head['fidelity']:g}, but "
        f"{min_fidelity:g} is required; missing: {missing}",
        hint="Wait longer with --wait, or lower --min-fidelity; `elf why` shows what delays it.",
    )


def _newest(client: Results, job: str, *, tentative: bool) -> dict[str, Any] | None:
    offsets = client.offsets(job)
    latest = offsets["latest"]
    known = latest is not None and latest >= offsets["earliest"]
    start = max(offsets["earliest"], latest - LOOKED_AT + 1) if known else None
    wanted = (*FINAL, "TENTATIVE") if tentative else FINAL
    found: dict[str, Any] | None = None
    for each in client.results(job, start=start, state="all" if tentative else "final", rows=False):
        if each["state"] in wanted and (found is None or _age(each) >= _age(found)):
            found = {key: value for key, value in each.items() if key != "rows"}
    return found


def _age(result: dict[str, Any]) -> tuple[int, int]:
    return result["interval"]["index"], result["rev"]


def _rows(client: Results, job: str, head: dict[str, Any], *, tentative: bool) -> pa.Table:
    index = head["interval"]["index"]
    question: dict[str, Any] = {"from": index - 1, "to": index, "types": "own"}
    question |= {"state": "all"} if tentative else {}
    target = f"{job_path(job)}/arrow?{urlencode(question)}"
    table = pa.concat_tables(list(_tables(client, target)))
    if tentative and table.num_rows:  # each revision that is there, one after the other
        newest = max(table.column("rev").to_pylist())
        table = table.filter(pc.equal(table.column("rev"), newest))
    if TIME_COLUMN not in table.column_names:
        table = table.append_column(TIME_COLUMN, table.column("interval_start"))
    return table


def _tables(client: Results, target: str) -> Iterator[pa.Table]:
    connection, response = client.open("GET", target, timeout_s=30.0)
    try:
        if response.status != http.client.OK:
            raise error_from(response.status, parse_json(response.read()), target)
        with pa.ipc.open_stream(response.read()) as reader:
            yield reader.read_all()
    except (OSError, http.client.HTTPException, pa.ArrowException) as error:
        raise Unreachable(f"the agent at {client.address} closed the connection early: {error}") from None
    finally:
        response.close()
        connection.close()
