"""The first roster of a job: the announcement, the verdicts of the member hosts, and the founding members.

Owns whether the verdicts have arrived, and the first interval of a new member. Gives no member a number.

Invariant: an agent that answers while the first roster is made takes part from the job's first interval. An
agent that comes later takes part from an interval above every known frontier (D-14).

Paper: ELF 3, job builder. Deviation: the master finds the founding members through the stream's own tree, so
that agents do not poll.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import BAD_REQUEST, refusal_body
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.master.activation import Activation
from elfmesh.control.master.ports import OpenTerm
from elfmesh.control.master.rendezvous import VERDICTS_S
from elfmesh.control.paths.layout import label_error
from elfmesh.control.protocol.messages import Announce, Announced, Stop
from elfmesh.safeguards import safeguard

ANNOUNCE_AGAIN_S = 1.5
"""When the master repeats an announcement that has brought no verdict."""

AHEAD = 2
"""A new member starts this many intervals above the highest known frontier (D-14)."""

FOUNDING_S = 0.3
"""Between the last member that came and the first closed interval. Trees of agents that have just joined are
still merging, and a member must not miss the beginning because its tree was late."""

YOUNG_S = 15.0
"""A master that joined the overlay less than this ago is probably in a fleet that is being started..."""

GROWING_S = 3.0
"""...if it has met another agent less than this ago. Agents that joined earlier have asked twice."""

FOUNDING_YOUNG_S = 1.5
"""`FOUNDING_S` in such a fleet: member hosts ask what runs after 0.5 s and 1.5 s, independently of the trees
(`job_questions.ASK_S`)."""

FOUNDING_S_MAX = 5.0
"""The longest founding after the first verdicts, because the client waits for it."""

UNSURVEYED_S_MAX = VERDICTS_S + 1.0
"""How long a new job waits for the first verdicts."""


@safeguard("roster-ahead")
def ahead_of(frontier: int) -> int:
    """The first interval of a member that comes while the others are at `frontier`."""
    return frontier + AHEAD


class FoundingTerm(OpenTerm, Protocol):
    """What founding needs of the master's term."""

    @property
    def plan(self) -> JobPlan: ...

    def finish(self) -> None:
        """The member hosts cannot run the new job: it ends."""
        ...


