"""Recursive greedy routing: each hop is strictly closer, and the last agent verifies that it is closest.

Owns messages in transit through this agent, and does not depend on their content. The receiver of a hop
acknowledges it when it takes charge of the message; without acknowledgement the next best hop is tried. An
agent that knows no closer agent looks the key up iteratively before it delivers, and passes the message on if
the look-up finds a closer agent.

Invariants: the distance to the key shrinks with each hop, so no message can circle. An agent takes charge of
a message at most once. Dropped messages are counted.

Paper: ELF 2.3 ("reliably routed to the node with the nodeId numerically closest to that key"). Deviation:
delivery is at most once. If an agent dies while it is in charge, the message is lost, and upper layers repeat
important messages.
"""

from __future__ import annotations

from elfmesh.ids import ID_BYTES
from elfmesh.machine import Contact
from elfmesh.overlay.context import Context
from elfmesh.overlay.detector import Detector
from elfmesh.overlay.events import RouteDelivered
from elfmesh.overlay.lookup import Lookups
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Hop, HopTaken
from elfmesh.overlay.table import Peer

HOPS_MAX = 40
"""Maximum number of hops of a message: one per digit of an id, if each hop gains a digit."""

VERDICT_S = 5.0
"""Time for which a verified "this agent is the closest" is valid, unless the table gets a closer agent. A
look-up for another key may have verified it (`vicinity`).

A verdict that is used in the second half of this time is verified again meanwhile: a look-up takes some round
trips, which messages would wait for."""

ATTEMPTS_MAX = 16
"""Maximum number of hops that are tried for one message; if all are silent, this agent is cut off."""

IN_CHARGE_MAX = 1024
"""Maximum number of messages that wait for an acknowledgement or a verification."""

SEEN_MAX = 4096
"""Maximum number of names of messages that are remembered, to detect duplicates."""

_Name = tuple[bytes, int]


class _Charge:
    __slots__ = ("attempts", "excluded", "hop", "message", "payload")

    def __init__(self, message: Hop, payload: bytes) -> None:
        self.message, self.payload = message, payload
        self.excluded: frozenset[int] = frozenset()
        self.hop: Contact | None = None
        self.attempts = 0


