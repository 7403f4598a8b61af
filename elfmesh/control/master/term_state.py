"""The terms of one master as they are now: what its members and its successors have to know.

Owns the values that an epoch does not change, the pause, and the terms that are voted on. Sends nothing to
other agents.

Invariant: while terms are voted on, this agent stores them instead of the present ones, because a successor
may need them.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from elfmesh.control.closing.commit import Committer
from elfmesh.control.context import Context
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.stages import trimmed
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.safeguards import safeguard


class TermState:
    """See the module.

    Args:
        began: the terms with which the epoch began.
        book: the roster.
        committer: knows the closed watermark and the acceptors.

    Attributes:
        began: the terms with which the epoch began.
        paused: the members do not read.
        promised: the terms that are voted on, or None.
        layout: the present one, None: the job's own trees reduce all contributions.
        standbys: numbers of the members that ship to a standby, None: all, if the job has STANDBY.
    """

    def __init__(self, context: Context, began: Terms, book: RosterBook, committer: Committer) -> None:
        self._context = context
        self.began = began
        self._book = book
        self._committer = committer
        self.paused, self._pauses = began.paused, began.pauses
        self.promised: Terms | None = None
        self.layout = began.layout or None
        self.standbys = self._inherited(began)
        self._made_of: tuple[object, ...] = ()
        self._made = began

    @staticmethod
    @safeguard("plan-is-inherited")
    def _inherited(began: Terms) -> tuple[int, ...] | None:
        return None if isinstance(began.standbys, UnsetType) else began.standbys

    @property
    def terms(self) -> Terms:
        """What members and successors have to know, as of now; the same object until that changes.

        The upkeep of a master asks some ten times.
        """
        book, committer = self._book, self._committer
        roster = (book.version, book.entries, book.given_in)
        made_of = (*roster, committer.cell, committer.closed, self._pauses, self.layout, self.standbys)
        if made_of != self._made_of:
            self._made_of, self._made = made_of, self._make()
        return self._made

    def _make(self) -> Terms:
        began, committer = self.began, self._committer
        return Terms(
            manifest=began.manifest,
            master=self._context.me,
            epoch=began.epoch,
            version=self._book.version,
            start=began.start,
            closed=committer.closed,
            paused=self.paused,
            pauses=self._pauses,
            members=self._book.entries,
            acceptors=committer.cell.contacts,
            effective=began.effective,
            evaluated=began.evaluated,
            older=trimmed(began.older, began.effective, committer.closed),
            rollout=began.rollout,
            earlier=began.earlier,
            given_in=self._book.given_in,
            stated_roster_epoch=began.stated_roster_epoch,
            layout=self.layout or UNSET,
            standbys=UNSET if self.standbys is None else self.standbys,
        )

    @property
    def newest(self) -> Terms:
        """What a successor may need: the terms that are voted on, or the present ones."""
        return self.promised or self.terms

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self._pauses += 1

    def promise(self, terms: Terms) -> None:
        self.promised = terms
        self.persist()

    def persist(self) -> None:
        """Store the terms with which this agent goes on after a restart."""
        terms = self.newest
        self._context.emit(Persist("job", terms.manifest.job_id, pack(Replica(terms, None))))
