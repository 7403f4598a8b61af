"""Early states of a member: from its worker to the master (EARLY).

Owns the number of each message, and how many members share the thresholds. Keeps no states: the worker
repeats them when they change.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.protocol.events import EarlyMembers, EarlyReported
from elfmesh.control.protocol.messages_early import Early
from elfmesh.machine import Contact


class EarlyMember(Protocol):
    """What the sender needs of its member."""

    master: Contact
    manifest: Manifest
    plan: JobPlan
    epoch: int
    entry: RosterEntry | None
    closed: int | None

    @property
    def begun(self) -> int: ...


class EarlySender:
    """Sender of one member's early states."""

    def __init__(self, context: Context, member: EarlyMember) -> None:
        self._context, self._member = context, member
        self._seq = self._members = 0

    def on_roster(self, terms: Terms) -> None:
        """Share the thresholds among the members of a roster."""
        members = sum(each.until is None for each in terms.members)
        if self._member.plan.early_us is not None and members != self._members:
            self._members = members
            self._context.emit(EarlyMembers(terms.manifest.job_id, members))

    def reported(self, event: EarlyReported) -> None:
        """Send states of an interval to which this member contributes."""
        member, interval = self._member, event.interval
        entry = member.entry
        if entry is None or event.incarnation != member.manifest.incarnation:
            return
        first = max(entry.start, member.begun, interval if member.closed is None else member.closed)
        if interval < first or (entry.until is not None and interval >= entry.until):
            return
        self._seq += 1
        about = (member.manifest.job_id, event.incarnation, member.epoch, event.evaluated, entry.number)
        boot = self._context.me.incarnation
        message = Early(*about, boot, self._seq, interval, event.skipped)
        self._context.send(member.master, message, event.payload)
