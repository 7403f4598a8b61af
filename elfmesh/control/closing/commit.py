"""Committer: closes intervals by changes of the control register and publishes their records.

Owns the only path to a terminal record: records that are ready, in order -> one change of the register ->
publication. Makes no record and decides no interval.

Invariants: the master publishes a record, and sends a closed watermark, only after the register has closed
the interval. One change is under way at a time; the next one closes all records that became ready meanwhile.
After the register has refused a change, this master commits nothing more, because another agent leads (D-4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import ChangeRefused, Close, RegisterCell
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import LOG_PAGE_BYTES_MAX
from elfmesh.control.register.proposer import Proposer

WATERMARK_S = 0.25
"""Delay of a closed watermark without a record, because a record that becomes ready meanwhile carries it."""


class Committed(Protocol):
    """Interface of the master to its committer."""

    @property
    def terms(self) -> Terms: ...

    def published(self, record: ResultRecord, rows: bytes) -> None: ...

    def committed(self, count: int) -> None:
        """Handle that the `count` oldest ready records are published; `closed` may have grown."""
        ...

    def deposed(self, refused: ChangeRefused) -> None: ...


class Committer:
    """Closes the intervals of one job in one epoch.

    Args:
        proposer: proposer of the job's register.
        cell: value of the register at the beginning of the term.
        master: the master of the job.
    """

    def __init__(self, context: Context, proposer: Proposer, cell: RegisterCell, master: Committed) -> None:
        self._context, self._proposer, self._master = context, proposer, master
        self.cell = cell
        self._ready: deque[tuple[ResultRecord, bytes]] = deque()
        self._reached = cell.value.closed
        self._committing = False
        self._since = 0.0
        self._alarm = Alarm(context, self._watermark)
        self._stopped = False
        self._confirming: list[tuple[int, Callable[[], None]]] = []

    @property
    def closed(self) -> int:
        """The first interval that the register has not closed."""
        return self.cell.value.closed

    @property
    def unanswered_s(self) -> float:
        """Seconds since the current change was sent to the acceptors; 0 if no change is under way."""
        return self._context.now - self._since if self._committing else 0.0

    def add(self, record: ResultRecord, rows: bytes) -> None:
        """Commit a record, together with all others that are ready when the current change has ended."""
        self._ready.append((record, rows))
        self._commit()

    def reached(self, closed: int) -> None:
        """Handle that all intervals below `closed` are decided, with or without a record."""
        self._reached = max(closed, self._reached)
        if self._reached > self.closed and not (self._alarm.is_set or self._stopped):
            self._alarm.set(WATERMARK_S)

    def confirm(self, then: Callable[[], None]) -> None:
        """Call `then` when the register requires the current terms of every successor.

        A master that is deposed before never calls it.
        """
        self._confirming.append((self._master.terms.version, then))
        self._commit(watermark=True)

    def stop(self) -> None:
        self._stopped = True
        self._ready.clear()
        self._confirming.clear()
        self._alarm.cancel()

    def changed(self, cell: RegisterCell) -> None:
        self.cell = cell

    def _watermark(self) -> None:
        if self._reached > self.closed and not self._ready:
            self._commit(watermark=True)

    def _commit(self, *, watermark: bool = False) -> None:
        if self._committing or self._stopped or not (self._ready or watermark):
            return
        batch: list[tuple[ResultRecord, bytes]] = []
        size = 0
        for record, rows in self._ready:
            size += len(rows)
            if batch and size > LOG_PAGE_BYTES_MAX:
                break
            before = batch[-1][0].index if batch else self.cell.value.latest
            if batch:  # only the last one, because a successor continues from it
                batch[-1] = replace(batch[-1][0], open=b""), batch[-1][1]
            batch.append((replace(record, before=before), rows))
        value, terms = self.cell.value, self._master.terms
        last = batch[-1][0].index if batch else value.latest
        closed = last + 1 if batch and last is not None else self._reached
        change = Close(
            value.incarnation, value.epoch, terms.version, closed, value.latest, last, encode_page(batch)
        )
        self._committing, self._since = True, self._context.now
        if batch:
            self._context.note("proposed", value.job, batch[0][0].first, closed)
        self._proposer.submit(change, lambda outcome: self._decided(outcome, batch), terms)

    def _decided(
        self, outcome: RegisterCell | ChangeRefused, batch: list[tuple[ResultRecord, bytes]]
    ) -> None:
        self._committing = False
        if self._stopped:
            return
        if isinstance(outcome, ChangeRefused):
            self._master.deposed(outcome)
            return
        self.cell = outcome
        for record, rows in batch:
            self._ready.popleft()
            about = (self.cell.value.job, record.first, record.index + 1)
            self._context.note("published", *about, f"{record.state} rev {record.rev}", leads=False)
            self._master.published(replace(record, open=b""), rows)
        self._context.causes.follow(b"")  # the next steps concern later intervals
        self._master.committed(len(batch))
        waiting, self._confirming = self._confirming, []
        for version, then in waiting:
            if version <= outcome.value.roster:
                then()
            else:
                self._confirming.append((version, then))
        self._commit(watermark=bool(self._confirming))
