"""Copies the results of one job to one sink, from the sink's position on, and declares lost intervals.

The job never waits: a sink that cannot write falls behind, reports it, and continues later. Records that the
results log has dropped meanwhile are declared in the sink and counted. A record is offered again until the
sink has it, has refused it permanently, or its log is deleted. A refused record is stored as a dead letter
before the position advances beyond it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    RecordFenced,
    RecordRefused,
    Sink,
    SinkItem,
    Unavailable,
)
from elfmesh.api.web.whole_rows import Asker, RowsLost, whole
from elfmesh.control.answers import GONE, NOT_FOUND, OK
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import table_of
from elfmesh.control.jobs.terms import Numbering
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import LogRange, ResultOffsets, ResultPage, read_reply
from elfmesh.errors import ElfError, ProtocolError, Unreachable
from elfmesh.storage import starving

log = logging.getLogger("elf.sinks")
WAIT_S = 15.0
PAGE_RECORDS = 100
PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
"""Pause after a failure; doubled each time, and partly random."""

RENUMBERED = "the intervals of the job have changed, and its master has no results of the earlier ones"
EMPTY_S = 0.1
MASTER_S = 0.5
"""Pause between two requests while no master of the job answers."""


@dataclass(slots=True)
class Progress:
    """State of one job's results in one sink.

    Attributes:
        written: number of records that the sink stored.
        refused: number of records that the sink will never accept; terminal ones are dead letters on disk.
        fenced: number of records of masters that had been replaced.
        lost: maximum number of intervals that the results log had dropped before they were written.
        failures: number of failed attempts.
        lag: maximum number of intervals between the newest one and the sink; None: unknown.
        problem: why nothing is written, "" if there is no problem.
    """

    written: int = 0
    refused: int = 0
    fenced: int = 0
    lost: int = 0
    failures: int = 0
    lag: int | None = None
    problem: str = ""
    incarnation: str = field(default="", repr=False)


class Follower:
    """Copies the results of one job to one sink.

    Args:
        sink: the sink.
        name: name of the sink.
        job: {"job": "namespace/name", "creator": ...}, as requests name it.
        state: "final", "all" or "early", as requests for results name it.
        ask: sends a request to the control plane.
        keep: stores a refused record durably as a dead letter; raises StorageError.
        newest: whether a sink starts with the newest record instead of the oldest that it lacks.
        resumes: with `newest`: a sink that has a position goes on there instead.
    """

    def __init__(
        self,
        sink: Sink,
        name: str,
        job: dict[str, str],
        state: str,
        ask: Asker,
        keep: Callable[[LogName, SinkItem, str], Awaitable[None]],
        *,
        newest: bool = False,
        resumes: bool = False,
    ) -> None:
        self._sink, self._name, self._job, self._state, self._newest = sink, name, job, state, newest
        self._resumes = resumes
        self._ask, self._keep = ask, keep
        self.progress = Progress()
        self._pause_s = PAUSE_S
        self._random = random.Random()
        self._source: LogName | None = None

    async def run(self) -> None:
        """Run until the job is deleted. Raises nothing except cancellation."""
        while True:
            try:
                if not await self._follow():
                    return
            except (Unavailable, ElfError, OSError) as error:
                lack = starving.no_descriptor(error) or starving.exhausted()
                await self._failed(": ".join(filter(None, (lack, str(error) or type(error).__name__))))
            except Exception as error:  # a sink must not stop an agent
                log.exception("sink %s: %s", self._name, self._job["job"])
                await self._failed(f"this is a bug in elfmesh: {error!r}")

    async def _failed(self, reason: str) -> None:
        self.progress.failures += 1
        if self.progress.problem != reason:
            log.warning("sink %s: %s waits: %s", self._name, self._job["job"], reason)
        self.progress.problem = reason
        await asyncio.sleep(self._pause_s * (0.5 + self._random.random() / 2))
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _well(self) -> None:
        if self.progress.problem:
            log.info("sink %s: %s continues", self._name, self._job["job"])
        self.progress.problem, self._pause_s = "", PAUSE_S

    async def _follow(self) -> bool:
        first = await self._answer("offsets", {})
        held = None if first is None else read_reply(ResultOffsets, first.body)
        if held is not None and not self._newest:
            # the master still has its rows for sinks that have not written all of them
            for numbering in held.earlier or ():
                if not await self._finish(numbering):
                    return True
        self._ended_unless(None if held is None else held.incarnation)
        if held is None:
            return False
        source = self._source = LogName(self._job["job"], held.incarnation)
        self.progress.incarnation = source.incarnation
        position = await self._sink.position(source)
        following = None if position is None else position.next
        newest = self._newest and not (self._resumes and position is not None)
        if newest and held.latest >= held.earliest:
            following = held.latest
        revision, wait = 0, 0.0
        while True:
            question = {"limit": PAGE_RECORDS, "wait": wait, "state": self._state, "revision": revision}
            question |= {} if following is None else {"from": following}
            if (found := await self._page(source, question)) is None:
                return True
            page, records = found
            lost = None if newest else _lost(page, following)
            if lost is not None:
                await self._declare(source, lost)
                following = lost.last + 1
            self._lags(page, following)
            following, done = await self._take(source, records, following)
            if not done:
                return True
            self._lags(page, following)
            self._well()
            if not records:  # a master with too many waiting requests answers at once
                await asyncio.sleep(EMPTY_S)
            revision, wait = page.revision or 0, WAIT_S

    async def _finish(self, numbering: Numbering) -> bool:
        """Write or declare the rest of an earlier incarnation of the job. Returns whether that is complete.

        Tentative results of the earlier incarnation are not in its log, because they were never published as
        final.
        """
        source = LogName(self._job["job"], numbering.incarnation)
        position, latest = await self._sink.position(source), numbering.latest
        first = latest if numbering.first is None else numbering.first
        following = first if position is None else position.next
        while following <= latest:
            self._ended_unless(source.incarnation)
            self._source, self.progress.incarnation = source, source.incarnation
            question = {"limit": PAGE_RECORDS, "state": "final", "incarnation": source.incarnation}
            if (found := await self._page(source, question | {"from": following})) is None:
                return False
            page, records = found
            lost = _lost(page, following) if records else LostIntervals(following, latest, RENUMBERED)
            if lost is not None:
                await self._declare(source, lost)
                following = lost.last + 1
            reached, done = await self._take(source, records, following)
            if not done:
                return False
            following = following if reached is None else reached
            self._lags(page, following)
            self._well()
        return True

    async def _take(self, source: LogName, page: bytes, following: int | None) -> tuple[int | None, bool]:
        job = self._job | {"incarnation": source.incarnation}
        for record, rows in await asyncio.to_thread(decode_page, page) if page else []:
            table = table_of(rows)
            try:
                found = await whole(self._ask, job, record, rows)
            except RowsLost as error:
                await self._declare(source, LostIntervals(record.index, record.index, str(error)))
                following = record.index + 1
                continue
            item = SinkItem(record, found, 1 if table is None else len(table.pages))
            if record.lost:
                await self._declare(source, _declared(record, following))
            elif not await self._write(source, item):
                return following, False
            if item.terminal:
                following = record.index + 1
        return following, True

    def _ended_unless(self, incarnation: str | None) -> None:
        if self._source is not None and self._source.incarnation != incarnation:
            self._sink.ended(self._source)
            self._source = None

    async def _page(self, source: LogName, question: dict[str, Any]) -> tuple[ResultPage, bytes] | None:
        """Return a page of results, or None if its job or incarnation does not exist any more."""
        reply = await self._answer("results", question)
        page = None if reply is None else read_reply(ResultPage, reply.body)
        if reply is None or page is None or page.incarnation != source.incarnation:
            return None
        return page, reply.payload

    async def _answer(self, verb: str, body: dict[str, Any]) -> Reply | None:
        """Return the master's answer, or None if the job or incarnation does not exist.

        Repeats the request while the master is being replaced.
        """
        while True:
            try:
                reply = await self._ask(verb, {**self._job, **body})
            except Unreachable as error:
                self.progress.problem = error.message
            else:
                if reply.status in (NOT_FOUND, GONE):
                    return None
                if reply.status == OK:
                    return reply
                self.progress.problem = str(reply.body.get("error") or f"status {reply.status}")
            await asyncio.sleep(MASTER_S)

    async def _write(self, source: LogName, item: SinkItem) -> bool:
        try:
            self.progress.written += await self._sink.write(source, item)
        except RecordFenced as error:
            self.progress.fenced += 1
            log.warning("sink %s: %s: refused: %s", self._name, source.job, error)
            if item.terminal:
                await asyncio.sleep(MASTER_S)
            return not item.terminal
        except (RecordRefused, ProtocolError) as error:
            self.progress.refused += 1
            if item.terminal:
                await self._keep(source, item, str(error))
                await self._sink.declare(
                    source, LostIntervals(item.record.first, item.record.index, str(error))
                )
        return True

    async def _declare(self, source: LogName, lost: LostIntervals) -> None:
        await self._sink.declare(source, lost)
        self.progress.lost += lost.last - lost.first + 1
        log.error(
            "sink %s: %s: intervals %d to %d are lost: %s",
            *(self._name, source.job, lost.first, lost.last, lost.why),
        )

    def _lags(self, held: LogRange, following: int | None) -> None:
        since = held.earliest if following is None else max(following, held.earliest)
        self.progress.lag = max(0, held.latest - since + 1)


def _lost(held: LogRange, following: int | None) -> LostIntervals | None:
    """Return the intervals that the log has dropped beyond a sink's position, or from the first one on.

    A log that was copied from another agent does not know what it has dropped. In this case, if the record
    just before the position is gone, later records may be gone as well.
    """
    following = held.first if following is None else following
    if following is None or held.latest < held.earliest:
        return None
    last = held.expired if held.expired is not None else held.earliest - 1
    if last < following:
        return None
    return LostIntervals(following, last, "the results log did not keep them long enough")


def _declared(record: ResultRecord, following: int | None) -> LostIntervals:
    first = record.first if following is None else max(record.first, following)
    return LostIntervals(first, record.index, record.reason)
