"""What a member asks its master about its place on the roster: for a number, for what it missed, for its end.

Owns when these requests are sent, and sent again. What the roster says is the member's to take.

Invariants: a member without a number asks for one until it has one; one that leaves asks for nothing but its
last interval, until nothing is expected of it (D-14).
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Participant, RosterEntry
from elfmesh.control.protocol.messages import Enroll, Leaving
from elfmesh.machine import Contact

ENROLL_S = 2.0
"""When a member without a number asks its master (again)."""

CHECK_S = 30.0
"""How often a member asks whether it has missed anything (D-16)."""

LEAVE_AGAIN_S = 1.0


class RosterApplicant(Protocol):
    """What the requests say of a member.

    Attributes:
        manifest: its job.
        master: who leads it, as far as known.
        epoch: of the newest roster.
        version: of the newest roster.
        entry: its own on that roster.
    """

    manifest: Manifest
    master: Contact
    epoch: int
    version: int
    entry: RosterEntry | None

    @property
    def begun(self) -> int:
        """The first interval of which it may still contribute something."""
        ...

    @property
    def frontier(self) -> int | None:
        """One past the last interval that has gone up, None before the first."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether everything that was expected of this agent is closed."""
        ...


class RosterRequests:
    """Sends the requests of one member.

    Args:
        context: clock and way out.
        member: of whom they are.

    Attributes:
        leaving: whether the member asks for a last interval.
    """

    def __init__(self, context: Context, member: RosterApplicant) -> None:
        self._context, self._member = context, member
        self.leaving, self._stopped, self._by_route = False, False, True

    def begin(self) -> None:
        self._context.after(ENROLL_S, self._enroll_again)
        self._context.after(self._context.jittered(CHECK_S), self._check)

    def stop(self) -> None:
        self._stopped = True

    def enroll(self) -> None:
        self._context.send(self._member.master, self.enrolment())

    def enrolment(self) -> Enroll:
        member, me = self._member, Participant(self._context.me, self._context.name)
        job, incarnation = member.manifest.job_id, member.manifest.incarnation
        return Enroll(job, incarnation, me, member.epoch, member.version, member.begun)

    def leave(self) -> None:
        """Ask the master for a last interval, again until nothing is expected of us (D-14).

        What is sealed meanwhile waits: beyond that interval no record would have it, and it would count as
        lost.
        """
        self.leaving = True
        if self._stopped or self._member.has_left:
            return
        manifest, frontier = self._member.manifest, self._member.frontier
        leaving = Leaving(
            manifest.job_id,
            manifest.incarnation,
            self._context.me,
            self._member.epoch,
            FIRST if frontier is None else frontier,
        )
        # Now by the tree's root, which may not lead any more, now by whom we know.
        if self._by_route:
            self._context.route(manifest.job_id, leaving)
        else:
            self._context.send(self._member.master, leaving)
        self._by_route = not self._by_route
        self._context.after(self._context.jittered(LEAVE_AGAIN_S), self.leave)

    def _enroll_again(self) -> None:
        if not self._stopped and self._member.entry is None and not self.leaving:
            self._context.route(self._member.manifest.job_id, self.enrolment())
            self._context.after(self._context.jittered(ENROLL_S), self._enroll_again)

    def _check(self) -> None:
        if not self._stopped and not self.leaving:
            self._context.route(self._member.manifest.job_id, self.enrolment())
            self._context.after(self._context.jittered(CHECK_S), self._check)