class Founding:
    """Finds the member hosts of one job, and makes them its founding members.

    Args:
        term: of the master.
        collection: knows how far the members have sealed.
        closer: closes nothing during the founding.
        activation: answers its clients after the founding.
    """

    def __init__(
        self, term: FoundingTerm, collection: Collection, closer: Closer, activation: Activation
    ) -> None:
        self._context, self._streams, self._term = term.context, term.plan.streams, term
        self._answers: dict[str, Announced] = {}
        self._collection, self._closer, self._activation = collection, closer, activation
        self.surveyed = False
        self._gathering = False
        self._gathered_by = 0.0
        self._alarm = Alarm(self._context, self._gathered)

    def begin(self) -> None:
        """Begin with a new job: an agent that enrols before the first verdicts is a founding member too."""
        if self._term.terms.start == FIRST or self._term.plan.history_us is not None:
            self._gather()
        self.announce()

    def announce(self) -> None:
        """Announce the job to each rendezvous, and ask for the verdicts until all have come.

        The agents of an ordered topic's stream learn its master by nothing else, so each announcement is
        multicast to them.
        """
        if not self._term.is_open:
            return
        terms = self._term.terms
        for stream in self._streams:
            wanted = self._term.plan.ordered or (not self.surveyed and stream not in self._answers)
            announce = Announce(
                terms.manifest, terms.master, terms.epoch, terms.version, terms.start, wanted, stream
            )
            self._context.route(ids.stream_id(stream), announce)
        if not self.surveyed:
            self._context.after(ANNOUNCE_AGAIN_S, self._announce_again)

    def _announce_again(self) -> None:
        if not self.surveyed:
            self.announce()

    def on_announced(self, message: Announced) -> None:
        """A rendezvous has the verdicts of its member hosts. The verdicts of all streams count together."""
        if not self.surveyed:
            self._answers[message.stream] = message
            if any(stream not in self._answers for stream in self._streams):
                return
            message = _together([self._answers[stream] for stream in self._streams])
        first = not self.surveyed
        founding = first and not self._term.book.active
        self.surveyed = True
        hosts = [each.contact for each in message.participants]
        if founding and not message.errors and (error := label_error(hosts, *self._term.plan.domains)):
            message = replace(message, errors=(error,))
        if message.errors and founding:
            self._refuse(message)
            return
        for error in message.errors:
            self._closer.errors.append(error)
        start = self._term.terms.start if founding else self.next_start()
        if first:
            self._gathered_by = self._context.now + FOUNDING_S_MAX
            self.arrived()
        if self._numbers_founders() and self._term.book.add(message.participants, start):
            self.arrived()
            self._term.changed()
        self.prepared()
        self._closer.advance()

    @safeguard("enrolled-by-itself")
    def _numbers_founders(self) -> bool:
        """Whether verdicts give numbers. Only founding members begin without one; the others enrol.

        A verdict may be older than its agent's announcement that it leaves, and it does not name the first
        interval of a worker, which a lost roster may have given. The roster would expect intervals that the
        agent never contributes.
        """
        return self._gathering or not self._term.book.given

    def go_on(self) -> None:
        self.surveyed = True
        terms = self._term.terms
        if self._closer.next == FIRST or (
            self._closer.next == terms.start and self._term.plan.history_us is not None
        ):
            self._gather()
            self.arrived()
        else:
            self._activation.prepared()

    def prepared(self) -> None:
        """The roster holds the members that have come: answer the clients, unless the founding goes on."""
        if not self._gathering:
            self._activation.prepared()

    def next_start(self) -> int:
        """The first interval of a member that comes now."""
        frontier, begin = self._collection.frontier, self._term.terms.start
        if self._gathering:
            return begin
        if frontier is None:
            return begin if self._closer.next == begin else ahead_of(self._closer.next)
        return ahead_of(frontier)

    def _gather(self) -> None:
        self._gathering = self._closer.founding = True
        longest_s = FOUNDING_S_MAX if self.surveyed else UNSURVEYED_S_MAX
        self._gathered_by = self._context.now + longest_s
        self._alarm.set(longest_s)

    def arrived(self) -> None:
        """A member has come: the founding goes on for a moment, because others may be on their way."""
        if not self._gathering or not self.surveyed:
            return
        now, context = self._context.now, self._context
        young = now - context.joined_at < YOUNG_S and now - context.grown_at < GROWING_S
        pause_s = FOUNDING_YOUNG_S if young else FOUNDING_S
        self._alarm.set(min(pause_s, self._gathered_by - now))

    def _gathered(self) -> None:
        self._gathering = self._closer.founding = False
        if self.surveyed or self._term.book.active:
            self._activation.prepared()
        self._closer.advance()

    def _refuse(self, message: Announced) -> None:
        terms = self._term.terms
        self._activation.refuse(
            BAD_REQUEST, refusal_body(message.errors, ", ".join(self._streams), terms.manifest.text)
        )
        stop = Stop(terms.manifest.job_id, terms.manifest.incarnation, terms.epoch)
        for participant in message.participants:
            self._context.send(participant.contact, stop)
        self._term.finish()


def _together(answers: list[Announced]) -> Announced:
    participants = {each.contact.id: each for answer in answers for each in answer.participants}
    errors = dict.fromkeys(error for answer in answers for error in answer.errors)
    expected = sum(answer.expected for answer in answers)
    first = answers[0]
    return Announced(first.job, first.epoch, tuple(participants.values()), tuple(errors), expected)
