"""A job as its possible successors hold it: the terms, and a copy of the results log.

Owns what this agent knows of jobs it does not lead, and how a copy of a log is completed. Decides nothing
about who leads.

Invariant: the copy has no hole: what is appended follows what is there, or was fetched from an agent whose
copy has none. Only records whose interval the control register has closed are appended (D-5).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from elfmesh.control.events import Append, DropLog, Persist
from elfmesh.control.messages import pack
from elfmesh.control.messages_succession import Fetch, Page, Replica
from elfmesh.control.office import Office, Timer
from elfmesh.control.plan import has_no_members
from elfmesh.control.results.pages import decode_page
from elfmesh.control.results.records import ResultRecord
from elfmesh.control.terms import Terms
from elfmesh.machine import Contact
from elfmesh.srt.events import Subscribe, Unsubscribe

FETCH_S = (0.5, 1.0, 5.0)
"""When a page that did not come is asked for again, of the next source if there is one; whichever comes first
is taken. The last pause is repeated."""

FETCH_TRIES = 3
"""Pages that may fail to come, one after the other, until all sources are given up; each is asked once."""

NEXT_SOURCE_S = 0.5
"""Between two sources that do not have what is needed."""


class LogCopy:
    """This agent's copy of a job's results log, whether it leads the job or not.

    Args:
        office: the way out.
        job: whose log.
        incarnation: of the log.
        latest: last index held here.
    """

    def __init__(self, office: Office, job: bytes, incarnation: str, latest: int | None) -> None:
        self._office, self.job, self.incarnation = office, job, incarnation
        self.latest = latest
        self._epoch = 0
        self._tokens: dict[int, None] = {}
        self._timer: Timer | None = None
        self._tries = 0
        self._sources: list[Contact] = []
        self._done: list[Callable[[], None]] = []

    @property
    def fetching(self) -> bool:
        """A page is on its way."""
        return bool(self._tokens)

    def reaches(self, index: int | None) -> bool:
        """Whether the copy has every record up to this one."""
        return index is None or (self.latest is not None and self.latest >= index)

    def complete(self, source: Contact, done: Callable[[], None] | None = None) -> None:
        """Fetch everything behind `latest`; `done` is called when there is no more, or no answer."""
        if done is not None:
            self._done.append(done)
        if all(known.id != source.id for known in self._sources):
            self._sources.append(source)
        if not self.fetching:
            self._tries = 0
            self._ask()

    def reach(
        self,
        index: int | None,
        sources: tuple[Contact, ...],
        done: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Fetch from one source after the other until `index` is here, as long as that is wanted."""
        if self.reaches(index):
            done()
        elif sources and wanted():
            first, *others = sources

            def fetched() -> None:
                pause = 0.0 if self.reaches(index) else NEXT_SOURCE_S
                self._office.after(pause, lambda: self.reach(index, (*others, first), done, wanted))

            self.complete(first, fetched)
            for other in others:
                self.complete(other)

    def _ask(self) -> None:
        self._sources.sort(key=lambda source: self._office.is_gone(source.id))
        token = self._office.token()
        self._tokens[token] = None
        fetch = Fetch(self.job, self.incarnation, self.latest, token)
        self._office.send(self._sources[0], fetch)
        self._timer = self._office.after(FETCH_S[min(self._tries, len(FETCH_S) - 1)], self._late)
        self._tries += 1

    def _late(self) -> None:
        """The source is silent: the others first."""
        self._sources.append(self._sources.pop(0))
        if self._tries < max(FETCH_TRIES, len(self._sources)):
            self._ask()
        else:
            self._finish()

    def page(self, sender: Contact, page: Page, payload: bytes) -> None:
        """A page came; raises ProtocolError if it is damaged."""
        if page.token not in self._tokens or page.incarnation != self.incarnation:
            return
        before = self.latest
        self.append(payload)
        if self._timer is not None:
            self._timer.cancel()
        self._tries = 0
        self._tokens.clear()
        known = [source for source in self._sources if source.id == sender.id]
        others = [source for source in self._sources if source.id != sender.id]
        self._sources = others if page.done or self.latest == before else known + others
        if self._sources:
            self._ask()
        else:
            self._finish()

    def _finish(self) -> None:
        self._tokens.clear()
        self._sources.clear()
        waiting, self._done = self._done, []
        for done in waiting:
            done()

    def append(self, page: bytes) -> None:
        """Append the records of a page that are behind `latest`; raises ProtocolError if it is damaged."""
        for record, rows in decode_page(page):
            self.add(record, rows)

    def add(self, record: ResultRecord, rows: bytes) -> None:
        """Append a record if it is behind `latest`; one of an epoch below the last one's is refused (D-5)."""
        if record.epoch < self._epoch:
            self._office.stats["control.fenced"] += 1
        elif self.latest is None or record.index > self.latest:
            self._epoch = record.epoch
            self._office.emit(Append(self.job, self.incarnation, replace(record, open=b""), rows))
            self.latest = record.index


class Holder:
    """One job held for its master.

    Args:
        office: the way out.
        terms: as far as known.
        copy: this agent's copy of the job's results log.
    """

    def __init__(self, office: Office, terms: Terms, copy: LogCopy) -> None:
        self._office = office
        self.terms, self.copy = terms, copy

    def keep(self, terms: Terms, roster: int = 0) -> None:
        """Take terms of the same incarnation, unless they are older; durable before what follows.

        Who has only heard of a new master holds an old roster under a new epoch. If the register names a
        later `roster`, it is taken from older terms, too; epoch and master stay.
        """
        if self.terms.version < roster <= terms.version and terms.epoch < self.terms.epoch:
            terms = replace(terms, epoch=self.terms.epoch, master=self.terms.master)
        if (terms.epoch, terms.version) >= (self.terms.epoch, self.terms.version) and terms != self.terms:
            self.terms = terms
            self.persist()

    def persist(self) -> None:
        """Remember the terms across restarts."""
        self._office.emit(Persist("job", self.terms.manifest.job_id, pack(Replica(self.terms, None))))

    def begin(self) -> None:
        """Remember it, and be in its tree: a job that reads others has no members to find its master."""
        self.persist()
        if has_no_members(self.terms.manifest.text):
            self._office.emit(Subscribe(self.copy.job))

    def end(self) -> None:
        """The job is over, and not led here."""
        self._office.emit(DropLog(self.copy.job))
        if has_no_members(self.terms.manifest.text):
            self._office.emit(Unsubscribe(self.copy.job))
