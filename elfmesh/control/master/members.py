"""What the members of a job ask of its master: to join, to leave, to learn what is closed.

Owns the enrolments that become one roster. Closes nothing, and leaves the numbers to `roster`.

Invariants: a new member starts above every known frontier, and not before its worker, because an earlier
master whose roster is lost may have started that. A new master first knows no frontier, and waits for one. A
member that leaves is expected up to an interval that no member has sealed yet (D-14).
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.outcomes import serve_outcomes
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.master.founding import Founding
from elfmesh.control.master.ports import OpenTerm
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.trees import JobTrees
from elfmesh.control.paths.layouts import Layouts
from elfmesh.control.protocol.messages import Enroll, Leaving, Report, Roster, Stop, Waiting
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.protocol.messages_safety import AskFates
from elfmesh.control.protocol.messages_standby import Shipping
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.residency import allows

PROBLEM_MAX = 200
FRONTIER_S, FRONTIER_AGAIN_S = 5.0, 0.1
"""How long a new master waits for a contribution before it numbers new members, and between two looks. All
members may be gone."""

ENROLL_S = 0.02
"""How long enrolments are collected for one roster."""


class MembersTerm(OpenTerm, Protocol):
    """The parts that answer the members of a job."""

    closer: Closer
    collection: Collection
    committer: Committer
    founding: Founding
    layouts: Layouts
    tally: Tally
    trees: JobTrees


class JobMembers:
    """Handles the messages of the members of one job.

    Args:
        term: of the master; its parts need not be there yet.
        costs: what the members report of their standbys.
        takes_over: whether another master led the job before.
    """

    def __init__(self, term: MembersTerm, costs: ShippingCosts, *, takes_over: bool) -> None:
        self._context, self._book, self._term, self._costs = term.context, term.book, term, costs
        self._enrolling: dict[bytes, Enroll] = {}
        self._standbys: dict[int, bytes] = {}
        self._without_standby: dict[int, str] = {}
        self._shipping: dict[int, tuple[float, int]] = {}
        self._numbers_at = self._context.now + (FRONTIER_S if takes_over and self._book.active else 0.0)
        self._give_up_excluded()

    def standby_of(self, number: int) -> RosterEntry | None:
        """Return the member that holds the open panes of another one, as that has reported it."""
        return self._book.of(self._standbys.get(number, b""))

    def standby_problem(self, number: int) -> str:
        """Return why a member has no standby, as it has reported; "" if it has one or none is planned."""
        return self._without_standby.get(number, "")

    def shipping_of(self, number: int) -> tuple[float, int] | None:
        """Return a member's lag in seconds and the bytes per second that it ships; None: no standby."""
        return self._shipping.get(number) if self._standbys.get(number) else None

    def on_shipping(self, sender: Contact, message: Shipping) -> None:
        """A member reports its standby."""
        entry = self._book.entry(message.number)
        if entry is not None and entry.contact.id == sender.id:
            self._standbys[message.number] = message.standby
            self._shipping[message.number] = message.lag_ms / 1000, message.bytes_s
            self._without_standby[message.number] = message.problem[:PROBLEM_MAX]
            self._costs.shipped(message.number, message.bytes_s if message.standby else 0)

    def on_excluded(self, sender: Contact, message: Excluded) -> None:
        """A host takes no part in the job, because its rule excludes an agent that would get its data."""
        if message.incarnation == self._term.terms.manifest.incarnation:
            self._term.tally.on_excluded(sender.id, message, self._context.now)

    def _give_up_excluded(self) -> None:
        """Wait for no member whose rule excludes this agent, also not for one that leaves."""
        for entry in self._book.entries:
            if not allows(entry.keep_in, self._context.me):
                self._term.collection.straggler_policy.excludes(entry.number)

    def on_enroll(self, message: Enroll) -> None:
        """An agent is ready to work on the job, for the first time or again."""
        contact, terms = message.participant.contact, self._term.terms
        if message.incarnation != terms.manifest.incarnation or not self._term.is_open:
            self._context.send(contact, Stop(message.job, message.incarnation, terms.epoch))
            return
        self._term.tally.on_member(contact.id)
        known = self._book.of(contact.id)
        if known is not None and message.trips:
            self._term.layouts.trips.report(contact.id, message.trips, self._context.now)
        if known is None or known.participant != message.participant:
            if not self._enrolling:
                self._context.after(ENROLL_S, self._admit)
            self._enrolling[contact.id] = message  # it repeats the request while it waits
        elif message.version < self._book.version or message.epoch < terms.epoch:
            self._context.send(contact, Roster(terms))
        policy = self._term.collection.straggler_policy
        allowed = allows(message.participant.keep_in, self._context.me)
        if known is not None and known.number in policy.dead and allowed:
            policy.revive(known.number)

    @safeguard("frontier-before-numbers")
    def _lacks_frontier(self) -> bool:
        """Whether a new master does not know yet how far the members have sealed under the one before."""
        return self._term.collection.frontier is None and self._context.now < self._numbers_at

    def _admit(self) -> None:
        if self._term.is_open and self._lacks_frontier():
            self._context.after(FRONTIER_AGAIN_S, self._admit)
            return
        self._term.committer.without_grant(self._number)

    def _number(self) -> None:
        """Give numbers; no grant is in force, because votes would close intervals without the new members."""
        begun = {agent: message.start for agent, message in self._enrolling.items()}
        participants = tuple(message.participant for message in self._enrolling.values())
        self._enrolling.clear()
        founding, newest = self._term.founding, self._term.terms.stages[-1]
        # The versions before may not want its labels.
        start = max(founding.next_start(), newest.start)
        if self._term.is_open and self._book.add(participants, start, begun):
            self._give_up_excluded()
            founding.arrived()
            founding.prepared()
            self._term.changed()

    def on_leaving(self, message: Leaving) -> None:
        """A member leaves: it is expected up to an interval that no member has sealed yet."""
        if self._term.is_open:
            self._term.committer.without_grant(lambda: self._leaves(message))

    def _leaves(self, message: Leaving) -> None:
        leaver = message.member
        if not self._term.is_open:
            return
        self._enrolling.pop(leaver.id, None)
        entry = self._book.of(leaver.id)
        if entry is not None:
            until = max(self._term.founding.next_start(), entry.start, message.frontier)
            self._book.evict(entry.number, until, ahead=message.ahead)
            self._term.changed()
        elif message.ahead:
            self._hurries(leaver)
        terms = self._term.terms
        if any(each.contact.id == leaver.id for each in self._book.entries):
            self._context.send(leaver, Roster(terms))
        else:
            self._context.send(leaver, Stop(message.job, message.incarnation, terms.epoch))

    def _hurries(self, leaver: Contact) -> None:
        """A member that leaves already has handed over what it has sealed, so that it need not wait."""
        closed = self._term.committer.closed
        for entry in self._book.entries:
            is_last = entry.until is not None and entry.until > closed
            if entry.contact.id == leaver.id and is_last and not entry.ahead:
                self._book.evict(entry.number, entry.until or 0, ahead=True)
                self._term.changed()

    def on_waiting(self, message: Waiting) -> None:
        """A member waits for intervals to close; it may only have missed the watermark."""
        entry = self._book.entry(message.number)
        if entry is None:
            return
        if message.frontier <= (closed := self._term.committer.closed):
            about = (message.job, message.frontier - 1, closed)
            self._context.note("watermark", *about, peer=entry.contact.id)
            self._context.send(entry.contact, self._term.trees.watermark())
        else:
            self._term.collection.reported(message.number, message.frontier)

    def on_ask_outcomes(self, asker: Contact, message: AskFates) -> None:
        """A member asks what became of its contributions, and again while the log is not complete."""
        if not self._term.closer.behind:
            serve_outcomes(self._context, asker, message, self._term.terms)

    def on_report(self, message: Report) -> None:
        """A member reports bad lines, or an error of its worker."""
        is_member = any(entry.name == message.name for entry in self._book.entries)
        self._term.tally.on_report(message, is_member=is_member)
