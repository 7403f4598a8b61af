"""A job as its possible successors hold it: the terms, and a copy of the results log.

Owns what this agent knows of jobs it does not lead, and how a copy of a log is completed. Decides nothing
about who leads.

Invariant: the copy has no hole: a record is appended only behind the one that was published before it; else
the missing ones are fetched first.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from elfmesh.control.events import Append, Persist
from elfmesh.control.messages import Fetch, Page, Replica, ReplicaRecord, pack
from elfmesh.control.office import Office, Timer
from elfmesh.control.pages import decode_page
from elfmesh.control.terms import Terms
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

FETCH_S = 5.0
"""When a page that did not come is asked for again, or the copy given up."""

FETCH_TRIES = 3


class LogCopy:
    """Completes this agent's copy of a job's results log from another agent's.

    Args:
        office: the way out.
        job: whose log.
        incarnation: of the log.
        latest: last index held here.
    """

    def __init__(self, office: Office, job: bytes, incarnation: str, latest: int | None) -> None:
        self._office, self.job, self.incarnation = office, job, incarnation
        self.latest = latest
        self._token: int | None = None
        self._timer: Timer | None = None
        self._tries = 0
        self._done: Callable[[], None] | None = None

    @property
    def fetching(self) -> bool:
        """A page is on its way."""
        return self._token is not None

    def complete(self, source: Contact, done: Callable[[], None] | None = None) -> None:
        """Fetch everything behind `latest`; `done` is called when there is no more, or no answer."""
        self._done = done or self._done
        if not self.fetching:
            self._tries = 0
            self._ask(source)

    def _ask(self, source: Contact) -> None:
        self._token = self._office.token()
        self._tries += 1
        self._office.send(source, Fetch(self.job, self.incarnation, self.latest, self._token))
        self._timer = self._office.after(FETCH_S, lambda: self._late(source))

    def _late(self, source: Contact) -> None:
        if self._tries < FETCH_TRIES:
            self._ask(source)
        else:
            self._finish()

    def page(self, sender: Contact, page: Page, payload: bytes) -> None:
        """A page came; raises ProtocolError if it is damaged."""
        if page.token != self._token or page.incarnation != self.incarnation:
            return
        before = self.latest
        self.append(payload)
        if self._timer is not None:
            self._timer.cancel()
        if page.done or self.latest == before:
            self._finish()
        else:
            self._tries = 0
            self._ask(sender)

    def _finish(self) -> None:
        self._token = None
        done, self._done = self._done, None
        if done is not None:
            done()

    def append(self, page: bytes) -> None:
        """Append the records of a page that are behind `latest`."""
        for record, rows in decode_page(page):
            if self.latest is None or record.index > self.latest:
                self._office.emit(Append(self.job, self.incarnation, record, rows))
                self.latest = record.index


class Holder:
    """One job held for its master.

    Args:
        office: the way out.
        terms: as far as known.
        latest: last index of our copy of its log.
    """

    def __init__(self, office: Office, terms: Terms, latest: int | None) -> None:
        self._office = office
        self.terms = terms
        self.copy = LogCopy(office, terms.manifest.job_id, terms.manifest.incarnation, latest)

    def replica(self, sender: Contact, message: Replica) -> None:
        """The master's terms, which are not older than ours."""
        manifest = message.terms.manifest
        if manifest.incarnation != self.copy.incarnation:
            self.copy = LogCopy(self._office, manifest.job_id, manifest.incarnation, None)
        self.terms = message.terms
        self.persist()
        behind = message.latest is not None and (
            self.copy.latest is None or self.copy.latest < message.latest
        )
        if behind:
            self.copy.complete(sender)

    def record(self, sender: Contact, message: ReplicaRecord, payload: bytes) -> None:
        """A record was published; damaged ones are fetched again later."""
        if message.incarnation != self.copy.incarnation:
            return
        self.terms = replace(self.terms, closed=max(message.closed, self.terms.closed))
        if self.copy.latest is not None and message.index <= self.copy.latest:
            return
        if message.previous == self.copy.latest and not self.copy.fetching:
            try:
                self.copy.append(payload)
            except ProtocolError:
                self._office.stats["control.malformed"] += 1
        else:
            self.copy.complete(sender)

    def persist(self) -> None:
        """Remember the terms across restarts."""
        self._office.emit(Persist("job", self.terms.manifest.job_id, pack(Replica(self.terms, None))))
