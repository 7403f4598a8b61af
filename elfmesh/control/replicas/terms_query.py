"""Terms query: a new root asks the agents closest to a job for its terms before it tries to lead.

Owns the open queries. A root that has restarted, or has just become the closest agent, may know an old term
or none; its neighbours or the job's voters have the newest one. The query only decides whether the root tries
to lead; the control register elects the master.

Invariant: a query ends once, with the newest terms among the answers and those of this agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages_succession import Inquire, Known
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

NEIGHBOURS = 3
ALL_NEAR = 8
"""All agents that a lookup finds."""

ANSWER_S = 1.0
AGAIN_S = 0.25
"""Time after which silent agents are asked again, because the loss of one message must not cost
`ANSWER_S`."""

Informed = Callable[[bytes, Terms | None, tuple[bytes, ...]], None]
"""Called with the job, its newest terms, and the ids of the agents that answered that they do not lead it."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Agents that have answered, by id, their accepted values that ended the job, and the terms they hold."""

    received: dict[bytes, Contact]
    ended: tuple[RegisterValue, ...] = ()
    holding: tuple[tuple[bytes, Terms], ...] = ()


@dataclass(slots=True)
class _Open:
    token: int
    then: list[Callable[[Terms | None, _Open], None]]
    extra: tuple[Contact, ...]
    neighbours: int
    waiting: set[bytes] = field(default_factory=set)
    answers: list[tuple[Terms, bytes]] = field(default_factory=list)
    idle: list[bytes] = field(default_factory=list)
    received: dict[bytes, Contact] = field(default_factory=dict)
    ended: list[RegisterValue] = field(default_factory=list)
    timers: tuple[Timer, ...] = ()


class TermsQuery:
    """Terms queries of one agent.

    Args:
        known: returns this agent's own terms of a job.
    """

    def __init__(self, context: Context, known: Callable[[bytes], tuple[Terms | None, int | None]]) -> None:
        self._context, self._known = context, known
        self._open: dict[bytes, _Open] = {}
        self.lost_votes: dict[bytes, None] = {}
        """Agents that have reported the loss of their votes in their last answer."""

    def ask(self, job: bytes, extra: tuple[Contact, ...], then: Informed) -> None:
        """Query the closest neighbours and the agents in `extra`, or wait for the open query."""

        def ended(terms: Terms | None, terms_query: _Open) -> None:
            then(job, terms, tuple(terms_query.idle))

        if job in self._open:
            self._open[job].then.append(ended)
        else:
            self._begin(job, _Open(self._context.token(), [ended], extra, NEIGHBOURS))

    def ask_all(
        self, job: bytes, extra: tuple[Contact, ...], then: Callable[[Terms | None, Answers], None]
    ) -> None:
        """Query all neighbours and the agents in `extra`; `then` receives the newest terms and the answers.

        The answers also raise the known epoch of the job, because its voters may have changed.
        """

        def ended(terms: Terms | None, terms_query: _Open) -> None:
            holding = tuple((agent, held) for held, agent in terms_query.answers)
            then(terms, Answers(terms_query.received, tuple(terms_query.ended), holding))

        running = self._open.get(job)
        if running is None:
            self._begin(job, _Open(self._context.token(), [ended], extra, ALL_NEAR))
        elif running.neighbours == ALL_NEAR:
            running.then.append(ended)
        else:
            running.then.append(lambda *_: self.ask_all(job, extra, then))

    def _begin(self, job: bytes, terms_query: _Open) -> None:
        self._open[job] = terms_query
        self._context.lookup(job, lambda done: self._found(job, done))

    def _found(self, job: bytes, done: LookupDone | None) -> None:
        terms_query = self._open[job]
        me = self._context.me.id
        neighbours = [contact for contact in (done.contacts if done else ()) if contact.id != me]
        contacts = {
            contact.id: contact for contact in (*terms_query.extra, *neighbours[: terms_query.neighbours])
        }
        asked = [each for each in contacts.values() if each.id != me and not self._context.is_gone(each.id)]

        def ask() -> None:
            for contact in asked:
                if contact.id in terms_query.waiting:
                    self._context.send(contact, Inquire(job, terms_query.token))

        terms_query.waiting.update(contact.id for contact in asked)
        terms_query.timers = (
            self._context.after(AGAIN_S, ask),
            self._context.after(ANSWER_S, lambda: self._end(job)),
        )
        ask()
        self._end_if_received(job, terms_query)

    def lost(self, agent: bytes) -> None:
        for job, terms_query in list(self._open.items()):
            if agent in terms_query.waiting:
                terms_query.waiting.remove(agent)
                self._end_if_received(job, terms_query)

    def on_known(self, sender: Contact, message: Known) -> None:
        terms_query = self._open.get(message.job)
        if terms_query is None or terms_query.token != message.token or sender.id not in terms_query.waiting:
            return
        terms_query.waiting.remove(sender.id)
        terms_query.received[sender.id] = sender
        if message.terms is not None and message.terms.manifest.job_id == message.job:
            terms_query.answers.append((message.terms, sender.id))
        if message.ended is not None and message.ended.job == message.job and message.ended.deleted:
            terms_query.ended.append(message.ended)
        self.lost_votes.pop(sender.id, None)
        if message.lost_votes:
            self.lost_votes[sender.id] = None
        if not message.leads:
            terms_query.idle.append(sender.id)
        self._end_if_received(message.job, terms_query)

    def _end_if_received(self, job: bytes, terms_query: _Open) -> None:
        if not terms_query.waiting:
            self._end(job)

    def _end(self, job: bytes) -> None:
        terms_query = self._open.pop(job)
        for timer in terms_query.timers:
            timer.cancel()
        terms, _ = self._known(job)
        answers = list(terms_query.answers)
        if terms is not None:
            answers.append((terms, self._context.me.id))
        newest = max(answers, key=lambda each: (each[0].epoch, each[0].version, each[1]), default=None)
        for then in terms_query.then:
            then(None if newest is None else newest[0], terms_query)
