"""The copy of a job's results log, at its master and its possible successors.

Owns the completion of the copy from other agents.

Invariants: the copy has no holes except those of damage, which are known and filled (`log_repair.py`). An
appended record follows the newest one, or comes from an agent whose copy has no hole. A record with pages of
rows is appended when all pages are on disk, unless every source has lost one. Only records whose interval the
control register has closed are appended (D-5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.pages import decode_page, names_pages
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import Append, LogInfo
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.control.replicas.log_repair import LogRepair
from elfmesh.control.replicas.page_copies import PageCopies, Pages
from elfmesh.machine import Contact

FETCH_S = (0.5, 1.0, 5.0)
"""Pauses before a missing page is requested from the next source; the last one applies to all further
requests. The first page that arrives is used."""

FETCH_TRIES = 3
"""Minimum number of consecutive requests without an answer before all sources are given up; each source gets
at least one."""

NEXT_SOURCE_S = 0.5
"""Pause between two sources without the missing data."""


class LogCopy:
    """This agent's copy of a job's results log, whether it leads the job or not.

    Args:
        job: job of the log.
        incarnation: incarnation of the log.
        latest: last index in the copy, or last index that this agent's vote requires.
        voters: returns the agents that may have a copy; None if this copy is not needed any more.
        first: index of the job's first record; None if it is not known.
        cell: returns the value of the job's register that this agent has accepted.
        pages: index and digest of the row pages on disk whose record is not in the copy.
    """

    def __init__(
        self,
        context: Context,
        job: bytes,
        incarnation: str,
        latest: int | None,
        voters: Callable[[], tuple[Contact, ...] | None],
        first: int | None = None,
        cell: Callable[[], RegisterCell | None] = lambda: None,
        pages: tuple[tuple[int, bytes], ...] = (),
    ) -> None:
        self.pages = PageCopies(context, job, incarnation, pages)
        self._context, self.job, self.incarnation = context, job, incarnation
        self.latest, self.first = latest, first
        self.mending = LogRepair(context, job, incarnation, voters, cell)
        self.lacking: list[tuple[int, int]] = []
        """Holes of earlier boots."""
        self.appended: Callable[[int], None] = lambda index: None
        """Called with the index of each record that is appended."""
        self._epoch = 0
        self._tokens: dict[int, None] = {}
        self._alarm = Alarm(context, self._late)
        self._tries = 0
        self._upto: int | None = None
        self._sources: list[Contact] = []
        self._done: list[Callable[[], None]] = []
        self._taking = False

    @classmethod
    def restored(
        cls,
        context: Context,
        terms: Terms,
        log: LogInfo | None,
        cell: Callable[[bytes], RegisterCell | None],
        held: Callable[[bytes], tuple[Terms | None, LogCopy | None]],
    ) -> LogCopy:
        """Return the copy of a log on disk.

        Args:
            context: effects.
            terms: terms of the job.
            log: the log of the job on disk, if there is one.
            cell: returns the accepted value of a job's register; the log must have the records before its
                tail.
            held: returns the present terms and copy of a job.
        """
        job, incarnation = terms.manifest.job_id, terms.manifest.incarnation
        mine = log if log is not None and log.incarnation == incarnation else LogInfo(job, incarnation, None)
        holes, latest = list(mine.holes), mine.latest
        vouched = _vouched(cell(job), incarnation)
        if vouched is not None and (latest is None or latest < vouched):
            holes.append((terms.start if latest is None else latest + 1, vouched + 1))
            latest = vouched

        def voters() -> tuple[Contact, ...] | None:
            known, other = held(job)
            return known.acceptors if known is not None and other is copy else None

        copy = cls(context, job, incarnation, latest, voters, mine.first, lambda: cell(job), mine.pages)
        copy.lacking = holes
        return copy

    @property
    def fetching(self) -> bool:
        """Whether records or pages of rows are being fetched."""
        return bool(self._tokens) or self._taking

    def reaches(self, index: int | None) -> bool:
        return index is None or (self.latest is not None and self.latest >= index)

    def complete(
        self, source: Contact, done: Callable[[], None] | None = None, upto: int | None = None
    ) -> None:
        """Fetch all records after `latest`; `done` is called when there are no more, or no answer.

        If every caller names the same record `upto`, the other sources are not waited for once it is here.
        """
        self._upto = upto if not self.fetching or self._upto == upto else None
        if done is not None:
            self._done.append(done)
        if all(known.id != source.id for known in self._sources):
            self._sources.append(source)
        if not self.fetching:
            self._tries = 0
            self._ask()

    def reach(
        self,
        index: int | None,
        sources: tuple[Contact, ...],
        done: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Fetch from one source after the other until the copy reaches `index`, while `wanted()` is true."""
        if self.reaches(index):
            done()
        elif sources and wanted():
            first, *others = sources

            def fetched() -> None:
                pause = 0.0 if self.reaches(index) else NEXT_SOURCE_S
                self._context.after(pause, lambda: self.reach(index, (*others, first), done, wanted))

            self.complete(first, fetched, index)
            for other in others:
                self.complete(other, upto=index)

    def _ask(self) -> None:
        self._sources.sort(key=lambda source: self._context.is_gone(source.id))
        token = self._context.token()
        self._tokens[token] = None
        fetch = Fetch(self.job, self.incarnation, self.latest, token)
        self._context.send(self._sources[0], fetch)
        self._alarm.set(FETCH_S[min(self._tries, len(FETCH_S) - 1)])
        self._tries += 1

    def _late(self) -> None:
        self._sources.append(self._sources.pop(0))
        if self._tries < max(FETCH_TRIES, len(self._sources)):
            self._ask()
        else:
            self._finish()

    def on_page(self, sender: Contact, page: Page, payload: bytes) -> None:
        """Take records or a page of rows; raises `ProtocolError` if they are damaged."""
        if page.part:
            self.pages.on_page(sender, page, payload)
            return
        if page.incarnation != self.incarnation or self.mending.on_page(sender, page, payload):
            return
        if page.token not in self._tokens:
            return
        records = deque(decode_page(payload))
        self._alarm.cancel()
        self._tries = 0
        self._tokens.clear()
        self._take(records, sender, page, self.latest)

    def _take(
        self, records: deque[tuple[ResultRecord, bytes]], sender: Contact, page: Page, before: int | None
    ) -> None:
        self._taking = False
        while records:
            record, rows = records[0]
            lacking = self._lacking(record, rows)
            if lacking.keys() - self.pages.gone:
                self._taking = True
                asked = (sender, *self._sources)
                self.pages.obtain(lacking, asked, lambda: self._took(records, sender, page, before))
                return
            if lacking:
                self._context.stats["control.row_pages_lost"] += len(lacking)
            self._append(*records.popleft(), page.first)
        known = [source for source in self._sources if source.id == sender.id]
        others = [source for source in self._sources if source.id != sender.id]
        self._sources = others if page.done or self.latest == before else known + others
        if self._sources and (self._upto is None or not self.reaches(self._upto)):
            self._ask()
        else:
            self._finish()

    def _took(
        self, records: deque[tuple[ResultRecord, bytes]], sender: Contact, page: Page, before: int | None
    ) -> None:
        if self._lacking(*records[0]).keys() - self.pages.gone:
            records.clear()
        self._take(records, sender, page, before)

    def _finish(self) -> None:
        self._tokens.clear()
        self._sources.clear()
        waiting, self._done = self._done, []
        for done in waiting:
            done()

    def settle(
        self, tail: bytes, sources: tuple[Contact, ...], done: Callable[[], None], wanted: Callable[[], bool]
    ) -> None:
        """Append the records of a tail when their pages are on disk, if still wanted, and call `done`."""
        if not (self.missing_pages(tail).keys() - self.pages.gone):
            for record, rows in decode_page(tail):
                self._append(record, rows)
            done()
        elif wanted():

            def fetched() -> None:
                pause = NEXT_SOURCE_S if self.missing_pages(tail) else 0.0
                self._context.after(pause, lambda: self.settle(tail, sources, done, wanted))

            self.pages.obtain(self.missing_pages(tail), sources, fetched)

    def missing_pages(self, tail: bytes) -> Pages:
        """Return the row pages of the records of a valid tail that are not on disk."""
        found: Pages = {}
        for record, rows in decode_page(tail) if names_pages(tail) else ():
            found |= self._lacking(record, rows)
        return found

    def _lacking(self, record: ResultRecord, rows: bytes) -> Pages:
        """Return the missing row pages of a record; none if the record is in the copy."""
        return {} if self.reaches(record.index) else self.pages.lacking(record.index, rows)

    def append(self, page: bytes, first: int | None = None) -> None:
        """Append the records of a page after `latest`, up to the first one with missing row pages.

        Raises:
            ProtocolError: the page is damaged.
        """
        for record, rows in decode_page(page):
            if not self.add(record, rows, first):
                return

    def add(self, record: ResultRecord, rows: bytes, first: int | None = None) -> bool:
        """Append a record if it is after `latest`; returns False if pages of its rows are missing."""
        if self._lacking(record, rows):
            self._context.stats["control.row_pages_lacking"] += 1
            return False
        self._append(record, rows, first)
        return True

    def _append(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Append a record if it is after `latest`; refuse one of an earlier epoch than the last one (D-5).

        `first` is the index of the job's first record, if it is known, because the copy may begin later.
        """
        if record.epoch < self._epoch:
            self._context.stats["control.fenced"] += 1
        elif self.latest is None or record.index > self.latest:
            self._epoch = record.epoch
            if self.latest is None:
                self.first = record.index if first is None else min(first, record.index)
            self._context.emit(
                Append(self.job, self.incarnation, replace(record, open=b""), rows, self.first)
            )
            if self.latest is not None and record.before is not None and record.before > self.latest:
                self.mending.found([(self.latest + 1, record.before + 1)])
            self.latest = record.index
            self.pages.passed(record.index)
            self.appended(record.index)


def _vouched(cell: RegisterCell | None, incarnation: str) -> int | None:
    """Return the last record that a log must have because of this agent's vote; None if there is none."""
    value = None if cell is None else cell.value
    return (
        value.before if value is not None and value.incarnation == incarnation and not value.deleted else None
    )
