"""The alerts of a job, computed from its results through any agent (`elf get alerts`, `elf why`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from elfmesh.api.client.live import arrow_tables
from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs.alerts import OK, AlertState, AlertVerdict, JobAlert, alerts_of, unevaluated_since
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.spark_types import HEAD
from elfmesh.ql.values.row_json import iso_us
from elfmesh.units import unix_us

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.api.client.client import Client


def job_alerts(client: Client, job: str) -> list[dict[str, Any]]:
    """Return each alert of a job that is not "ok", by labels, and one row for an alert without such labels.

    Raises:
        RuntimeFailure: the job does not exist.
        Unreachable: no agent answers.
    """
    text = str(client.describe(job)["text"])
    alerts = alerts_of(text) if "ALERT" in text.upper() else ()
    if not alerts:
        return []
    offsets = client.offsets(job)
    start = max(offsets["earliest"], offsets["latest"] - max(each.lookback for each in alerts) + 1)
    records = [_record(each) for each in client.results(job, start=start, rows=False)]
    records = [each for each in records if each.index >= start]
    rows: pa.Table | None = None
    if records:
        import pyarrow as pa

        rows = pa.concat_tables(list(arrow_tables(client, job, start - 1, records[-1].index)))
    return [row for alert in alerts for row in _rows(job, alert, records, rows)]


def _rows(
    job: str, alert: JobAlert, records: list[ResultRecord], rows: pa.Table | None
) -> list[dict[str, Any]]:
    verdicts: list[AlertVerdict] = []
    for record in records:
        assert rows is not None
        own = rows.filter(pc.equal(rows.column("interval_index"), record.index))
        verdicts.append(alert.verdict(record, own.drop_columns(list(HEAD.names))))
    found = alert.states(verdicts) or {(): AlertState(OK)}
    return [
        {
            "alert": alert.clause.name,
            "job": job,
            "labels": dict(labels),
            "state": state.state,
            "since": None if state.state == OK else iso_us(state.since_us),
            "condition": alert.clause.condition,
            "not_evaluated_since": iso_us(unevaluated_since(verdicts)),
        }
        for labels, state in sorted(found.items())
    ]


def _record(shown: dict[str, Any]) -> ResultRecord:
    """Return the record of its JSON, as far as an alert needs it."""
    interval = shown["interval"]
    start_us, end_us = (unix_us(datetime.fromisoformat(interval[name])) for name in ("start", "end"))
    return ResultRecord(
        job=shown["job"], index=interval["index"], start_us=start_us, end_us=end_us, state=shown["state"],
        since=interval.get("since"),
    )  # fmt: skip
