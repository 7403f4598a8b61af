"""The requests of a member about its place on the roster: for a number, for a missed roster, for its end.

Owns when these requests are sent, and sent again. The member itself takes the roster that answers them.

Invariants: a member that no roster expects without end asks for a number until one does; a member that
leaves asks only for its last interval, until nothing is expected of it (D-14).
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

from msgspec import UNSET

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages import TRIPS_MAX, Enroll, Leaving
from elfmesh.machine import Contact

ENROLL_S = 2.0
"""How long a member without a number waits before it asks its master, and between two requests."""

CHECK_S = 30.0
"""How often a member asks whether it has missed a roster (D-16)."""

LEAVE_AGAIN_S = 1.0


class RosterApplicant(Protocol):
    """The part of a member that its requests contain.

    Attributes:
        manifest: of its job.
        master: the agent that leads the job, as far as the member knows.
        epoch: of the newest roster.
        version: of the newest roster.
        terms: the newest roster; None before the first one.
    """

    manifest: Manifest
    master: Contact
    epoch: int
    version: int
    terms: Terms | None

    @property
    def is_expected(self) -> bool:
        """Whether the newest roster expects the member without end."""
        ...

    @property
    def begun(self) -> int:
        """The first interval that the member may still contribute."""
        ...

    @property
    def frontier(self) -> int | None:
        """One past the last interval that goes up, None before the first term."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether all intervals that are expected of the member are closed."""
        ...


class RosterRequests:
    """Sends the requests of one member.

    Args:
        member: the member that sends them.

    Attributes:
        leaving: whether the member asks for a last interval.
        ended: one past the last interval that it has sealed ahead of time; None: it does not leave at once.
    """

    def __init__(self, context: Context, member: RosterApplicant) -> None:
        self._context, self._member = context, member
        self.leaving, self._stopped, self._by_route = False, False, True
        self._leaving_again: Timer | None = None
        self.ended: int | None = None

    def begin(self) -> None:
        self._context.after(ENROLL_S, self._enroll_again)
        self._context.in_round(CHECK_S, self._check)

    def stop(self) -> None:
        self._stopped = True

    def enroll(self) -> None:
        self._context.send(self._member.master, self.enrolment())

    def enrolment(self) -> Enroll:
        context = self._context
        member = self._member
        job, incarnation = member.manifest.job_id, member.manifest.incarnation
        about = job, incarnation, context.participant, member.epoch, member.version, member.begun
        return Enroll(*about, self._trips() or UNSET)

    def _trips(self) -> tuple[tuple[bytes, int], ...]:
        """Return the measured round trips to members of a job with a layout, first those to its agents."""
        terms = self._member.terms
        layout = None if terms is None else terms.layout or None
        if terms is None or layout is None:
            return ()
        placed = [*(each.contact for each in layout.gateways), *layout.sites]
        members = [each.contact for each in terms.members if each.until is None]
        known: dict[bytes, float] = self._context.facts("round trips").get("seconds", {})
        found = {each.id: round(known[each.id] * 1e6) for each in (*placed, *members) if each.id in known}
        return tuple(islice(found.items(), TRIPS_MAX))

    def leave(self) -> None:
        """Ask the master for a last interval, repeatedly until nothing is expected of the member (D-14).

        Ranges that are sealed meanwhile wait, because no record beyond the last interval would have them.
        """
        self.leaving = True
        if self._leaving_again is not None:
            self._leaving_again.cancel()
        if self._stopped or self._member.has_left:
            return
        manifest, member = self._member.manifest, self._member
        sealed = [each for each in (member.frontier, self.ended) if each is not None]
        leaving = Leaving(
            manifest.job_id,
            manifest.incarnation,
            self._context.me,
            member.epoch,
            max(sealed, default=FIRST),
            self.ended is not None,
        )
        self._send(leaving)
        self._leaving_again = self._context.after(self._context.jittered(LEAVE_AGAIN_S), self.leave)

    def stay(self) -> None:
        """A version wants the member again: it ends at its last interval, and gets a number behind it."""
        self.leaving = False
        if self._leaving_again is not None:
            self._leaving_again.cancel()
        self.enroll()
        self._context.after(ENROLL_S, self._enroll_again)

    def _enroll_again(self) -> None:
        if not self._stopped and not self._member.is_expected and not self.leaving:
            self._context.route(self._member.manifest.job_id, self.enrolment())
            self._context.after(self._context.jittered(ENROLL_S), self._enroll_again)

    def _check(self) -> None:
        if not self._stopped:
            if not self.leaving:
                self._send(self.enrolment())
            self._context.in_round(CHECK_S, self._check)

    def _send(self, message: Enroll | Leaving) -> None:
        """Alternate between the root of the tree, which may not lead any more, and the known master.

        A route costs a look-up of the root.
        """
        if self._by_route:
            self._context.route(self._member.manifest.job_id, message)
        else:
            self._context.send(self._member.master, message)
        self._by_route = not self._by_route
