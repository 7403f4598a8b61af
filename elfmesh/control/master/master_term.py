"""One term of a master: the parts that lead a job in one epoch, and what they pass to each other.

Owns the parts of the term (roster, activation, interval closer, result service, replicas) and their
composition. Reaches the overlay only through the context; evaluates no query. What outlives the term belongs
to `Master`.

Invariants: every message carries the epoch; a roster change takes effect above every known frontier; a
majority of the acceptors stores a record before the master publishes it, and the members release it only
after that.

Paper: ELF 2.3 and 3: the rendezvous node is the job's master: job builder, tracker, feedback, coordinator.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.interval_source import IntervalSource
from elfmesh.control.closing.member_intervals import MemberIntervals
from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.upstream_intervals import UpstreamIntervals
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.activation import Activation
from elfmesh.control.master.bounded import BoundedJob
from elfmesh.control.master.deletion import Deletion, Ended
from elfmesh.control.master.early import EarlyRows
from elfmesh.control.master.founding import Founding
from elfmesh.control.master.grants import Grants
from elfmesh.control.master.members import JobMembers
from elfmesh.control.master.ordering import OrderedPosts
from elfmesh.control.master.ports import Lasting
from elfmesh.control.master.publication import Publication
from elfmesh.control.master.quiesce import Quiesce
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.master.rollout import Rollouts
from elfmesh.control.master.successors import Replicator
from elfmesh.control.master.term_state import TermState
from elfmesh.control.master.trees import JobTrees
from elfmesh.control.master.verification import REV, Verifier
from elfmesh.control.master.wanted_version import WantedVersion
from elfmesh.control.paths.inheritance import Inheritance
from elfmesh.control.paths.layouts import Layouts
from elfmesh.control.paths.part_requests import PartRequests
from elfmesh.control.protocol.events import EarlyMerged, Finalised
from elfmesh.control.register.changes import ChangeRefused
from elfmesh.control.register.members import Electorate
from elfmesh.control.register.outcome import Won
from elfmesh.control.replicas.standby_plans import StandbyPlans
from elfmesh.control.upstream.downstream_feed import DownstreamFeed
from elfmesh.machine import Contact
from elfmesh.srt.events import Subscribe

UPKEEP_S = 5.0
"""Pause between repetitions of what others may forget: announcement, claims of roots, look-up of replicas."""


class MasterTerm:
    """Leads one job in one epoch.

    Args:
        master: keeps what outlives the term.
        plan: of the job's text.
        won: the change of the register with which the term begins.
    """

    def __init__(self, master: Lasting, plan: JobPlan, won: Won) -> None:
        self._master, self.plan, self._won = master, plan, won
        context, terms = master.context, won.terms
        self.context, self.proposer = context, master.proposer
        self.copy, self.tally = master.copy, master.tally
        self.manifest, self.epoch, self.roster_epoch = terms.manifest, terms.epoch, terms.roster_epoch
        self._alive = True
        self.book = RosterBook(terms.members, terms.version, terms.given_in, terms.epoch)
        self.publication = Publication(self)
        self.committer = Committer(context, won.proposer, won.cell, self.publication)
        self._term_state = TermState(context, terms, self.book, self.committer)
        lasting = master.rates, master.errors, master.accuracy
        closing = ClosingTerm(context, terms, plan, self.book, self.publication, *lasting)
        self.collection = Collection(closing)
        self.inheritance = Inheritance(context, terms, won.inherits, self.collection, self.leads)
        self.ordering: OrderedPosts | None = None
        source: IntervalSource
        if plan.ordered:
            source = self.ordering = OrderedPosts(closing, won.cell.tail)
        else:
            closing.open_groups.restore(won.cell.tail)
            source = UpstreamIntervals(closing) if plan.reads else MemberIntervals(closing, self.collection)
        self.closer = Closer(closing, source)
        self.closer.paused = terms.paused
        self.quiesce = Quiesce(self.closer)
        self.activation = Activation(self)
        self.founding = Founding(self, self.collection, self.closer, self.activation)
        self.members = JobMembers(self, master.costs, takes_over=won.inherits > 0)
        self.replicas = Replicator(self)
        self.layouts = Layouts(self, self._term_state, plan, self._is_away)
        self.electorate = Electorate(
            context, won.proposer, self, wanted=master.voters, wishes=lambda: self.layouts.wished_voters
        )
        self.ending = Deletion(self, self.replicas)
        self.bounded, self.open_groups = BoundedJob(self), closing.open_groups
        self.early = EarlyRows(self, closing.early)
        feed = DownstreamFeed(context, plan, self)
        lines = ShownLines(closing.tentative, closing.early, context.source())
        self.result_service = ResultService(context, self, self.copy, lines, feed)
        self.verifier = Verifier(context, terms.stages, self.book, terms.epoch, master.rates)
        self.rollouts = Rollouts(self, master.swap)
        self.grants, self.part_requests = Grants(self), PartRequests(context, self)
        self.standby_plans = StandbyPlans(self, self._term_state, plan, master.rates, master.costs)
        self.trees = JobTrees(self, closing.lacking)

    @property
    def job(self) -> bytes:
        return self.manifest.job_id

    @property
    def terms(self) -> Terms:
        """What members and successors have to know now."""
        return self._term_state.terms

    @property
    def held(self) -> int:
        """The first interval that is not published and that any member is known to have records for."""
        first = self.collection.first if self.closer.idle else None
        return self.closer.closed if first is None else first

    @property
    def cell(self) -> RegisterCell:
        """The register's value, as last chosen here."""
        return self.committer.cell

    @property
    def is_open(self) -> bool:
        """Whether this agent still leads the job, and no client has deleted it."""
        return self.leads() and not self.stopping

    def leads(self) -> bool:
        return self._alive

    @property
    def newest(self) -> Terms:
        """What a successor may need: the terms that are voted on, or the present ones."""
        return self._term_state.newest

    @property
    def paused(self) -> bool:
        return self._term_state.paused

    @property
    def stopping(self) -> bool:
        return self.ending.begun

    @property
    def state(self) -> str:
        if self.stopping:
            return "stopping"
        if not self.founding.surveyed and not self.book.active:
            return "starting"
        if not self.book.active and not self.plan.has_no_members:
            return "waiting for agents"
        if self.bounded.is_complete:
            return "complete"
        return "paused" if self.paused else "running"

    # -- beginning -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lead a new job: find its founding members."""
        self._settle()
        self.trees.claim()
        (self.founding.go_on if self.plan.has_no_members else self.founding.begin)()
        if self.plan.ordered:
            self.founding.announce()
        self.context.in_round(UPKEEP_S, self._upkeep)

    def take_over(self) -> None:
        """Continue a job with the same roster in a new epoch; the members contribute again what is open."""
        self.publication.catch_up(self._won)
        self.book.new_term()
        self.founding.go_on()
        self._settle()
        self.changed()
        self.trees.claim()
        self.founding.announce()
        self.inheritance.begin()
        self.context.in_round(UPKEEP_S, self._upkeep)

    def rooted(self) -> None:
        """This agent is the root of the job's tree now: multicast the roster if members lack it."""
        if self.book.unacknowledged:
            self.activation.spread()

    def _settle(self) -> None:
        self.context.emit(Subscribe(self.job))
        self.closer.begin()
        self._term_state.persist()
        self.replicas.refresh()

    def made(self, event: Finalised | EarlyMerged) -> None:
        """A thread has made rows: those of an interval, of a recomputed one, or early ones."""
        if isinstance(event, EarlyMerged):
            self.early.merged(event)
        elif event.rev == REV:
            self.verifier.finalised(event)
        else:
            self.closer.finalised(event)

    # -- upkeep ----------------------------------------------------------------------------------------

    def _upkeep(self) -> None:
        if not self._alive:
            return
        self.founding.announce()
        self.layouts.look_for_better()
        if self._term_state.promised is None:
            if self.committer.is_granted and self.layouts.is_stale:
                self.committer.end_grant()
            elif not self.committer.is_granted and self.layouts.upkeep() | self.standby_plans.upkeep():
                self.changed()
        self.trees.claim()
        self.replicas.upkeep(restless=self.electorate.restless)
        self.activation.repeat()
        for silent in self.book.unacknowledged:  # a silent member may have died before this term began
            self.collection.straggler_policy.suspect(silent.number)
        self.closer.advance()
        self.bounded.upkeep()
        self.context.in_round(UPKEEP_S, self._upkeep)

    def changed(self) -> None:
        """The roster or the pause has changed: members and successors receive the terms."""
        if self._term_state.promised is not None:
            return
        before = self.layouts.layout
        self.layouts.follow_roster()
        self.standby_plans.follow_roster()
        self._term_state.persist()
        self.activation.spread()
        self.replicas.share()
        if self.layouts.layout != before:
            self.trees.claim()

    def pause(self, paused: bool) -> None:
        """Let the members stop reading, or read on. No grant is in force."""
        if paused != self.paused:
            self._term_state.pause(paused)
            self.book.version += 1
            self.changed()
            self.closer.pause(paused)

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        return self._master.vote(record, rows)

    @property
    def is_settled(self) -> bool:
        """Whether the founding is over, and no other version or master is on its way."""
        waits = self.closer.frozen or self.closer.founding or self.closer.behind
        return self.founding.surveyed and self._term_state.promised is None and not waits

    def _is_away(self, agent: bytes) -> bool:
        entry = self.book.of(agent)
        given_up = entry is not None and entry.number in self.collection.straggler_policy.dead
        return given_up or self.context.is_gone(agent)

    # -- the register ----------------------------------------------------------------------------------

    def deposed(self, refused: ChangeRefused) -> None:
        """The register names another master, or the job is over."""
        if self._alive:
            self._master.deposed(refused)

    def nearest(self, contacts: tuple[Contact, ...]) -> None:
        """A look-up has found the agents closest to the job, which may have to vote."""
        self.electorate.upkeep(contacts, tuple(entry.contact for entry in self.book.active))

    def invite(self, contact: Contact) -> None:
        """An agent is to vote: send it what an acceptor holds."""
        self.replicas.invite(contact)

    def count_holders(self, near: tuple[Contact, ...], then: Callable[[int], None]) -> None:
        """Count the agents of `near` that hold the terms with the present acceptors."""

        def answered(holding: dict[bytes, Terms]) -> None:
            voters = {contact.id for contact in self.cell.contacts}
            holding[self.context.me.id] = self.terms
            known = (holding[each.id] for each in near if each.id in holding)
            then(
                sum(
                    each.epoch == self.epoch and {one.id for one in each.acceptors} == voters
                    for each in known
                )
            )

        self._master.ask_near(near, answered)

    def elected(self, outcome: RegisterCell | ChangeRefused) -> None:
        """The acceptors have changed, or the register has refused the change."""
        if isinstance(outcome, ChangeRefused):
            self.deposed(outcome)
        elif self._alive:
            self.committer.changed(outcome)
            self.changed()

    # -- ending ----------------------------------------------------------------------------------------

    def end(self, then: Ended, *, retire: bool = False) -> None:
        """End the job.

        Args:
            then: called when the job has ended, or another agent leads it.
            retire: the job continues with another numbering, and this agent keeps the results for readers of
                the old one.
        """
        if self.committer.is_granted and not self.stopping:  # votes may still close intervals
            self.committer.without_grant(lambda: self.end(then, retire=retire))
            return
        if not self.stopping:
            self.closer.stop()
            self.committer.stop()
            self.result_service.close()
            self.activation.stop()
        self.ending.begin(then, retire=retire)

    def finish(self) -> None:
        """End the job without a request: it is over, or the member hosts cannot run it."""

        def ended(over: bool) -> None:
            if over:
                self._master.ended()

        self.end(ended)

    def promise(self, terms: Terms) -> None:
        """These terms are voted on: a successor may need them, and nothing else changes meanwhile."""
        self._term_state.promise(terms)

    def go_on_from(self, before: MasterTerm, wanted: WantedVersion, prepared_at: float) -> None:
        """Begin the term of a new version; `before` is the term that is over."""
        self.take_over()
        if self.plan.inputs != before.plan.inputs:  # other agents may be member hosts of the new inputs
            self.founding.surveyed = False
            self.founding.announce()
        if wanted.origin is not None:
            times = {"since": wanted.since, "prepared_at": prepared_at}
            self.activation.applied(wanted.origin, wanted.token, wanted.state, extra=wanted.extra, **times)

    def resign(self) -> None:
        """Another agent leads from now on, or none."""
        self.proposer.drop()
        self.give_way()

    def give_way(self) -> None:
        """End this term. The changes that the register has been asked for go on."""
        self._alive = False
        self.copy.mending.lead(None)
        self.electorate.stop()
        self.committer.stop()
        self.ending.give_up()
        self.rollouts.stop()
        self.verifier.stop()
        self.trees.stop()
        self.activation.stop()
        self.closer.stop()
        self.result_service.close()
