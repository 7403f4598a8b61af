"""One agent's part in one job: its number, its worker, its contributions.

Owns the way from the reports of the worker to the contributions that go up the trees. Closes nothing.

Invariants: the member contributes nothing before it has a number, and nothing below the first interval that
the roster names; it contributes each later interval once in a term; its messages carry the epoch of the
newest roster.

Paper: ELF 3, job worker ("workers are synchronized by the job master to roll up").
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import UsualRate
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.roster import epoch_of, is_of_epoch
from elfmesh.control.jobs.stages import differs_at
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.member.accounts.accounting import Accounting
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.member.early_sender import EarlySender
from elfmesh.control.member.hand_over import HandOver
from elfmesh.control.member.pane_sender import PaneSender
from elfmesh.control.member.rechecks import Rechecks
from elfmesh.control.member.roster_requests import RosterRequests
from elfmesh.control.member.stall_watch import StallWatch
from elfmesh.control.member.trees import MemberTrees
from elfmesh.control.member.worker_control import WorkerControl
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import Mark, Rate, Roster, RosterAck, Waiting, pack
from elfmesh.interval_map import END
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard


class Member:
    """Works on one job at this agent.

    Args:
        manifest: of the job.
        plan: of the job's text.
        master: the agent that leads the job, as far as this agent knows.
        epoch: of that master.
        copy_store: the contributions that this agent keeps for other members.
        ledger: as an earlier boot stored it, b"" if there is none.
    """

    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        plan: JobPlan,
        master: Contact,
        epoch: int,
        copy_store: CopyStore,
        ledger: bytes = b"",
    ) -> None:
        self._copy_store = copy_store
        self.trees = MemberTrees(context, [(tree,) for tree in manifest.trees])
        self.contributions = Contributions(context, self.trees, self._gone_up)
        self.ledger = Ledger(manifest.incarnation, ledger)
        self.accounting = Accounting(
            context, manifest, self.ledger, lambda message: context.send(self.master, message), self._freed
        )
        self.copy_sender = CopySender(context, plan.replicas, plan.replicas_across)
        self._context, self.manifest, self.plan = context, manifest, plan
        self.master, self.epoch, self.version = master, epoch, 0
        self.entry: RosterEntry | None = None
        self.terms: Terms | None = None
        self._worker, self._received = WorkerControl(context, manifest), False
        self.closed: int | None = None
        self._pending: deque[ctl.Sealed] = deque()
        self._stall_watch = StallWatch(context, lambda: self.plan.deadline_s, self._ask_why)
        self._rate, self.rechecks = UsualRate(), Rechecks(context)
        self.requests = RosterRequests(context, self)
        self.early, self.panes = EarlySender(context, self), PaneSender(context, self)
        self.hand_over = HandOver(context, self)
        self.trees.subscribe()
        self.requests.begin()

    @property
    def job(self) -> bytes:
        return self.manifest.job_id

    @property
    def roster_epoch(self) -> int:
        return self.epoch if self.terms is None else self.terms.roster_epoch

    def begin(self, start: int) -> None:
        """Start the worker. A founding member does not wait for its number."""
        self._worker.begin(start, self.manifest)

    @property
    def start(self) -> int | None:
        """The first interval of the worker, None until it is started."""
        return self._worker.start

    @property
    def paused(self) -> bool:
        """Whether the newest roster pauses the job."""
        return self._worker.paused

    @property
    def frontier(self) -> int | None:
        """One past the last interval that goes up, None before the first term."""
        return self.contributions.frontier

    @property
    def has_left(self) -> bool:
        """Whether all intervals that are expected of this agent are closed."""
        if not self.requests.leaving or self.entry is None or self.entry.until is None:
            return False  # the master may just give a number to an agent that has none
        return self.hand_over.is_done or (self.closed is not None and self.closed >= self.entry.until)

    @property
    def _holds_back(self) -> bool:
        """Whether sealed ranges wait, because the member has no number, or leaves without a last interval."""
        leaves = self.requests.leaving or self.hand_over.begun
        return self.entry is None or (leaves and self.entry.until is None)

    # -- messages of the master ------------------------------------------------------------------------

    def on_roster(self, terms: Terms, *, meant: bool = True) -> RosterAck | None:
        """Take the terms of a master.

        Args:
            terms: with the roster.
            meant: whether the newest version wants an agent with our labels. If not, the agent leaves the job
                after the interval that the roster names.

        Returns:
            The acknowledgement, None if the agent is not on the roster.
        """
        if (terms.epoch, terms.version) < (self.epoch, self.version) or terms == self.terms:
            return self._acknowledgement()
        new_term, first = terms.roster_epoch > self.roster_epoch, max(terms.closed, terms.effective)
        self._context.note("roster", self.job, first, first + 1, f"version {terms.version}")
        self.requests.leaving |= not meant
        self.master, self.terms, self.epoch, self.version = terms.master, terms, terms.epoch, terms.version
        self.accounting.epoch = terms.epoch
        self.early.on_roster(terms)
        self.ledger.on_roster(terms.given_in)
        had, entry = self.entry, self._entry_of(terms)
        joined = entry is not None and (had is None or had.number != entry.number)
        if not self.is_expected and had is not None and had.until is None and not self.requests.leaving:
            self.requests.enroll()
        self.entry = entry
        if entry is not None:
            self.contributions.until = entry.until
        agents = {each.contact.id for each in terms.members}
        self._copy_store.panes.members_are(self.job, self.manifest.incarnation, agents)
        self._context.emit(ctl.Persist("member", self.job, pack(Roster(terms)) if entry is not None else b""))
        self._release(terms.closed)
        self._restage(terms)
        self.copy_sender.peers_are(terms.members, self.hand_over.replicas, self.plan.replicas_across)
        self.panes.on_roster(terms)
        moved = self.trees.place(self.job, terms.layout or None)
        if entry is not None and (joined or new_term or moved):
            self._begin_again(entry)
            self._catch_up()
        while self._pending and not self._holds_back:
            self._contribute(self._pending.popleft())
        self.hand_over.on_roster()
        self._worker.pause(terms.paused, len(self._pending))
        return self._acknowledgement()

    def _entry_of(self, terms: Terms) -> RosterEntry | None:
        """The entry that names the member's first open intervals.

        A former member that has come back has two: the first ends before the second begins.
        """
        closed = terms.closed if self.closed is None else max(self.closed, terms.closed)
        mine = [each for each in terms.members if each.contact.id == self._context.me.id]
        left = mine[-1] if mine and self.requests.leaving else None
        return next((each for each in mine if each.until is None or each.until > closed), left)

    @property
    def is_expected(self) -> bool:
        """Whether the newest roster expects this agent without end."""
        me, members = self._context.me.id, () if self.terms is None else self.terms.members
        return any(each.contact.id == me and each.until is None for each in members)

    def _restage(self, terms: Terms) -> None:
        at = differs_at(self._worker.stages, terms.stages, FIRST if self.closed is None else self.closed)
        self.manifest, self.plan = terms.manifest, read_plan(terms.manifest.text)
        self._worker.stages = self.accounting.stages = terms.stages
        if at is not None:
            self._worker.annuls(at)
            self.contributions.rewind(at)
            self.ledger.rewound(at)
            self.copy_sender.rewind(at)
            self._settle_closed()  # the rewind may have cut ranges down to closed intervals
            self._worker.run(self.manifest)

    def _begin_again(self, entry: RosterEntry) -> None:
        """Contribute what is open again, because trees forget contributions of an earlier number or epoch."""
        start = self._first_of(entry)
        first = start if self.closed is None else max(start, self.closed)
        given_in = () if self.terms is None else self.terms.given_in
        self.accounting.take(self.ledger.numbered(start, entry.number, epoch_of(given_in, entry.number)))
        # What a prefix may contain is sealed and settled by its interval, although it is closed.
        begun = first if self.plan.standby_s is None else start
        declared = begun if self.start is None else self.start
        self.contributions.begin(entry.number, self.roster_epoch, first, declared)
        self.begin(begun)

    @safeguard("counted-before-the-start:first")
    def _first_of(self, entry: RosterEntry) -> int:
        """The first interval that goes up under this entry.

        A master may not know the roster in which its predecessor gave this member a later start. The records
        below that start are counted as expired by now (D-1), so the entry names too early an interval.
        """
        return max(entry.start, self.ledger.state.pre_start)

    @property
    @safeguard("counted-before-the-start:begun")
    def begun(self) -> int:
        """The first interval that the member may contribute, as far as it is known without a number."""
        return max(FIRST if self.start is None else self.start, self.ledger.state.pre_start)

    def _acknowledgement(self) -> RosterAck | None:
        if self.entry is None:
            return None
        me, members = self._context.me.id, () if self.terms is None else self.terms.members
        newest = max((each.number for each in members if each.contact.id == me), default=self.entry.number)
        return RosterAck(self.job, self.epoch, self.version, newest)

    def on_watermark(self, watermark: Mark) -> None:
        before = watermark.closed - 1 if self.closed is None else self.closed
        self._context.note("closed", self.job, before, watermark.closed)
        self._release(watermark.closed)
        if is_of_epoch(self.accounting.epoch, watermark.epoch):
            about = (watermark.lacked_from, watermark.lacks, watermark.closed, watermark.revised)
            self.accounting.notified(*about, watermark.partly)
        if watermark.version > self.version and self.entry is not None and not self.requests.leaving:
            self.requests.enroll()

    def _release(self, closed: int) -> None:
        if self.closed is not None and closed <= self.closed:
            return
        self.closed = self.accounting.closed = closed
        self._stall_watch.closed(closed)
        self._settle_closed()
        self.copy_sender.released(closed)
        self._copy_store.released(self.job, self.manifest.incarnation, closed)
        self.trees.release(closed, self.roster_epoch)
        self._copy_store.panes.released(self.job, self.manifest.incarnation, self.plan.window(closed)[0])
        self._freed()
        self._go_on_by_next_number()
        self._catch_up()

    def _catch_up(self) -> None:
        if self.contributions.can_catch_up():
            self._worker.run(self.manifest)

    def _go_on_by_next_number(self) -> None:
        """The last interval of a number is closed: the next number begins, if the member has one."""
        entry = None if self.terms is None else self._entry_of(self.terms)
        if entry is not None and self.entry is not None and entry.number != self.entry.number:
            self.entry, self.contributions.until = entry, entry.until
            self._begin_again(entry)

    def _settle_closed(self) -> None:
        for done in self.contributions.release(self.closed) if self.closed is not None else ():
            self.accounting.take(self.ledger.closed(done.event))

    def _freed(self) -> None:
        """Release the closed and settled intervals, after the worker has reported those of its frame log."""
        undecided = self.contributions.undecided
        if self.closed is not None and undecided is not None and self._received:
            floor, difference = self.ledger.released(min(self.closed, undecided))
            self.accounting.take(difference)
            self._worker.release(floor, self.ledger.state.received)

    def stop(self, *, rests: bool = False) -> None:
        """End the part of this agent; with `rests`, frames and ledger stay for the next member (D-1)."""
        self.requests.stop()
        self._stall_watch.stop()
        self.copy_sender.stop()
        self.panes.stop()
        self.contributions.stop()
        self.accounting.stop(rests=rests)
        self._copy_store.stopped(self.job, self.manifest.incarnation)
        self._context.emit(ctl.Persist("member", self.job, b""))
        self._worker.stop(self.manifest.incarnation, keeps_frames=rests)
        self.trees.unsubscribe()

    # -- reports of the worker -------------------------------------------------------------------------

    def sealed(self, event: ctl.Sealed) -> None:
        if event.incarnation != self.manifest.incarnation:
            return
        self._received, event = True, self.hand_over.marked(event)
        if event.again and self.start is not None and event.start < self.start:
            self.accounting.take(self.ledger.closed(self._worker.stands(event), is_found=True))
        elif self._holds_back:
            self._pending.append(event)
            self._worker.limit(len(self._pending))
        else:
            self._contribute(event)

    def _contribute(self, event: ctl.Sealed) -> None:
        """Contribute the part of a range that the version of its intervals has evaluated (D-16)."""
        open_from = event.start if self.closed is None else max(event.start, self.closed)
        stop = self._worker.valid_until(event, open_from, event.stop)
        if stop < event.stop:
            self._context.stats["control.other_version"] += 1
        if stop <= event.start:
            return
        event = event.within(event.start, stop)
        if not event.again:
            self.accounting.take(self.ledger.remade(event))
        if self.entry is not None and (joined := self.contributions.joined(event)) is not None:
            up, difference = self.ledger.sealed(joined, self._first_of(self.entry))
            self.accounting.take(difference)
            self.contributions.add(up)
            self._settle_closed()  # intervals may have been closed before they were sealed

    def revised(self, event: ctl.Revised) -> None:
        """Take a revision of a sealed interval, for which records came late (D-12)."""
        if event.incarnation != self.manifest.incarnation:
            return
        at = event.interval
        if self._worker.valid_until(event, at, at + 1) <= at:
            self._context.stats["control.other_version"] += 1
            return  # the worker of the other version reads its records again
        waits = [place for place, each in enumerate(self._pending) if each.start <= at < each.stop]
        if not waits and self.contributions.was_refused(at):
            return
        is_open = bool(waits) or self.contributions.has(at)
        up, difference = self.ledger.revised(event, is_open=is_open)
        self.accounting.take(difference)
        if up is not None and not self.contributions.revise(up):
            for place in waits:  # the ledger adds corrections when the range goes up
                self._pending[place] = self._pending[place].revised(event)

    def _gone_up(self, event: ctl.Sealed, number: int, again: bool) -> None:
        self.copy_sender.add(event, number, self.epoch)
        if not again:
            self._tell_rate(event, number)
            self._stall_watch.sealed(event.stop)
        self._stall_watch.begin()

    def _tell_rate(self, event: ctl.Sealed, number: int) -> None:
        self._rate.add_all(event.parts, dict(event.inputs))
        if (news := self._rate.news(self.epoch, self._context.now)) is not None:
            about = (self.job, self.epoch, number)
            self._context.send(self.master, Rate(*about, sum(news), news, self._rate.nbytes))

    def _ask_why(self) -> None:
        gone_up = self.contributions.gone_up
        if self.entry is not None and gone_up is not None and gone_up < END:
            self._context.send(self.master, Waiting(self.job, self.epoch, self.entry.number, gone_up))
