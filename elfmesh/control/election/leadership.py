"""Leadership: how this agent becomes master of a job, hands over and steps down; `takeover` takes jobs over.

Owns the masters of this agent, its replicas of other masters' jobs, and the highest known epoch of each job.
Closes no interval and answers no client.

Invariants: this agent has at most one master per job, and only after a change that the job's control register
has chosen (D-4, `election.py`). A message with an epoch below the highest known one is refused, counted and
answered; the highest epoch is on disk (D-5). The master of a job is the root of its tree, or is about to hand
over to the root.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master").
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.election.election import Elections
from elfmesh.control.election.handover import HandoverPolicy
from elfmesh.control.election.leader_discovery import LeaderDiscovery
from elfmesh.control.election.takeover import Takeovers
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, generation, next_generation
from elfmesh.control.jobs.terms import Numbering, Terms
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.member.roots import Roots
from elfmesh.control.protocol.events import LogInfo, Persist
from elfmesh.control.protocol.messages import Fenced
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.control.register.changes import ChangeRefused, Create, Look
from elfmesh.control.register.first_acceptors import FirstAcceptors, Survey
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.registers import ACCEPTORS, Registers
from elfmesh.control.replicas.epochs import Epochs, Tombstones
from elfmesh.control.replicas.job_replica import JobReplica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.replicas.terms_query import TermsQuery
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.events import Subscribe, Unsubscribe


class Leadership:
    """Masters and replicas of one agent.

    Args:
        member_host: the members of this agent, which have terms of their jobs.
        roots: receives the master of each tree.
        acceptors: number of voters of a job.
    """

    def __init__(
        self, context: Context, member_host: MemberHost, roots: Roots, *, acceptors: int = ACCEPTORS
    ) -> None:
        self._context, self._member_host, self._roots = context, member_host, roots
        self.masters: dict[bytes, Master] = {}
        self.replicas: dict[bytes, JobReplica] = {}
        self._succession = HandoverPolicy(context)
        self.registers = Registers(context, self, acceptors, self.leads)
        self.elections = Elections(context, self.registers, self.epoch)
        self._epochs = Epochs(context, self._concerns)
        self._logs: dict[bytes, LogInfo] = {}
        self._tombstones = Tombstones()
        self.terms_query = TermsQuery(context, self.known)
        self._leader_discovery = LeaderDiscovery(context, self, self.terms_query, roots)
        self.takeovers = Takeovers(context, self, self.elections, self._leader_discovery, self._succession)
        self.first = FirstAcceptors(context, self.registers, self.terms_query, self.is_dead, self.epoch)

    def _concerns(self, job: bytes) -> bool:
        vote = self.registers.acceptors.vote(job).value
        led = job in self.masters or job in self.replicas or self.elects(job)
        return led or job in self._member_host.members or (vote is not None and not vote.is_over)

    # -- epochs ----------------------------------------------------------------------------------------

    def epoch(self, job: bytes) -> int:
        return self._epochs.of(job)

    @safeguard("epoch-fence")
    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        """Return whether a message of this epoch is current; a higher epoch ends an earlier term here."""
        known = self.epoch(job)
        if epoch < known:
            self._context.stats["control.fenced"] += 1
            if sender is not None:
                self._context.send(sender, Fenced(job, known))
            return False
        if epoch > known:
            self._epochs.note(job, epoch)
            if (master := self.masters.get(job)) is not None and master.term.epoch < epoch:
                self._step_down(master)
            if generation(epoch) > generation(known):
                self.elections.superseded(job)
        return True

    def _step_down(self, master: Master) -> None:
        self._context.stats["control.stepped_down"] += 1
        del self.masters[master.job]
        self.replicas[master.job] = JobReplica(self._context, master.term.newest, master.copy)
        master.term.resign()
        if master.job not in self._member_host.members and not master.term.plan.has_no_members:
            self._context.emit(Unsubscribe(master.job))
        self._leader_discovery.later(master.job)

    def deposed(self, master: Master, refused: ChangeRefused) -> None:
        if self.masters.get(master.job) is not master:
            return
        self._context.stats["control.deposed"] += 1
        self._step_down(master)
        if refused.cell is not None:
            self.learn(master.term.manifest, refused)

    def learn(self, manifest: Manifest, lost: Lost | ChangeRefused) -> bool:
        """Learn the register's epoch and master; returns False if this incarnation is not there any more."""
        job = manifest.job_id
        value = None if lost.cell is None else lost.cell.value
        if value is None or value.deleted or value.incarnation != manifest.incarnation:
            self.forget(job, manifest.incarnation)
            return False
        self._epochs.note(job, value.epoch)
        if value.master.id != self._context.me.id and job in self._context.roots:
            self._roots.follow(job, value.master, value.epoch, value.epoch)
        return True

    # -- what is known ---------------------------------------------------------------------------------

    def known(self, job: bytes) -> tuple[Terms | None, int | None]:
        """Return the newest terms of a job at this agent, and the end of its copy of the results log."""
        member = self._member_host.members.get(job)
        held, copy = self.held(job)
        found = [] if held is None else [held]
        if member is not None and member.terms is not None:
            closed = member.terms.closed if member.closed is None else member.closed
            found.append(replace(member.terms, closed=max(closed, member.terms.closed)))
        found = [terms for terms in found if not self.is_dead(terms.manifest)]
        latest = None if copy is None else copy.latest
        return max(found, key=lambda terms: (terms.epoch, terms.version), default=None), latest

    def held(self, job: bytes) -> tuple[Terms | None, LogCopy | None]:
        """Return the terms and the copy of the log that a successor can get from this agent (`Custody`)."""
        master, job_replica = self.masters.get(job), self.replicas.get(job)
        if master is not None:
            return master.term.newest, master.copy
        return (None, None) if job_replica is None else (job_replica.terms, job_replica.copy)

    def keep(self, terms: Terms, roster: int = 0) -> None:
        """Store a master's terms, unless this agent has newer ones (`Custody`)."""
        job, incarnation = terms.manifest.job_id, terms.manifest.incarnation
        held, _ = self.held(job)
        if held is not None and held.manifest.incarnation != incarnation and terms.epoch < held.epoch:
            return
        if held is not None and held.manifest.incarnation == incarnation and terms.epoch > held.epoch:
            self.admits(job, terms.epoch, None)  # an older master here must step down
        if job not in self.masters and not self.is_dead(terms.manifest):
            self._replica(terms).keep(terms, roster)

    def give_up(self, job: bytes) -> None:
        """Step down and end any attempt to lead, because another numbering of the job begins here."""
        self.elections.give_up(job)
        if (master := self.masters.get(job)) is not None:
            self._step_down(master)

    def look_again(self, job: bytes) -> None:
        self._leader_discovery.later(job)

    def leads(self, job: bytes) -> bool:
        return job in self.masters or self.elects(job)

    def elects(self, job: bytes) -> bool:
        """Return whether an attempt of this agent to lead a job is under way."""
        return self.elections.is_running(job)

    def leader(self, job: bytes) -> Contact | None:
        """Return the master of a job, as far as this agent knows; a member of an ended job is not used."""
        terms, _ = self.known(job)
        member = self._member_host.members.get(job)
        newer = member is not None and (terms is None or member.epoch > terms.epoch)
        if member is not None and newer and not self.is_dead(member.manifest):
            # a member that outlived the founding: this agent died before the register had a value
            is_own = terms is None and job not in self.masters and member.master.id == self._context.me.id
            return None if is_own else member.master
        return terms.master if terms is not None else None

    def is_dead(self, manifest: Manifest) -> bool:
        return self.is_over(manifest.job_id, manifest.incarnation)

    def forget(self, job: bytes, incarnation: str) -> None:
        self._tombstones.add(job, incarnation)
        job_replica = self.replicas.get(job)
        if job_replica is not None and job_replica.terms.manifest.incarnation == incarnation:
            del self.replicas[job]
            self._logs.pop(job, None)
            self._context.emit(Persist("job", job, b""))
            if job not in self.masters:
                job_replica.end()

    @safeguard("tombstone:seen")
    def is_over(self, job: bytes, incarnation: str) -> bool:
        """Return whether this incarnation is the last one of a job whose end this agent knows."""
        return self._tombstones.of(job) == incarnation

    def over(self, job: bytes) -> str:
        """Return the incarnation of a job that ended last; "" if this agent knows none."""
        value = self.registers.acceptors.over(job)
        return self._tombstones.of(job) or ("" if value is None else value.incarnation)

    def was_deleted(self, job: bytes) -> bool:
        """Return whether this agent knows the end of a job and no later incarnation."""
        return job in self._tombstones and self.known(job)[0] is None

    # -- beginning and ending --------------------------------------------------------------------------

    def begin(
        self,
        manifest: Manifest,
        then: Callable[[Master | Lost], None],
        start: int = FIRST,
        earlier: tuple[Numbering, ...] = (),
        kind: Callable[[RegisterValue], Create] = Create,
    ) -> None:
        """Create a new job, or a new incarnation of one, and lead it; `then` receives the outcome.

        `kind` is the class of the register's change; a `Look` creates no job.
        """

        def elected(outcome: Won | Lost) -> None:
            self.takeovers.settled(manifest.job_id)
            then(outcome if isinstance(outcome, Lost) else self.lead_new(outcome))

        job = manifest.job_id

        def surveyed(found: Survey) -> None:
            if found.renewed and kind is not Look:
                self.admits(job, next_generation(self.epoch(job)), None)
            self.elections.create(manifest, start, found, elected, earlier, kind=kind)

        self.first.survey(job, surveyed)

    def look(self, found: Survey, then: Callable[[bool], None]) -> None:
        """Read the register of a job whose terms are known; `then` receives whether it has ended there."""

        def looked(outcome: Won | Lost) -> None:
            cell = outcome.cell
            then(cell is not None and cell.value.deleted)

        if found.terms is None:
            then(False)
        else:
            self.elections.create(found.terms.manifest, FIRST, found, looked, kind=Look)

    def lead_new(self, won: Won) -> Master:
        """Lead a job whose register has just been created."""
        manifest = won.terms.manifest
        if (master := self.masters.get(manifest.job_id)) is None:
            master = self.lead(won, read_plan(manifest.text))
            master.term.begin()
        return master

    def lead(self, won: Won, plan: JobPlan) -> Master:
        """Make the master of a chosen term; its copy of the log may be incomplete."""
        terms = won.terms
        job = terms.manifest.job_id
        self._epochs.note(job, terms.epoch)
        copy = self._replica(terms).copy
        del self.replicas[job]
        master = Master(self._context, plan, copy, won, self.registers.wanted, self)
        self.masters[job] = master
        return master

    def began(self, master: Master, epoch: int) -> None:
        """A master begins the term of a new version."""
        self._epochs.note(master.job, epoch)
        self.masters[master.job] = self.masters.pop(master.job)  # the job with the newest term is listed last

    def ended(self, master: Master) -> None:
        self.masters.pop(master.job, None)
        self.forget(master.job, master.term.manifest.incarnation)
        self._context.emit(Unsubscribe(master.job))

    # -- roots -----------------------------------------------------------------------------------------

    def became_root(self, tree: bytes) -> None:
        """Handle that this agent is the root of a tree: look for the master of its job."""
        master = self.masters.get(tree)
        if master is not None:
            if master.term.quiesce.handing_over:
                master.term.quiesce.keep()
            master.term.rooted()
        elif tree != ids.ALL_AGENTS and tree not in self._member_host.admission.stream_ids:
            self._leader_discovery.look(tree)

    def lost_root(self, tree: bytes) -> None:
        self._roots.lost(tree)
        master = self.masters.get(tree)
        if master is not None and master.term.stopping:
            master.term.ending.unrooted()
        elif master is not None and not master.term.quiesce.handing_over:
            self._succession.begin(master.term)

    def lost(self, agent: bytes) -> None:
        self._leader_discovery.lost(agent)

    def take_over(self, terms: Terms) -> None:
        """Try to lead a job because the master in these terms is gone or hands the job over."""
        self.takeovers.begin(terms)

    def without_master(self, job: bytes) -> None:
        """Handle that a request found no master here: try to lead if the newest known terms name this agent.

        The register states if the job has ended. The tree of an ended job has no root that would ask it.
        """
        terms, _ = self.known(job)
        if terms is not None and terms.master.id == self._context.me.id and not self.leads(job):
            self.take_over(terms)

    def _replica(self, terms: Terms) -> JobReplica:
        """Return the replica of a job; a new one uses the log on disk if it is of this incarnation."""
        job, incarnation = terms.manifest.job_id, terms.manifest.incarnation
        job_replica = self.replicas.get(job)
        if job_replica is None or job_replica.terms.manifest.incarnation != incarnation:
            copy = LogCopy.restored(self._context, terms, self._logs.get(job), self._cell, self.held)
            job_replica = self.replicas[job] = JobReplica(self._context, terms, copy)
            job_replica.begin()
        return job_replica

    def _cell(self, job: bytes) -> RegisterCell | None:
        master = self.masters.get(job)
        return self.registers.acceptors.vote(job).value if master is None else master.term.committer.cell

    def damaged(self, log: LogInfo) -> None:
        """Handle that some records of a log cannot be read any more."""
        _, copy = self.held(log.job)
        if copy is not None and copy.incarnation == log.incarnation:
            copy.mending.found(log.holes)

    def on_replica(self, sender: Contact, message: Replica) -> None:
        """Store a master's terms, and copy the part of its log that this agent lacks."""
        job = message.terms.manifest.job_id
        self.keep(message.terms)
        copy = None if (job_replica := self.replicas.get(job)) is None else job_replica.copy
        incarnation = message.terms.manifest.incarnation
        if copy is not None and copy.incarnation == incarnation and not copy.reaches(message.latest):
            copy.complete(sender)

    def restored(self, epochs: dict[bytes, int], terms: list[Terms], logs: tuple[LogInfo, ...]) -> None:
        """Restore the state of an earlier boot; the agent tries to lead the jobs again that it led."""
        self._epochs.restored(epochs)
        self._logs.update({log.job: log for log in logs})
        for each in terms:
            self._replica(each)
            if each.master.id == self._context.me.id:
                self._context.emit(Subscribe(each.manifest.job_id))
