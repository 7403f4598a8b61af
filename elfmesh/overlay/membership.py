"""Who is believed to live: admission, quarantine, obituaries, rebirth.

Owns the passage between unknown, contact and buried, and with it `PeerUp` and `PeerDown`. Refuses to judge
who is dead (detector.py) and when to look around (upkeep.py).

Rules:
    - A second-hand contact is pinged first; only its answer admits it. A first-hand sender is admitted at
      once if it is useful: the transport vouches for its id, and being unmeasured it is no look-up's first
      choice.
    - The buried are quarantined: hearsay about them is ignored until 30 s have passed. What ends it early
      is a later incarnation, or a fresh answer to a challenge (a ping sent after the burial).
    - An obituary heard from others is a reason to ping, nothing more: a liar costs one ping.

Deviation: SWIM refutes a false death by raising the incarnation. Here hearsay never kills, so the fresh
answer to a direct challenge refutes it, and the incarnation only tells lives apart: a restart is seen as
PeerDown, PeerUp, and an agent that was only slow does not look restarted to those who never doubted it.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.ids import ID_BYTES
from elfmesh.machine import Contact, Message
from elfmesh.overlay.calls import learn_round_trip
from elfmesh.overlay.context import Context
from elfmesh.overlay.events import PeerDown, PeerUp
from elfmesh.overlay.messages import Obituary
from elfmesh.overlay.table import Peer

QUARANTINE_S = 30.0
"""Longer than gossip about a dead agent circulates (kademlia 2.2.3 re-admits the dead for minutes)."""

GRAVES_MAX = 256
"""The dead that are remembered, so that the two halves of a partition find each other again."""

OBITUARIES_SENT_MAX = 16
OBITUARIES_RECEIVED_MAX = 16
OBITUARY_S = 20.0
"""An obituary is told for this long: all agents that share a contact talk within it."""

CANDIDATES_MAX = 128
"""Second-hand contacts being pinged at once; the rest comes again with the next exchange."""

CHALLENGE_S = 1.0
"""A buried agent that talks is challenged at most this often."""


class _Grave:
    __slots__ = ("challenged", "contact", "known", "until")

    def __init__(self, contact: Contact, until: float, known: bool) -> None:
        self.contact, self.until, self.known = contact, until, known
        self.challenged = float("-inf")


class Membership:
    """The living and the dead as one agent knows them.

    Args:
        context: shared ground.
        quarantine_s: how long hearsay about a buried agent is ignored.
    """

    def __init__(self, context: Context, *, quarantine_s: float = QUARANTINE_S) -> None:
        self._context = context
        self._quarantine_s = quarantine_s
        self._graves: dict[bytes, _Grave] = {}  # oldest first
        self._obituaries: dict[bytes, tuple[Obituary, float]] = {}  # being told, until when
        self._rumours: dict[bytes, float] = {}  # obituaries acted upon, until when to ignore them
        self._candidates: dict[bytes, None] = {}
        self.watched: dict[bytes, Peer] = {}
        self.on_received: Callable[[Peer], None] = lambda peer: None
        self.on_gone: Callable[[Peer], None] = lambda peer: None
        self.on_rumour: Callable[[Peer], None] = lambda peer: None
        self.on_rebirth: Callable[[Contact], None] = lambda contact: None

    def peer(self, id: bytes) -> Peer | None:
        return self._context.table.entries.get(int.from_bytes(id)) or self.watched.get(id)

    def is_quarantined(self, contact: Contact) -> bool:
        """Whether hearsay about this boot of this agent is to be ignored."""
        grave = self._graves.get(contact.id)
        return (
            grave is not None
            and self._context.now < grave.until
            and contact.incarnation <= grave.contact.incarnation
        )

    def received(self, sender: Contact, round_trip: float | None = None, *, of_link: bool = True) -> bool:
        """A message came from `sender`; with `round_trip`, it answers our request.

        Args:
            sender: as it presents itself.
            round_trip: seconds since the request.
            of_link: whether the answer came at once; a helper's answer about a dead agent takes its time.

        Returns:
            False if it comes from the dead or from a former boot, and must change nothing.
        """
        context = self._context
        peer = self.peer(sender.id)
        if round_trip is not None and of_link and (peer is None or peer.rtt < 0):
            learn_round_trip(context.calls.strangers, round_trip)
        if peer is None:
            return self._received_stranger(sender, round_trip)
        contact = peer.contact
        if sender.incarnation != contact.incarnation:
            if sender.incarnation < contact.incarnation and round_trip is None:
                context.count("from_former_life")
                return False
            self._reborn(peer, sender)
            peer = self.peer(sender.id)
            if peer is None:
                return True
        peer.received = context.now
        if round_trip is not None and of_link:
            learn_round_trip(peer, round_trip)
            context.table.measured(peer)
        self.on_received(peer)
        if sender.id in self.watched and peer.n not in context.table.entries:
            self._admit(sender, None)
        return True

    def _received_stranger(self, sender: Contact, round_trip: float | None) -> bool:
        context = self._context
        grave = self._graves.get(sender.id)
        if grave is not None:
            if self.is_quarantined(sender) and round_trip is None:
                if context.now >= grave.challenged + CHALLENGE_S:
                    grave.challenged = context.now
                    context.count("challenged")
                    context.ping(sender, None, _nothing)
                return False
            del self._graves[sender.id]
            self._obituaries.pop(sender.id, None)
            self._tell()
            if self._admit(sender, round_trip) and sender.incarnation <= grave.contact.incarnation:
                self.on_rebirth(sender)  # it never died: a path was broken, others may be back, too
            return True
        self._admit(sender, round_trip)
        return True

    def _admit(self, contact: Contact, round_trip: float | None) -> bool:
        context = self._context
        if not context.table.useful(contact):
            return False
        peer = self.watched.get(contact.id) or Peer(contact)
        peer.received = context.now
        if round_trip is not None:
            learn_round_trip(peer, round_trip)
        context.table.add(peer)
        context.emit(PeerUp(contact))
        return True

    def _reborn(self, peer: Peer, contact: Contact) -> None:
        context = self._context
        context.count("restarts_seen")
        context.table.remove(peer.n)
        self.watched.pop(contact.id, None)
        self.on_gone(peer)
        context.emit(PeerDown(contact.id))
        self._admit(contact, None)

    def consider(self, contact: Contact, *, quarantined_too: bool = False) -> None:
        """A second-hand contact: if it would be useful, ping it; its answer admits it."""
        context = self._context
        if (
            contact.id in self._candidates
            or len(self._candidates) >= CANDIDATES_MAX
            or not context.acceptable(contact)
            or not context.table.useful(contact)
            or (self.is_quarantined(contact) and not quarantined_too)
        ):
            return
        self._candidates[contact.id] = None

        def done(answer: Message | None, _: Contact) -> None:
            del self._candidates[contact.id]
            if answer is None:
                context.count("second_hand_unreachable")

        context.ping(contact, None, done)

    def bury(self, contact: Contact) -> None:
        """An agent is dead or has left: out of the table, into quarantine, and all peers are notified."""
        context = self._context
        peer = self.peer(contact.id)
        if peer is None:
            return
        context.table.remove(peer.n)
        self.watched.pop(contact.id, None)
        self.quarantine(contact, known=True)
        until = context.now + OBITUARY_S
        self._obituaries[contact.id] = (Obituary(contact.id, contact.incarnation), until)
        self._rumours[contact.id] = until
        self._tell()
        self.on_gone(peer)
        context.count("buried")
        context.emit(PeerDown(contact.id))

    def quarantine(self, contact: Contact, *, known: bool = False) -> None:
        """Ignore hearsay about an agent that does not answer; `known` ones are remembered in preference."""
        graves = self._graves
        graves.pop(contact.id, None)
        if len(graves) >= GRAVES_MAX:
            del graves[next((id for id, grave in graves.items() if not grave.known), next(iter(graves)))]
        graves[contact.id] = _Grave(contact, self._context.now + self._quarantine_s, known)

    def suspect(self, peer: Peer) -> None:
        """Ask others to look, too: the suspicion is told like a death (hearsay only makes them ping)."""
        contact = peer.contact
        self._obituaries[contact.id] = (
            Obituary(contact.id, contact.incarnation),
            self._context.now + OBITUARY_S,
        )
        self._tell()

    def cleared(self, peer: Peer) -> None:
        if self._obituaries.pop(peer.contact.id, None):
            self._tell()

    def hear_obituaries(self, obituaries: tuple[Obituary, ...]) -> None:
        """A peer says these are dead: have the ones we know pinged, each rumour once."""
        context = self._context
        for obituary in obituaries[:OBITUARIES_RECEIVED_MAX]:
            id = obituary.id
            if id == context.me.id:
                context.count("own_obituary_heard")
                continue
            if len(id) != ID_BYTES or self._rumours.get(id, context.now) > context.now:
                continue
            peer = self.peer(id)
            if peer is not None and obituary.incarnation >= peer.contact.incarnation:
                self._rumours[id] = context.now + OBITUARY_S
                self.on_rumour(peer)

    def _tell(self) -> None:
        notified = [obituary for obituary, _ in self._obituaries.values()]
        self._context.obituaries = tuple(notified[-OBITUARIES_SENT_MAX:])

    def graves(self) -> list[Contact]:
        """The remembered dead, oldest first, without strangers that never answered."""
        return [grave.contact for grave in self._graves.values() if grave.known]

    def sweep(self) -> None:
        """Forget what is out of date. Cost: one look at each recent death."""
        now = self._context.now
        if self._obituaries:
            self._obituaries = {id: entry for id, entry in self._obituaries.items() if entry[1] > now}
            self._tell()
        if self._rumours:
            self._rumours = {id: until for id, until in self._rumours.items() if until > now}


def _nothing(answer: Message | None, sender: Contact) -> None: ...
