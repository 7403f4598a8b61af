"""When a master grants that votes close complete intervals (D-22).

Owns the decision. `closing.commit` writes the grant into the register's value, and ends it.

Invariants: a grant names the roster that all members have acknowledged, and no change of it is under way
(G6). The voters are sites, the master among them, and each is a member that has accepted the text, if the
job has members. Sites beyond the voters collect, and do not vote. A text has no grant unless its record is a
function of the contributions, or of the records of the jobs that it reads, alone. Every new term begins
without one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from elfmesh import ql
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import is_paged
from elfmesh.control.jobs.terms import PathLayout, Terms
from elfmesh.control.master.ports import TermView
from elfmesh.control.paths.layout import SITES_MIN, gateways_of
from elfmesh.control.paths.layouts import Layouts
from elfmesh.control.register.grant import may_grant
from elfmesh.control.register.voted_chain import ROWS_BYTES_MAX
from elfmesh.errors import QueryError
from elfmesh.interval_map import END
from elfmesh.safeguards import safeguard

SHAPED = frozenset(("kll", "kllmerge", "frequent", "top"))
"""Sketches whose values depend on the shape of the tree, so that two sites may have different rows."""


@lru_cache(maxsize=256)
def is_shaped(text: str) -> bool:
    """Return whether rows of a text may differ between two trees of the same contributions."""
    try:
        statement = ql.parse(text)
    except QueryError:
        return True
    parts = statement.over_records
    kinds = (kind for part in parts for table in part.tables for kind, _ in table.aggregates.values())
    return any(kind.partition(":")[0] in SHAPED for kind in kinds)


@safeguard("texts-that-may-vote")
def may_vote_on(plan: JobPlan, text: str) -> bool:
    """Return whether the record of a complete interval follows from contributions or upstream records."""
    state = plan.spans or plan.ordered or plan.latest or plan.lookups or plan.functions
    shown = plan.early_us is not None or plan.until_us is not None or plan.standby_s is not None
    return not (state or shown or is_shaped(text))


class GrantingTerm(TermView, Protocol):
    """What a grant depends on."""

    plan: JobPlan
    closer: Closer
    committer: Committer
    layouts: Layouts

    @property
    def paused(self) -> bool: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_settled(self) -> bool:
        """Whether the founding is over, and no other version or master is on its way."""
        ...


class Grants:
    """See the module.

    Args:
        term: of the master; its parts need not be there yet.
    """

    def __init__(self, term: GrantingTerm) -> None:
        self._term = term

    def grant(self, record: ResultRecord, rows: bytes, closed: int) -> VotingGrant | None:
        """Return the grant of a value that closes a record; None: there is to be none.

        Args:
            record: the last record that the value closes.
            rows: its rows, whose size is a sign of the size of the next ones.
            closed: the first open interval.
        """
        terms = self._term.terms
        complete = record.state == "FINAL" and record.completeness == 1.0 and record.rev == 1
        small = len(rows) <= ROWS_BYTES_MAX and not is_paged(rows)
        if not complete or not small or self._obstacle(terms, closed):
            return None
        return VotingGrant(terms.epoch, terms.roster_epoch, terms.version, closed)

    def note(self) -> str:
        """Return for an operator who closes the intervals; "" if the job has fewer sites than votes need."""
        term = self._term
        if term.plan.paths < SITES_MIN:
            return ""
        if term.committer.is_granted:
            voters = len(term.committer.cell.value.acceptors)
            return f"votes of {voters // 2 + 1} of {voters} sites close complete intervals"
        why = self._obstacle(term.terms, term.committer.closed) or "the last one was not complete, or large"
        return f"the master closes the intervals: {why}"

    def _obstacle(self, terms: Terms, closed: int) -> str:
        """Return why there can be no grant now; "" if there can."""
        term = self._term
        value, layout = term.committer.cell.value, terms.layout or None
        permitted = may_vote_on(term.plan, terms.manifest.text)
        if not may_grant(term.committer.cell.groups, paused=term.paused, permitted=permitted):
            why = "the job is paused" if term.paused else "the voters change"
            return why if permitted else "its text needs the master"
        if not (term.is_open and term.is_settled) or len(terms.stages) > 1:
            return "the job has begun, or its version changes"
        if len(term.closer.tentative):
            return "an open interval has been shown"
        if term.book.unacknowledged or term.book.changes_after(closed) != END:
            return "the roster changes"
        sites = set[bytes]() if layout is None else {each.id for each in layout.sites}
        if layout is None or len(sites) < SITES_MIN:
            return f"there are fewer than {SITES_MIN} sites"
        voters = {each.id for each in value.acceptors}
        if len(voters) < SITES_MIN or terms.master.id not in voters or not voters <= sites:
            return "the sites are not the voters yet"
        if term.layouts.is_stale:
            return "a site or a gateway is away, or is replaced"
        return "" if self._covers_all(layout) else "an agent contributes to no group"

    def _covers_all(self, layout: PathLayout) -> bool:
        """Whether the sites get the contributions of all members."""
        return all(gateways_of(entry.contact, layout) for entry in self._term.book.active)
