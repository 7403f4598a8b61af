"""Who leads which job: beginning, taking over, handing over, giving way.

Owns this agent's masters and what it holds of other masters' jobs, and the highest epoch seen of every job.
Closes no interval and answers no client.

Invariants: at most one master per job at this agent; a term begins with an epoch above every one seen; what
comes from a lower epoch is refused, counted and answered (D-5); of two masters of one epoch the one closer to
the job stays. The master of a job is the root of its tree, or is about to hand over to it.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master"). Deviation: epochs are raised by who finds
itself root, not yet by a register of several agents; a partitioned overlay can therefore have two terms, and
the higher one wins when it heals.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.carrier import Carrier
from elfmesh.control.events import DropLog, LogInfo, Persist
from elfmesh.control.holder import Holder
from elfmesh.control.inquiry import Inquiry
from elfmesh.control.manifest import Manifest
from elfmesh.control.master import Master
from elfmesh.control.messages import Fenced, Handover, Known, Replica, Withdraw
from elfmesh.control.office import Office
from elfmesh.control.plan import read_plan
from elfmesh.control.records import FIRST
from elfmesh.control.roots import Roots
from elfmesh.control.terms import Terms
from elfmesh.errors import QueryError
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone, ProbeDone
from elfmesh.srt.events import Subscribe, Unsubscribe

LOOK_AGAIN_S = 3.0
"""How often a root whose job another agent leads looks whether that agent is still there."""

HANDOVER_S = 5.0
"""When a handover that nobody took is tried again."""

TOMBSTONES_MAX = 4096
EPOCHS_MAX = 10_000


class Leadership:
    """Masters and holders of one agent.

    Args:
        office: clock and way out.
        carrier: the jobs worked on here: their terms count as knowledge.
        roots: told whom to follow.
    """

    def __init__(self, office: Office, carrier: Carrier, roots: Roots) -> None:
        self._office, self._carrier, self._roots = office, carrier, roots
        self.masters: dict[bytes, Master] = {}
        self.holders: dict[bytes, Holder] = {}
        self._epochs: OrderedDict[bytes, int] = OrderedDict()
        self._logs: dict[bytes, LogInfo] = {}
        self._tombstones: OrderedDict[bytes, str] = OrderedDict()
        self._inquiry = Inquiry(office, self.known)

    # -- epochs ----------------------------------------------------------------------------------------

    def epoch(self, job: bytes) -> int:
        """The highest epoch seen of a job."""
        return self._epochs.get(job, 0)

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        """Whether something of this epoch may be acted upon; a new epoch ends an older term here."""
        known = self.epoch(job)
        if epoch < known:
            self._office.stats["control.fenced"] += 1
            if sender is not None:
                self._office.send(sender, Fenced(job, known))
            return False
        if epoch > known:
            self._note_epoch(job, epoch)
            master = self.masters.get(job)
            if master is not None and master.epoch < epoch:
                self._step_down(master)
        return True

    def _note_epoch(self, job: bytes, epoch: int) -> None:
        self._epochs[job] = epoch
        self._epochs.move_to_end(job)
        while len(self._epochs) > EPOCHS_MAX:
            self._epochs.popitem(last=False)
        self._office.emit(Persist("epoch", job, epoch.to_bytes(8)))

    def _step_down(self, master: Master) -> None:
        self._office.stats["control.stepped_down"] += 1
        del self.masters[master.job]
        latest = master.replicas.latest
        self.holders[master.job] = Holder(self._office, master.terms, latest)
        master.resign()
        if master.job not in self._carrier.members:
            self._office.emit(Unsubscribe(master.job))

    def rival(self, job: bytes, epoch: int, other: Contact) -> None:
        """Another agent speaks as master; of two in one epoch the closer one stays."""
        master = self.masters.get(job)
        if master is None or other.id == self._office.me.id or epoch != master.epoch:
            return
        if ids.distance(other.id, job) < ids.distance(self._office.me.id, job):
            self._step_down(master)

    # -- what is known ---------------------------------------------------------------------------------

    def known(self, job: bytes) -> tuple[Terms | None, int | None]:
        """The newest terms this agent has of a job, and the end of its copy of the log."""
        master, holder, member = (
            self.masters.get(job),
            self.holders.get(job),
            self._carrier.members.get(job),
        )
        found: list[Terms] = []
        latest: int | None = None
        if member is not None and member.terms is not None:
            closed = member.terms.closed if member.closed is None else member.closed
            found.append(replace(member.terms, closed=max(closed, member.terms.closed)))
        if holder is not None:
            found.append(holder.terms)
            latest = holder.copy.latest
        if master is not None:
            found.append(master.terms)
            latest = master.replicas.latest
        found = [terms for terms in found if not self._is_dead(terms.manifest)]
        return max(found, key=lambda terms: (terms.epoch, terms.version), default=None), latest

    def leader(self, job: bytes) -> Contact | None:
        """Who leads a job, as far as this agent knows."""
        terms, _ = self.known(job)
        member = self._carrier.members.get(job)
        if member is not None and (terms is None or member.epoch > terms.epoch):
            return member.master
        return terms.master if terms is not None else None

    def _is_dead(self, manifest: Manifest) -> bool:
        return self._tombstones.get(manifest.job_id) == manifest.incarnation

    def withdrawn(self, message: Withdraw) -> None:
        """An incarnation of a job is over."""
        self._tombstones[message.job] = message.incarnation
        self._tombstones.move_to_end(message.job)
        while len(self._tombstones) > TOMBSTONES_MAX:
            self._tombstones.popitem(last=False)
        holder = self.holders.get(message.job)
        if holder is not None and holder.terms.manifest.incarnation == message.incarnation:
            del self.holders[message.job]
            self._logs.pop(message.job, None)
            self._office.emit(Persist("job", message.job, b""))
            if message.job not in self.masters:
                self._office.emit(DropLog(message.job))

    def was_deleted(self, job: bytes) -> bool:
        """Whether this agent remembers the end of a job that has not begun anew."""
        return job in self._tombstones and self.known(job)[0] is None

    # -- beginning and ending --------------------------------------------------------------------------

    def begin(self, manifest: Manifest, start: int = FIRST) -> Master:
        """Lead a new job, or a new incarnation of one."""
        terms = Terms(
            manifest=manifest,
            master=self._office.me,
            epoch=self.epoch(manifest.job_id) + 1,
            start=start,
            closed=start,
        )
        self._note_epoch(manifest.job_id, terms.epoch)
        self.holders.pop(manifest.job_id, None)
        self._logs.pop(manifest.job_id, None)
        master = Master(self._office, read_plan(manifest.text), terms, None)
        self.masters[manifest.job_id] = master
        master.begin()
        return master

    def ended(self, master: Master) -> None:
        """The job is over."""
        self.masters.pop(master.job, None)
        self.withdrawn(Withdraw(master.job, master.plan.stream, master.manifest.incarnation, master.epoch))
        self._office.emit(Unsubscribe(master.job))

    # -- roots -----------------------------------------------------------------------------------------

    def became_root(self, tree: bytes) -> None:
        """This agent is the root of a tree: lead its job if nobody does."""
        master = self.masters.get(tree)
        if master is not None:
            if master.handing_over:
                master.keep()
            master.rooted()
        elif tree != ids.ALL_AGENTS and tree not in self._carrier.stream_ids:
            self._inquiry.ask(tree, self._informed)

    def lost_root(self, tree: bytes) -> None:
        """Another agent is the root: it should lead."""
        self._roots.lost(tree)
        master = self.masters.get(tree)
        if master is not None and not master.stopping and not master.handing_over:
            master.hand_over(lambda: self._find_successor(master))

    def _informed(self, job: bytes, terms: Terms | None, source: Contact, latest: int | None) -> None:
        """What the neighbours know of a job whose root we are."""
        if terms is None or job not in self._office.roots or job in self.masters:
            return
        if self._is_dead(terms.manifest) or terms.epoch < self.epoch(job):
            return
        if terms.master.id == self._office.me.id:
            self._take_over(terms, source, latest)
            return
        self._roots.follow(job, terms.master, terms.epoch)
        self._office.probe(terms.master, lambda done: self._probed(job, terms, source, latest, done))

    def _probed(
        self, job: bytes, terms: Terms, source: Contact, latest: int | None, done: ProbeDone | None
    ) -> None:
        if job not in self._office.roots or job in self.masters:
            return
        if done is not None and not done.alive:
            self._take_over(terms, source, latest)
        else:
            self._office.after(self._office.jittered(LOOK_AGAIN_S), lambda: self._look_again(job))

    def _look_again(self, job: bytes) -> None:
        if job in self._office.roots and job not in self.masters:
            self._inquiry.ask(job, self._informed)

    def _take_over(self, terms: Terms, source: Contact, latest: int | None) -> None:
        job = terms.manifest.job_id
        try:
            plan = read_plan(terms.manifest.text)
        except QueryError:
            self._office.stats["control.malformed"] += 1
            return
        epoch = max(self.epoch(job), terms.epoch) + 1
        self._note_epoch(job, epoch)
        self._office.stats["control.taken_over"] += 1
        holder = self._holder(terms)
        del self.holders[job]
        copy = holder.copy
        behind = latest is not None and (copy.latest is None or copy.latest < latest)
        behind = behind and source.id != self._office.me.id
        master = Master(self._office, plan, replace(terms, master=self._office.me, epoch=epoch), copy.latest)
        self.masters[job] = master
        master.copy = copy
        master.take_over(catching_up=behind)
        if behind:
            copy.complete(source, lambda: master.caught_up(copy.latest))

    def _holder(self, terms: Terms) -> Holder:
        """The holder of a job, made of the newest terms and the log on disk if it is of this incarnation."""
        job, incarnation = terms.manifest.job_id, terms.manifest.incarnation
        holder = self.holders.get(job)
        if holder is None or holder.terms.manifest.incarnation != incarnation:
            log = self._logs.get(job)
            latest = log.latest if log is not None and log.incarnation == incarnation else None
            holder = self.holders[job] = Holder(self._office, terms, latest)
        return holder

    # -- handing over ----------------------------------------------------------------------------------

    def _find_successor(self, master: Master) -> None:
        if self.masters.get(master.job) is master:
            self._office.lookup(master.job, lambda done: self._successor(master, done))

    def _successor(self, master: Master, done: LookupDone | None) -> None:
        if self.masters.get(master.job) is not master or not master.handing_over:
            return
        if done is not None and done.contacts and done.contacts[0].id != self._office.me.id:
            self._office.send(done.contacts[0], Handover(master.terms, master.replicas.latest))
        elif master.job in self._office.roots:
            master.keep()
            return
        self._office.after(HANDOVER_S, lambda: self._find_successor(master))

    def handover(self, sender: Contact, message: Handover) -> None:
        """The old root wants us to lead."""
        job = message.terms.manifest.job_id
        if job in self.masters or not self.admits(job, message.terms.epoch, sender):
            return
        if self._is_dead(message.terms.manifest):
            return
        self._office.emit(Subscribe(job))
        self._take_over(message.terms, sender, message.latest)

    def replica(self, sender: Contact, message: Replica) -> None:
        """A master gives us what a successor needs."""
        terms = message.terms
        job = terms.manifest.job_id
        self.rival(job, terms.epoch, terms.master)
        if job not in self.masters and not self._is_dead(terms.manifest):
            self._holder(terms).replica(sender, message)

    def answered(self, sender: Contact, message: Known) -> None:
        """A neighbour says what it knows of a job."""
        self._inquiry.answered(sender, message)

    # -- restarting ------------------------------------------------------------------------------------

    def restored(self, epochs: dict[bytes, int], terms: list[Terms], logs: tuple[LogInfo, ...]) -> None:
        """What this agent knew before it was restarted; jobs it led it tries to lead again."""
        self._epochs.update(epochs)
        self._logs.update({log.job: log for log in logs})
        for each in terms:
            self._holder(each)
            if each.master.id == self._office.me.id:
                self._office.emit(Subscribe(each.manifest.job_id))
