"""Membership: admission of contacts, quarantine of dead ones, obituaries, and returns.

Owns the transitions between unknown, contact and buried, and with them `PeerUp` and `PeerDown`. Does not
decide which agents are dead (detector.py) or when to search for agents (upkeep.py).

Rules:
    - A second-hand contact is pinged first; only its answer admits it. A first-hand sender is admitted
      immediately if it is useful, because the transport authenticates its id. Without a measured round trip
      it is not a look-up's first choice.
    - Buried agents are quarantined: hearsay about them is ignored for 30 s. A later incarnation, or a new
      answer to a challenge (a ping sent after the burial), ends the quarantine early.
    - An obituary from another agent is only a reason to ping, so a malicious one costs one ping.

Deviation: SWIM refutes a false death by raising the incarnation. Here hearsay never kills, so an answer to a
direct challenge refutes it, and the incarnation only distinguishes boots. A restart is seen as PeerDown,
PeerUp. An agent that was only slow does not appear restarted to agents that never suspected it.
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
"""Maximum number of dead agents that are remembered, so that the two halves of a partition find each other
again."""

OBITUARIES_SENT_MAX = 16
OBITUARIES_RECEIVED_MAX = 16
OBITUARY_S = 20.0
"""Time for which an obituary is sent; all agents that share a contact communicate within it."""

CANDIDATES_MAX = 128
"""Maximum number of second-hand contacts that are pinged at once; the others return with the next
exchange."""

CHALLENGE_S = 1.0
"""Minimum time between challenges of a buried agent that sends messages."""


class _Grave:
    __slots__ = ("challenged", "contact", "known", "until")

    def __init__(self, contact: Contact, until: float, known: bool) -> None:
        self.contact, self.until, self.known = contact, until, known
        self.challenged = float("-inf")


class Membership:
    """Live and dead agents in the view of one agent.

    Args:
        context: shared context.
        quarantine_s: time for which hearsay about a buried agent is ignored.
    """

    def __init__(self, context: Context, *, quarantine_s: float = QUARANTINE_S) -> None:
        self._context = context
        self._quarantine_s = quarantine_s
        self._graves: dict[bytes, _Grave] = {}  # oldest first
        self._obituaries: dict[bytes, tuple[Obituary, float]] = {}  # obituaries that are sent, until when
        self._rumours: dict[bytes, float] = {}  # processed obituaries, until when they are ignored
        self._candidates: dict[bytes, None] = {}
        self.watched: dict[bytes, Peer] = {}
        self.on_received: Callable[[Peer], None] = lambda peer: None
        self.on_gone: Callable[[Peer], None] = lambda peer: None
        self.on_rumour: Callable[[Peer], None] = lambda peer: None
        self.on_rebirth: Callable[[Contact], None] = lambda contact: None

    def peer(self, id: bytes) -> Peer | None:
        return self._context.table.entries.get(int.from_bytes(id)) or self.watched.get(id)

    def is_quarantined(self, contact: Contact) -> bool:
        """Return whether hearsay about this boot of this agent is ignored."""
        grave = self._graves.get(contact.id)
        return (
            grave is not None
            and self._context.now < grave.until
            and contact.incarnation <= grave.contact.incarnation
        )

    def received(self, sender: Contact, round_trip: float | None = None, *, of_link: bool = True) -> bool:
        """Process the sender of a message; with `round_trip`, the message answers our request.

        Args:
            sender: the contact in the message.
            round_trip: seconds since the request.
            of_link: whether the round trip measures the link; a helper's answer about a dead agent takes
                longer.

        Returns:
            False if the sender is dead or an earlier boot; the message must then have no effect.
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
                self.on_rebirth(sender)  # it never died: a path was broken, so others may be back too
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
        """Ping a second-hand contact if it would be useful; its answer admits it."""
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

    def bury(self, contact: Contact, *, stopped: bool = False) -> None:
        """Bury an agent that is dead or has stopped: remove it, quarantine it, and notify all peers."""
        context = self._context
        peer = self.peer(contact.id)
        if peer is None:
            if stopped:  # it may be a member of a job that this agent leads
                context.emit(PeerDown(contact.id, stopped))
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
        context.emit(PeerDown(contact.id, stopped))

    def quarantine(self, contact: Contact, *, known: bool = False) -> None:
        """Ignore hearsay about an agent that does not answer; `known` ones have priority in the memory."""
        graves = self._graves
        graves.pop(contact.id, None)
        if len(graves) >= GRAVES_MAX:
            del graves[next((id for id, grave in graves.items() if not grave.known), next(iter(graves)))]
        graves[contact.id] = _Grave(contact, self._context.now + self._quarantine_s, known)

    def suspect(self, peer: Peer) -> None:
        """Ask other agents to ping a suspect, by an obituary (hearsay only makes them ping)."""
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
        """Process a peer's obituaries: ping the known agents among them, once per obituary."""
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
        """Return the remembered dead agents, oldest first, without unknown agents that never answered."""
        return [grave.contact for grave in self._graves.values() if grave.known]

    def sweep(self) -> None:
        """Remove outdated state. Cost: one look at each recent death."""
        now = self._context.now
        if self._obituaries:
            self._obituaries = {id: entry for id, entry in self._obituaries.items() if entry[1] > now}
            self._tell()
        if self._rumours:
            self._rumours = {id: until for id, until in self._rumours.items() if until > now}


def _nothing(answer: Message | None, sender: Contact) -> None: ...
