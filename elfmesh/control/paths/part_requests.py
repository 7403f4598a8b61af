"""Part requests: a master requests from others what a group is late with, because its own link may fail.

Owns which groups are late, which agents have been asked, and the budget. First, idle paths of the group are
revived (`idle_paths`), one after the other. Then sites are asked, which hold the parts (`site_parts`) and
keep a request pending for a while. Decides about no interval.

Before an interval ends without some members, all sites are asked once more for what they hold of these
members, whatever the budget, and the interval waits `ANSWER_S` for them. The request stays pending while
these members are missing or dead, so later intervals need not wait: the sites send at once what arrives.

A group is late when its contributions to the first open interval have not arrived after its usual lag and
four deviations. The lag begins when the first member has passed the interval. A site without a link to a
group needs no request: it takes the record on which another site votes.

Invariants: a record of the master lacks no contribution that a site had when it was asked last, if the site
answers. Each agent is asked once for an interval and a late group. Such a request needs a budget, which grows
by `SHARE` of the bytes that come directly and falls by those that come on request, so that nothing is hedged
while everything is slow; one request in `FREE_S` is free. A part of a site counts as one of a root does,
because roots cut each part once for all consumers (D-7).

Paper: Hwang et al. V-C (revival of streams). Deviation: after the usual lag instead
of 10 s, and with a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elfmesh.contribution import split
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import COUNTS_MAX, FIRST
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import CurrentTerms
from elfmesh.control.paths.inheritance import Inheritance
from elfmesh.control.paths.layout import by_group, group_of
from elfmesh.control.paths.layouts import Layouts
from elfmesh.control.protocol.messages_parts import PartRequest, SitePart
from elfmesh.interval_map import bits, numbers
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.messages import Segment

SHARE, FREE_S = 0.1, 1.0
LAG_S_MIN, LAG_S_FIRST = 0.05, 1.0
"""Least lag after which a group is late, and the lag of a group that has sent nothing yet."""

LAG_SHARE_MAX = 0.5
"""Of the deadline, at which a group is late in any case."""

NEXT_S = 0.5
"""Pause before the next site is asked for what the one before has not sent."""

ANSWER_S = 1.0
"""Time for the answers of sites before an interval ends, and pause until the request is repeated; below
`PENDING_S` of `site_parts`."""

DEVIATIONS = 4


class RequestedTrees(Protocol):
    """The trees of a master."""

    def copy_of(self, tree: bytes | None) -> int: ...

    def revive(self, gateway: Contact) -> None: ...


class RequestingTerm(CurrentTerms, Protocol):
    """What the requests need of the master's term."""

    plan: JobPlan
    book: RosterBook
    closer: Closer
    collection: Collection
    inheritance: Inheritance
    layouts: Layouts
    trees: RequestedTrees

    def leads(self) -> bool: ...


@dataclass(slots=True)
class UsualLag:
    """Mean and mean deviation of the lag of one group, in seconds, over its newest parts."""

    mean_s: float
    deviation_s: float = 0.0

    def add(self, lag_s: float) -> None:
        self.deviation_s += (abs(lag_s - self.mean_s) - self.deviation_s) / 4
        self.mean_s += (lag_s - self.mean_s) / 8

    @property
    def late_s(self) -> float:
        return self.mean_s + DEVIATIONS * self.deviation_s


@dataclass(slots=True)
class Arrivals:
    """What a gateway or group has sent to the master: everything below `stop`, usually after `lag`."""

    stop: int = FIRST
    lag: UsualLag | None = None

    def add(self, stop: int, lag_s: float | None) -> None:
        self.stop = max(self.stop, stop)
        if lag_s is not None and self.lag is None:
            self.lag = UsualLag(lag_s)
        elif lag_s is not None and self.lag is not None:
            self.lag.add(lag_s)


