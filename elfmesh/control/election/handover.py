"""Handover of a job to the agent that is closer to the job's id.

Owns the lookup of the successor and the pause between two requests to it. The control register elects the
successor.

Invariant: no interval is closed from the moment at which a master gives way until the successor leads, or
until the master is the root again.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master").
"""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.control.context import Context
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages_succession import Handover
from elfmesh.overlay.events import LookupDone

HANDOVER_S = 1.0
"""Pause before a handover is tried again; it is short because no interval is closed meanwhile."""


class HandoverPolicy:
    """All handovers of one agent.

    Args:
        context: clock and effects.
        masters: masters of this agent, by job.
    """

    def __init__(self, context: Context, masters: Mapping[bytes, Master]) -> None:
        self._context, self._masters = context, masters

    def begin(self, master: Master) -> None:
        """Hand over the job of `master` when no interval is in flight."""
        master.quiesce.hand_over(lambda: self._find(master))

    def _find(self, master: Master) -> None:
        if self._masters.get(master.job) is master:
            self._context.lookup(master.job, lambda done: self._ask(master, done))

    def _ask(self, master: Master, done: LookupDone | None) -> None:
        if self._masters.get(master.job) is not master or not master.quiesce.handing_over:
            return
        if done is not None and done.contacts and done.contacts[0].id != self._context.me.id:
            self._context.send(done.contacts[0], Handover(master.terms, master.copy.latest))
        elif master.job in self._context.roots:
            master.quiesce.keep()
            return
        self._context.after(HANDOVER_S, lambda: self._find(master))
