"""The end of a job that has one: after its last interval (UNTIL), or because its client is gone.

Owns the times at which the job was complete and at which its client has made the last request. Closes no
interval, and ends the job as a deletion does.

Invariants: the members stop reading when the last interval is closed, and the results stay readable for
`RESULTS_S`. A job whose end has passed without an agent ends as late. A leased job (`elf query`) ends at the
latest `LEASE_S` and one upkeep after the last request of its client. A successor begins both times again,
because it does not know them: an end may come later, never earlier.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.commit import Committer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.master.ports import OpenTerm
from elfmesh.control.master.result_service import ResultService

RESULTS_S = 3600.0
"""How long the results of a complete job stay readable."""

LEASE_S = 20.0
"""How long a leased job goes on without a request of its client, which makes one every second."""

HUNG_UP_S = 5.0
"""...and after a reader has lost its connection, because it may be another one than the client."""


class BoundedTerm(OpenTerm, Protocol):
    """What the end of a job with UNTIL needs of the master's term."""

    manifest: Manifest
    plan: JobPlan
    committer: Committer
    result_service: ResultService

    @property
    def paused(self) -> bool: ...

    def pause(self, paused: bool) -> None: ...

    def finish(self) -> None:
        """End the job: nothing of it stays."""
        ...


class BoundedJob:
    """See the module.

    Args:
        term: of the master; its parts need not be there yet.
    """

    def __init__(self, term: BoundedTerm) -> None:
        self._term, self._context = term, term.context
        until_us = term.manifest.until_us
        self._stop = None if until_us is None else term.plan.first_after(until_us)
        self._asked_at = self._lived_at = self._context.now

    @property
    def is_complete(self) -> bool:
        """Whether the last interval is closed."""
        return self._stop is not None and self._term.committer.closed >= self._stop

    def advanced(self) -> None:
        """The register may have closed the last interval: the members stop reading, and no reader waits."""
        if not self.is_complete:
            return
        if not self._term.result_service.complete:
            self._lived_at = self._context.now
            self._term.result_service.finish()
        if not self._term.paused:
            self._term.pause(True)

    def asked(self) -> None:
        """A client reads the results."""
        self._asked_at = self._context.now

    def hung_up(self) -> None:
        """A client that waited for results has lost its connection; it need not be the one of the query."""
        if self._term.manifest.leased:
            self._asked_at = min(self._asked_at, self._context.now - LEASE_S)
            self._context.after(HUNG_UP_S, self.upkeep)

    def upkeep(self) -> None:
        if not self._term.is_open or self._stop is None:
            return
        self.advanced()
        if not self.is_complete and self._may_advance:
            self._lived_at = self._context.now
        if self._is_left or self._context.now - self._lived_at >= RESULTS_S:
            self._term.finish()

    @property
    def _may_advance(self) -> bool:
        """Whether the job has an input, or agents with its streams may still join before its end."""
        if self._term.book.active or self._term.plan.has_no_members:
            return True
        now_us, until_us = self._context.facts("clock").get("now_us", 0), self._term.manifest.until_us
        return until_us is not None and 0 < now_us < until_us

    @property
    def _is_left(self) -> bool:
        """Whether no client reads the results of a leased job any more."""
        if not self._term.manifest.leased or self._term.result_service.waiting:
            return False
        return self._context.now - self._asked_at >= LEASE_S
