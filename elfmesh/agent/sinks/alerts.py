"""Sink for the alerts of jobs: notifies when an alert begins to fire, while it fires, and when it resolves.

  Alertmanager    POST URL/api/v2/alerts: all firing alerts with every interval, with an end in the future,
                  and resolved alerts once, with their end
  webhook         POST URL with `alerts = true`: one object per alert and change, and again after `repeat`
                  Idempotency-Key: job, incarnation, alert, labels, state and interval

The state of an alert is a function of the newest records (`control.jobs.alerts`), which the sink reads from
the results log when it starts. A position advances after the receiver has accepted the notifications of its
record, so none is lost and some may arrive twice. A sink without a position begins with the newest record.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elfmesh.agent.sinks.base import LogName, LostIntervals, Position, SinkItem, Unavailable, admit, past
from elfmesh.agent.sinks.config import AlertmanagerSink, WebhookSink
from elfmesh.agent.sinks.http_post import HttpPost, StoredPositions
from elfmesh.agent.sinks.prometheus import label_names
from elfmesh.api.web.whole_rows import Asker, RowsLost, whole
from elfmesh.control.answers import OK
from elfmesh.control.jobs.alerts import FIRING, AlertState, AlertVerdict, JobAlert, Labels, alerts_of
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import ResultPage, read_reply
from elfmesh.errors import QueryError
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json, iso_us
from elfmesh.storage.storage import DiskStorage

PATH = "/api/v2/alerts"
PAGE_RECORDS = 100
ENDS_US = 300_000_000
"""Shortest time for which an Alertmanager considers an alert as firing without a new request."""

ENDS_INTERVALS = 4
"""Number of intervals after which it considers the alert as resolved, if that is longer."""

RESOLVED = "resolved"
OWN_LABELS = ("alertname", "elf_job")


@dataclass(frozen=True, slots=True)
class AlertChange:
    """Notification about an alert."""

    alert: JobAlert
    labels: Labels
    state: str
    now: AlertState


@dataclass(slots=True)
class _Seen:
    """The alerts of a version of a job, each with what the newest records say about it."""

    version: int
    verdicts: dict[JobAlert, list[AlertVerdict]]

    def firing(self) -> int:
        found = (alert.states(each).values() for alert, each in self.verdicts.items())
        return sum(state.state == FIRING for states in found for state in states)


class AlertSink:
    """See the module; `storage` holds the positions."""

    def __init__(self, name: str, config: AlertmanagerSink | WebhookSink, storage: DiskStorage) -> None:
        self._config = config
        self._positions = StoredPositions(name, storage)
        self._post = HttpPost(config, PATH if isinstance(config, AlertmanagerSink) else "")
        self._jobs: dict[str, tuple[Asker, dict[str, Any]]] = {}
        self._seen: dict[LogName, _Seen] = {}
        self._firing: dict[str, int] = {}

    def reads(self, ask: Asker, job: dict[str, Any]) -> None:
        """Take note of how a job is read; `job` is as requests name it."""
        self._jobs[job["job"]] = ask, job

    async def position(self, log: LogName) -> Position | None:
        return await self._positions.get(log)

    async def write(self, log: LogName, item: SinkItem) -> bool:
        position = await self.position(log)
        if not item.terminal or not admit(position, None, item):
            return False
        seen = self._seen.get(log)
        if seen is None or seen.version != item.record.version:
            seen = await self._read(log, item)
        after = dict[JobAlert, list[AlertVerdict]]()
        changes: list[AlertChange] = []
        for alert, before in seen.verdicts.items():
            verdict = await asyncio.to_thread(_verdict, alert, item.record, item.rows)
            after[alert] = [*before, verdict][-alert.lookback :]
            changes += _changes(alert, alert.states(before), alert.states(after[alert]))
        for key, body in self._bodies(log, item, changes):
            await self._post.send(key, body)
        await self._positions.put(log, Position(item.record.index + 1, item.record.epoch))
        self._seen[log] = _Seen(seen.version, after)
        self._firing[log.job] = self._seen[log].firing()
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Advance the position: lost records change no alert."""
        await self._positions.put(log, past(await self.position(log), lost))

    def ended(self, log: LogName) -> None:
        self._seen.pop(log, None)
        self._firing.pop(log.job, None)

    async def close(self) -> None:
        self._positions.close()
        await self._post.close()

    def describe(self) -> Mapping[str, Any]:
        """Describe the receiver, and the number of firing alerts by job. Thread-safe."""
        return {**self._post.describe(), "firing": dict(self._firing)}

    # -- the job and its earlier records

    async def _read(self, log: LogName, item: SinkItem) -> _Seen:
        """Return the alerts of the job's text, with what the records before this one say."""
        text = (await self._ask(log, "describe", {})).body["text"]
        try:
            alerts = alerts_of(str(text))
        except QueryError as error:
            raise Unavailable(f"the text of {log.job}: {error}") from None
        verdicts: dict[JobAlert, list[AlertVerdict]] = {alert: [] for alert in alerts}
        index = item.record.index
        first = index - max((each.lookback for each in alerts), default=0)
        while alerts and first < index:
            numbered = {"state": "final", "incarnation": log.incarnation}
            reply = await self._ask(log, "results", {"from": first, "limit": PAGE_RECORDS, **numbered})
            page = read_reply(ResultPage, reply.body)
            records = await asyncio.to_thread(decode_page, reply.payload) if reply.payload else []
            if not records or page.incarnation != log.incarnation:
                break
            for record, rows in records:
                first = record.index + 1
                if record.index >= index or record.lost:
                    continue
                ask, job = self._jobs[log.job]
                try:
                    found = await whole(ask, job | {"incarnation": log.incarnation}, record, rows)
                except RowsLost:
                    continue
                for alert, known in verdicts.items():
                    known.append(await asyncio.to_thread(_verdict, alert, record, found))
        return _Seen(item.record.version, verdicts)

    async def _ask(self, log: LogName, verb: str, body: dict[str, Any]) -> Reply:
        ask, job = self._jobs[log.job]
        reply = await ask(verb, {**job, **body})
        if reply.status != OK:
            raise Unavailable(str(reply.body.get("error") or f"status {reply.status}"))
        return reply

    # -- notifications

    def _bodies(
        self, log: LogName, item: SinkItem, changes: list[AlertChange]
    ) -> Iterator[tuple[str, bytes]]:
        start_us, end_us = item.record.start_us or 0, item.record.end_us or 0
        if isinstance(self._config, AlertmanagerSink):
            if changes:
                lasts_us = max(ENDS_US, ENDS_INTERVALS * (end_us - start_us))
                ends_us = time.time_ns() // 1000 + lasts_us
                alerts = [
                    _alertmanager(log, each, ends_us if each.state == FIRING else end_us) for each in changes
                ]
                yield f"{log.job}:{log.incarnation}:{item.record.index}:alerts", encode_json(alerts)
            return
        for each in changes:
            if each.state == FIRING and not self._is_due(each.now, start_us, end_us):
                continue
            labels = dict(each.labels)
            digest = hashlib.sha256(encode_json(labels)).hexdigest()[:16]
            clause, index = each.alert.clause, item.record.index
            key = f"{log.job}:{log.incarnation}:{clause.name}:{digest}:{each.state}:{index}"
            interval = {"index": index, "start": iso_us(start_us), "end": iso_us(end_us)}
            body = {
                "job": log.job, "incarnation": log.incarnation, "alert": clause.name,
                "labels": labels, "state": each.state, "condition": clause.condition,
                "since": iso_us(each.now.since_us), "interval": interval,
            }  # fmt: skip
            yield key, encode_json(body)

    def _is_due(self, state: AlertState, start_us: int, end_us: int) -> bool:
        """Return whether a firing alert is reported in this interval: the first one, and then by `repeat`."""
        assert isinstance(self._config, WebhookSink)
        if state.changed_us >= end_us:
            return True
        repeat_us = self._config.repeat_us
        return (end_us - state.changed_us) // repeat_us > max(0, start_us - state.changed_us) // repeat_us


def _verdict(alert: JobAlert, record: ResultRecord, rows: bytes) -> AlertVerdict:
    return alert.verdict(record, ipc_to_table(rows))


def _changes(
    alert: JobAlert, before: Mapping[Labels, AlertState], after: Mapping[Labels, AlertState]
) -> Iterator[AlertChange]:
    for labels, state in after.items():
        if state.state == FIRING:
            yield AlertChange(alert, labels, FIRING, state)
    for labels, state in before.items():
        if state.state == FIRING and (labels not in after or after[labels].state != FIRING):
            yield AlertChange(alert, labels, RESOLVED, state)


def _alertmanager(log: LogName, change: AlertChange, ends_us: int) -> dict[str, Any]:
    clause, names = change.alert.clause, label_names([name for name, _ in change.labels], OWN_LABELS)
    labels = {names[name]: value for name, value in change.labels}
    summary = f"{log.job}: {clause.condition} for {clause.lasting} intervals"
    return {
        "labels": {"alertname": clause.name, "elf_job": log.job, **labels},
        "annotations": {"summary": summary},
        "startsAt": iso_us(change.now.since_us),
        "endsAt": iso_us(ends_us),
    }
