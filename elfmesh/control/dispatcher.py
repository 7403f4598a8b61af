"""Dispatcher of messages of other agents.

Owns the tables of handlers by message type. `protocol.fences` lists the epochs that messages must have before
they are handled (D-5). Messages that a fence refuses are counted.

Invariants: the answer to a multicast is made in the step that delivers it. A message without a handler is
counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.election.drain import Drain
from elfmesh.control.election.fencing import Fencing
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.election.permission import Leading
from elfmesh.control.master.master_term import MasterTerm
from elfmesh.control.master.rendezvous import Rendezvous
from elfmesh.control.master.successors import on_fetch
from elfmesh.control.member.member import Member
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.member.part_handler import PartHandler
from elfmesh.control.member.roots import Roots
from elfmesh.control.paths.sites import Sites
from elfmesh.control.programs.beside import Programs
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_parts as parts
from elfmesh.control.protocol import messages_safety as safety
from elfmesh.control.protocol import messages_standby as standby
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.fences import Handlers
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_early import Early
from elfmesh.control.protocol.messages_order import Ordered, OrderPosts
from elfmesh.control.protocol.messages_register import Departed, Resign, Resigned
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.requests.handler import RequestHandler
from elfmesh.control.requests.requests import WAITS, Requests
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message


class Dispatcher:
    """Calls the handlers of messages in one agent's control machine."""

    def __init__(
        self,
        context: Context,
        member_host: MemberHost,
        roots: Roots,
        rendezvous: Rendezvous,
        requests: Requests,
        leadership: Leadership,
        request_handler: RequestHandler,
        drain: Drain,
        programs: Programs,
        voting: Sites,
    ) -> None:
        self._context, self._member_host, self._roots = context, member_host, roots
        self._rendezvous, self._requests, self._leadership = rendezvous, requests, leadership
        self._request_handler, self._drain, self._masters = request_handler, drain, leadership.masters
        self._leading = Leading(context, member_host.admission.preflight)
        self._parts = PartHandler(context, self._masters, member_host.site_parts, voting)
        self._fencing = Fencing(context, leadership)
        self._handlers: Handlers = {
            **programs.handlers(),
            **leadership.registers.handlers(),
            **self._from_masters(),
            **self._to_masters(),
            **self._between_agents(),
        }
        self._routed = programs.routed_handlers()
        self._multicasts = self._on_multicast()
        self._first = self._first_looks()

    # -- dispatching -----------------------------------------------------------------------------------

    def received(self, sender: Contact, message: Message, payload: bytes, *, routed: bool = False) -> None:
        handle = self._routed.get(type(message)) if routed else None
        handle = handle or self._handlers.get(type(message))
        if handle is None:
            self._context.stats["control.misplaced"] += 1
            return
        first = self._first.get(type(message))
        if first is None or first(sender, message, payload):
            passed = self._fencing.passed(sender, message)
            if passed is not None:
                handle(sender, passed, payload)

    def delivered(self, message: Message) -> bytes:
        """Handle a multicast; returns this agent's answer."""
        handle = self._multicasts.get(type(message))
        if handle is None:
            self._context.stats["control.misplaced"] += 1
            return b""
        first = self._first.get(type(message))
        if first is not None and not first(None, message, b""):
            return b""
        passed = self._fencing.passed(None, message)
        if passed is None:
            return self._refusal() if isinstance(message, ctl.Announce) else b""
        return handle(passed) or b""

    def _refusal(self) -> bytes:
        return pack(ctl.Verdict(self._context.participant, False))

    # -- the tables ------------------------------------------------------------------------------------

    def _first_looks(self) -> dict[type[Message], Callable[[Any, Any, bytes], bool]]:
        return {
            ctl.Mark: lambda sender, message, payload: self._marked(message) is not None,
            parts.Part: self._parts.on_part,
            succession.Handover: lambda sender, message, payload: (
                message.terms.manifest.job_id not in self._masters
            ),
        }

    def _on_multicast(self) -> dict[type[Message], Callable[[Any], bytes | None]]:
        member_host = self._member_host
        return {
            ctl.Announce: lambda message: pack(member_host.on_announce(message)),
            ctl.Question: self._request_handler.on_question,
            versions.Rehearse: lambda message: pack(member_host.on_rehearse(message)),
            ctl.Roster: lambda message: _packed(member_host.on_roster(message.terms)),
            ctl.Mark: self._on_watermark,
            safety.Surrender: member_host.on_surrender,
            ctl.Stop: self._on_stop,
        }

    def _from_masters(self) -> Handlers:
        member_host, leadership, rendezvous = self._member_host, self._leadership, self._rendezvous
        return {
            ctl.Roster: self._on_roster,
            ctl.Mark: lambda sender, message, payload: self._on_watermark(message, is_multicast=False),
            ctl.Stop: lambda sender, message, payload: self._on_stop(message),
            ctl.Fenced: lambda sender, message, payload: None,  # its fence has stored the epoch
            ctl.Announce: lambda sender, message, payload: rendezvous.on_announce(message),
            ctl.Withdraw: self._on_withdraw,
            parts.PartRoot: lambda sender, message, payload: self._roots.on_part_root(message),
            parts.TreeOrder: lambda sender, message, payload: self._roots.on_tree_order(message),
            parts.PartAck: lambda sender, message, payload: self._roots.on_part_ack(sender, message),
            safety.Verify: self._on_verify,
            standby.ContributionRequest: self._on_contribution_request,
            ctl.Running: lambda sender, message, payload: member_host.on_running(message),
            succession.Replica: lambda sender, message, payload: leadership.on_replica(sender, message),
            succession.Handover: lambda sender, message, payload: leadership.takeovers.on_handover(message),
        }

    def _to_masters(self) -> Handlers:
        term = self._term
        return {
            ctl.Announced: lambda sender, message, payload: term(message).founding.on_announced(message),
            ctl.RosterAck: lambda sender, message, payload: term(message).activation.on_roster_ack(message),
            ctl.Waiting: lambda sender, message, payload: term(message).members.on_waiting(message),
            ctl.Rate: self._on_rate,
            Early: lambda sender, message, payload: term(message).early.on_early(sender, message, payload),
            OrderPosts: self._on_order_posts,
            **self._parts.handlers(),
            ctl.Report: self._on_report,
            Excluded: self._on_excluded,
            ctl.Enroll: self._on_enroll,
            ctl.Leaving: self._on_leaving,
            Resign: self._on_resign,
            Resigned: lambda sender, message, payload: self._drain.on_resigned(message),
            ctl.WhatRuns: lambda sender, message, payload: self._rendezvous.on_what_runs(message),
            safety.KeptCopy: self._on_kept_copy,
            standby.Prefix: lambda sender, message, payload: term(message).collection.on_prefix(
                message, payload
            ),
            standby.Shipping: lambda sender, message, payload: term(message).members.on_shipping(
                sender, message
            ),
            safety.AskFates: self._on_ask_outcomes,
            safety.Verified: self._on_verified,
        }

    def _between_agents(self) -> Handlers:
        return {
            succession.Inquire: self._on_inquire,
            succession.Known: lambda sender, message, payload: self._leadership.terms_query.on_known(
                sender, message
            ),
            succession.Fetch: lambda sender, message, payload: on_fetch(self._context, sender, message),
            succession.Page: self._on_page,
            Departed: self._on_departed,
            Ordered: self._member_host.post_senders.on_ordered,
            safety.Keep: self._on_keep,
            safety.Kept: self._on_kept,
            standby.Delta: self._on_delta,
            standby.Chained: self._on_chained,
            safety.Fates: self._on_outcomes,
            ctl.Submit: self._on_submit,
            ctl.Ask: self._on_ask,
            ctl.AskAll: lambda sender, message, payload: self._request_handler.on_ask_all(message),
            ctl.Answered: self._on_answered,
        }

    # -- for members -----------------------------------------------------------------------------------

    def _on_roster(self, sender: Contact, message: ctl.Roster, payload: bytes) -> None:
        ack = self._member_host.on_roster(message.terms)
        if ack is not None:
            self._context.send(message.terms.master, ack)

    def _marked(self, message: ctl.Mark) -> Member | None:
        member = self._member_host.members.get(message.job)
        return member if member is not None and member.manifest.incarnation == message.incarnation else None

    def _on_watermark(self, message: ctl.Mark, *, is_multicast: bool = True) -> None:
        if member := self._marked(message):
            member.on_watermark(message)
            self._member_host.site_parts.released(message.job, message.closed)
            if not is_multicast:
                member.trees.on_watermark(message)

    def _on_stop(self, message: ctl.Stop) -> None:
        self._member_host.stop(message.job, message.incarnation)

    def _on_withdraw(self, sender: Contact, message: ctl.Withdraw, payload: bytes) -> None:
        self._rendezvous.on_withdraw(message)
        self._leadership.forget(message.job, message.incarnation)

    def _on_verify(self, sender: Contact, message: safety.Verify, payload: bytes) -> None:
        member, manifest = self._member_host.members.get(message.manifest.job_id), message.manifest
        if member and member.entry and manifest.incarnation == member.manifest.incarnation:
            member.rechecks.on_verify(sender, message, member.entry.number)

    def _copy_store(
        self, message: safety.Keep | safety.Kept | safety.Fates | standby.Delta | standby.Chained
    ) -> Member | None:
        member = self._member_host.members.get(message.job)
        if member is None or member.manifest.incarnation != message.incarnation or member.entry is None:
            self._context.stats["control.misplaced"] += 1
            return None
        return member

    def _on_keep(self, sender: Contact, message: safety.Keep, payload: bytes) -> None:
        if member := self._copy_store(message):
            self._member_host.copy_store.on_keep(sender, message, payload, member.closed)

    def _on_kept(self, sender: Contact, message: safety.Kept, payload: bytes) -> None:
        if member := self._copy_store(message):
            member.copy_sender.on_kept(sender, message)

    def _on_delta(self, sender: Contact, message: standby.Delta, payload: bytes) -> None:
        if self._copy_store(message):
            self._member_host.copy_store.panes.on_delta(sender, message, payload)

    def _on_chained(self, sender: Contact, message: standby.Chained, payload: bytes) -> None:
        if member := self._copy_store(message):
            member.panes.on_chained(sender, message)

    def _on_contribution_request(
        self, sender: Contact, message: standby.ContributionRequest, payload: bytes
    ) -> None:
        if member := self._member_host.members.get(message.job):
            member.copy_sender.answer(sender, message, member.contributions.open())

    def _on_outcomes(self, sender: Contact, message: safety.Fates, payload: bytes) -> None:
        if member := self._copy_store(message):
            member.accounting.on_outcomes(message)

    # -- for masters -----------------------------------------------------------------------------------

    def _term(self, message: Any) -> MasterTerm:
        return self._masters[message.job].term  # the fence has checked that this agent leads the job

    def _on_rate(self, sender: Contact, message: ctl.Rate, payload: bytes) -> None:
        master = self._masters[message.job]
        if master.term.book.entry(message.number) is not None:
            master.rates.reported(message.number, message.inputs or (message.records,))
            master.costs.sealed(message.number, message.nbytes)

    def _on_report(self, sender: Contact, message: ctl.Report, payload: bytes) -> None:
        if master := self._masters.get(message.job):
            master.term.members.on_report(message)

    def _on_excluded(self, sender: Contact, message: Excluded, payload: bytes) -> None:
        if master := self._masters.get(message.job):
            master.term.members.on_excluded(sender, message)

    def _on_leaving(self, sender: Contact, message: ctl.Leaving, payload: bytes) -> None:
        master = self._masters.get(message.job)
        if master is None or message.incarnation != master.term.manifest.incarnation:
            self._unled(message, message.member, sender)
        else:
            master.term.members.on_leaving(message)

    def _on_kept_copy(self, sender: Contact, message: safety.KeptCopy, payload: bytes) -> None:
        master = self._masters[message.copy.job]
        if message.copy.incarnation == master.term.manifest.incarnation:
            about = (message.copy.job, message.copy.start, message.copy.stop)
            self._context.note("received copies", *about, peer=sender.id)
            master.term.collection.recovered(message.copy, payload)

    def _on_ask_outcomes(self, sender: Contact, message: safety.AskFates, payload: bytes) -> None:
        master = self._masters.get(message.job)
        if master is not None and message.incarnation == master.term.manifest.incarnation:
            master.term.members.on_ask_outcomes(sender, message)

    def _on_verified(self, sender: Contact, message: safety.Verified, payload: bytes) -> None:
        if master := self._masters.get(message.job):
            master.term.verifier.on_verified(message, payload)

    def _on_resign(self, sender: Contact, message: Resign, payload: bytes) -> None:
        job, incarnation = message.job, message.incarnation
        master = self._leadership.masters.get(job)
        if master is not None and master.term.manifest.incarnation == incarnation:
            done = master.term.electorate.resign(message.voter.id, last=message.last)
        else:
            done = self._leadership.is_over(job, incarnation)
        if done:
            self._context.send(message.voter, Resigned(job, incarnation))

    def _on_order_posts(self, sender: Contact, message: OrderPosts, payload: bytes) -> None:
        master, job = self._masters.get(message.job), message.job
        if master is not None and master.term.manifest.incarnation == message.incarnation:
            if master.term.ordering is not None:
                master.term.ordering.on_order_posts(sender, message, payload)
        elif master is not None or self._leadership.is_over(job, message.incarnation):
            self._context.send(sender, ctl.Stop(job, message.incarnation, self._leadership.epoch(job)))

    def _on_enroll(self, sender: Contact, message: ctl.Enroll, payload: bytes) -> None:
        master = self._leadership.masters.get(message.job)
        if master is not None:
            master.term.members.on_enroll(message)
        else:
            self._unled(message, message.participant.contact, sender)

    def _unled(self, message: ctl.Enroll | ctl.Leaving, contact: Contact, sender: Contact) -> None:
        """Handle a member's message about a job, or an incarnation, that this agent does not lead.

        Only the master answers the member, because the terms at this agent may belong to a change that was
        not chosen.
        """
        stop = ctl.Stop(message.job, message.incarnation, self._leadership.epoch(message.job))
        if message.job in self._leadership.masters:
            self._context.send(contact, stop)
            return
        leader = self._leadership.leader(message.job)
        if leader is not None and leader.id not in (self._context.me.id, contact.id):
            if sender.id == contact.id:  # forwarded once, because the next agent may not lead, either
                self._context.send(leader, message)
        elif self._leadership.was_deleted(message.job):
            self._context.send(contact, stop)

    # -- between agents --------------------------------------------------------------------------------

    def _on_inquire(self, sender: Contact, message: succession.Inquire, payload: bytes) -> None:
        leadership, job = self._leadership, message.job
        terms, latest = leadership.known(job)
        votes = leadership.registers.acceptors
        about = (leadership.leads(job), leadership.epoch(job), votes.lost.loss is not None, votes.over(job))
        self._context.send(sender, succession.Known(job, message.token, terms, latest, *about))

    def _on_departed(self, sender: Contact, message: Departed, payload: bytes) -> None:
        self._leadership.first.known_peers.on_departed(sender)
        self._request_handler.parts.dead.gone(sender.id)

    def _on_page(self, sender: Contact, message: succession.Page, payload: bytes) -> None:
        _, copy = self._leadership.held(message.job)
        if copy is None:
            return
        try:
            copy.on_page(sender, message, payload)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1

    def _on_submit(self, sender: Contact, message: ctl.Submit, payload: bytes) -> None:
        if not self._request_handler.parts.no_majority.answered(message):
            self._leading.on_submit(message, self._request_handler.on_submit)

    def _on_ask(self, sender: Contact, message: ctl.Ask, payload: bytes) -> None:
        if message.verb == WAITS:
            self._requests.on_waits(message)
        elif not self._request_handler.parts.no_majority.answered(message):
            master = self._leadership.masters.get(message.job)
            self._leading.on_ask(message, master, self._request_handler.on_ask)

    def _on_answered(self, sender: Contact, message: ctl.Answered, payload: bytes) -> None:
        self._requests.on_answered(message, payload)
        self._context.on_answered(message, payload)


def _packed(ack: ctl.RosterAck | None) -> bytes:
    return pack(ack) if ack is not None else b""
