"""The jobs that this agent works on.

Owns the agent's members. `admission` decides which jobs are for it, `job_questions` asks for those it missed.
Leads nothing.

Invariant: at most one member per job, of the newest incarnation known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.member.accounts.resting import RestingLedgers
from elfmesh.control.member.admission import JobAdmission
from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.member.job_questions import JobQuestions
from elfmesh.control.member.member import Member
from elfmesh.control.member.post_senders import PostSenders
from elfmesh.control.paths.layout import ReadSites, read_sites
from elfmesh.control.paths.site_parts import SiteParts
from elfmesh.control.protocol.events import (
    EarlyReported,
    LocalStreams,
    LogEnded,
    PanesCut,
    Persist,
    Revised,
    WorkerReport,
)
from elfmesh.control.protocol.messages import Announce, Report, RosterAck, Running, Verdict
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.protocol.messages_safety import Surrender
from elfmesh.control.protocol.messages_versions import Rehearse, Rehearsed
from elfmesh.errors import QueryError
from elfmesh.overlay.messages import Bye
from elfmesh.srt.events import Subscribe, Unsubscribe

LEAVING, AT_ONCE = "leaving", b"\2"
LEFT_S = 0.1
"""How often an agent that leaves looks whether it may."""


class MemberHost:
    """The worker side of an agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.admission = JobAdmission(context)
        self.members: dict[bytes, Member] = {}
        self.copy_store = CopyStore(context)
        self.ledgers = RestingLedgers(context)
        self.questions = JobQuestions(context, lambda: self.admission.streams)
        self._epochs: list[Terms] = []
        self._leaving: int | None = None
        self._notified: list[Callable[[int], None]] = []
        self._was_leaving: tuple[Callable[[int], None], bool] | None = None
        self.departed: Callable[[bool], bool] = lambda idle: idle
        """Whether no agent counts on this one; the argument states whether its members have ended."""
        self.votes_on: Callable[[], list[str]] = list
        """Names of the jobs that it votes on."""
        self._parting: dict[bytes, None] = {}
        self.post_senders = PostSenders(context)
        self.site_parts = SiteParts(context, self._of_member)

    def carries(self, event: LocalStreams) -> None:
        for name in self.admission.streams:
            if name not in {stream.name for stream in event.streams}:
                self._context.emit(Unsubscribe(ids.stream_id(name)))
        self.admission.carries(event)
        for name in self.admission.streams:
            self._context.emit(Subscribe(ids.stream_id(name)))
        for member in list(self.members.values()):
            if not self.admission.is_meant(member.manifest):
                self._rest(member)
        remembered, self._epochs = self._epochs, []
        for terms in remembered:
            announce = Announce(terms.manifest, terms.master, terms.epoch, terms.version, terms.start)
            self.on_announce(announce, founding=False)
            if terms.manifest.job_id not in self.members:
                self._forget(terms)
        self.questions.soon()
        if self._was_leaving is not None:
            was_leaving, self._was_leaving = self._was_leaving, None
            self.leave(*was_leaving)

    def _of_member(self, job: bytes) -> tuple[Terms, int] | None:
        """The newest terms of a member, and the closed watermark as it knows it."""
        member = self.members.get(job)
        if member is None or member.terms is None:
            return None
        closed = member.terms.closed if member.closed is None else member.closed
        return member.terms, max(member.terms.closed, closed)

    def read_sites(self, job: bytes) -> ReadSites:
        """The sites of a job that this agent asks for its results."""
        known = self._of_member(job)
        layout = None if known is None else known[0].layout or None
        return read_sites(self._context.me, layout, self._context.is_gone)

    def _excluded(self, notice: Announce | Terms) -> bool:
        """Whether this host takes no part because of its rule or a limit; tell the master so."""
        terms = notice if isinstance(notice, Terms) else None
        rule, why = self.admission.excluded(notice.manifest, notice.master, terms)
        if why:
            about = notice.manifest.job_id, notice.manifest.incarnation, self._context.name
            self._context.send(notice.master, Excluded(*about, rule, why))
        return bool(why)

    def job_of(self, tree: bytes) -> str:
        """The name of the job that a tree reduces, or the tree's id where no job here has it. Any thread."""
        manifests = (member.manifest for member in list(self.members.values()))
        return next((each.qualified for each in manifests if tree in each.trees), tree.hex())

    def was_leaving(self, done: Callable[[int], None], how: bytes) -> None:
        """A restart came in the middle of leaving: go on as soon as the streams are here."""
        self._was_leaving = done, how == AT_ONCE

    def leave(self, done: Callable[[int], None], at_once: bool = False) -> None:
        """Take part in nothing new, end what runs at the intervals that the masters name (D-14).

        Args:
            done: told how many jobs were left, once nothing is expected of this agent any more.
            at_once: hand the open windows over instead of waiting for their ends.
        """
        idle = not self._notified
        self._notified.append(done)
        if self._leaving is None or at_once:
            self._context.emit(Persist(LEAVING, self._context.me.id, AT_ONCE if at_once else b"\1"))
            for name in self.admission.streams if self._leaving is None else ():
                self._context.emit(Unsubscribe(ids.stream_id(name)))
            for member in self.members.values():
                (member.hand_over.begin if at_once else member.requests.leave)()
            self._leaving = len(self.members) if self._leaving is None else self._leaving
        if idle:
            self._left()

    def _left(self) -> None:
        for job, member in list(self.members.items()):
            if member.has_left:
                self._end(job, member.manifest.incarnation)
        if not self.departed(not self.members and self.post_senders.idle):
            self._context.after(LEFT_S, self._left)
            return
        self._context.emit(Persist(LEAVING, self._context.me.id, b""))
        notified, self._notified = self._notified, []
        for done in notified:
            done(self._leaving or 0)

    def stopping(self) -> None:
        """Say good-bye to the masters, which may be no neighbours of this agent and wait for its restart."""
        masters = {member.master.id: member.master for member in self.members.values()}
        for master in masters.values():
            if master.id != self._context.me.id:
                self._context.send(master, Bye())

    def on_roster(self, terms: Terms) -> RosterAck | None:
        """A master's terms for a job that is worked on here; the acknowledgement, if there is one."""
        member = self.members.get(terms.manifest.job_id)
        if member is None or member.manifest.incarnation != terms.manifest.incarnation:
            return None
        try:
            meant = self.admission.is_meant(terms.manifest) and not self._excluded(terms)
        except QueryError:
            self._context.stats["control.malformed"] += 1
            return None
        is_wanted_again = meant and member.job in self._parting
        ack = member.on_roster(terms, meant=meant)
        if is_wanted_again:
            del self._parting[member.job]
            if self._leaving is None:
                member.requests.stay()
        elif not meant and member.job not in self._parting:
            self._parting[member.job] = None
            member.requests.leave()
            self._part(member)
        return ack

    def _part(self, member: Member) -> None:
        """End a job at the interval that its roster names, unless its labels are ours again meanwhile."""
        if member.job not in self._parting:
            return
        if self.members.get(member.job) is not member:
            del self._parting[member.job]
        elif member.has_left:
            self._rest(member)
        else:
            self._context.after(LEFT_S, lambda: self._part(member))

    def worker_reported(self, event: Revised | EarlyReported | PanesCut | LogEnded | WorkerReport) -> None:
        """Pass on what the worker of a job reports besides sealed intervals."""
        member = self.members.get(event.job)
        if member is None:
            return
        match event:
            case Revised():
                member.revised(event)
            case EarlyReported():
                member.early.reported(event)
            case PanesCut():
                member.panes.cut(event)
            case LogEnded():
                member.hand_over.ended(event)
            case WorkerReport():
                # every agent may show the description of a job, so lines of a host with a rule are not in it
                samples = () if self._context.policy.keep_in else event.samples
                report = Report(event.job, self._context.name, samples, event.error)
                self._context.send(member.master, report)

    def on_surrender(self, message: Surrender) -> None:
        """Send a master the copies and the open panes of members that it lacks."""
        member = self.members.get(message.job)
        self.copy_store.on_surrender(message.master, message)
        self.copy_store.panes.on_surrender(message, None if member is None else member.terms)

    def on_rehearse(self, message: Rehearse) -> Rehearsed:
        """Whether this agent could work on another version of a job; nothing changes (D-16's prepare)."""
        me, manifest = self._context.me.id, message.manifest
        member = self.members.get(manifest.job_id)
        frontier = None if member is None else member.contributions.frontier
        try:
            plan = read_plan(manifest.text)
        except QueryError as refused:
            return Rehearsed(me, frontier, False, str(refused))
        if any(terms.manifest.job_id == manifest.job_id for terms in self._epochs):
            return Rehearsed(me, frontier, True)  # as before its restart; its streams are to come
        if not self.admission.is_meant(manifest):
            return Rehearsed(me, frontier, False)
        return Rehearsed(me, frontier, True, self.admission.error(manifest, plan, is_new=True))

    def _forget(self, terms: Terms) -> None:
        """What this agent worked on before it was restarted is not for it any more."""
        self._context.emit(Persist("member", terms.manifest.job_id, b""))
        self.copy_store.stopped(terms.manifest.job_id, terms.manifest.incarnation)

    def remember(self, terms: Terms) -> None:
        """This agent was a member before it was restarted: it reports back as soon as it has its streams."""
        self._epochs.append(terms)

    def restored(self, kept: list[bytes]) -> None:
        """Copies that this agent kept for other members before it was restarted."""
        jobs = [(terms.manifest.job_id, terms.manifest.incarnation) for terms in self._epochs]
        self.copy_store.restored(kept, jobs)

    def on_running(self, message: Running) -> None:
        if message.jobs:
            self.questions.answered(message.stream)
        for announce in message.jobs:
            self.when_tried(announce.manifest, partial(self.on_announce, announce, founding=False))

    def when_tried(self, manifest: Manifest, then: Callable[[], object]) -> None:
        """Call `then` once the functions of a version were tried out here, if it would be evaluated here."""
        member = self.members.get(manifest.job_id)
        known = None if member is None else (member.manifest.incarnation, member.manifest.version)
        here = known == (manifest.incarnation, manifest.version)
        try:
            wanted = not here and self.admission.is_meant(manifest)
        except QueryError:
            wanted = False
        if wanted:
            self.admission.preflight.before(manifest, then)
        else:
            then()

    def on_announce(self, message: Announce, *, founding: bool = True) -> Verdict:
        """Take part in a job that is meant for this agent: a founder at once, others from an interval on."""
        manifest, me = message.manifest, self._context.participant
        job = manifest.job_id
        if self.admission.has_ended(job, manifest.incarnation) or self._leaving is not None:
            return Verdict(me, False)
        try:
            plan = read_plan(manifest.text)
        except QueryError as refused:
            return Verdict(me, False, str(refused))
        if plan.ordered:
            return Verdict(me, False, self._follow(message, plan))
        member = self.members.get(job)
        if member is not None:
            if member.manifest.incarnation == manifest.incarnation:
                if message.epoch >= member.epoch:
                    member.master = message.master
                return Verdict(me, self.admission.is_meant(manifest))
            if message.epoch < member.epoch:
                self._context.stats["control.fenced"] += 1
                return Verdict(me, False)
            self.stop(job, member.manifest.incarnation)
        if not self.admission.is_meant(manifest) or self._excluded(message):
            return Verdict(me, False)
        is_founder = founding and message.version == 0
        error = self.admission.error(manifest, plan, is_new=is_founder)
        others = [each.manifest for each in self.members.values()]
        if error := error or self.admission.no_room(manifest, others):
            return Verdict(me, False, error)
        ledger = self.ledgers.take(job, manifest.incarnation)
        member = Member(self._context, manifest, plan, message.master, message.epoch, self.copy_store, ledger)
        self.members[job] = member
        if is_founder:
            member.begin(message.start)
        elif self._was_leaving is None:  # it would get a second number, and its first one would stay missing
            member.requests.enroll()
        return Verdict(me, True)

    def _follow(self, message: Announce, plan: JobPlan) -> str:
        """Send the posts of the stream of an ordered topic; returns why this agent must not, or ""."""
        manifest = message.manifest
        if not self.admission.is_meant(manifest) or self._excluded(message):
            return ""
        if not (error := self.admission.error(manifest, plan)):
            self.post_senders.announced(manifest, plan.streams[0], message.master, message.epoch)
        return error

    def stop(self, job: bytes, incarnation: str) -> None:
        """End an incarnation for good. A member that leaves rests: its master may only have lost it."""
        member = self.members.get(job)
        if member is not None and member.manifest.incarnation == incarnation and member.requests.leaving:
            self._rest(member)
            return
        self.admission.stop(job, incarnation)
        self.post_senders.stop(job, incarnation)
        self._end(job, incarnation)

    def _end(self, job: bytes, incarnation: str) -> None:
        self.admission.end(job, incarnation)
        member = self.members.get(job)
        if member is not None and member.manifest.incarnation == incarnation:
            del self.members[job]
            member.stop()
            self.site_parts.stopped(job)
        else:
            self.ledgers.end(job, incarnation)

    def _rest(self, member: Member) -> None:
        """End a member that may return under another version or master; its ledger and its frames stay."""
        del self.members[member.job]
        member.stop(rests=True)
        self.ledgers.keep(member.job, member.ledger.stored())
        self.site_parts.stopped(member.job)
