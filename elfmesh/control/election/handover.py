"""Handover of a job to the agent that is closer to the job's id.

Owns the lookup of the successor and the pause between two requests to it. The control register elects the
successor.

Invariant: no interval is closed from the moment at which a master gives way until the successor leads, or
until the master is the root again.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master").
"""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.master.master_term import MasterTerm
from elfmesh.control.protocol.messages_succession import Handover
from elfmesh.overlay.events import LookupDone

HANDOVER_S = 1.0
"""Pause before a handover is tried again; it is short because no interval is closed meanwhile."""


class HandoverPolicy:
    """All handovers of one agent."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, term: MasterTerm) -> None:
        """Hand over the job of a term when no interval is in flight."""
        term.quiesce.hand_over(lambda: self._find(term))

    def _find(self, term: MasterTerm) -> None:
        if term.leads():
            self._context.lookup(term.job, lambda done: self._ask(term, done))

    def _ask(self, term: MasterTerm, done: LookupDone | None) -> None:
        if not term.leads() or not term.quiesce.handing_over:
            return
        if done is not None and done.contacts and done.contacts[0].id != self._context.me.id:
            successor, held = done.contacts[0], term.terms.closed
            self._context.note("handed over", term.job, held, held + 1, peer=successor.id)
            self._context.send(successor, Handover(term.terms, term.copy.latest))
        elif term.job in self._context.roots:
            term.quiesce.keep()
            return
        self._context.after(HANDOVER_S, lambda: self._find(term))
