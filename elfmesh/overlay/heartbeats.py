"""Heartbeats: one per pair of peers that watch each other, independent of the number of trees they share.

Owns the watches and their timing; digests belong to the upper layer. One exchange carries the digests of both
ends, so the end that has just received a heartbeat postpones its own and takes over when the other falls
silent.

Invariants: there is at most one timer per watched peer. A watch ends with `Unwatch` or with `PeerDown`, never
without an event.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.machine import Contact, Message
from elfmesh.overlay.context import Context
from elfmesh.overlay.detector import Detector
from elfmesh.overlay.events import Digest
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Beat, BeatBack
from elfmesh.overlay.skew import Skew
from elfmesh.overlay.table import Peer

HEARTBEAT_S = 1.0

HELD_BACK = 1.3
"""Periods without the other end's heartbeat after which this end sends one."""

_SPREAD = 0.05


class Heartbeats:
    """Watches of one agent.

    Args:
        context: shared context.
        members: stores the watched peers.
        detector: notified of missed heartbeats.
        digest: returns the upper layer's bytes for a peer.
        skew: estimates of the peers' wall clocks.
        every_s: the period.
    """

    def __init__(
        self,
        context: Context,
        members: Membership,
        detector: Detector,
        digest: Callable[[bytes], bytes],
        skew: Skew,
        *,
        every_s: float = HEARTBEAT_S,
    ) -> None:
        self._context = context
        self._members = members
        self._detector = detector
        self._digest = digest
        self._skew = skew
        self._every_s = every_s

    def watch(self, contact: Contact) -> None:
        """Begin heartbeats with a peer; no effect if it is watched already."""
        watched = self._members.watched
        if contact.id in watched:
            return
        known = self._members.peer(contact.id)
        if known is None or known.contact.incarnation < contact.incarnation:
            known = Peer(contact)  # an answer of the later boot will end the watch on the earlier one
        watched[contact.id] = known
        self._beat(contact.id)

    def unwatch(self, id: bytes) -> None:
        """End heartbeats with a peer; no effect if it is not watched."""
        self._members.watched.pop(id, None)
        self._skew.forget(id)
        self._context.timers.cancel(("beat", id))

    def gone(self, peer: Peer) -> None:
        self._skew.forget(peer.contact.id)
        self._context.timers.cancel(("beat", peer.contact.id))

    def _hold_back(self, id: bytes, seconds: float) -> None:
        """Postpone this end's heartbeat, because the other end sends them."""
        self._set(id, self._context.after(seconds, _SPREAD))

    def _set(self, id: bytes, when: float) -> None:
        self._context.timers.set(("beat", id), when, lambda: self._beat(id))

    def _beat(self, id: bytes) -> None:
        context = self._context
        peer = self._members.watched[id]
        wait = peer.beaten + HELD_BACK * self._every_s - context.now
        if peer.beaten >= 0 and wait > 0.3 * self._every_s:
            self._hold_back(id, wait)
            return
        self._set(id, context.in_time(self._every_s))
        calls = context.calls
        rid = calls.next_rid()
        context.count("beats")
        beat = Beat(rid, self._digest(id), context.obituaries, self._skew.ahead_us(id))
        context.send(peer.contact, beat)
        self._skew.asked(id, context.now)
        calls.wait(rid, peer.contact, BeatBack, self._answered, calls.timeout(peer))

    def _answered(self, answer: Message | None, sender: Contact) -> None:
        peer = self._members.watched.get(sender.id)
        if isinstance(answer, BeatBack):
            if peer is not None:
                self._skew.answered(sender.id, answer.clock_us, self._context.now)
            self._context.emit(Digest(sender.id, answer.digest))
            self._members.hear_obituaries(answer.obituaries)
        elif peer is not None:
            self._detector.examine(peer, 1)

    def beaten(self, sender: Contact, message: Beat, accepted: bool) -> None:
        """Process a peer's heartbeat.

        A peer that is believed dead gets an answer, but its digest is ignored.
        """
        context = self._context
        digest, clock_us = self._digest(sender.id), self._skew.clock_us()
        context.send(sender, BeatBack(message.rid, digest, context.obituaries, clock_us))
        peer = self._members.peer(sender.id)
        if peer is not None:
            peer.beaten = context.now
        if sender.id in self._members.watched:
            self._hold_back(sender.id, HELD_BACK * self._every_s)
        if accepted:
            if sender.id in self._members.watched:
                self._skew.answering(sender.id, message.ahead_us, context.now)
            context.emit(Digest(sender.id, message.digest))
            self._members.hear_obituaries(message.obituaries)
