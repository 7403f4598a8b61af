"""Row pages of one job that an agent stores before their record is in its log.

An agent votes for a record with pages, and appends it, only if all of its pages are on disk. An acceptor
fetches them from the master that proposes the record; an agent that completes its copy fetches them from the
agent whose log it reads. Owns the pages ahead of the log, and the requests for others.

Invariants: a stored page was written before any effect that depends on it. An arriving page is compared with
its digest. A request ends when all wanted pages are on disk, when every source lacks one or there is no
source (`gone`), or when no answer arrives.

Paper: none. See guarantees D-4, D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.row_pages import digest_of, table_of
from elfmesh.control.protocol.events import KeepPage
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

FETCH_S = (2.0, 5.0, 10.0)
"""Pauses before a missing page is requested from the next source; the last one applies to all further
requests. A late page is used."""

FETCH_TRIES = 4
"""Minimum number of consecutive requests without an answer before the sources are given up."""

Pages = dict[bytes, int]
"""Intervals of pages by digest."""


class PageCopies:
    """Row pages of one job ahead of its log.

    Args:
        job: job of the pages.
        incarnation: incarnation of its results.
        held: index and digest of the pages on disk.

    Attributes:
        gone: wanted pages that no source has.
    """

    def __init__(
        self, context: Context, job: bytes, incarnation: str, held: Iterable[tuple[int, bytes]] = ()
    ) -> None:
        self._context, self._job, self._incarnation = context, job, incarnation
        self._held: Pages = {digest: index for index, digest in held}
        self._wanted: Pages = {}
        self._sources: list[Contact] = []
        self._lacking: dict[bytes, set[bytes]] = {}
        self._done: list[Callable[[], None]] = []
        self._token, self._tries = 0, 0
        self._alarm = Alarm(context, self._late)
        self.gone: set[bytes] = set()

    def lacking(self, index: int, rows: bytes) -> Pages:
        """Return the pages of a record that are not on disk; none if its rows are not in pages."""
        table = table_of(rows)
        needed = () if table is None else table.all
        return {page.digest: index for page in needed if page.digest not in self._held}

    def keep(self, index: int, data: bytes) -> None:
        self._held[digest_of(data)] = index
        self._context.emit(KeepPage(self._job, self._incarnation, index, data))

    def passed(self, index: int) -> None:
        """Forget the pages of records up to `index`, which are in the log now."""
        self._held = {digest: known for digest, known in self._held.items() if known > index}

    def obtain(self, pages: Pages, sources: Iterable[Contact], done: Callable[[], None]) -> None:
        """Fetch pages; `done` is called when they are on disk or given up (see `lacking` and `gone`)."""
        self._done.append(done)
        self._wanted |= pages
        known = {source.id for source in self._sources} | {self._context.me.id}
        self._sources += [source for source in dict.fromkeys(sources) if source.id not in known]
        if not self._token:
            self._tries = 0
            self.gone.clear()
            self._ask()

    def on_page(self, sender: Contact, message: Page, payload: bytes) -> None:
        """Take a page, or the answer that a source lacks it; raises `ProtocolError` if it is another page."""
        digest = message.part
        if digest not in self._wanted:
            return
        if not payload:
            self._lacking.setdefault(digest, set()).add(sender.id)
            if all(source.id in self._lacking[digest] for source in self._sources):
                self.gone.add(digest)
                del self._wanted[digest]
        elif digest_of(payload) != digest:
            raise ProtocolError("a page of rows with another digest")
        else:
            self.keep(self._wanted.pop(digest), payload)
            self.gone.discard(digest)
            self._tries = 0
        if message.token == self._token or digest not in self._wanted:
            self._ask()

    def _ask(self) -> None:
        self._alarm.cancel()
        digest = next(iter(self._wanted), None)
        if not self._sources:
            self.gone |= self._wanted.keys()
        if digest is None or not self._sources or self._tries >= max(FETCH_TRIES, len(self._sources)):
            self._finish()
            return
        lack = self._lacking.get(digest, set())
        self._sources.sort(key=lambda source: (source.id in lack, self._context.is_gone(source.id)))
        self._token = self._context.token()
        fetch = Fetch(self._job, self._incarnation, self._wanted[digest], self._token, part=digest)
        self._context.send(self._sources[0], fetch)
        self._alarm.set(FETCH_S[min(self._tries, len(FETCH_S) - 1)])

    def _late(self) -> None:
        self._sources.append(self._sources.pop(0))
        self._tries += 1
        self._ask()

    def _finish(self) -> None:
        self._token = 0
        self._wanted, self._sources, self._lacking = {}, [], {}
        waiting, self._done = self._done, []
        for done in waiting:
            done()
