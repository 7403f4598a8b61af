"""From a closed interval to its readers: what the other parts of a term do when the closer has made a record.

Owns the way of a record: the register closes its interval, the log keeps it, readers and members learn of it.
Decides nothing about an interval.

Invariant: until the log of the earlier terms is complete, nothing is published.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST, ResultRecord, lost_record
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.bounded import BoundedJob
from elfmesh.control.master.early import EarlyRows
from elfmesh.control.master.grants import Grants
from elfmesh.control.master.ports import TermView
from elfmesh.control.master.quiesce import Quiesce
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.master.rollout import Rollouts
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.trees import JobTrees
from elfmesh.control.master.verification import Verifier
from elfmesh.control.paths.part_requests import PartRequests
from elfmesh.control.paths.site import is_whole
from elfmesh.control.protocol.messages_register import Chosen
from elfmesh.control.register.changes import ChangeRefused
from elfmesh.control.register.outcome import Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.log_copy import LogCopy


class PublishingTerm(TermView, Protocol):
    """The parts that learn of a record, and what publication reports to the term."""

    manifest: Manifest
    plan: JobPlan
    copy: LogCopy
    collection: Collection
    tally: Tally
    closer: Closer
    committer: Committer
    quiesce: Quiesce
    result_service: ResultService
    rollouts: Rollouts
    trees: JobTrees
    verifier: Verifier
    bounded: BoundedJob
    early: EarlyRows
    proposer: Proposer
    grants: Grants
    part_requests: PartRequests

    def vote(self, record: ResultRecord, rows: bytes) -> bool: ...

    def leads(self) -> bool: ...

    def changed(self) -> None: ...

    def deposed(self, refused: ChangeRefused) -> None: ...


class Publication:
    """A `Leader` for the closer, and a `Committed` for the committer.

    Args:
        term: of the master; its parts need not be there yet.
    """

    def __init__(self, term: PublishingTerm) -> None:
        self._term = term
        self._ends_grant = False

    @property
    def terms(self) -> Terms:
        return self._term.terms

    # -- the log of the earlier terms ------------------------------------------------------------------

    def catch_up(self, won: Won) -> None:
        """Complete the copy of the log from the other voters, and publish from then on."""
        term, cell = self._term, won.cell
        copy, mending = term.copy, term.copy.mending
        term.closer.behind = True
        others = tuple(contact for contact in cell.contacts if contact.id != term.context.me.id)
        sources = tuple(dict.fromkeys((*won.sources, *others)))
        mending.lead(self._declare_lost)

        def mended() -> None:
            copy.settle(cell.tail, sources, self._caught_up, term.leads)

        def reached() -> None:
            mending.settle(mended)

        copy.reach(cell.value.before, sources, reached, term.leads)

    def _caught_up(self) -> None:
        term = self._term
        if term.leads():
            term.closer.behind = False
            term.result_service.reached(term.committer.closed)
            term.closer.publish()

    def _declare_lost(self, start: int, stop: int) -> bytes:
        plan = self._term.plan
        window = plan.window(stop - 1) if plan.slide_us else None
        return encode_page([(lost_record(self._term.manifest.qualified, start, stop, window), b"")])

    # -- what the closer asks for ----------------------------------------------------------------------

    def close_ready(self) -> None:
        self._term.closer.advance()

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        self._term.committer.add(record, rows)

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        """Keep the pages of a record's rows, because the acceptors fetch them from here before they vote."""
        for page in pages:
            self._term.copy.pages.keep(index, page)

    def shown(self) -> None:
        """There is a new tentative record: clients that read all revisions receive it."""
        self._term.result_service.shown()

    def advanced(self) -> None:
        """The closer has decided more, or nothing is in flight any more."""
        self._term.quiesce.advanced()
        self._term.committer.reached(self._term.closer.closed)
        self._term.early.groups_changed()
        self._term.bounded.advanced()

    def hasten(self, stop: int) -> None:
        self._term.trees.hasten(stop)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        self._term.trees.recollect(start, stop, partition, attempt)

    def request_of_sites(self, missing: int, due: float) -> float:
        return self._term.part_requests.before_end(missing, due)

    def evicted(self) -> None:
        self._term.changed()

    @property
    def is_granted(self) -> bool:
        return self._term.committer.is_granted

    def end_grant(self) -> None:
        if not self._ends_grant:
            self._ends_grant = True
            self._term.committer.without_grant(self._without_grant)

    def _without_grant(self) -> None:
        self._ends_grant = False
        self.close_ready()

    # -- what the committer reports --------------------------------------------------------------------

    def published(self, record: ResultRecord, rows: bytes) -> None:
        term = self._term
        term.closer.published(record)
        term.copy.add(record, rows)
        term.tally.published(record)
        term.result_service.published(record.index)
        term.verifier.published(record)
        term.rollouts.published(record)

    def committed(self, count: int) -> None:
        """The register has closed the intervals of `count` records, or only moved its closed watermark."""
        term = self._term
        if count:
            term.closer.committed(count)
            self._inform_sites()
        term.result_service.reached(FIRST if term.closer.behind else term.committer.closed)
        self.advanced()
        term.trees.watermark_soon()

    def _inform_sites(self) -> None:
        """Let readers at the sites have the records. A site that does not vote has none of them yet."""
        term, layout = self._term, self._term.terms.layout or None
        ballot = term.proposer.chosen
        if layout is not None and ballot is not None:
            for site in layout.sites[1:]:
                term.context.send(site, Chosen(term.manifest.job_id, ballot))

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        """Vote on a record of the master, if it is the one that every site makes."""
        return is_whole(record) and self._term.vote(record, rows)

    def adopted(self, record: ResultRecord) -> None:
        self._term.closer.adopt(record)
        self._term.collection.passed(record.index + 1)  # a new member begins above it

    def grant(self, record: ResultRecord, rows: bytes, closed: int) -> VotingGrant | None:
        return self._term.grants.grant(record, rows, closed)

    def deposed(self, refused: ChangeRefused) -> None:
        self._term.deposed(refused)
