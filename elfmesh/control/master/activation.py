"""Activation of a roster: members receive and acknowledge it, and then waiting clients get their answers.

Owns the clients that wait, and the repetition of a roster to members that have not acknowledged it. Gives no
member a number.

Invariant: each client gets one answer, at most `APPLY_S` after its request.

Paper: ELF 2.3 (multicast to the group). The multicast is only the fast path: the master sends the roster
directly to members that have not acknowledged it (D-16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from elfmesh.control.answers import OK, Body, respond
from elfmesh.control.causes import NO_CAUSE
from elfmesh.control.context import Timer
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.ports import TermView
from elfmesh.control.master.tally import Tally
from elfmesh.control.protocol.messages import Roster, RosterAck, unpack
from elfmesh.control.protocol.replies_changes import Applied, JobSummary
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.srt.events import PublishDone

APPLY_S = 18.0
"""How long a client waits for the last acknowledgement. The time-out of its request is longer."""

PUBLISH_S = 2.0
DIRECT_MAX = 64
"""Members to which the master sends the roster directly in one round."""

REPEAT_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses between rounds. After the last one, the upkeep of the master repeats them."""

NO_MEMBER = "No agent carries this stream with these labels yet; the job begins with the first one."
S = TypeVar("S", bound=JobSummary)


@dataclass(slots=True)
class WaitingClient:
    """A client that waits until all members have acknowledged the terms."""

    origin: Contact
    token: int
    state: str
    since: float
    timer: Timer
    prepared_at: float | None
    extra: tuple[tuple[str, Any], ...]


class ApplyingTerm(TermView, Protocol):
    """What an answer to a client contains besides the terms."""

    tally: Tally


class Activation:
    """Sends rosters to members, and answers clients when the members have acknowledged.

    Args:
        term: whose terms the members acknowledge.
    """

    def __init__(self, term: ApplyingTerm) -> None:
        self._context, self._book, self._term = term.context, term.book, term
        self._epoch = term.terms.epoch
        self._applicants: dict[tuple[int, bytes], WaitingClient] = {}
        self._prepared_at: float | None = None
        self._round, self._cause = 0, NO_CAUSE
        self._stopped = False
        self.waits_for_roster = True

    def applied(
        self,
        origin: Contact,
        token: int,
        state: str,
        *,
        since: float | None = None,
        prepared_at: float | None = None,
        extra: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        """A client waits until the members have acknowledged the present terms.

        Args:
            origin: the agent that received the request.
            token: of the request.
            state: what becomes of the job's state.
            since: time of the request; None: now.
            prepared_at: when the agents had checked the version, if that was in an earlier term.
            extra: fields of the answer besides the summary.
        """
        if (token, origin.id) in self._applicants:
            return
        timer = self._context.after(APPLY_S, lambda: self._tell((token, origin.id)))
        asked_at = self._context.now if since is None else since
        applicant = WaitingClient(origin, token, state, asked_at, timer, prepared_at, extra)
        self._applicants[token, origin.id] = applicant
        self.check()

    def awaits(self, origin: Contact, token: int) -> bool:
        """Whether this request has no answer yet."""
        return (token, origin.id) in self._applicants

    def prepared(self) -> None:
        self.waits_for_roster = False
        if self._prepared_at is None:
            self._prepared_at = self._context.now
        self.check()

    def spread(self) -> None:
        """Multicast a new roster, and then send it to the members that did not acknowledge."""
        self._round = 0
        terms = self._term.terms
        job, first = terms.manifest.job_id, max(terms.closed, terms.effective)
        self._context.note("roster", job, first, first + 1, f"version {terms.version}")
        self._cause = self._context.causes.here
        self._context.publish(job, Roster(terms), PUBLISH_S, self._answered)

    def _answered(self, done: PublishDone | None) -> None:
        if done is not None:
            self.acknowledged_by(done)
        self.repeat()

    def acknowledged_by(self, done: PublishDone) -> None:
        """Take the acknowledgements in the answers to a multicast."""
        for _, body in done.answers:
            try:
                ack = unpack(body)
            except ProtocolError:
                continue
            if isinstance(ack, RosterAck):
                self._take(ack)
        self.check()

    def repeat(self) -> None:
        """Send the roster to members that have not acknowledged it, again in growing pauses."""
        silent = self._book.unacknowledged
        if not silent or self._stopped:
            return
        terms = self._term.terms
        self._context.causes.follow(*self._cause)
        for entry in silent[:DIRECT_MAX]:
            self._context.send(entry.contact, Roster(terms))
        if self._round < len(REPEAT_S):
            self._context.after(REPEAT_S[self._round], self.repeat)
            self._round += 1

    def on_roster_ack(self, ack: RosterAck) -> None:
        self._take(ack)
        self.check()

    def _take(self, ack: RosterAck) -> None:
        if ack.epoch == self._epoch:
            self._book.acknowledge(ack.number, ack.version)

    def check(self) -> None:
        """Answer the clients if no acknowledgement is missing."""
        if not self.waits_for_roster and not self._book.unacknowledged:
            for key in list(self._applicants):
                self._tell(key)

    def stop(self) -> None:
        self._stopped = True
        for key in list(self._applicants):
            self._tell(key)

    def refuse(self, status: int, body: Body) -> None:
        """Answer the clients that the job cannot run, and why."""
        self._stopped = True
        for applicant in self._applicants.values():
            applicant.timer.cancel()
            respond(self._context, applicant.origin, applicant.token, status, body)
        self._applicants.clear()

    def _tell(self, key: tuple[int, bytes]) -> None:
        applicant = self._applicants.pop(key)
        applicant.timer.cancel()
        terms, now = self._term.terms, self._context.now
        prepared = min(max(applicant.prepared_at or self._prepared_at or now, applicant.since), now)
        body = summary(
            Applied,
            terms,
            self._book,
            applicant.state,
            **dict(applicant.extra),
            excluded=self._term.tally.excluded(now) or UNSET,
            seconds={
                "prepare": round(prepared - applicant.since, 6),
                "activate": round(now - prepared, 6),
            },
        )
        if not body.expected and not read_plan(terms.manifest.text).has_no_members:
            body = replace(body, hint=NO_MEMBER)
        respond(self._context, applicant.origin, applicant.token, OK, body)


def summary(kind: type[S], terms: Terms, book: RosterBook, state: str, **more: Any) -> S:
    """Return a reply with the summary of a job and the other fields of `kind`."""
    active, first = len(book.active), max(terms.start, terms.effective)
    return kind(
        job=terms.manifest.qualified,
        version=terms.manifest.version,
        effective_interval=0 if first == FIRST else first,
        acknowledged=active - len(book.unacknowledged),
        expected=active,
        state=state,
        **more,
    )
