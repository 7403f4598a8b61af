"""The row pages of one job that an agent has before their record is in its log, and how it gets others.

A record whose rows are pages is voted for, and appended, where all of its pages are on disk: an acceptor
fetches them from the master that proposes the record, who catches up from the agent whose log it reads. Owns
what is here ahead of the log and what is on its way. Knows no vote and no record.

Invariants: a page is held when it was given to the disk before anything that relies on it; what arrives is
compared with its digest; a question is over when all that is wanted is here, when every source has said that
it lacks it or there is none (`gone`), or when nothing came for long.

Paper: none. See guarantees D-4, D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.row_pages import digest_of, table_of
from elfmesh.control.protocol.events import KeepPage
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

FETCH_S = (2.0, 5.0, 10.0)
"""When a page that did not come is asked for again, of the next source. The last pause is repeated; a page
that comes late is taken."""

FETCH_TRIES = 4
"""Questions without an answer, one after the other, until the sources are given up for now."""

Pages = dict[bytes, int]
"""Digests of pages, and the interval that each belongs to."""


class PageCopies:
    """See the module's head.

    Args:
        context: clock and way out.
        job: whose pages.
        incarnation: of its results.
        held: index and digest of what is on disk, ahead of the log.
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
        self._timer: Timer | None = None
        self.gone: set[bytes] = set()

    def lacking(self, index: int, rows: bytes) -> Pages:
        """The pages of a record that are not here; rows that stand in it need none."""
        table = table_of(rows)
        needed = () if table is None else table.all
        return {page.digest: index for page in needed if page.digest not in self._held}

    def keep(self, index: int, data: bytes) -> None:
        self._held[digest_of(data)] = index
        self._context.emit(KeepPage(self._job, self._incarnation, index, data))

    def passed(self, index: int) -> None:
        """The log has the records up to this one: their pages are not needed before a vote again."""
        self._held = {digest: known for digest, known in self._held.items() if known > index}

    def obtain(self, pages: Pages, sources: Iterable[Contact], done: Callable[[], None]) -> None:
        """Fetch pages; `done` is called when they are here, or do not come: `lacking` and `gone` tell."""
        self._done.append(done)
        self._wanted |= pages
        known = {source.id for source in self._sources} | {self._context.me.id}
        self._sources += [source for source in dict.fromkeys(sources) if source.id not in known]
        if not self._token:
            self._tries = 0
            self.gone.clear()
            self._ask()

    def came(self, sender: Contact, message: Page, payload: bytes) -> None:
        """A source has answered; raises ProtocolError if it sends something else."""
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
        if self._timer is not None:
            self._timer.cancel()
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
        self._timer = self._context.after(FETCH_S[min(self._tries, len(FETCH_S) - 1)], self._late)

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
