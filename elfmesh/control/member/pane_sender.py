"""One member's open panes on their way to a standby in another failure domain (STANDBY).

Owns which agent stands by, and the chain that it holds. The worker cuts what it has read (`CutPanes`), at
most once per LAG and only after the previous delta is acknowledged, so a slow standby causes larger deltas
and no queue. It does so when it reads the log, because a timer here would wake it once more. The chain begins
again with all open panes if the standby is another one, if it lacks a delta, or if the deltas have become
larger than the panes: this bounds what the standby holds.

Invariants: deltas of a chain are numbered without a gap, and one is under way at a time. A standby that does
not acknowledge is replaced after `TRIES` attempts, and not chosen for `AVOID_S`.

The terms name the members that have a standby (`replicas.standby_plans`).

Paper: PPA II-B, IV. Deviation: a member has one standby, in another domain: the present one, or else the
nearest by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from elfmesh import ids
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.failure_domains import share
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.protocol.events import CutPanes, PanesCut
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_standby import PANES_MAX, Chained, Delta, PaneDelta, Shipping
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.residency import allows

AGAIN_S = 1.0
TRIES = 3
AVOID_S = 60.0
DELTAS_BYTES_MIN = 160 << 10
DELTAS_MAX = 512
"""Bytes of deltas up to which no chain begins again, although its panes are smaller, and number of deltas
from which it does. A standby holds that many bytes for each member."""

REPORT_S = 10.0
ALONE = "no other agent is a member"
UNABLE = "no other member stands by: limits.standby is 0 there, or its release is an earlier one"
EXCLUDED = "keep_in of this agent excludes all other members"
TOO_BIG = "its open windows are larger than 16 MiB"
NO_ROOM = "no agent has room within its limits.standby"
SILENT = "no agent acknowledges"
"""Why a member has no standby."""


class ShippingMember(Protocol):
    """What the sender needs of its member."""

    master: Contact
    manifest: Manifest
    plan: JobPlan
    epoch: int
    entry: RosterEntry | None


class PaneSender:
    """The chain of one member of one job.

    Attributes:
        standby: the agent that holds the open panes; None: there is none.
        acknowledged: whether it has acknowledged the beginning of the present chain.
        shipped_bytes: payload of all deltas since the agent was started.
    """

    def __init__(self, context: Context, member: ShippingMember) -> None:
        self._context, self._member = context, member
        self.standby: Contact | None = None
        self.acknowledged = False
        self._peers: tuple[Contact, ...] = ()
        self._is_planned = False
        self._avoided: dict[bytes, float] = {}
        self._order = self._chain = self._next = self._tries = 0
        self._sent: tuple[Delta, bytes] | None = None
        self._whole_bytes = self._delta_bytes = 0
        self._reported, self._reported_at, self._problem = (0, 0, b"", ""), float("-inf"), ""
        self._cut_at = self._age_s = 0.0
        self._lag_s: float | None = None
        self.shipped_bytes = self._counted_bytes = self._bytes_s = 0
        self._measured_at: float | None = None
        self._alarm = Alarm(context, self._due)

    @property
    def lag_s(self) -> float | None:
        """Age of the oldest record that the standby may lack; None: it has acknowledged nothing."""
        if self._lag_s is None or self._sent is None:
            return self._lag_s
        return self._age_s + self._context.now - self._cut_at

    def on_roster(self, terms: Terms) -> None:
        """Choose the standby among the members of a roster, if this member is to have one."""
        me = self._context.me
        planned = terms.standbys
        self._is_planned = self._member.plan.standby_s is not None and (
            isinstance(planned, UnsetType)
            or any(each.number in planned for each in terms.members if each.contact.id == me.id)
        )
        alone = ALONE
        if not self._is_planned:
            self._peers = ()
        else:
            others = [each for each in terms.members if each.until is None and each.contact.id != me.id]
            able = [each.contact for each in others if each.stands_by]
            allowed = [each for each in able if allows(self._context.policy.keep_in, each)]
            self._peers = tuple(sorted(allowed, key=self._nearness))
            alone = EXCLUDED if able else UNABLE if others else ALONE
        if not self._peers or self._problem in (ALONE, UNABLE, EXCLUDED):
            self._problem = alone if self._is_planned and not self._peers else ""
        self._choose()
        self._report()

    @safeguard("standby-elsewhere")
    def _nearness(self, peer: Contact) -> tuple[bool, int]:
        me = self._context.me
        return share(me, peer, self._member.plan.standby_across), ids.distance(peer.id, me.id)

    def _report(self) -> None:
        """Tell the master which agent stands by; from time to time again, because a message may be lost."""
        member, now = self._member, self._context.now
        standby = self.standby.id if self.standby is not None and self.acknowledged else b""
        problem = "" if standby else self._problem
        if member.entry is None or not (standby or problem or any(self._reported[2:])):
            return
        state = (member.epoch, member.entry.number, standby, problem)
        if state != self._reported or now - self._reported_at >= REPORT_S:
            self._reported, self._reported_at = state, now
            worth = round(1000 * (self._lag_s or 0.0)), self._rate()
            self._context.send(member.master, Shipping(member.manifest.job_id, *state, *worth))

    def _rate(self) -> int:
        """Return the bytes per second of the newest whole period; one delta in a moment is no rate."""
        now, since = self._context.now, self._measured_at
        if since is None or now - since >= REPORT_S:
            self._bytes_s = 0 if since is None else round(self._counted_bytes / (now - since))
            self._measured_at, self._counted_bytes = now, 0
        return self._bytes_s

    def _choose(self) -> None:
        now = self._context.now
        self._avoided = {agent: until for agent, until in self._avoided.items() if until > now}
        usable = [each for each in self._peers if each.id not in self._avoided] or self._peers[:1]
        chosen = usable[0] if usable else None
        if self._may_stay(usable):
            chosen = self.standby
        if chosen == self.standby:
            return
        had, self.standby, self.acknowledged, self._sent = self.standby, chosen, False, None
        self._lag_s = None
        self._alarm.cancel()
        if chosen is not None:
            self._cut(whole=True)
        elif had is not None:
            self._context.emit(CutPanes(self._member.manifest.job_id, 0, whole=False))

    def _may_stay(self, usable: Sequence[Contact]) -> bool:
        """Whether the present standby is in no nearer domain than the best; a nearer id ends no chain."""
        if not self.acknowledged or self.standby is None or self.standby not in usable:
            return False
        return self._nearness(self.standby)[0] == self._nearness(usable[0])[0]

    def _cut(self, *, whole: bool, after_s: float = 0.0) -> None:
        self._order += 1
        self._context.emit(CutPanes(self._member.manifest.job_id, self._order, whole, round(after_s * 1e6)))

    def cut(self, event: PanesCut) -> None:
        """Ship what the worker has read. A worker that was started again repeats the newest order, whole."""
        manifest = self._member.manifest
        if self.standby is None or (event.incarnation, event.number) != (manifest.incarnation, self._order):
            return
        payload = b"".join(each.payload for each in event.panes)
        if event.error or len(payload) > DATA_FRAME_BYTES_MAX or len(event.panes) > PANES_MAX:
            self._context.stats["control.not_shipped_too_big"] += 1
            self._sent, self.acknowledged, self._problem = None, False, TOO_BIG
            self._report()
            self._alarm.set(AVOID_S)
            return
        self._cut_at, self._age_s = self._context.now, event.age_us / 1e6
        if event.whole:
            self._chain, self._next, self._whole_bytes, self._delta_bytes = (
                self._chain + 1,
                0,
                len(payload),
                0,
            )
            self.acknowledged = False
        else:
            self._delta_bytes += len(payload)
        about = (manifest.job_id, manifest.incarnation, self._context.me.id, self._context.me.incarnation)
        panes = (
            PaneDelta(each.evaluated, each.pane, each.contributed, each.filtered, len(each.payload))
            for each in event.panes
        )
        place = (self._chain, self._next, event.first, event.until_us)
        rule = self._context.policy.keep_in or UNSET
        self._sent = Delta(*about, *place, tuple(panes), rule), payload
        self._tries = 0
        self._send()

    def _send(self) -> None:
        assert self.standby is not None
        assert self._sent is not None
        delta, payload = self._sent
        self._tries += 1
        self._context.stats["control.shipped_bytes"] += len(payload)
        self.shipped_bytes += len(payload)
        if self._lag_s is not None:  # what a new standby needs first is no lasting cost
            self._counted_bytes += len(payload)
        self._context.send(self.standby, delta, payload, lane=BULK_LANE if payload else 0)
        self._alarm.set(AGAIN_S)

    def on_chained(self, sender: Contact, message: Chained) -> None:
        """Take the standby's acknowledgement."""
        chain = (self._context.me.incarnation, self._chain)
        if self._sent is None or self.standby is None or sender.id != self.standby.id:
            return
        if (message.boot, message.chain) != chain:
            return
        if not message.has_room:
            self._replace(NO_ROOM)
        elif message.next > self._next:
            self._sent, self.acknowledged, self._next, self._problem = None, True, self._next + 1, ""
            self._lag_s = self._age_s + self._context.now - self._cut_at
            self._report()
            self._continue()
        elif message.next < self._next:  # it was restarted, or dropped the chain
            self._sent, self.acknowledged = None, False
            self._cut(whole=True)

    def _continue(self) -> None:
        """Order the next delta of an acknowledged chain, or all open panes if the chain has become large."""
        self._alarm.cancel()
        lag_s = self._member.plan.standby_s
        if lag_s is None or self._has_moved():
            return
        large = self._delta_bytes > max(self._whole_bytes, DELTAS_BYTES_MIN)
        self._cut(whole=large or self._next >= DELTAS_MAX, after_s=lag_s)

    def _has_moved(self) -> bool:
        """Move to an agent in another domain, which may have room again. Returns whether one is chosen."""
        before = self.standby
        if before is not None and self._avoided and self._nearness(before)[0]:
            self._alarm.set(AVOID_S)
            self._choose()
        return self.standby != before

    def _due(self) -> None:
        if self.standby is None or (self._sent is None and self._has_moved()):
            return
        if self._sent is None and not self.acknowledged:
            self._cut(whole=True)
        elif self._sent is not None and self._tries < TRIES:
            self._send()
        elif self._sent is not None:
            self._replace(SILENT)

    def _replace(self, problem: str) -> None:
        """Ship to another agent; if there is none, to this one again after a pause."""
        assert self.standby is not None
        before, self._problem = self.standby, problem
        self._avoided[before.id] = self._context.now + AVOID_S
        self._context.stats["control.standbys_replaced"] += 1
        self._choose()
        if self.standby == before:
            self._sent, self.acknowledged = None, False
            self._alarm.set(AVOID_S)
        self._report()

    def stop(self) -> None:
        self.standby, self._sent = None, None
        self._alarm.cancel()
