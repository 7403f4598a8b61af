"""Committer: closes intervals by changes of the control register and publishes their records.

Owns the only path to a terminal record: records that are ready, in order -> one change of the register ->
publication. Makes no record and decides no interval.

Invariants: the master publishes a record, and sends a closed watermark, only after the register has closed
the interval. One change is under way at a time; the next one closes all records that became ready meanwhile.
After the register has refused a change, this master commits nothing more, because another agent leads (D-4).

While the register's value holds a grant, the master changes nothing but the grant. It votes on its complete
records as the other sites do, and publishes what a majority has voted. A record on which no site may vote, or
that no majority votes on in time, ends the grant; what was voted is in the value without it (G4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell, read_tail
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import LOG_PAGE_BYTES_MAX
from elfmesh.control.register.changes import ChangeRefused, Close
from elfmesh.control.register.proposer import Proposer
from elfmesh.safeguards import safeguard

WATERMARK_S = 0.25
"""Delay of a closed watermark without a record, because a record that becomes ready meanwhile carries it."""


VOTED_S = 1.0
"""Time for a majority to vote on a record of the master; then the master closes the interval itself."""

FOLD_RECORDS = 8
"""Number of voted records after which the master folds them into the register's value."""

FOLD_S = 5.0
"""Delay of a closed watermark under a grant, because a change of the value interrupts the votes."""

Records = tuple[tuple[ResultRecord, bytes], ...]


class Committed(Protocol):
    """Interface of the master to its committer."""

    @property
    def terms(self) -> Terms: ...

    def published(self, record: ResultRecord, rows: bytes) -> None: ...

    def committed(self, count: int) -> None:
        """Handle that the `count` oldest ready records are published; `closed` may have grown."""
        ...

    def deposed(self, refused: ChangeRefused) -> None: ...

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        """Vote on the next record; return whether this agent has voted on it."""
        ...

    def adopted(self, record: ResultRecord) -> None:
        """Handle that the other sites have closed the next interval with this record."""
        ...

    def grant(self, record: ResultRecord, rows: bytes, closed: int) -> VotingGrant | None:
        """Return the grant with which a value may close this record; None: the master closes the next."""
        ...


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
        self._latest, self._voted = cell.value.latest, cell.value.closed
        self._arrived: deque[tuple[ResultRecord, bytes]] = deque()
        self._publishing = self._ends = self._grants = False
        self._folds = 0
        self._without: list[Callable[[], None]] = []
        self._votes_late = Alarm(context, self.end_grant)

    @property
    def closed(self) -> int:
        """The first interval that neither the register nor a majority of votes has closed."""
        return max(self.cell.value.closed, self._voted)

    @property
    def is_granted(self) -> bool:
        """Whether the register's value may hold a grant: it does, or this master has proposed one."""
        return self._grants or self.cell.value.grant is not None

    def end_grant(self) -> None:
        """End the grant, if there is one; the master closes again when the register has decided that."""
        if self.is_granted and not self._stopped:
            self._ends = True
            self._commit()

    @safeguard("roster-waits-for-votes")
    def without_grant(self, then: Callable[[], None]) -> None:
        """Call `then` when no grant is in force, now or after this one has ended (G6)."""
        if not self.is_granted:
            then()
        elif not self._stopped:
            self._without.append(then)
            self.end_grant()

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
            self._alarm.set(FOLD_S if self.is_granted else WATERMARK_S)

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
        self._without.clear()
        self._alarm.cancel()
        self._votes_late.cancel()

    def changed(self, cell: RegisterCell) -> None:
        """The register has another value, for another reason than a change of this committer."""
        self._found(cell)
        self._commit()

    def voted(self, records: Records) -> None:
        """Publish what a majority has voted, or what the register has folded."""
        self._arrived.extend(records)
        if self._publishing or self._stopped:
            return
        self._publishing = True
        while self._arrived and not self._stopped:
            self._publish(*self._arrived.popleft())
        self._publishing = False
        if self._folds >= FOLD_RECORDS:
            self._commit(watermark=True)

    def _publish(self, record: ResultRecord, rows: bytes) -> None:
        if self._latest is not None and record.index <= self._latest:
            return
        self._latest, self._voted = record.index, record.index + 1
        self._folds += 1
        is_own = bool(self._ready) and self._ready[0][0].index == record.index
        if is_own:
            self._ready.popleft()
        if not self._ready:
            self._votes_late.cancel()
        about = (self.cell.value.job, record.first, record.index + 1)
        self._context.note("published", *about, f"{record.state} rev {record.rev}", leads=False)
        self._master.published(replace(record, open=b""), rows)
        if not is_own:
            self._master.adopted(record)
        self._master.committed(int(is_own))

    def _found(self, cell: RegisterCell) -> None:
        """Take a chosen value, with the records that it has folded."""
        self.cell, self._folds = cell, 0
        if cell.value.latest is not None and (self._latest is None or cell.value.latest > self._latest):
            self.voted(tuple(read_tail(cell)))
            self._latest = cell.value.latest
        if cell.value.grant is None:
            self._ends = self._grants = False
            self._votes_late.cancel()
            waiting, self._without = self._without, []
            for then in waiting:
                then()

    def _vote(self) -> None:
        """Vote on the records that are ready; end the grant if a record needs the master."""
        for record, rows in list(self._ready):
            if not self._master.vote(replace(record, open=b"", before=self._before(record)), rows):
                self.end_grant()
                return
        if self._ready and not self._votes_late.is_set:
            self._votes_late.set(VOTED_S)

    def _before(self, record: ResultRecord) -> int | None:
        earlier = [each.index for each, _ in self._ready if each.index < record.index]
        return max(earlier, default=self._latest)

    def _watermark(self) -> None:
        if self._reached > self.closed and not self._ready:
            self._commit(watermark=True)

    def _commit(self, *, watermark: bool = False) -> None:
        if self._committing or self._stopped or not (self._ready or watermark or self._ends):
            return
        if self.cell.value.grant is not None and not (self._ends or watermark):
            self._vote()
            return
        batch: list[tuple[ResultRecord, bytes]] = []
        size = 0
        for record, rows in () if self.cell.value.grant is not None else self._ready:
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
        grant = None if self._ends else self._grant(batch, closed, terms)
        self._grants = grant is not None
        about = (value.incarnation, value.epoch, terms.version, closed, value.latest, last)
        change = Close(*about, encode_page(batch), grant)
        self._committing, self._since = True, self._context.now
        if batch:
            self._context.note("proposed", value.job, batch[0][0].first, closed)
        self._proposer.submit(change, lambda outcome: self._decided(outcome, batch), terms)

    def _grant(
        self, batch: list[tuple[ResultRecord, bytes]], closed: int, terms: Terms
    ) -> VotingGrant | None:
        held = self.cell.value.grant
        if held is not None:
            return held if held.roster == terms.version else None
        return self._master.grant(*batch[-1], closed) if batch else None

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
            self._latest = record.index
            about = (self.cell.value.job, record.first, record.index + 1)
            self._context.note("published", *about, f"{record.state} rev {record.rev}", leads=False)
            self._master.published(replace(record, open=b""), rows)
        self._context.causes.follow(b"")  # the next steps concern later intervals
        self._found(outcome)
        self._master.committed(len(batch))
        waiting, self._confirming = self._confirming, []
        for version, then in waiting:
            if version <= outcome.value.roster:
                then()
            else:
                self._confirming.append((version, then))
        if not self._stopped:
            self._commit(watermark=bool(self._confirming))
