"""Finding who carries a job's stream: the announcement, the verdicts, and the first moment of a new job.

Owns whether the carriers have been heard and from which interval on a member takes part. Numbers nobody.

Invariant: who answers while the first roster is made takes part from the job's first interval; a later one
from an interval above every frontier seen (D-14).

Paper: ELF 3, job builder. Deviation: founding members are found through the stream's own tree, so that agents
do not poll.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh import ids
from elfmesh.control.activation import Activation
from elfmesh.control.answers import BAD_REQUEST, error_body
from elfmesh.control.master_close import Closer
from elfmesh.control.master_roster import RosterBook
from elfmesh.control.messages import Announce, Announced, Stop
from elfmesh.control.office import Office
from elfmesh.control.records import FIRST
from elfmesh.control.terms import Terms

ANNOUNCE_AGAIN_S = 1.5
"""When an announcement without any verdict is repeated."""

AHEAD = 2
"""A new member starts this many intervals above the highest frontier seen (D-14)."""

FOUNDING_S = 0.3
"""Between the first verdicts and the first closed interval. Where agents have just joined, trees are still
merging; who carries the stream already must not miss the beginning because its tree was a moment late."""


class Founding:
    """Brings the carriers of one job's stream together.

    Args:
        office: clock and way out.
        stream: what the job reads.
        terms: the state as it is now.
        book: the roster.
        closer: held back while founding members are gathered.
        activation: told when the carriers have been heard.
        is_open: whether the job is still led here, and not being deleted.
        changed: called when the roster has changed.
        refused: called when the carriers cannot run the job.
    """

    def __init__(
        self,
        office: Office,
        stream: str,
        terms: Callable[[], Terms],
        book: RosterBook,
        closer: Closer,
        activation: Activation,
        *,
        is_open: Callable[[], bool],
        changed: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        self._office, self._stream, self._terms = office, stream, terms
        self._book, self._closer, self._activation = book, closer, activation
        self._is_open, self._changed, self._refused = is_open, changed, refused
        self.heard = False
        self._gathering = False

    def announce(self) -> None:
        """Remind the rendezvous of the job; ask it for the carriers as long as they have not been heard."""
        if not self._is_open():
            return
        terms = self._terms()
        announce = Announce(
            terms.manifest, terms.master, terms.epoch, terms.version, terms.start, wanted=not self.heard
        )
        self._office.route(ids.stream_id(self._stream), announce)
        if not self.heard:
            self._office.after(ANNOUNCE_AGAIN_S, self._announce_again)

    def _announce_again(self) -> None:
        if not self.heard:
            self.announce()

    def announced(self, message: Announced) -> None:
        """The rendezvous says who carries the stream."""
        first = not self.heard
        founding = first and not self._book.active
        self.heard = True
        if message.errors and founding:
            self._refuse(message)
            return
        for error in message.errors:
            self._closer.errors.append(error)
        begin = self._terms().start
        start = begin if founding else self.next_start()
        if first and begin == FIRST and self._closer.next == FIRST:
            self._gather()
        if self._book.add(message.participants, start):
            self._changed()
        self.prepared()
        self._closer.advance()

    def go_on(self) -> None:
        """An earlier master had heard the carriers."""
        self.heard = True
        if self._closer.next == FIRST:
            self._gather()
        else:
            self._activation.prepared()

    def prepared(self) -> None:
        """The roster holds who is there; clients may be told, unless more are expected any moment."""
        if not self._gathering:
            self._activation.prepared()

    def next_start(self) -> int:
        """The first interval of a member that comes now."""
        frontier, begin = self._closer.frontier, self._terms().start
        if self._gathering:
            return begin
        if frontier is None:
            return begin if self._closer.next == begin else self._closer.next + AHEAD
        return frontier + AHEAD

    def _gather(self) -> None:
        """Give carriers that the first announcement missed a moment to be founding members too."""
        self._gathering = self._closer.founding = True

        def gathered() -> None:
            self._gathering = self._closer.founding = False
            self._activation.prepared()
            self._closer.advance()

        self._office.after(FOUNDING_S, gathered)

    def _refuse(self, message: Announced) -> None:
        terms = self._terms()
        text, *others = message.errors
        more = f" (and {len(others)} more agents refuse it)" if others else ""
        self._activation.refuse(BAD_REQUEST, error_body(text + more, where=self._stream, code=65))
        stop = Stop(terms.manifest.job_id, terms.manifest.incarnation, terms.epoch)
        for participant in message.participants:
            self._office.send(participant.contact, stop)
        self._refused()
