"""A query over streams of the fleet: a bounded job that lives as long as its client (`elf query --history`).

The module owns the text of the job, its name, the requests that keep it alive, and the agents that are
missing in the answer. The agents own everything else: the job ends without this module when its client is
gone (`control.master.bounded`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, Protocol

from elfmesh import ql
from elfmesh.api.line_parts import whole
from elfmesh.api.query_text import as_job
from elfmesh.control.jobs.records import NOT_COUNTED, counts_dict
from elfmesh.errors import DataError, ElfError
from elfmesh.ql.values.row_json import rows_to_json
from elfmesh.units import MICROS, format_duration

POLL_S = 1.0
"""How long one request waits for a record; each request renews the lease of the job."""

DEADLINE_US = MICROS
"""When agents are asked whether they live, after the first agent has read its logs."""

WAIT_US = 10 * MICROS
"""How long an answer waits for further agents beyond the time that they need as predicted, by default."""

COMPLETE, WAITING = "complete", "waiting for agents"
"""States of the job."""


def wait_of(cost: Mapping[str, Any]) -> int:
    """Return how long an answer waits by default, in microseconds; `cost` is that of `Client.cost`.

    The agents that have not measured their rates count as fast.
    """
    seconds = (row["seconds"] or 0.0 for row in cost["agents"] if not row["refusal"])
    return WAIT_US + round(max(seconds, default=0.0) * 1000) * 1000


class QueryClient(Protocol):
    """What is used of a client."""

    def apply(self, text: str, *, source: str, leased: bool) -> dict[str, Any]:
        """Submit a job."""
        ...

    def describe(self, job: str, /) -> dict[str, Any]:
        """Return the details of a job."""
        ...

    def delete(self, job: str, /) -> dict[str, Any]:
        """Delete a job and its results."""
        ...

    def get(self, kind: str) -> list[dict[str, Any]]:
        """Return all agents."""
        ...

    def lines(self, job: str, *, start: int | None, wait_s: float) -> Iterable[bytes]:
        """Yield the lines of results."""
        ...


@dataclass(frozen=True, slots=True)
class Missing:
    """An agent whose records are not in the answer."""

    agent: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How many agents have read their logs, and the others."""

    done: int
    waits_for: tuple[str, ...]


