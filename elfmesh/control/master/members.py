"""Who comes and goes while a job runs: enrolments gathered into one roster, last intervals named.

Owns what members ask of the roster. Closes nothing and numbers no member itself (`roster`).

Invariants: a new member starts above every frontier seen, and not before its worker, which a master may have
begun whose roster is lost; who leaves is expected up to an interval that no member has sealed yet (D-14).
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.context import Context
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.founding import Founding
from elfmesh.control.protocol.messages import Enroll, Leaving, Roster, Stop

ENROLL_S = 0.02
"""New members are gathered for so long: one roster for all of them."""


class JobMembers:
    """Takes members into one job and lets them go.

    Args:
        context: clock and way out.
        terms: the state as it is now.
        book: the roster.
        straggler_policy: judges who is dead.
        founding: knows from which interval on a new member takes part.
        is_open: whether the job is still led here, and not being deleted.
        changed: called when the roster has changed.
    """

    def __init__(
        self,
        context: Context,
        terms: Callable[[], Terms],
        book: RosterBook,
        straggler_policy: StragglerPolicy,
        founding: Founding,
        *,
        is_open: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._context, self._terms, self._book = context, terms, book
        self._straggler_policy, self._founding = straggler_policy, founding
        self._is_open, self._changed = is_open, changed
        self._enrolling: list[Enroll] = []

    def enroll(self, message: Enroll) -> None:
        """An agent is there to work on the job, again or for the first time."""
        contact, terms = message.participant.contact, self._terms()
        if message.incarnation != terms.manifest.incarnation or not self._is_open():
            self._context.send(contact, Stop(message.job, message.incarnation, terms.epoch))
            return
        known = self._book.of(contact.id)
        if known is None or known.contact != contact:
            self._enrolling.append(message)
            if len(self._enrolling) == 1:
                self._context.after(ENROLL_S, self._admit)
        elif message.version < self._book.version or message.epoch < terms.epoch:
            self._context.send(contact, Roster(terms))
        if known is not None and known.number in self._straggler_policy.dead:
            self._straggler_policy.revive(known.number)

    def _admit(self) -> None:
        begun = {message.participant.contact.id: message.start for message in self._enrolling}
        participants = tuple(message.participant for message in self._enrolling)
        self._enrolling.clear()
        if self._is_open() and self._book.add(participants, self._founding.next_start(), begun):
            self._founding.arrived()
            self._founding.prepared()
            self._changed()

    def leaving(self, message: Leaving) -> None:
        """A member goes: it is expected up to an interval that no member has sealed yet."""
        leaver = message.member
        if not self._is_open():
            return
        self._enrolling = [each for each in self._enrolling if each.participant.contact.id != leaver.id]
        entry = self._book.of(leaver.id)
        if entry is not None:
            until = max(self._founding.next_start(), entry.start, message.frontier)
            self._book.evict(entry.number, until)
            self._changed()
        terms = self._terms()
        if any(each.contact.id == leaver.id for each in self._book.entries):
            self._context.send(leaver, Roster(terms))
        else:
            self._context.send(leaver, Stop(message.job, message.incarnation, terms.epoch))
