"""A member whose agent leaves at once: copy hosts get its open windows, which it seals before their time.

Owns the order to the worker to end the logs, and whether everything that the member has read is in copies.
The member's last interval comes from the master (`roster_requests`), the copies are the copy sender's.

Invariants: the member asks for its last interval only after it has sealed everything it has read, so that the
last interval lies behind it. What it has sealed ahead of time goes up no tree, because reducers would hold it
until the other members are as far. The agent may end when copy hosts have acknowledged everything below the
last interval.

Paper: none; PPA loses the open state of a task that ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.member.roster_requests import RosterRequests
from elfmesh.control.protocol.events import EndLog, LogEnded, Sealed

HOSTS_MIN = 2
"""Number of copy hosts of what is handed over: one of them may be lost, as the agent itself may otherwise."""

PATIENCE_S = 5.0
"""Time for the worker to end the logs, which it does not do for a paused job. After it, the member waits
for the ends of its windows."""

ALONE = "no other agent is a member"
UNSEALED = "its logs are not read to their end"
UNACKNOWLEDGED = "no other agent has acknowledged its open windows"


class LeavingMember(Protocol):
    """What the hand-over needs of its member."""

    plan: JobPlan
    entry: RosterEntry | None
    terms: Terms | None
    epoch: int
    contributions: Contributions
    copy_sender: CopySender
    requests: RosterRequests

    @property
    def job(self) -> bytes: ...


class HandOver:
    """The hand-over of one member of one job.

    Attributes:
        begun: whether the agent leaves at once.
    """

    def __init__(self, context: Context, member: LeavingMember) -> None:
        self._context, self._member = context, member
        self.begun = False
        self._ended: int | None = None
        self._alarm = Alarm(context, self._leave)

    @property
    def replicas(self) -> int:
        """Number of agents that keep copies of this member's contributions."""
        return max(self._member.plan.replicas, HOSTS_MIN if self.begun else 0)

    def begin(self) -> None:
        """Seal everything; then ask for the last interval."""
        if self.begun:
            return
        self.begun, terms = True, self._member.terms
        if terms is not None:
            self._member.copy_sender.peers_are(terms.members, self.replicas)
        self._context.emit(EndLog(self._member.job, FIRST))
        self._alarm.set(PATIENCE_S)

    def marked(self, event: Sealed) -> Sealed:
        """Mark what the worker seals from now on."""
        return replace(event, ahead=True) if self.begun else event

    def ended(self, event: LogEnded) -> None:
        """The worker has sealed everything."""
        if not self.begun:
            return
        first, self._ended = self._ended is None, event.stop
        if first:
            self._member.requests.ended = event.stop
            self._leave()
        self.on_roster()

    def _leave(self) -> None:
        self._alarm.cancel()
        self._member.requests.leave()

    def on_roster(self) -> None:
        """Keep copies of everything that is open, and seal up to the last interval once it is known."""
        member = self._member
        if not self.begun:
            return
        for event, number in member.contributions.open():
            member.copy_sender.add(event, number, member.epoch)
        until = None if member.entry is None else member.entry.until
        if until is not None and self._ended is not None and self._ended < until:
            self._context.emit(EndLog(member.job, until))

    @property
    def is_done(self) -> bool:
        """Whether copy hosts have everything that is expected of the member."""
        entry, ended = self._member.entry, self._ended
        if entry is None or entry.until is None or not entry.ahead or ended is None or ended < entry.until:
            return False
        return not self._member.contributions.waiting and self._member.copy_sender.is_handed_over

    @property
    def problem(self) -> str:
        """Why the agent cannot end; "" if it does not leave at once, or waits for its master."""
        if not self.begun:
            return ""
        if self._ended is None:
            return UNSEALED
        if not self._member.copy_sender.has_peers:
            return ALONE
        return "" if self._member.copy_sender.is_handed_over else UNACKNOWLEDGED
