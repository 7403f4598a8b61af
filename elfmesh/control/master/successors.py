"""Keeping a successor ready: the terms of a job at the agents closest to its id and at those that vote on it.

Owns whom they are given to and when. The other side is `job_replica.py`; the records come with the votes
(`register_acceptor.py`), and who lacks older ones fetches them.

Every change of the terms goes to the two agents closest to the job id besides the master, because one of them
is the next root of the job's tree, and to the acceptors, because they vote only for what they could hand on.

Paper: ELF 3 (the overlay's neighbours keep what a failed agent had).
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import LogRead
from elfmesh.control.protocol.messages_succession import Fetch, Page, Replica
from elfmesh.control.register.acceptor import BULK_LANE
from elfmesh.machine import Contact, Message
from elfmesh.overlay.events import LookupDone

REPLICAS = 2
LOOK_S = 30.0
"""How often it is looked up who is closest while no agent is known to have come or gone: a look-up costs some
twenty requests, and there may be hundreds of jobs."""

PAGE_RECORDS = 256


class Replicator:
    """Gives one job's state to its holders.

    Args:
        context: look-ups and the way out.
        terms: the state as it is now; it names the acceptors.
        latest: last record of the master's own log.
        nearest: told who is closest to the job now, this agent too.
    """

    def __init__(
        self,
        context: Context,
        terms: Callable[[], Terms],
        latest: Callable[[], int | None],
        nearest: Callable[[tuple[Contact, ...]], None],
    ) -> None:
        self._context, self._terms, self._latest, self._nearest = context, terms, latest, nearest
        self._neighbours: tuple[Contact, ...] = ()
        self._looked = float("-inf")

    def upkeep(self, *, restless: bool) -> None:
        """Look up who is closest now if it may have changed, `restless`: in any case."""
        context = self._context
        if restless or context.changed_at >= self._looked or context.now - self._looked >= LOOK_S:
            self.refresh()

    def refresh(self) -> None:
        self._looked = self._context.now
        self._context.lookup(self._terms().manifest.job_id, self._found)

    def _found(self, done: LookupDone | None) -> None:
        if done is None:
            return
        me = self._context.me.id
        neighbours = tuple(contact for contact in done.contacts if contact.id != me)[:REPLICAS]
        before = {contact.id for contact in self._neighbours}
        self._neighbours = neighbours
        for contact in neighbours:
            if contact.id not in before:
                self._context.send(contact, Replica(self._terms(), None))
        self._nearest(done.contacts)

    def invite(self, contact: Contact) -> None:
        """An agent shall hold what an acceptor holds."""
        self._context.send(contact, Replica(self._terms(), self._latest()))

    def share(self) -> None:
        terms = self._terms()
        voting = {contact.id for contact in terms.acceptors}
        for contact in self._replica_hosts():
            self._context.send(contact, Replica(terms, self._latest() if contact.id in voting else None))

    def tell(self, message: Message) -> None:
        for contact in self._replica_hosts():
            self._context.send(contact, message)

    def _replica_hosts(self) -> tuple[Contact, ...]:
        found = {contact.id: contact for contact in (*self._neighbours, *self._terms().acceptors)}
        found.pop(self._context.me.id, None)
        return tuple(found.values())


def serve_fetch(context: Context, sender: Contact, fetch: Fetch) -> None:
    """Answer a holder that lacks records with the next page of our log, if it is of this job."""
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
