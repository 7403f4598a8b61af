"""One member's contributions on their way to peers in other failure domains (D-8).

Owns which peers have which contribution. Holds no copy of others (`copy_store`), decides nothing about
intervals.

Invariants: a contribution counts as safe when `replicas` peers have acknowledged it, at least one of them in
another failure domain than this agent, by the label of REPLICAS ... ACROSS; what is not acknowledged is sent
again until it is closed. A peer that acknowledges nothing is replaced, because the roster has dead members,
and has them longer without a master.

Paper: PPA 3 and Hwang et al. 3. Deviation: which peers is a function of the
roster, not of a planner: nearest by id among the other domains first, so that no agent keeps for all.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET
from sortedcontainers import SortedDict

from elfmesh import ids
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS, share
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_safety import Keep, Kept, KeptCopy
from elfmesh.control.protocol.messages_standby import ContributionRequest
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.parts import entries_of
from elfmesh.srt.residency import allows

AGAIN_S = 2.0
TRIES, AVOID_S = 2, 60.0
"""Number of `AGAIN_S` in which a peer acknowledges nothing, and for how long another one takes its place."""

AGAIN_BYTES = 4 << 20
"""What is sent again at a time: peers that have no room would be sent everything every two seconds."""

USUAL_LABEL = "rack"

UNTOLD = 0
"""The epoch in the word of a peer of an earlier version, which names none; terms begin with 1."""


@dataclass(slots=True)
class _Copy:
    """A contribution that is open, the term in which it went up first, and who has it."""

    event: Sealed
    number: int
    epoch: int
    at: dict[bytes, Contact]


class CopySender:
    """The contributions of one member of one job.

    Args:
        replicas: peers that must have a contribution.
        across: label in which one of them must differ from this agent; "": the text names none.
    """

    def __init__(self, context: Context, replicas: int, across: str = "") -> None:
        self._context, self._replicas, self._across = context, replicas, across or USUAL_LABEL
        self._open: SortedDict[int, _Copy] = SortedDict()
        self._others: list[Contact] = []
        self._peers: tuple[Contact, ...] = ()
        self._awaited: dict[bytes, int] = {}
        self._avoided: dict[bytes, float] = {}
        self._alarm = Alarm(context, self._due)
        self._next: int = FIRST

    def peers_are(
        self, members: tuple[RosterEntry, ...], replicas: int | None = None, across: str | None = None
    ) -> None:
        """The roster is this one now, and with it the clause REPLICAS: choose who keeps for us."""
        more = replicas is not None and replicas > self._replicas
        self._replicas = self._replicas if replicas is None else replicas
        self._across = self._across if across is None else across or USUAL_LABEL
        if not self._replicas:
            self._open.clear()
            return
        me = self._context.me
        present = [entry.contact for entry in members if entry.until is None and entry.contact.id != me.id]
        others = [each for each in present if allows(self._context.policy.keep_in, each)]
        labels = DOMAIN_LABELS[DOMAIN_LABELS.index(self._across) :]
        others.sort(
            key=lambda each: (*(share(me, each, label) for label in labels), ids.distance(each.id, me.id))
        )
        there = {contact.id for contact in others}
        for copy in self._open.values():  # who has left has thrown its copies away
            copy.at = {agent: contact for agent, contact in copy.at.items() if agent in there}
        before, self._others = {contact.id for contact in self._peers}, others
        self._choose()
        if more or {contact.id for contact in self._peers} != before:
            self._alarm.cancel()
            self._again()

    @safeguard("silent-peer-is-replaced")
    def _choose(self) -> None:
        now = self._context.now
        self._avoided = {agent: until for agent, until in self._avoided.items() if until > now}
        usable = [each for each in self._others if each.id not in self._avoided] or self._others
        self._peers = tuple(usable[: self._replicas])

    def add(self, event: Sealed, number: int, epoch: int) -> None:
        """A contribution goes up in a term: its copies go out."""
        if self._replicas:  # also of nothing: that this member has nothing completes an interval
            known = self._open.get(event.start)
            same = known is not None and (known.number, _version(known.event)) == (number, _version(event))
            # After a change of masters everything goes up the trees again; its copies are where they were.
            known = known if same else None
            first, at = (epoch, {}) if known is None else (known.epoch, known.at)
            copy = self._open[event.start] = _Copy(event, number, first, at)
            if not self._is_safe(copy):
                self._send(copy)

    def on_kept(self, sender: Contact, message: Kept) -> None:
        self._awaited.pop(sender.id, None)
        copy = self._open.get(message.start)
        if copy is None or (copy.number, _version(copy.event)[1]) != (message.number, message.rev):
            return
        if message.epoch in (copy.epoch, UNTOLD):
            copy.at[sender.id] = sender

    def answer(self, master: Contact, message: ContributionRequest, ranges: list[tuple[Sealed, int]]) -> None:
        """Send the master what has gone up and may be on its way, or lost with a reducer.

        Args:
            master: the agent that asks.
            message: its request.
            ranges: the contributions that are not closed, with their numbers.
        """
        for event, number in ranges:
            keep, payload = self._copy_of(event, number, message.epoch)
            if event.stop > message.start and len(payload) <= DATA_FRAME_BYTES_MAX:
                lane = BULK_LANE if payload else 0
                self._context.send(master, KeptCopy(message.epoch, keep), payload, lane=lane)

    def released(self, closed: int) -> None:
        while self._open and self._open.peekitem(0)[1].event.stop <= closed:
            self._open.popitem(0)

    def rewind(self, at: int) -> None:
        """What was evaluated from interval `at` on is no part of the job any more: it comes again."""
        for start in list(self._open.irange(at)):
            del self._open[start]
        if self._open:
            copy = self._open.peekitem(-1)[1]
            if copy.event.stop > at:
                copy.event, copy.at = copy.event.within(copy.event.start, at), {}

    def stop(self) -> None:
        self._open.clear()
        self._alarm.cancel()

    @property
    def unsafe(self) -> int:
        """Open contributions that too few peers have."""
        return sum(not self._is_safe(copy) for copy in self._open.values())

    @property
    def has_peers(self) -> bool:
        return bool(self._peers)

    @property
    def is_handed_over(self) -> bool:
        """Whether another agent has each open contribution, in another domain if a peer is in one."""
        elsewhere = [peer for peer in self._peers if self._is_apart(peer)] or self._peers
        wanted = {peer.id for peer in elsewhere}
        return bool(wanted) and all(self._has(copy, wanted) for copy in self._open.values())

    @safeguard("handed-over-before-the-end")
    def _has(self, copy: _Copy, hosts: set[bytes]) -> bool:
        return bool(hosts & copy.at.keys())

    def _is_safe(self, copy: _Copy) -> bool:
        elsewhere = any(map(self._is_apart, copy.at.values()))
        return elsewhere and len(copy.at) >= self._replicas

    def _is_apart(self, peer: Contact) -> bool:
        return not share(self._context.me, peer, self._across)

    def _send(self, copy: _Copy) -> int:
        """Send a copy to whom it lacks; says how many bytes that were."""
        message, payload = self._copy_of(copy.event, copy.number, copy.epoch)
        if len(payload) > DATA_FRAME_BYTES_MAX:
            self._context.stats["control.not_kept_too_big"] += 1
            return 0
        sent = 0
        for peer in self._peers:
            if peer.id not in copy.at:
                self._context.send(peer, message, payload, lane=BULK_LANE if payload else 0)
                self._awaited.setdefault(peer.id, 0)
                sent += len(payload)
        self._later()
        return sent

    def _copy_of(self, event: Sealed, number: int, epoch: int) -> tuple[Keep, bytes]:
        payload = b"".join(each.payload for run in event.parts for each in run)
        message = Keep(
            event.job,
            event.incarnation,
            self._context.me.id,
            number,
            event.start,
            event.stop,
            tuple(map(entries_of, event.parts)),
            event.evaluated,
            _version(event)[1],
            epoch,
            self._context.policy.keep_in or UNSET,
        )
        return message, payload

    def _due(self) -> None:
        self._awaited = {agent: rounds + 1 for agent, rounds in self._awaited.items()}
        for agent in [agent for agent, rounds in self._awaited.items() if rounds >= TRIES]:
            del self._awaited[agent]
            self._avoided[agent] = self._context.now + AVOID_S
        self._choose()
        self._again()

    def _again(self) -> None:
        left = AGAIN_BYTES
        for start in [*self._open.irange(self._next), *self._open.irange(None, self._next, (True, False))]:
            copy = self._open[start]
            if self._is_safe(copy):
                continue
            self._next = start
            if left <= 0:
                self._later()
                return
            left -= self._send(copy)

    def _later(self) -> None:
        if not self._alarm.is_set:
            self._alarm.set(self._context.jittered(AGAIN_S))


def _version(event: Sealed) -> tuple[int, int]:
    """What must be alike for a copy to be one of this: where it ends, and how often it was revised."""
    return event.stop, sum(each.rev - 1 for each in event.parts[0])