class StreamQuery:
    """One query; as a context manager it ends the job in any case.

    Args:
        text: a query without CREATE JOB.
        clause: its HISTORY and UNTIL.
        wait_us: how long the answer waits for further agents after the first one has read its logs.
        namespace: of the job.
        cost: the answer of `Client.cost`. Agents that refuse the query there are missing, also if an earlier
            release leads the job, which does not report them.

    Attributes:
        job: name of the job.
        records: closed records so far, with their rows.

    Raises:
        QueryError: the text is invalid.
    """

    def __init__(
        self,
        client: QueryClient,
        text: str,
        clause: str,
        *,
        wait_us: int,
        namespace: str = "adhoc",
        source: str = "query",
        cost: Mapping[str, Any] | None = None,
    ) -> None:
        self._client, self._source, self._wait_us = client, source, wait_us
        self.is_one = ql.parse(text, source=source).window is None
        name = f"q-{secrets.token_hex(4)}"
        deadline = min(DEADLINE_US, wait_us)
        waiting = f"DEADLINE '{format_duration(deadline)}' HORIZON '{format_duration(wait_us - deadline)}'"
        self._plain = text
        self._text = as_job(text, f"CREATE JOB `{namespace}`.`{name}` {waiting}", clause, source=source)
        self._refused = {row["id"]: row for row in cost["agents"] if row["refusal"]} if cost else {}
        self.job = f"{namespace}/{name}"
        self.records: list[dict[str, Any]] = []
        self._members: list[dict[str, Any]] = []
        self._dead: list[dict[str, Any]] = []

    def __enter__(self) -> StreamQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._client.delete(self.job)
        except ElfError:  # it was not begun, it was cancelled, or it ends with its lease
            return

    def submit(self) -> None:
        """Begin the job.

        Raises:
            ElfError: an agent refuses it, by its name.
        """
        self._client.apply(self._text, source=self._source, leased=True)

    def poll(self) -> QueryProgress | None:
        """Read new records; returns how far the agents are, or None if all records are here.

        Raises:
            ElfError: the job is gone, because another client has cancelled it.
            DataError: no agent can answer.
        """
        found = self._client.describe(self.job)
        self._refused |= {row["id"]: row | {"refusal": row["reason"]} for row in found.get("refused", ())}
        if found["state"] == WAITING and self._refused:
            reasons = "; ".join(f"{row['agent']}: {row['refusal']}" for row in self._refused.values())
            hint = "Ask an operator of these hosts for a higher limit."
            raise DataError(f"every agent with the streams refuses the query: {reasons}", hint=hint)
        if found["state"] == WAITING:
            hint = "`elf get agents` lists the labels, `elf get streams` the streams."
            raise DataError("no agent has the streams with the labels of the query", hint=hint)
        self._members = found["roster"]["agents"]
        start = None if not self.records else int(self.records[-1]["interval"]["index"]) + 1
        lines = self._client.lines(self.job, start=start, wait_s=POLL_S)
        self.records += whole(json.loads(line, parse_float=Decimal) for line in lines)
        if found["state"] != COMPLETE:
            silent = [str(row["agent"]) for row in self._members if row["frontier"] is None]
            return QueryProgress(len(self._members) - len(silent), tuple(silent))
        there = {row["id"] for row in self._members}
        dead = [row for row in self._client.get("agents") if row.get("status") == "dead"]
        self._dead = [row for row in dead if row["id"] not in there]
        gone = there | {row["id"] for row in self._dead}
        self._refused = {agent: row for agent, row in self._refused.items() if agent not in gone}
        if self.is_one:
            self.records = self.records or [self._without_record()]
            if not self.records[0]["counts"]["contributed"]:
                nothing = ql.Query(ql.parse(self._plain)).finalise_parts({}, None)
                self.records[0]["rows"] = rows_to_json(nothing)
        self.records = [self._completed(record) for record in self.records]
        return None

    @property
    def missing(self) -> Sequence[Missing]:
        """The agents that are missing in a record, each with the reason."""
        names = dict.fromkeys(name for record in self.records for name in record["agents"]["missing"])
        return [Missing(name, self._reason(name)) for name in names]

    @property
    def completeness(self) -> float:
        """The least completeness of a record."""
        return min((float(record["completeness"]) for record in self.records), default=1.0)

    def _completed(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a record that also counts the agents that were dead before the query or refuse it.

        Whether a dead agent has the stream is not known, so it is missing until it is back or forgotten.
        """
        agents, others = record["agents"], [str(row["name"]) for row in self._dead]
        others += [str(row["agent"]) for row in self._refused.values()]
        if others:
            expected = agents["expected"] + len(others)
            shares = {
                name: float(record[name]) * agents["expected"] / expected
                for name in ("completeness", "fidelity")
            }
            counted = agents | {"expected": expected, "missing": [*agents["missing"], *others]}
            record = record | shares | {"state": "FINAL_PARTIAL", "agents": counted}
        if self.is_one:
            record = record | {"interval": record["interval"] | {"start": None, "end": None}}
        return record

    def _without_record(self) -> dict[str, Any]:
        """Return a record for an interval that has none, because no agent has read a record in it."""
        outside = [str(row["agent"]) for row in self._members if row["dead"] or row["frontier"] is None]
        expected = len(self._members)
        share = 1.0 if not expected else 1 - len(outside) / expected
        return {
            "job": self.job,
            "interval": {"index": 0, "start": None, "end": None},
            "state": "FINAL_PARTIAL" if outside else "FINAL",
            "rev": 1,
            "completeness": share,
            "fidelity": share,
            "agents": {"in": expected - len(outside), "expected": expected, "missing": outside},
            "version": 1,
            "counts": counts_dict(NOT_COUNTED),
            "rows": [],
        }

    def _reason(self, name: str) -> str:
        gone = next((row for row in self._dead if row["name"] == name), None)
        if gone is not None:
            seen = f", last seen {gone['last_seen']}" if gone.get("last_seen") else ""
            return f"it is dead{seen}; `elf forget {name}` if it does not return"
        refused = next((row for row in self._refused.values() if row["agent"] == name), None)
        if refused is not None:
            return str(refused["refusal"])
        if any(row["agent"] == name and row["dead"] for row in self._members):
            return "it is dead"
        return f"it has not read its logs within {format_duration(self._wait_us)}"
