"""Whether anybody still leads a job that words are passed on for.

The root of a job's tree looks after its master, but a job that is over has no tree. Who has missed its end,
still holds it for a master that has left for good, and is the closest agent to it, would pass on every word
that is to begin it again, for ever.

Invariant: nobody is put in the place of a master that answers; who leads is decided by the control register,
which also says that there is nothing to be led.
"""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.terms import Terms
from elfmesh.overlay.events import ProbeDone


class Doubts:
    """What one agent does about words that it has passed on and that come again.

    Args:
        context: clock and probes.
        leadership: who leads what.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership

    def passed_again(self, job: bytes) -> None:
        """A word was not answered where it was passed on to: look whether that agent is there."""
        terms, _ = self._leadership.known(job)
        if terms is not None and self._no_client_waits(terms):
            self._context.probe(terms.master, lambda done: self._probed(terms, done))

    def _probed(self, terms: Terms, done: ProbeDone | None) -> None:
        if done is not None and not done.alive and self._no_client_waits(terms):
            self._leadership.take_over(terms)

    def _no_client_waits(self, terms: Terms) -> bool:
        job, me = terms.manifest.job_id, self._context.me.id
        leader = self._leadership.leader(job)
        known = leader is not None and leader.id == terms.master.id != me
        return known and job not in self._context.roots and not self._leadership.leads(job)