class Router:
    """Messages that one agent has taken charge of.

    Args:
        context: shared context.
        members: has the peers of the hops.
        detector: notified of hops that do not acknowledge.
        lookups: runs the verification.
    """

    def __init__(self, context: Context, members: Membership, detector: Detector, lookups: Lookups) -> None:
        self._context = context
        self._members = members
        self._detector = detector
        self._lookups = lookups
        self._charges: dict[_Name, _Charge] = {}
        self._seen: dict[_Name, None] = {}  # oldest first
        self._verifying: dict[bytes, list[_Name]] = {}

    def __len__(self) -> int:
        return len(self._charges)

    def route(self, key: bytes, body: bytes, payload: bytes) -> None:
        nonce = self._context.rng.getrandbits(62)
        self._take(Hop(self._context.me, nonce, key, 0, body), payload)

    def received(self, sender: Contact, message: Hop, payload: bytes) -> None:
        """Process a hop: take charge and acknowledge, unless the message is known or beyond a limit."""
        context, origin = self._context, message.origin
        name = (origin.id, message.nonce)
        if len(message.key) != ID_BYTES or not (origin == context.me or context.acceptable(origin)):
            context.count("malformed")
            return
        if name not in self._seen and len(self._charges) >= IN_CHARGE_MAX:
            context.count("routes_refused")  # not acknowledged, so the sender tries another hop
            return
        context.send(sender, HopTaken(*name))
        if name in self._seen:
            context.count("routes_doubled")
        elif message.hops >= HOPS_MAX:
            context.count("routes_lost_by_hop_limit")
        else:
            self._take(message, payload)

    def _take(self, message: Hop, payload: bytes) -> None:
        name = (message.origin.id, message.nonce)
        if len(self._seen) >= SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[name] = None
        charge = self._charges[name] = _Charge(message, payload)
        self._forward(name, charge)

    def _forward(self, name: _Name, charge: _Charge) -> None:
        context, key = self._context, charge.message.key
        peer = context.table.next_hop(int.from_bytes(key), charge.excluded)
        if peer is not None:
            self._hand_to(name, charge, peer.contact, peer)
            return
        verdict = self._lookups.vicinity.around(int.from_bytes(key), context.now, VERDICT_S)
        if verdict is None:
            self._verify(key, VERDICT_S, name)
            return
        at, (closest,) = verdict
        if closest.id == context.me.id:
            if at + VERDICT_S / 2 <= context.now:
                self._verify(key, VERDICT_S / 2)
            self._deliver(name, charge)
        elif int.from_bytes(closest.id) not in charge.excluded:
            self._hand_to(name, charge, closest, None)
        else:
            self._verify(key, 0.0, name)  # the agent in the verdict does not acknowledge

    def _hand_to(self, name: _Name, charge: _Charge, to: Contact, peer: Peer | None) -> None:
        context, message = self._context, charge.message
        charge.hop = to
        context.count("hops")
        context.send(
            to,
            Hop(message.origin, message.nonce, message.key, message.hops + 1, message.body),
            charge.payload,
        )
        wait = context.calls.timeout(peer)
        context.timers.set(("hop", name), context.now + wait, lambda: self._unanswered(name))

    def _unanswered(self, name: _Name) -> None:
        context, charge = self._context, self._charges[name]
        if context.now < context.lateness.grace_until:
            later = context.lateness.grace_until + context.calls.timeout(None)
            context.timers.set(("hop", name), later, lambda: self._unanswered(name))
            return
        self._try_another(name, charge)

    def _try_another(self, name: _Name, charge: _Charge) -> None:
        assert charge.hop is not None
        self._context.count("hops_failed")
        charge.excluded |= {int.from_bytes(charge.hop.id)}
        peer = self._members.peer(charge.hop.id)
        charge.hop = None
        charge.attempts += 1
        if peer is not None:
            self._detector.examine(peer, 1)
        if charge.attempts >= ATTEMPTS_MAX:
            del self._charges[name]
            self._context.count("routes_lost_by_silence")
        else:
            self._forward(name, charge)

    def taken(self, sender: Contact, message: HopTaken) -> None:
        name = (message.origin, message.nonce)
        charge = self._charges.get(name)
        if charge is not None and charge.hop is not None and charge.hop.id == sender.id:
            del self._charges[name]
            self._context.timers.cancel(("hop", name))

    def hop_lost(self, id: bytes) -> None:
        """Send the messages that a lost peer has not acknowledged to other hops."""
        for name, charge in list(self._charges.items()):
            if charge.hop is not None and charge.hop.id == id:
                self._context.timers.cancel(("hop", name))
                self._try_another(name, charge)
        self._lookups.vicinity.lost(id)

    def _verify(self, key: bytes, within_s: float, *waiting: _Name) -> None:
        if key in self._verifying:
            self._verifying[key] += waiting
            return
        self._verifying[key] = [*waiting]
        self._context.count("verifications")
        self._lookups.start(key, lambda contacts, _: self._verified(key, contacts[0]), within_s=within_s)

    def _verified(self, key: bytes, closest: Contact) -> None:
        context = self._context
        for name in self._verifying.pop(key):
            charge = self._charges.get(name)
            if charge is None:
                continue
            if closest.id == context.me.id:
                self._deliver(name, charge)
            else:
                self._hand_to(name, charge, closest, None)

    def _deliver(self, name: _Name, charge: _Charge) -> None:
        del self._charges[name]
        message = charge.message
        self._context.emit(RouteDelivered(message.key, message.body, charge.payload, message.origin))
