"""Messages of other agents: who of us takes them, and whether they may be acted upon.

Owns the fence (D-5): what a master says passes only with an epoch that is not below the highest seen.

Invariants: the answer to a multicast is made in the step that delivers it; a message nobody here waits for is
counted.
"""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.answers import ask_anew
from elfmesh.control.context import Context
from elfmesh.control.election.drain import Drain
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.election.permission import Leading
from elfmesh.control.jobs.terms import Participant
from elfmesh.control.master.rendezvous import Rendezvous
from elfmesh.control.master.successors import serve_fetch
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.member.roots import Roots, split_payload
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_parts as parts
from elfmesh.control.protocol import messages_safety as safety
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_register import Departed, Resign, Resigned
from elfmesh.control.requests import confirming
from elfmesh.control.requests.handler import RequestHandler
from elfmesh.control.requests.requests import Requests
from elfmesh.control.requests.version_handler import changes
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message


class Dispatcher:
    """Hands messages to the parts of one agent's control machine."""

    def __init__(
        self,
        context: Context,
        carrier: MemberHost,
        roots: Roots,
        rendezvous: Rendezvous,
        requests: Requests,
        leadership: Leadership,
        asks: RequestHandler,
        departure: Drain,
    ) -> None:
        self._context, self._carrier, self._roots, self._rendezvous = context, carrier, roots, rendezvous
        self._requests, self._leadership, self._asks = requests, leadership, asks
        self._departure = departure
        self._leading = Leading(context, carrier.trials)
        self._confirming = confirming.Confirming(context, requests.waits)

    # -- multicasts ------------------------------------------------------------------------------------

    def delivered(self, message: Message) -> bytes:
        """A multicast reached us; our answer."""
        match message:
            case ctl.Announce():
                return pack(self._announced(message))
            case ctl.Question():
                return self._asks.question(message)
            case versions.Rehearse():
                return self._rehearse(message)
            case ctl.Roster():
                ack = self._roster(message, None)
                return pack(ack) if ack is not None else b""
            case ctl.Mark():
                self._mark(message)
            case safety.Surrender():
                if self._leadership.admits(message.job, message.epoch, message.master):
                    self._carrier.keeper.surrender(message.master, message)
            case ctl.Stop():
                self._stop(message, None)
            case versions.Coming():
                pass  # what it is for is done: see `holding`
            case _:
                self._context.stats["control.misplaced"] += 1
        return b""

    def _announced(self, message: ctl.Announce) -> ctl.Verdict:
        if not self._leadership.admits(message.manifest.job_id, message.epoch, message.master):
            return ctl.Verdict(Participant(self._context.me, self._context.name), False)
        return self._carrier.announced(message)

    def _runs(self, message: ctl.Running) -> None:
        """What runs, says a rendezvous that may not have heard of a job's end."""
        admits = self._leadership.admits
        jobs = tuple(each for each in message.jobs if admits(each.manifest.job_id, each.epoch, None))
        self._carrier.running(replace(message, jobs=jobs))

    def _roster(self, message: ctl.Roster, sender: Contact | None) -> ctl.RosterAck | None:
        terms = message.terms
        job = terms.manifest.job_id
        if not self._leadership.admits(job, terms.epoch, sender):
            return None
        return self._carrier.roster(terms)

    def _rehearse(self, message: versions.Rehearse) -> bytes:
        if not self._leadership.admits(message.manifest.job_id, message.epoch, None):
            return b""
        return pack(self._carrier.rehearse(message))

    def _verify(self, message: safety.Verify, sender: Contact) -> None:
        job = message.manifest.job_id
        member = self._carrier.members.get(job)
        if self._leadership.admits(job, message.epoch, sender) and member is not None:
            member.verify(sender, message)

    def _mark(self, message: ctl.Mark) -> None:
        member = self._carrier.members.get(message.job)
        if (
            member is not None
            and member.manifest.incarnation == message.incarnation
            and self._leadership.admits(message.job, message.epoch, None)
        ):
            member.mark(message)

    def _stop(self, message: ctl.Stop, sender: Contact | None) -> None:
        if self._leadership.admits(message.job, message.epoch, sender):
            self._carrier.stop(message.job, message.incarnation)

    # -- letters ---------------------------------------------------------------------------------------

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        """A message from an agent (or ourselves), sent or routed."""
        if not (
            self._leadership.registers.received(sender, message, payload)
            or self._from_masters(sender, message)
            or self._to_masters(sender, message)
            or self._about_jobs(sender, message, payload)
        ):
            self._questions(message, payload)

    def _from_masters(self, sender: Contact, message: Message) -> bool:
        match message:
            case ctl.Roster():
                ack = self._roster(message, sender)
                if ack is not None:
                    self._context.send(message.terms.master, ack)
            case ctl.Mark():
                self._mark(message)
            case ctl.Stop():
                self._stop(message, sender)
            case ctl.Fenced():
                self._leadership.admits(message.job, message.epoch, None)
            case ctl.Announce():
                if self._leadership.admits(message.manifest.job_id, message.epoch, message.master):
                    self._rendezvous.announced(message)
            case versions.Coming():
                self._rendezvous.coming(message)
            case ctl.Withdraw():
                self._rendezvous.withdraw(message)
                self._leadership.forget(message.job, message.incarnation)
            case parts.PartRoot():
                if self._leadership.admits(message.job, message.epoch, message.master):
                    self._roots.master_is(message)
            case parts.TreeOrder():
                if self._leadership.admits(message.job, message.epoch, sender):
                    self._roots.ordered(message)
            case safety.Verify():
                self._verify(message, sender)
            case ctl.Running():
                self._runs(message)
            case parts.PartAck():
                self._roots.acknowledged(message)
            case _:
                return False
        return True

    def _to_masters(self, sender: Contact, message: Message) -> bool:
        masters = self._leadership.masters
        match message:
            case ctl.Announced() | ctl.RosterAck() | ctl.Waiting() | ctl.Rate():
                master = masters.get(message.job)
                if master is None or master.epoch != message.epoch:
                    self._context.stats["control.fenced"] += 1
                elif isinstance(message, ctl.Announced):
                    master.founding.announced(message)
                elif isinstance(message, ctl.RosterAck):
                    master.activation.acknowledged(message)
                elif isinstance(message, ctl.Waiting):
                    master.waiting(message)
                elif master.book.entry(message.number) is not None:
                    master.closer.rates.said(message.number, message.records)
            case parts.PartFault():
                master = masters.get(message.job)
                if master is None or master.epoch != message.epoch:
                    self._context.stats["control.fenced"] += 1
                elif 0 <= message.partition < len(master.closer.trees):
                    master.closer.dropped(message.partition, message)
            case ctl.Report():
                if message.job in masters:
                    masters[message.job].report(message)
            case ctl.Enroll():
                self._enroll(message, sender)
            case ctl.Leaving():
                master = masters.get(message.job)
                if master is None or message.incarnation != master.manifest.incarnation:
                    self._unled(message, message.member, sender)
                else:
                    master.members.leaving(message)
            case Resign():
                self._resign(message)
            case Resigned():
                self._departure.resigned(message)
            case ctl.WhatRuns():
                self._rendezvous.what_runs(message)
            case _:
                return False
        return True

    def _resign(self, message: Resign) -> None:
        job, incarnation = message.job, message.incarnation
        master = self._leadership.masters.get(job)
        if master is not None and master.manifest.incarnation == incarnation:
            done = master.electorate.resign(message.voter.id, last=message.last)
        else:
            done = self._leadership.is_over(job, incarnation)
        if done:
            self._context.send(message.voter, Resigned(job, incarnation))

    def _enroll(self, message: ctl.Enroll, sender: Contact) -> None:
        master = self._leadership.masters.get(message.job)
        if master is not None:
            master.members.enroll(message)
        else:
            self._unled(message, message.participant.contact, sender)

    def _unled(self, message: ctl.Enroll | ctl.Leaving, contact: Contact, sender: Contact) -> None:
        """A member asks for the master of a job, or of an incarnation of it, that is not led here.

        Who leads answers it, and nobody else: the terms that are held here may be of a change that was voted
        on and never chosen.
        """
        if message.job in self._leadership.masters:
            epoch = self._leadership.epoch(message.job)
            self._context.send(contact, ctl.Stop(message.job, message.incarnation, epoch))
            return
        leader = self._leadership.leader(message.job)
        if leader is not None and leader.id not in (self._context.me.id, contact.id):
            if sender.id == contact.id:  # once: who was passed on to may not lead any more, either
                self._context.send(leader, message)
        elif self._leadership.was_deleted(message.job):
            stop = ctl.Stop(message.job, message.incarnation, self._leadership.epoch(message.job))
            self._context.send(contact, stop)

    def _about_jobs(self, sender: Contact, message: Message, payload: bytes) -> bool:
        leadership = self._leadership
        match message:
            case parts.Part():
                self._part(sender, message, payload)
            case succession.Replica():
                if leadership.admits(message.terms.manifest.job_id, message.terms.epoch, sender):
                    leadership.replica(sender, message)
            case succession.Handover():
                leadership.handover(sender, message)
            case succession.Inquire():
                terms, latest = leadership.known(message.job)
                leads = leadership.leads(message.job)
                acceptors = leadership.registers.acceptors
                known = succession.Known(
                    message.job,
                    message.token,
                    terms,
                    latest,
                    leads,
                    leadership.epoch(message.job),
                    acceptors.lost.loss is not None,
                    acceptors.over(message.job),
                )
                self._context.send(sender, known)
            case succession.Known():
                leadership.answered(sender, message)
            case Departed():
                leadership.first.acquaintances.departed(sender)
                self._asks.dead.gone(sender.id)
            case succession.Fetch():
                serve_fetch(self._context, sender, message)
            case succession.Page():
                self._page(sender, message, payload)
            case safety.Keep() | safety.Kept() | safety.Fates():
                self._keeping(sender, message, payload)
            case safety.KeptCopy():
                master = leadership.masters.get(message.copy.job)
                if master is None or master.epoch != message.epoch:
                    self._context.stats["control.fenced"] += 1
                elif message.copy.incarnation == master.manifest.incarnation:
                    master.closer.recovered(message.copy, payload)
            case safety.AskFates():
                master = leadership.masters.get(message.job)
                if master is not None and message.incarnation == master.manifest.incarnation:
                    master.asked_fates(sender, message)
            case safety.Verified():
                master = leadership.masters.get(message.job)
                if master is not None:
                    master.verifier.verified(message, payload)
            case _:
                return False
        return True

    def _keeping(
        self, sender: Contact, message: safety.Keep | safety.Kept | safety.Fates, payload: bytes
    ) -> None:
        member = self._carrier.members.get(message.job)
        if member is None or member.manifest.incarnation != message.incarnation or member.entry is None:
            self._context.stats["control.misplaced"] += 1
        elif isinstance(message, safety.Kept):
            member.safekeeping.kept(sender, message)
        elif isinstance(message, safety.Fates):
            member.settlement.answered(message)
        else:
            self._carrier.keeper.keep(sender, message, payload, member.closed)

    def _part(self, sender: Contact, message: parts.Part, payload: bytes) -> None:
        master = self._leadership.masters.get(message.job)
        payloads = split_payload(message.segment, payload)
        if master is None or payloads is None or not 0 <= message.partition < len(master.closer.trees):
            self._context.stats["control.misplaced"] += 1
            return
        self._context.send(sender, parts.PartAck(message.job, message.partition, message.seq))
        if message.segment.epoch != master.epoch:
            self._context.stats["control.fenced"] += 1
            return
        if message.partition:
            master.trees.root_is(message.partition, sender)
        master.closer.collected(message.partition, message.segment, payloads)

    def _page(self, sender: Contact, message: succession.Page, payload: bytes) -> None:
        _, copy = self._leadership.held(message.job)
        if copy is None:
            return
        try:
            if message.part:
                copy.pages.came(sender, message, payload)
            else:
                copy.page(sender, message, payload)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1

    def _is_late(self, message: ctl.Submit | ctl.Ask) -> bool:
        """Whether a change must not be made any more: it was refused, or nobody waits for it."""
        return changes(message) and self._context.once.came(message.origin, message.token, self._context.now)

    def _questions(self, message: Message, payload: bytes) -> None:
        match message:
            case ctl.Ask(verb=confirming.VERB):
                self._confirming.asked(message)
            case ctl.Submit() | ctl.Ask() if self._confirming.needed(message):
                self._confirming.ask(message, lambda: self._confirmed(message))
            case ctl.Submit() | ctl.Ask():
                self._confirmed(message)
            case ctl.AskAll():
                self._asks.ask_all(message)
            case ctl.Answered():
                self._requests.answered(message, payload)
                self._context.job_answered(message, payload)
            case _:
                self._context.stats["control.misplaced"] += 1

    def _confirmed(self, message: ctl.Submit | ctl.Ask) -> None:
        if self._is_late(message):
            ask_anew(self._context, message.origin, message.token)
        elif self._asks.no_majority.answered(message):
            pass
        elif isinstance(message, ctl.Submit):
            self._leading.submitted(message, self._asks.submit)
        else:
            self._leading.asked(message, self._leadership.masters.get(message.job), self._asks.ask)
