"""Votes on complete intervals, as this agent leads a job or is one of its sites.

Owns where the records go that votes have closed, and what forbids this agent a vote.
"""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.paths.site import leaves_out
from elfmesh.control.paths.site_parts import SiteParts
from elfmesh.control.paths.sites import Sites
from elfmesh.control.register.votes import Records


class VotingSites(Sites):
    """The sites of one agent; its votes also come from its masters.

    Args:
        parts: the parts that this agent holds as a site.
    """

    def __init__(self, context: Context, leadership: Leadership, parts: SiteParts) -> None:
        super().__init__(context, leadership.registers.votes, parts, self._terms_of)
        self._leadership, registers = leadership, leadership.registers
        registers.accepted = self.accepted
        registers.votes.closed, registers.votes.leaves_out = self._closed, self._leaves_out

    def _terms_of(self, job: bytes) -> Terms | None:
        replica = self._leadership.replicas.get(job)
        return None if replica is None else replica.terms

    def _closed(self, job: bytes, records: Records) -> None:
        """Publish records that a majority has voted: at the master, or in this agent's copy of the log."""
        self._context.stats["control.closed_by_votes"] += len(records)
        master = self._leadership.masters.get(job)
        copy = self._leadership.registers.acceptors.settle(job)
        if master is not None:
            master.term.committer.voted(records)
        elif copy is not None:
            for record, rows in records:
                copy.add(record, rows)
            self.closed(job, records[-1][0].index)

    def _leaves_out(self, job: bytes, record: ResultRecord) -> bool:
        master, granted = self._leadership.masters.get(job), self._votes.grant(job)
        if master is None or granted is None:
            return self.leaves_out(job, record)
        term = master.term
        return leaves_out(granted[0], term.book, term.collection.trees, record.index)
