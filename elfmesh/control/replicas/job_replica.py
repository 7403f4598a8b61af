"""The replica of a job at its possible successors: the terms, and a copy of the results log.

Owns the state of jobs that other agents lead. Does not decide which agent leads.
"""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import has_no_members
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import DropLog, Persist
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.srt.events import Subscribe, Unsubscribe


class JobReplica:
    """Replica of one job.

    Args:
        terms: the known terms.
        copy: this agent's copy of the job's results log.
    """

    def __init__(self, context: Context, terms: Terms, copy: LogCopy) -> None:
        self._context = context
        self.terms, self.copy = terms, copy

    def keep(self, terms: Terms, roster: int = 0) -> None:
        """Store terms of the same incarnation, unless they are older; they are durable before later effects.

        An agent that only knows a new master has an old roster with a new epoch. If the register names a
        later `roster`, it is taken from terms of an earlier epoch, too; epoch and master stay.
        """
        if self.terms.version < roster <= terms.version and terms.epoch < self.terms.epoch:
            known, stated = self.terms, self.terms.stated_roster_epoch
            terms = replace(terms, epoch=known.epoch, master=known.master, stated_roster_epoch=stated)
        if (terms.epoch, terms.version) >= (self.terms.epoch, self.terms.version) and terms != self.terms:
            self.terms = terms
            self.persist()

    def persist(self) -> None:
        self._context.emit(Persist("job", self.terms.manifest.job_id, pack(Replica(self.terms, None))))

    def begin(self) -> None:
        """Store the terms; join the tree of a job without members, because no member looks for its master."""
        self.persist()
        self.copy.mending.found(self.copy.lacking)
        if has_no_members(self.terms.manifest.text):
            self._context.emit(Subscribe(self.copy.job))

    def end(self) -> None:
        self._context.emit(DropLog(self.copy.job))
        if has_no_members(self.terms.manifest.text):
            self._context.emit(Unsubscribe(self.copy.job))
