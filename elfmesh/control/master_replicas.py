"""Keeping a successor ready: the terms and records of a job at the agents closest to its id.

Owns whom they are given to and when. The other side is `holder.py`.

Every change of the terms goes to the two agents closest to the job id besides the master: one of them is the
next root of the job's tree. Records go one by one; who lacks older ones fetches them.

Paper: ELF 3 (the overlay's neighbours keep what a failed agent had). Deviation: no register decides yet who
is master, so after a partition two terms may have closed the same interval; the higher epoch wins.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.events import LogRead
from elfmesh.control.messages import Fetch, Page, Replica, ReplicaRecord
from elfmesh.control.office import Office
from elfmesh.control.pages import encode_page
from elfmesh.control.records import ResultRecord
from elfmesh.control.terms import Terms
from elfmesh.machine import Contact, Message
from elfmesh.overlay.events import LookupDone

HOLDERS = 2
PAGE_RECORDS = 256
BULK_LANE = 2


class Replicator:
    """Gives one job's state to its holders.

    Args:
        office: look-ups and the way out.
        terms: the state as it is now.
    """

    def __init__(self, office: Office, terms: Callable[[], Terms]) -> None:
        self._office, self._terms = office, terms
        self._holders: tuple[Contact, ...] = ()
        self.latest: int | None = None

    def refresh(self) -> None:
        """Look up who is closest now."""
        self._office.lookup(self._terms().manifest.job_id, self._found)

    def _found(self, done: LookupDone | None) -> None:
        if done is None:
            return
        me = self._office.me.id
        holders = tuple(contact for contact in done.contacts if contact.id != me)[:HOLDERS]
        before = {contact.id for contact in self._holders}
        self._holders = holders
        for contact in holders:
            if contact.id not in before:
                self._office.send(contact, Replica(self._terms(), self.latest))

    def share(self) -> None:
        """The terms have changed."""
        self.tell(Replica(self._terms(), self.latest))

    def tell(self, message: Message, payload: bytes = b"") -> None:
        """Send to every holder."""
        for contact in self._holders:
            self._office.send(contact, message, payload, lane=BULK_LANE if payload else 0)

    def record(self, record: ResultRecord, rows: bytes, closed: int) -> None:
        """A record was published."""
        previous, self.latest = self.latest, record.index
        if self._holders:
            manifest = self._terms().manifest
            message = ReplicaRecord(
                manifest.job_id, manifest.incarnation, record.epoch, record.index, previous, closed
            )
            self.tell(message, encode_page([(record, rows)]))


def serve_fetch(office: Office, sender: Contact, fetch: Fetch) -> None:
    """Answer a holder that lacks records with the next page of our log."""
    start = None if fetch.after is None else fetch.after + 1

    def done(read: LogRead | None) -> None:
        if read is None or read.error:
            return
        complete = read.next is None or read.latest is None or read.next > read.latest
        page = Page(fetch.job, fetch.incarnation, fetch.token, complete)
        office.send(sender, page, read.page, lane=BULK_LANE)

    office.read_log(fetch.job, start, None, PAGE_RECORDS, done)
