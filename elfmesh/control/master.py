"""The master of one job in one epoch: announces it, keeps its roster, has its intervals closed and published.

Owns the parts of one job's leadership (roster, activation, closing, desk, replicas) and how they meet. Knows
the overlay only through the office; evaluates no query.

Invariants: everything said carries the epoch; a roster change takes effect above every frontier seen; a
record is stored by a majority of the acceptors, then published, and only then released by the members.

Paper: ELF 2.3 and 3: "the rendezvous node is set as the job's master"; job builder, tracker, feedback,
coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from elfmesh.control.activation import Activation, summary
from elfmesh.control.election import Won
from elfmesh.control.events import Persist
from elfmesh.control.fates import serve_fates
from elfmesh.control.holder import LogCopy
from elfmesh.control.master_close import Closer
from elfmesh.control.master_commit import Committer
from elfmesh.control.master_desk import Desk
from elfmesh.control.master_end import Ended, Ending
from elfmesh.control.master_founding import Founding
from elfmesh.control.master_replicas import Replicator
from elfmesh.control.master_roster import RosterBook
from elfmesh.control.master_trees import JobTrees
from elfmesh.control.messages import (
    Enroll,
    Leaving,
    Replica,
    Report,
    Roster,
    Stop,
    Waiting,
    pack,
)
from elfmesh.control.messages_safety import AskFates
from elfmesh.control.office import Office
from elfmesh.control.plan import Plan
from elfmesh.control.records import BUCKETS, ResultRecord
from elfmesh.control.register_members import Electorate
from elfmesh.control.register_value import Cell, Refused
from elfmesh.control.terms import Terms
from elfmesh.control.verify import Verifier
from elfmesh.machine import Contact
from elfmesh.srt.events import Subscribe

UPKEEP_S = 5.0
"""How often soft state is said again: announcement, roots of partitions, holders."""

ENROLL_S = 0.02
"""New members are gathered for so long: one roster for all of them."""

RECENT = 8
SAMPLES_MAX = 10


class Master:
    """Leads one job.

    Args:
        office: clock and way out.
        plan: of the job's text.
        terms: of the earlier term, or those of a new job; `master` and `epoch` are ours already.
        copy: this agent's copy of the results log.
        won: the change of the register that made us master.
        voters: how many shall vote in the register.
    """

    def __init__(
        self, office: Office, plan: Plan, terms: Terms, copy: LogCopy, won: Won, voters: int
    ) -> None:
        self._office, self.plan = office, plan
        self.manifest, self.epoch, self.start = terms.manifest, terms.epoch, terms.start
        self.paused, self.handing_over = terms.paused, False
        self.book = RosterBook(terms.members, terms.version)
        self.closer = Closer(office, terms.manifest, plan, self.book, terms.epoch, terms.closed, self)
        self.closer.paused = terms.paused
        self.activation = Activation(office, self.book, lambda: self.terms, terms.epoch)
        self.founding = Founding(
            office,
            plan.stream,
            lambda: self.terms,
            self.book,
            self.closer,
            self.activation,
            is_open=lambda: self._alive and not self.stopping,
            changed=self._changed,
            refused=lambda: self.end(lambda ended: self.on_refused() if ended else None),
        )
        self.copy = copy
        self._won = won
        self.committer = Committer(office, won.proposer, won.cell, self)
        self.replicas = Replicator(office, lambda: self.terms, lambda: copy.latest, self._nearest)
        self.electorate = Electorate(
            office,
            won.proposer,
            lambda: self.committer.cell,
            self.replicas.invite,
            self._elected,
            wanted=voters,
        )
        self.ending = Ending(office, won.proposer, lambda: self.terms, self.book, self.replicas, plan.stream)
        self.on_refused: Callable[[], None] = lambda: None
        self.on_deposed: Callable[[Refused], None] = lambda refused: None
        self.desk = Desk(
            office, self.job, self.manifest.incarnation, lambda: copy.latest, self.closer.tentative
        )
        self.verifier = Verifier(office, self.manifest, self.book, terms.epoch)
        self.totals = dict.fromkeys(BUCKETS, 0)
        self.recent: deque[ResultRecord] = deque(maxlen=RECENT)
        self.samples: deque[str] = deque(maxlen=SAMPLES_MAX)
        self.worker_errors: dict[str, str] = {}
        self.trees = JobTrees(office, lambda: self.terms, self.book.forget_below, self.closer.lacking)
        self._drained: Callable[[], None] | None = None
        self._enrolling: list[Enroll] = []
        self._alive = True

    @property
    def job(self) -> bytes:
        """Id of the job."""
        return self.manifest.job_id

    @property
    def terms(self) -> Terms:
        """What members and successors have to know, as of now."""
        return Terms(
            manifest=self.manifest,
            master=self._office.me,
            epoch=self.epoch,
            version=self.book.version,
            start=self.start,
            closed=self.committer.closed,
            paused=self.paused,
            members=self.book.entries,
            acceptors=self.committer.cell.contacts,
        )

    @property
    def stopping(self) -> bool:
        """The job is being deleted."""
        return self.ending.begun

    @property
    def state(self) -> str:
        """In one word, for people."""
        if self.stopping:
            return "stopping"
        if not self.founding.heard and not self.book.active:
            return "starting"
        if not self.book.active:
            return "waiting for agents"
        return "paused" if self.paused else "running"

    # -- beginning -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lead a new job: find who carries its stream."""
        self._settle()
        self.trees.claim()
        self.founding.announce()
        self._office.after(self._office.jittered(UPKEEP_S), self._upkeep)

    def take_over(self) -> None:
        """Lead a job that another agent led: same roster, new epoch; what is open comes again."""
        self.closer.behind = True
        before, cell = self._won.cell.value.before, self._won.cell
        others = tuple(contact for contact in cell.contacts if contact.id != self._office.me.id)
        sources = tuple(dict.fromkeys((*self._won.sources, *others)))
        self.copy.reach(before, sources, lambda: self._caught_up(cell), lambda: self._alive)
        self.book.new_term()
        self.founding.go_on()
        self._settle()
        self._changed()
        self.trees.claim()
        self.founding.announce()
        self._office.after(self._office.jittered(UPKEEP_S), self._upkeep)

    def rooted(self) -> None:
        """This agent is the root of the job's tree now: what could not be multicast can be."""
        if self.book.unacknowledged:
            self.activation.spread()

    def _caught_up(self, cell: Cell) -> None:
        """The copy has all that was closed before the last change; that came with the register's value."""
        if self._alive:
            self.copy.append(cell.tail)
            self.closer.behind = False
            self.closer.publish()

    def _settle(self) -> None:
        self._office.emit(Subscribe(self.job))
        self._persist()
        self.replicas.refresh()

    def _persist(self) -> None:
        self._office.emit(Persist("job", self.job, pack(Replica(self.terms, None))))

    # -- upkeep ----------------------------------------------------------------------------------------

    def _upkeep(self) -> None:
        if not self._alive:
            return
        self.founding.announce()
        self.trees.claim()
        self.replicas.refresh()
        self.activation.repeat()
        self.closer.advance()
        self._office.after(self._office.jittered(UPKEEP_S), self._upkeep)

    def _changed(self) -> None:
        """The terms have changed: everyone has to know."""
        self._persist()
        self.activation.spread()
        self.replicas.share()

    # -- members ---------------------------------------------------------------------------------------

    def enroll(self, message: Enroll) -> None:
        """An agent is there to work on the job, again or for the first time."""
        contact = message.participant.contact
        if message.incarnation != self.manifest.incarnation or self.stopping:
            self._office.send(contact, Stop(self.job, message.incarnation, self.epoch))
            return
        known = self.book.of(contact.id)
        if known is None or known.contact != contact:
            self._enrolling.append(message)
            if len(self._enrolling) == 1:
                self._office.after(ENROLL_S, self._admit)
        elif message.version < self.book.version or message.epoch < self.epoch:
            self._office.send(contact, Roster(self.terms))
        if known is not None and known.number in self.closer.judge.dead:
            self.closer.judge.revive(known.number)

    def _admit(self) -> None:
        participants = tuple(message.participant for message in self._enrolling)
        self._enrolling.clear()
        if self._alive and not self.stopping and self.book.add(participants, self.founding.next_start()):
            self.founding.prepared()
            self._changed()

    def leaving(self, message: Leaving) -> None:
        """A member goes: it is expected up to an interval that nobody has sealed yet (D-14)."""
        leaver = message.member
        if self.stopping:
            return
        self._enrolling = [each for each in self._enrolling if each.participant.contact.id != leaver.id]
        entry = self.book.of(leaver.id)
        if entry is not None:
            until = max(self.founding.next_start(), entry.start, message.frontier)
            self.book.evict(entry.number, until)
            self._changed()
        if any(each.contact.id == leaver.id for each in self.book.entries):
            self._office.send(leaver, Roster(self.terms))
        else:
            self._office.send(leaver, Stop(self.job, message.incarnation, self.epoch))

    def waiting(self, message: Waiting) -> None:
        """A member has sealed what is not closed; it may only have missed the mark."""
        entry = self.book.entry(message.number)
        if entry is None:
            return
        if message.frontier <= self.committer.closed:
            self._office.send(entry.contact, self.trees.mark())
        else:
            self.closer.reported(message.number, message.frontier)

    def asked_fates(self, asker: Contact, message: AskFates) -> None:
        """A member asks what became of its contributions; it asks again while our log is not complete."""
        if not self.closer.behind:
            serve_fates(self._office, asker, message, self.committer.closed)

    def report(self, message: Report) -> None:
        """A member has something to show to people."""
        self.samples.extend(f"{message.name}: {sample}" for sample in message.samples)
        self.worker_errors.pop(message.name, None)
        if message.error and any(entry.name == message.name for entry in self.book.entries):
            self.worker_errors[message.name] = message.error

    def pause(self, paused: bool) -> None:
        """Members stop reading, or go on."""
        if paused != self.paused:
            self.paused = paused
            self.book.version += 1
            self._changed()
            self.closer.pause(paused)

    # -- closing (what `Closer` asks of us) ------------------------------------------------------------

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        """A record is ready: it becomes final when the register has closed its interval."""
        self.committer.add(record, rows)

    def published(self, record: ResultRecord, rows: bytes) -> None:
        """A record is final: into the log, to who waits."""
        self.copy.add(record, rows)
        for bucket, count in record.counts.items():
            self.totals[bucket] += count
        self.recent.append(record)
        self.desk.published(record.index)
        self.verifier.published(record)

    def shown(self) -> None:
        """There is a new tentative record: who reads all revisions may have it."""
        self.desk.shown()

    def advanced(self) -> None:
        """What is decided has grown, or nothing is in flight any more."""
        if self._drained is not None and self.closer.idle:
            drained, self._drained = self._drained, None
            drained()
        self.committer.reached(self.closer.closed)

    def committed(self, count: int) -> None:
        """The register has closed these records' intervals, or only moved its mark."""
        if count:
            self.closer.committed(count)
        self.advanced()
        self.trees.mark_soon()

    def deposed(self, refused: Refused) -> None:
        """The register says that another leads, or that the job is over."""
        self.on_deposed(refused)

    def _nearest(self, nearest: tuple[Contact, ...]) -> None:
        """A look-up says who is closest to the job now: some of them vote."""
        self.electorate.upkeep(nearest)

    def _elected(self, outcome: Cell | Refused) -> None:
        """Who votes has changed, or may not be changed by us any more."""
        if isinstance(outcome, Refused):
            self.deposed(outcome)
        elif self._alive:
            self.committer.changed(outcome)
            self._changed()

    def hasten(self, stop: int) -> None:
        """Ask all trees not to wait below `stop`."""
        self.trees.hasten(stop)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        """Ask a tree for a range again."""
        self.trees.recollect(start, stop, partition, attempt)

    def evicted(self) -> None:
        """A member was dead for too long."""
        self._changed()

    # -- ending ----------------------------------------------------------------------------------------

    def end(self, then: Ended) -> None:
        """The job is over: the register forgets nobody, then members stop and the holders forget it."""
        if not self.stopping:
            self.closer.stop()
            self.committer.stop()
            self.desk.close()
            self.activation.stop()
        self.ending.begin(then, self.resign, self.deposed)

    def hand_over(self, then: Callable[[], None]) -> None:
        """Stop closing; `then` is called once nothing is in flight."""
        self.handing_over = self.closer.frozen = True
        self._drained = then
        self.closer.advance()

    def keep(self) -> None:
        """Nobody took over: go on."""
        self.handing_over = self.closer.frozen = False
        self._drained = None
        self.closer.advance()

    def resign(self) -> None:
        """Somebody else leads from now on, or nobody."""
        self._alive = False
        self.electorate.stop()
        self.committer.stop()
        self.ending.give_up()
        self._won.proposer.drop()
        self.verifier.stop()
        self.trees.stop()
        self.activation.stop()
        self.closer.stop()
        self.desk.close()

    def applied(self) -> dict[str, Any]:
        """The JSON object of an `apply` that changes nothing."""
        return summary(self.manifest, self.book, self.start, "unchanged")
