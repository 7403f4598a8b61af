"""Finding who carries a job's stream: the announcement, the verdicts, and the first moment of a new job.

Owns whether the stream hosts have been heard and from which interval on a member takes part. Numbers no
member.

Invariant: who answers while the first roster is made takes part from the job's first interval; a later one
from an interval above every frontier seen (D-14).

Paper: ELF 3, job builder. Deviation: founding members are found through the stream's own tree, so that agents
do not poll.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh import ids
from elfmesh.control.answers import BAD_REQUEST, refusal_body
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.activation import Activation
from elfmesh.control.master.rendezvous import VERDICTS_S
from elfmesh.control.protocol.messages import Announce, Announced, Stop
from elfmesh.safeguards import safeguard

ANNOUNCE_AGAIN_S = 1.5
"""When an announcement without any verdict is repeated."""

AHEAD = 2
"""A new member starts this many intervals above the highest frontier seen (D-14)."""

FOUNDING_S = 0.3
"""Between the last stream host that came and the first closed interval. Where agents have just joined, trees
are still merging; who carries the stream must not miss the beginning because its tree was a moment late."""

YOUNG_S = 15.0
"""A master that joined the overlay less than this ago is likely to be in a fleet that is being started..."""

GROWING_S = 3.0
"""...if it has met another agent less than this ago: who joined earlier has asked twice what runs."""

FOUNDING_YOUNG_S = 1.5
"""The same there: stream hosts ask what runs after 0.5 s and 1.5 s, however the trees stand
(`member_host.ASK_S`)."""

FOUNDING_S_MAX = 5.0
"""After the first verdicts, however many still come: the client that applied waits meanwhile."""

UNSURVEYED_S_MAX = VERDICTS_S + 1.0
"""How long those verdicts are waited for."""


@safeguard("roster-ahead")
def ahead_of(frontier: int) -> int:
    """The first interval of a member that comes when the others are at `frontier`."""
    return frontier + AHEAD


class Founding:
    """Brings the stream hosts of one job's stream together.

    Args:
        context: clock and way out.
        streams: what the job reads.
        terms: the state as it is now.
        book: the roster.
        collection: knows how far members have sealed.
        closer: held back while founding members are gathered.
        activation: told when the stream hosts have been heard.
        is_open: whether the job is still led here, and not being deleted.
        changed: called when the roster has changed.
        refused: called when the stream hosts cannot run the job.
    """

    def __init__(
        self,
        context: Context,
        streams: tuple[str, ...],
        terms: Callable[[], Terms],
        book: RosterBook,
        collection: Collection,
        closer: Closer,
        activation: Activation,
        *,
        is_open: Callable[[], bool],
        changed: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        self._context, self._streams, self._terms = context, streams, terms
        self._answers: dict[str, Announced] = {}
        self._book, self._collection, self._closer, self._activation = book, collection, closer, activation
        self._is_open, self._changed, self._refused = is_open, changed, refused
        self.surveyed = False
        self._gathering = False
        self._gathered_by = 0.0
        self._timer: Timer | None = None

    def begin(self) -> None:
        """The job is new: who asks for it is a founding member, also before the first verdicts are here."""
        if self._terms().start == FIRST:
            self._gather()
        self.announce()

    def announce(self) -> None:
        """Remind the rendezvous of the job; ask it for the stream hosts until they are known."""
        if not self._is_open():
            return
        terms = self._terms()
        for stream in self._streams:
            wanted = not self.surveyed and stream not in self._answers
            announce = Announce(
                terms.manifest, terms.master, terms.epoch, terms.version, terms.start, wanted, stream
            )
            self._context.route(ids.stream_id(stream), announce)
        if not self.surveyed:
            self._context.after(ANNOUNCE_AGAIN_S, self._announce_again)

    def _announce_again(self) -> None:
        if not self.surveyed:
            self.announce()

    def announced(self, message: Announced) -> None:
        """The rendezvous says who carries the stream; of several streams, all are heard before any counts."""
        if not self.surveyed:
            self._answers[message.stream] = message
            if any(stream not in self._answers for stream in self._streams):
                return
            message = _together([self._answers[stream] for stream in self._streams])
        first = not self.surveyed
        founding = first and not self._book.active
        self.surveyed = True
        if message.errors and founding:
            self._refuse(message)
            return
        for error in message.errors:
            self._closer.errors.append(error)
        start = self._terms().start if founding else self.next_start()
        if first:
            self._gathered_by = self._context.now + FOUNDING_S_MAX
            self.arrived()
        if self._book.add(message.participants, start):
            self.arrived()
            self._changed()
        self.prepared()
        self._closer.advance()

    def go_on(self) -> None:
        self.surveyed = True
        if self._closer.next == FIRST:
            self._gather()
            self.arrived()
        else:
            self._activation.prepared()

    def prepared(self) -> None:
        """The roster holds who is there; clients may be told, unless more are expected any moment."""
        if not self._gathering:
            self._activation.prepared()

    def next_start(self) -> int:
        """The first interval of a member that comes now."""
        frontier, begin = self._collection.frontier, self._terms().start
        if self._gathering:
            return begin
        if frontier is None:
            return begin if self._closer.next == begin else ahead_of(self._closer.next)
        return ahead_of(frontier)

    def _gather(self) -> None:
        self._gathering = self._closer.founding = True
        longest_s = FOUNDING_S_MAX if self.surveyed else UNSURVEYED_S_MAX
        self._gathered_by = self._context.now + longest_s
        self._timer = self._context.after(longest_s, self._gathered)

    def arrived(self) -> None:
        """A member came: as long as the first roster is made, others may be on their way."""
        if not self._gathering or not self.surveyed:
            return
        now, context = self._context.now, self._context
        young = now - context.joined_at < YOUNG_S and now - context.grown_at < GROWING_S
        pause_s = FOUNDING_YOUNG_S if young else FOUNDING_S
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._context.after(min(pause_s, self._gathered_by - now), self._gathered)

    def _gathered(self) -> None:
        self._gathering = self._closer.founding = False
        if self.surveyed or self._book.active:
            self._activation.prepared()
        self._closer.advance()

    def _refuse(self, message: Announced) -> None:
        terms = self._terms()
        self._activation.refuse(BAD_REQUEST, refusal_body(message.errors, ", ".join(self._streams)))
        stop = Stop(terms.manifest.job_id, terms.manifest.incarnation, terms.epoch)
        for participant in message.participants:
            self._context.send(participant.contact, stop)
        self._refused()


def _together(answers: list[Announced]) -> Announced:
    participants = {each.contact.id: each for answer in answers for each in answer.participants}
    errors = dict.fromkeys(error for answer in answers for error in answer.errors)
    expected = sum(answer.expected for answer in answers)
    first = answers[0]
    return Announced(first.job, first.epoch, tuple(participants.values()), tuple(errors), expected)
