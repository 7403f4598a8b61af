"""Replicas of a job's terms at the agents closest to its id and at its acceptors, one of which leads next.

Owns which agents receive the terms, and when. `job_replica.py` is the other side. The acceptors get the
records with the votes (`register/acceptor.py`), and fetch older ones that they lack.

Each change of the terms goes to the two agents closest to the job id besides the master, because one of them
is the next root of the job's tree, and to the acceptors, because an acceptor votes only for terms that it
holds. If an acceptor is not among the agents closest to the job, all of these get the terms, because a
founder asks them which agents vote.

Paper: ELF 3 (the overlay's neighbours keep the state of a failed agent).
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.master.ports import TermView
from elfmesh.control.protocol.events import LogRead
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_succession import Fetch, Page, Replica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.machine import Contact, Message
from elfmesh.overlay.events import LookupDone

REPLICAS = 2
LOOK_S = 30.0
"""How often the master looks up the closest agents while it knows of none that has come or gone. A look-up
costs some twenty requests, and an agent may lead hundreds of jobs. It takes what the agent has found out for
another job within `FOUND_S`, if that shows the closest agents."""
FOUND_S = 5.0

PAGE_RECORDS = 256
"""Records in one page of a log that another agent fetches."""


class ReplicatedTerm(TermView, Protocol):
    """What replication needs of the master's term."""

    @property
    def copy(self) -> LogCopy:
        """The master's own copy of the results log."""
        ...

    def nearest(self, contacts: tuple[Contact, ...]) -> None:
        """A look-up has found the agents closest to the job, this agent included."""
        ...


class Replicator:
    """Sends the terms of one job to the agents that may lead it next.

    Args:
        term: of the master; its terms name the acceptors.
    """

    def __init__(self, term: ReplicatedTerm) -> None:
        self._context, self._term = term.context, term
        self._near: tuple[Contact, ...] = ()
        self._looked = float("-inf")

    def upkeep(self, *, restless: bool) -> None:
        """Look up the closest agents if they may have changed; if `restless`, in any case."""
        context = self._context
        if restless or context.changed_at >= self._looked:
            self.refresh()
        elif context.now - self._looked >= LOOK_S:
            self.refresh(FOUND_S)

    def refresh(self, within_s: float = 0.0) -> None:
        self._looked = self._context.now
        self._context.lookup(self._term.terms.manifest.job_id, self._found, within_s=within_s)

    def _found(self, done: LookupDone | None) -> None:
        if done is None:
            return
        me = self._context.me.id
        before = {contact.id for contact in self._neighbours}
        self._near = tuple(contact for contact in done.contacts if contact.id != me)
        for contact in self._neighbours:
            if contact.id not in before:
                self._context.send(contact, Replica(self._term.terms, None))
        self._term.nearest(done.contacts)

    @property
    def _neighbours(self) -> tuple[Contact, ...]:
        near = {contact.id for contact in (self._context.me, *self._near)}
        far = any(contact.id not in near for contact in self._term.terms.acceptors)
        return self._near if far else self._near[:REPLICAS]

    def invite(self, contact: Contact) -> None:
        """Send an agent what an acceptor holds."""
        self._context.send(contact, Replica(self._term.terms, self._term.copy.latest))

    def share(self) -> None:
        terms = self._term.terms
        voting = {contact.id for contact in terms.acceptors}
        for contact in self._replica_hosts():
            self._context.send(
                contact, Replica(terms, self._term.copy.latest if contact.id in voting else None)
            )

    def tell(self, message: Message) -> None:
        for contact in self._replica_hosts():
            self._context.send(contact, message)

    def _replica_hosts(self) -> tuple[Contact, ...]:
        found = {contact.id: contact for contact in (*self._neighbours, *self._term.terms.acceptors)}
        found.pop(self._context.me.id, None)
        return tuple(found.values())


def on_fetch(context: Context, sender: Contact, fetch: Fetch) -> None:
    """Answer an agent that lacks records with the next page of this agent's log of the job."""
    if fetch.part:
        _serve_page(context, sender, fetch)
        return
    start = None if fetch.after is None else fetch.after + 1

    def answer(read: LogRead | None) -> None:
        if read is None or read.error:
            return
        complete = read.next is None or read.latest is None or read.next > read.latest
        done = read.hole is None and (read.ended if fetch.until is not None else complete)
        page = Page(fetch.job, fetch.incarnation, fetch.token, done, read.first, read.hole)
        context.send(sender, page, read.page, lane=BULK_LANE)

    context.read_log(fetch.job, fetch.incarnation, start, fetch.until, PAGE_RECORDS, answer)


def _serve_page(context: Context, sender: Contact, fetch: Fetch) -> None:
    def done(read: LogRead | None) -> None:
        if read is not None:
            page = Page(fetch.job, fetch.incarnation, fetch.token, done=True, part=fetch.part)
            context.send(sender, page, b"" if read.error else read.page, lane=BULK_LANE)

    context.read_log(fetch.job, fetch.incarnation, fetch.after, None, 0, done, digest=fetch.part)