class PartRequests:
    """The part requests of one term.

    Args:
        term: of the master; its parts need not be there yet.

    Attributes:
        arrivals: by gateway of the layout, what it has sent.
    """

    def __init__(self, context: Context, term: RequestingTerm) -> None:
        self._context, self._term = context, term
        self._group_arrivals: dict[str, Arrivals] = {}
        self.arrivals: dict[bytes, Arrivals] = {}
        self._asked: dict[str, set[bytes]] = {}
        self._at: int | None = None
        self._budget = 0.0
        self._free_at = self._next_at = float("-inf")
        self._alarm = Alarm(context, self._look)
        self._last: dict[int, float] = {}
        self._asked_last: set[bytes] = set()
        self._renewal = Alarm(context, self._renew)

    def arrived(self, sender: Contact, segment: Segment, nbytes: int) -> None:
        """The root of a group's tree has sent a part to this master."""
        self._budget += SHARE * nbytes
        layouts, last = self._term.layouts, segment.stop - 1
        gateways = () if layouts.layout is None else layouts.layout.gateways
        group = next((each.group for each in gateways if each.contact.id == sender.id), None)
        since = self._term.collection.due_since(last)
        if group is not None:
            lag_s = None if since is None else self._context.now - since
            known = {each.contact.id: self.arrivals.get(each.contact.id) for each in gateways}
            self.arrivals = {agent: each or Arrivals() for agent, each in known.items()}
            self.arrivals[sender.id].add(segment.stop, lag_s)
            if layouts.idle_paths.arrived(group, sender.id, last, nbytes):
                self._group_arrivals.setdefault(group, Arrivals()).add(segment.stop, lag_s)
        self._look()

    def on_site_part(self, sender: Contact, message: SitePart, payload: bytes) -> None:
        """A site has sent a part of this term."""
        segment, collection = message.segment, self._term.collection
        payloads = split(payload, [entry.size for entry in segment.entries])
        if all(each.id != sender.id for each in self._sites()) or not self._is_placed(message):
            self._context.stats["control.misplaced"] += 1
        elif payloads is None or any(len(entry.counts) > COUNTS_MAX for entry in segment.entries):
            self._context.stats["control.malformed"] += 1
        else:
            self._budget -= len(payload)
            self._context.stats["control.requested_bytes"] += len(payload)
            copy = self._term.trees.copy_of(message.tree or None)
            collection.collected(message.partition, segment, payloads, copy)

    @safeguard("sites-are-asked-before-an-end")
    def before_end(self, missing: int, due: float) -> float:
        """Request from all sites what the first open interval lacks, because it may end without it.

        Args:
            missing: bit set of the members.
            due: when the first member passed the interval.

        Returns:
            When the sites should have answered; in the past if they have, or if there is none.
        """
        members, known = numbers(missing), {each.id for each in self._present_sites()}
        if not known or not missing:
            return due
        if not known <= self._asked_last:
            self._last.clear()
        self._asked_last = known
        if not self._last.keys() >= set(members):
            self._last = {each: self._asked_for(each) for each in members} | self._last
            self._renew()
        return max(self._last[each] for each in members) + ANSWER_S

    def _asked_for(self, number: int) -> float:
        """Return when the sites were asked for what they hold of a member: now, or as this term began.

        A member that had died before has contributed nothing to this term.
        """
        died, begun = (
            self._term.collection.straggler_policy.dead_since(number),
            self._term.inheritance.asked_at,
        )
        return begun if died is not None and begun is not None and died <= begun else self._context.now

    def _renew(self) -> None:
        """Keep the request pending at the sites for members that are missing or dead."""
        term, at = self._term, self._term.closer.next
        lacking = 0 if term.collection.due_since(at) is None else term.collection.missing()
        wanted = term.book.required(at) & (lacking | bits(term.collection.straggler_policy.dead))
        self._last = {number: since for number, since in self._last.items() if wanted >> number & 1}
        if self._last and term.leads():
            request = self._request_for(at, bits(self._last), "before an end")
            for site in self._present_sites():
                self._context.send(site, request)
            self._renewal.set(ANSWER_S)

    def _present_sites(self) -> list[Contact]:
        return [each for each in self._sites() if not self._context.is_gone(each.id)]

    def _request_for(self, at: int, lacking: int, why: str) -> PartRequest:
        """Return a request, which is counted and noted."""
        terms = self._term.terms
        about = terms.manifest.job_id, terms.manifest.incarnation, terms.epoch, terms.roster_epoch, at
        self._context.stats["control.part_requests"] += 1
        self._context.note("requested parts", about[0], at, at + 1, why)
        return PartRequest(*about, bitmap_of(lacking))

    def _is_placed(self, message: SitePart) -> bool:
        known = bits_of(message.segment.coverage) & ~self._term.book.given == 0
        return known and 0 <= message.partition < len(self._term.collection.trees)

    def _sites(self) -> tuple[Contact, ...]:
        layout = self._term.layouts.layout
        return () if layout is None else layout.sites[1:]

    def _look(self) -> None:
        """Request the parts of late groups. The alarm wakes this method when the next group becomes late."""
        closer, now = self._term.closer, self._context.now
        if not self._term.leads() or closer.paused or closer.founding or self._term.layouts.layout is None:
            return
        at, due = closer.next, self._term.collection.due_since(closer.next)
        if self._at != at:
            self._at, self._next_at = at, float("-inf")
            self._asked.clear()
        missing = 0 if due is None else self._term.collection.missing()
        if due is None or not missing:
            return
        wakes = []
        for group, members in self._groups().items():
            lacking, late_at = missing & members, due + self._late_s(group)
            if not lacking or not self._unasked(group):
                continue
            if now >= max(late_at, self._next_at):
                self._request(group, at, lacking)
            wakes.append(max(late_at, self._next_at, now + 0.001))
        if wakes:
            self._alarm.set_at(min(wakes))

    def _groups(self) -> dict[str, int]:
        """The groups with the bit sets of their members."""
        if (layout := self._term.layouts.layout) is None:
            return {}
        found = dict.fromkeys(by_group(layout), 0)
        for entry in self._term.book.active:
            group = group_of(entry.contact, layout.label)
            if group in found:
                found[group] |= 1 << entry.number
        return found

    def _unasked(self, group: str) -> list[Contact]:
        """Return the agents that may have parts of a group: gateways of idle paths, then sites."""
        idle = self._term.layouts.idle_paths.of_site(group, self._context.me.id)
        asked = self._asked.get(group, set())
        return [each for each in (*idle, *self._sites()) if each.id not in asked]

    def _late_s(self, group: str) -> float:
        known = self._group_arrivals.get(group)
        late_s = LAG_S_FIRST if known is None or known.lag is None else max(LAG_S_MIN, known.lag.late_s)
        return min(late_s, LAG_SHARE_MAX * self._term.plan.deadline_s)

    @safeguard("late-groups-are-requested")
    def _request(self, group: str, at: int, lacking: int) -> None:
        if not self._may_ask():
            self._next_at = self._free_at
            return
        agent = self._unasked(group)[0]
        self._asked.setdefault(group, set()).add(agent.id)
        self._next_at = self._context.now + NEXT_S
        request = self._request_for(at, lacking, f"of {group or 'the members'}")
        idle_paths, me = self._term.layouts.idle_paths, self._context.me.id
        if (agent.id, me) in idle_paths.idle:
            idle_paths.revive(agent.id, me)
            self._term.trees.revive(agent)
        else:
            self._context.send(agent, request)

    @safeguard("part-budget")
    def _may_ask(self) -> bool:
        """Whether the budget has something left, or this is the free request of the moment."""
        if self._budget > 0:
            return True
        if self._context.now < self._free_at:
            return False
        self._free_at = self._context.now + FREE_S
        return True
