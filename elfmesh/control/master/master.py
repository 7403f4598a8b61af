"""The master of one job in one epoch: announces the job, keeps its roster, closes and publishes intervals.

Owns the parts that lead one job (roster, activation, interval closer, result service, replicas) and their
composition. Reaches the overlay only through the context; evaluates no query.

Invariants: every message carries the epoch; a roster change takes effect above every known frontier; a
majority of the acceptors stores a record before the master publishes it, and the members release it only
after that.

Paper: ELF 2.3 and 3: "the rendezvous node is set as the job's master"; job builder, tracker, feedback,
coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.member_intervals import MemberIntervals
from elfmesh.control.closing.outcomes import serve_outcomes
from elfmesh.control.closing.upstream_intervals import UpstreamIntervals
from elfmesh.control.context import Context
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST, ResultRecord, lost_record
from elfmesh.control.jobs.register_value import ChangeRefused, RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.activation import Activation
from elfmesh.control.master.deletion import Deletion, Ended
from elfmesh.control.master.founding import Founding
from elfmesh.control.master.members import JobMembers
from elfmesh.control.master.quiesce import Quiesce
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.master.rollout import Rollouts, WantedVersion
from elfmesh.control.master.successors import Replicator
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.term_state import TermState
from elfmesh.control.master.trees import JobTrees
from elfmesh.control.master.verification import Verifier
from elfmesh.control.protocol.messages import Report, Waiting
from elfmesh.control.protocol.messages_safety import AskFates
from elfmesh.control.register.members import Electorate
from elfmesh.control.register.outcome import Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.job_replica import LogCopy
from elfmesh.control.upstream.downstream_feed import DownstreamFeed
from elfmesh.machine import Contact
from elfmesh.srt.events import Subscribe

UPKEEP_S = 5.0
"""How often soft state is said again: announcement, roots of partitions, holders."""


class Master:
    """Leads one job.

    Args:
        context: clock and way out.
        plan: of the job's text.
        terms: of the earlier term, or those of a new job; `master` and `epoch` are ours already.
        copy: this agent's copy of the results log.
        won: the change of the register that made us master.
        voters: how many shall vote in the register.
    """

    def __init__(
        self, context: Context, plan: JobPlan, terms: Terms, copy: LogCopy, won: Won, voters: int
    ) -> None:
        self._context = context
        self.plan = plan
        self.manifest = terms.manifest
        self.epoch = terms.epoch
        self.book = RosterBook(terms.members, terms.version, terms.given_in, terms.epoch)
        self._term_state = TermState(context, terms, self.book, lambda: self.committer)
        self.closing_term = term = ClosingTerm(context, terms, plan, self.book, self)
        term.sessions.restore(won.cell.tail)
        self.collection = Collection(term)
        source = UpstreamIntervals(term) if plan.reads else MemberIntervals(term, self.collection)
        self.closer = Closer(term, source)
        self.closer.paused = terms.paused
        self.quiesce = Quiesce(self.closer)
        self.activation = Activation(context, self.book, lambda: self.terms, terms.epoch)
        self.founding = Founding(
            context,
            plan.streams,
            lambda: self.terms,
            self.book,
            self.collection,
            self.closer,
            self.activation,
            is_open=lambda: self._alive and not self.stopping,
            changed=self._changed,
            refused=lambda: self.end(lambda ended: self.on_refused() if ended else None),
        )
        self.members = JobMembers(
            context,
            lambda: self.terms,
            self.book,
            self.collection.straggler_policy,
            self.founding,
            is_open=lambda: self._alive and not self.stopping,
            changed=self._changed,
        )
        self.copy = copy
        self._won = won
        self.committer = Committer(context, won.proposer, won.cell, self)
        self.replicas = Replicator(context, lambda: self.terms, lambda: copy.latest, self._nearest)
        self.electorate = Electorate(
            context,
            won.proposer,
            lambda: self.committer.cell,
            self.replicas.invite,
            self._elected,
            wanted=voters,
        )
        self.ending = Deletion(
            context, won.proposer, lambda: self.terms, self.book, self.replicas, plan.streams
        )
        self.on_refused: Callable[[], None] = lambda: None
        self.on_deposed: Callable[[ChangeRefused], None] = lambda refused: None
        feed = DownstreamFeed(context, plan, lambda: self.terms)
        self.result_service = ResultService(
            context, self.manifest, copy, self.closer.tentative, feed,
            lambda: self.committer.cell.contacts, terms.earlier,
        )  # fmt: skip
        self.verifier = Verifier(context, terms.stages, self.book, terms.epoch)
        self.tally = Tally()
        self.tally.inherited(record for record, _ in decode_page(won.cell.tail))
        self.rollouts = Rollouts(context, won.proposer, self)
        self.trees = JobTrees(context, lambda: self.terms, self.book.forget_below, term.lacking)
        self._alive = True

    @property
    def job(self) -> bytes:
        return self.manifest.job_id

    @property
    def proposer(self) -> Proposer:
        """Of the job's control register."""
        return self._won.proposer

    @property
    def terms(self) -> Terms:
        """What members and successors have to know, as of now."""
        return self._term_state.terms

    @property
    def held(self) -> int:
        """The first interval that is not published and that any member is known to have records for."""
        first = self.collection.first if self.closer.idle else None
        return self.closer.closed if first is None else first

    @property
    def promised(self) -> Terms | None:
        return self._term_state.promised

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
        if not self.book.active and not self.plan.reads:
            return "waiting for agents"
        return "paused" if self.paused else "running"

    # -- beginning -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lead a new job: find who carries its stream."""
        self._settle()
        self.trees.claim()
        (self.founding.go_on if self.plan.reads else self.founding.begin)()
        self._context.after(self._context.jittered(UPKEEP_S), self._upkeep)

    def take_over(self) -> None:
        """Lead a job that another agent led: same roster, new epoch; what is open comes again."""
        self.closer.behind = True
        before, cell = self._won.cell.value.before, self._won.cell
        others = tuple(contact for contact in cell.contacts if contact.id != self._context.me.id)
        sources = tuple(dict.fromkeys((*self._won.sources, *others)))
        mending = self.copy.mending
        mending.lead(self._declare_lost)

        def whole() -> None:
            self.copy.settle(cell.tail, sources, self._caught_up, lambda: self._alive)

        self.copy.reach(before, sources, partial(mending.settle, whole), lambda: self._alive)
        self.book.new_term()
        self.founding.go_on()
        self._settle()
        self._changed()
        self.trees.claim()
        self.founding.announce()
        self._context.after(self._context.jittered(UPKEEP_S), self._upkeep)

    def rooted(self) -> None:
        """This agent is the root of the job's tree now: what could not be multicast can be."""
        if self.book.unacknowledged:
            self.activation.spread()

    def _caught_up(self) -> None:
        if self._alive:
            self.closer.behind = False
            self.result_service.reached(self.committer.closed)
            self.closer.publish()

    def _declare_lost(self, start: int, stop: int) -> bytes:
        window = self.plan.window(stop - 1) if self.plan.slide_us else None
        return encode_page([(lost_record(self.manifest.qualified, start, stop, window), b"")])

    def _settle(self) -> None:
        self._context.emit(Subscribe(self.job))
        self.closer.begin()
        self._term_state.persist()
        self.replicas.refresh()

    # -- upkeep ----------------------------------------------------------------------------------------

    def _upkeep(self) -> None:
        if not self._alive:
            return
        self.founding.announce()
        self.trees.claim()
        self.replicas.upkeep(restless=self.electorate.restless)
        self.activation.repeat()
        for silent in self.book.unacknowledged:  # it may have died before this term began
            self.collection.straggler_policy.suspect(silent.number)
        self.closer.advance()
        self._context.after(self._context.jittered(UPKEEP_S), self._upkeep)

    def _changed(self) -> None:
        if self.promised is not None:
            return
        self._term_state.persist()
        self.activation.spread()
        self.replicas.share()

    # -- members ---------------------------------------------------------------------------------------

    def waiting(self, message: Waiting) -> None:
        """A member has sealed what is not closed; it may only have missed the mark."""
        entry = self.book.entry(message.number)
        if entry is None:
            return
        if message.frontier <= self.committer.closed:
            self._context.send(entry.contact, self.trees.watermark())
        else:
            self.collection.reported(message.number, message.frontier)

    def on_ask_outcomes(self, asker: Contact, message: AskFates) -> None:
        """A member asks what became of its contributions; it asks again while our log is not complete."""
        if not self.closer.behind:
            serve_outcomes(self._context, asker, message, self.terms)

    def report(self, message: Report) -> None:
        """A member has something to show to people."""
        is_member = any(entry.name == message.name for entry in self.book.entries)
        self.tally.report(message, is_member=is_member)

    def pause(self, paused: bool) -> None:
        """Members stop reading, or go on."""
        if paused != self.paused:
            self._term_state.pause(paused)
            self.book.version += 1
            self._changed()
            self.closer.pause(paused)

    # -- closing (what `Closer` asks of us) ------------------------------------------------------------

    def close_ready(self) -> None:
        """Something has arrived that an interval may have waited for."""
        self.closer.advance()

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        """A record is ready: it becomes final when the register has closed its interval."""
        self.committer.add(record, rows)

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        """The pages of the rows of a record that is ready: acceptors fetch them from here."""
        for page in pages:
            self.copy.pages.keep(index, page)

    def published(self, record: ResultRecord, rows: bytes) -> None:
        self.copy.add(record, rows)
        self.tally.published(record)
        self.result_service.published(record.index)
        self.verifier.published(record)
        self.rollouts.published(record)

    def shown(self) -> None:
        """There is a new tentative record: who reads all revisions may have it."""
        self.result_service.shown()

    def advanced(self) -> None:
        """What is decided has grown, or nothing is in flight any more."""
        self.quiesce.advanced()
        self.committer.reached(self.closer.closed)

    def committed(self, count: int) -> None:
        """The register has closed these records' intervals, or only moved its mark."""
        if count:
            self.closer.committed(count)
        self.result_service.reached(FIRST if self.closer.behind else self.committer.closed)
        self.advanced()
        self.trees.watermark_soon()

    def deposed(self, refused: ChangeRefused) -> None:
        """The register says that another leads, or that the job is over."""
        self.on_deposed(refused)

    def _nearest(self, nearest: tuple[Contact, ...]) -> None:
        self.electorate.upkeep(nearest)

    def _elected(self, outcome: RegisterCell | ChangeRefused) -> None:
        """Who votes has changed, or may not be changed by us any more."""
        if isinstance(outcome, ChangeRefused):
            self.deposed(outcome)
        elif self._alive:
            self.committer.changed(outcome)
            self._changed()

    def hasten(self, stop: int) -> None:
        """Ask all trees not to wait below `stop`."""
        self.trees.hasten(stop)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        self.trees.recollect(start, stop, partition, attempt)

    def evicted(self) -> None:
        """A member was dead for too long."""
        self._changed()

    # -- ending ----------------------------------------------------------------------------------------

    def end(self, then: Ended, *, retire: bool = False) -> None:
        """The job is over: the register forgets no voter, then members stop and the holders forget it.

        `retire`: it goes on with another numbering, and this agent keeps the results for readers behind.
        """
        if not self.stopping:
            self.closer.stop()
            self.committer.stop()
            self.result_service.close()
            self.activation.stop()
        self.ending.begin(then, self.resign, self.deposed, retire=retire)

    def promise(self, terms: Terms) -> None:
        """These terms are voted on: a successor may need them, and nothing else changes meanwhile."""
        self._term_state.promise(terms)

    def usual_share(self, version: int) -> float:
        """The share of unusable records in what a version has published of late."""
        return self.tally.unusable_share(version)

    def go_on_from(self, before: Master, wanted: WantedVersion, prepared_at: float) -> None:
        """Begin the term of a new version: what its master knew in the term before is not lost."""
        self.tally, self.closing_term.rates = before.tally, before.closing_term.rates
        self.closer.errors.extend(before.closer.errors)
        self.on_refused = before.on_refused
        self.take_over()
        if self.plan.inputs != before.plan.inputs:  # others may carry the stream for it
            self.founding.surveyed = False
            self.founding.announce()
        if wanted.origin is not None:
            times = {"since": wanted.since, "prepared_at": prepared_at}
            self.activation.applied(wanted.origin, wanted.token, wanted.state, extra=wanted.extra, **times)

    def resign(self) -> None:
        """Another agent leads from now on, or none."""
        self._won.proposer.drop()
        self.give_way()

    def give_way(self) -> None:
        """This term is over; what was asked of the register goes on."""
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
