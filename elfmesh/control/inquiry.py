"""What do the agents closest to a job know of it? Asked by a new root before it wants to lead.

Owns open inquiries. A root that restarted, or that came to be closest a moment ago, may know an old term or
none; its neighbours, or those that vote on the job, hold the newest. What it learns here is who to ask and
whether to try; who leads is decided by the control register.

Invariant: an inquiry ends once, with the newest terms among the answers and our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from elfmesh.control.messages import Inquire, Known
from elfmesh.control.office import Office, Timer
from elfmesh.control.terms import Terms
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

NEIGHBOURS = 3
ANSWER_S = 1.0

Informed = Callable[[bytes, Terms | None, tuple[bytes, ...]], None]
"""Called with the job, its newest terms, and the ids of those that answered that they do not lead it."""


@dataclass(slots=True)
class _Open:
    token: int
    then: Informed
    extra: tuple[Contact, ...]
    waiting: set[bytes] = field(default_factory=set)
    answers: list[tuple[Terms, bytes]] = field(default_factory=list)
    idle: list[bytes] = field(default_factory=list)
    timer: Timer | None = None


class Inquiry:
    """Asks the neighbours of a job.

    Args:
        office: clock and way out.
        known: what this agent itself knows of a job.
    """

    def __init__(self, office: Office, known: Callable[[bytes], tuple[Terms | None, int | None]]) -> None:
        self._office, self._known = office, known
        self._open: dict[bytes, _Open] = {}

    def ask(self, job: bytes, extra: tuple[Contact, ...], then: Informed) -> None:
        """Begin an inquiry among the neighbours and some others, unless one is open."""
        if job not in self._open:
            self._open[job] = _Open(self._office.token(), then, extra)
            self._office.lookup(job, lambda done: self._found(job, done))

    def _found(self, job: bytes, done: LookupDone | None) -> None:
        inquiry = self._open[job]
        me = self._office.me.id
        neighbours = [contact for contact in (done.contacts if done else ()) if contact.id != me]
        contacts = {contact.id: contact for contact in (*inquiry.extra, *neighbours[:NEIGHBOURS])}
        contacts.pop(me, None)
        for contact in contacts.values():
            inquiry.waiting.add(contact.id)
            self._office.send(contact, Inquire(job, inquiry.token))
        if inquiry.waiting:
            inquiry.timer = self._office.after(ANSWER_S, lambda: self._end(job))
        else:
            self._end(job)

    def answered(self, sender: Contact, message: Known) -> None:
        """A neighbour says what it knows."""
        inquiry = self._open.get(message.job)
        if inquiry is None or inquiry.token != message.token or sender.id not in inquiry.waiting:
            return
        inquiry.waiting.remove(sender.id)
        if message.terms is not None and message.terms.manifest.job_id == message.job:
            inquiry.answers.append((message.terms, sender.id))
        if not message.leads:
            inquiry.idle.append(sender.id)
        if not inquiry.waiting:
            self._end(message.job)

    def _end(self, job: bytes) -> None:
        inquiry = self._open.pop(job)
        if inquiry.timer is not None:
            inquiry.timer.cancel()
        terms, _ = self._known(job)
        answers = list(inquiry.answers)
        if terms is not None:
            answers.append((terms, self._office.me.id))
        newest = max(answers, key=lambda each: (each[0].epoch, each[0].version, each[1]), default=None)
        inquiry.then(job, None if newest is None else newest[0], tuple(inquiry.idle))
