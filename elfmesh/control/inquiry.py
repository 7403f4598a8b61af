"""What do the agents closest to a job know of it? Asked by a new root before it leads.

Owns open inquiries. A root that restarted, or that came to be closest a moment ago, may know an old term or
none; its neighbours hold the newest.

Invariant: an inquiry ends once, with the newest terms among the answers and our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from elfmesh.control.messages import Inquire, Known
from elfmesh.control.office import Office, Timer
from elfmesh.control.terms import Terms
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

NEIGHBOURS = 3
ANSWER_S = 1.0

Informed = Callable[[bytes, Terms | None, Contact, int | None], None]
"""Called with the job, its newest terms, who gave them and how far that agent's log reaches."""


@dataclass(slots=True)
class _Open:
    token: int
    then: Informed
    waiting: set[bytes] = field(default_factory=set)
    answers: list[tuple[Terms, Contact, int | None]] = field(default_factory=list)
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

    def ask(self, job: bytes, then: Informed) -> None:
        """Begin an inquiry, unless one is open."""
        if job not in self._open:
            self._open[job] = _Open(self._office.token(), then)
            self._office.lookup(job, lambda done: self._found(job, done))

    def _found(self, job: bytes, done: LookupDone | None) -> None:
        inquiry = self._open[job]
        me = self._office.me.id
        contacts = [contact for contact in (done.contacts if done else ()) if contact.id != me]
        for contact in contacts[:NEIGHBOURS]:
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
            inquiry.answers.append((message.terms, sender, message.latest))
        if not inquiry.waiting:
            self._end(message.job)

    def _end(self, job: bytes) -> None:
        inquiry = self._open.pop(job)
        if inquiry.timer is not None:
            inquiry.timer.cancel()
        terms, latest = self._known(job)
        answers = list(inquiry.answers)
        if terms is not None:
            answers.append((terms, self._office.me, latest))
        if not answers:
            inquiry.then(job, None, self._office.me, None)
            return
        newest = max(answers, key=lambda each: (each[0].epoch, each[0].version, each[1].id))[0]
        same = [each for each in answers if each[0].manifest.incarnation == newest.manifest.incarnation]
        closed = max(each[0].closed for each in same)
        longest = max(same, key=lambda each: (-(2**63) if each[2] is None else each[2], each[1].id))
        inquiry.then(job, replace(newest, closed=closed), longest[1], longest[2])
