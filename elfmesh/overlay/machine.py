"""Overlay machine of one agent: the sub-machines combined behind one `step`.

Owns the dispatch of events and messages and the public queries. The sub-machines make the decisions:

    table.py        which contacts are kept          detector.py    which peers are dead
    membership.py   admission and burial             heartbeats.py  watched pairs
    lookup.py       iterative search                 routing.py     recursive messages
    joining.py      joining the overlay              upkeep.py      periodic maintenance
    vicinity.py     what recent look-ups prove

Invariants: only `step` changes the machine. No message of a peer makes it raise. The same events at the same
times with the same random source give the same effects.

Paper: ELF 2.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.ids import ID_BYTES, check_id
from elfmesh.machine import Contact, Effect, Event, Message, Received, Rng, Tick
from elfmesh.overlay import events as e
from elfmesh.overlay import messages as m
from elfmesh.overlay.context import Context
from elfmesh.overlay.detector import Detector
from elfmesh.overlay.heartbeats import HEARTBEAT_S, Heartbeats
from elfmesh.overlay.joining import JOIN_LIMIT_S, Joiner
from elfmesh.overlay.lookup import ALPHA, K, Lookups
from elfmesh.overlay.membership import QUARANTINE_S, Membership
from elfmesh.overlay.routing import Router
from elfmesh.overlay.skew import Skew
from elfmesh.overlay.table import CELL_CONTACTS, SIBLINGS, Peer, Table
from elfmesh.overlay.upkeep import PROBE_S, Upkeep

FIND_MAX = 32
"""Maximum number of contacts in one answer to `Find`."""

PROBE_ATTEMPTS = 2
"""A buried agent is pinged once, because it has been silent in all stages of its examination."""

_ANSWERS = (m.Pong, m.Found, m.BeatBack, m.Relayed)


class Overlay:
    """Overlay machine of one agent.

    Args:
        me: this agent's contact for other agents.
        rng: seeded source of randomness.
        digest: returns the upper layer's bytes for a heartbeat to the peer of this id.
        clock_us: wall clock, for `skew`; 0 if there is none.
        k: number of agents that a look-up finds.
        alpha: concurrent requests per look-up.
        cell_contacts: contacts per cell of the table, including the active one.
        siblings: number of closest agents that are kept.
        heartbeat_s: period of the heartbeats of watched pairs.
        probe_s: period of the upkeep.
        quarantine_s: time for which hearsay about a buried agent is ignored.
        join_limit_s: time after which an unfinished join is reported as failed.
    """

    def __init__(
        self,
        me: Contact,
        *,
        rng: Rng,
        digest: Callable[[bytes], bytes] = lambda peer: b"",
        clock_us: Callable[[], int] = lambda: 0,
        k: int = K,
        alpha: int = ALPHA,
        cell_contacts: int = CELL_CONTACTS,
        siblings: int = SIBLINGS,
        heartbeat_s: float = HEARTBEAT_S,
        probe_s: float = PROBE_S,
        quarantine_s: float = QUARANTINE_S,
        join_limit_s: float = JOIN_LIMIT_S,
    ) -> None:
        check_id(me.id)
        self._table = Table(me, cell_contacts=cell_contacts, siblings=siblings)
        self._context = context = Context(me, rng, self._table)
        self._members = Membership(context, quarantine_s=quarantine_s)
        self._detector = Detector(context, self._members)
        self._skew = Skew(clock_us)
        self._heartbeats = Heartbeats(
            context, self._members, self._detector, digest, self._skew, every_s=heartbeat_s
        )
        self._lookups = Lookups(context, self._members, alpha=alpha)
        self._router = Router(context, self._members, self._detector, self._lookups)
        self._joiner = Joiner(context, self._members, self._lookups, limit_s=join_limit_s)
        self._upkeep = Upkeep(context, self._members, self._detector, self._joiner, every_s=probe_s)
        self._k = k
        self._left = False
        self._members.on_received = self._detector.received
        self._members.on_gone = self._gone
        self._members.on_rumour = self._detector.examine
        self._members.on_rebirth = self._joiner.merge
        self._lookups.on_silent = lambda peer: self._detector.examine(peer, 1)

    @property
    def me(self) -> Contact:
        return self._context.me

    @property
    def joined(self) -> bool:
        return self._joiner.joined

    @property
    def deadline(self) -> float | None:
        return None if self._left else self._context.timers.deadline

    def step(self, event: Event, now: float) -> list[Effect]:
        """Apply one event.

        Raises:
            TypeError: Not an event of this machine (a fault of our own code).
            ValueError: An invalid key or id of our own code.
        """
        context = self._context
        if self._left:
            return []
        due = context.timers.deadline
        if due is not None and now > due:
            context.lateness.observe(now - due, now)
        context.now = context.calls.now = now = max(now, context.now)
        out = context.out = []
        if type(event) is Received:
            self._received(event)
        elif type(event) is Tick:
            if due is not None and due <= now:
                context.timers.fire(now)
        else:
            self._asked(event)
        if self._table.siblings_changed:
            self._table.siblings_changed = False
            self._lookups.vicinity.changed()
            context.emit(e.SiblingsChanged())
        return out

    def _asked(self, event: Event) -> None:
        match event:
            case e.Remember(contacts):
                self._joiner.remember(contacts)
            case e.Start(seeds):
                self._joiner.start(seeds)
                self._upkeep.start()
            case e.Lookup(key, token, within_s, certain):
                done = partial(self._looked_up, token, key)
                self._lookups.start(check_id(key), done, k=self._k, within_s=within_s, certain=certain)
            case e.Route(key, body, payload):
                self._router.route(check_id(key), body, payload)
            case e.Watch(peer):
                check_id(peer.id)
                if peer.id != self.me.id:
                    self._heartbeats.watch(peer)
            case e.Unwatch(id):
                self._heartbeats.unwatch(id)
            case e.Probe():
                self._probe(event, 1)
            case e.ConnectionLost(id):
                self._connection_lost(id)
            case e.Leave():
                self._leave()
            case _:
                raise TypeError(f"{type(event).__name__} is not an event of the overlay")

    def _looked_up(self, token: int, key: bytes, found: tuple[Contact, ...], at: float | None) -> None:
        self._context.emit(e.LookupDone(token, key, found, at))

    def _probe(self, probe: e.Probe, attempt: int) -> None:
        contact, token = probe.contact, probe.token
        if contact.id == self.me.id:
            # No message is sent to oneself, or a master that waits for its own worker would consider itself
            # dead.
            self._context.emit(e.ProbeDone(token, self.me, alive=True))
            return

        is_last = attempt == PROBE_ATTEMPTS or self._members.is_quarantined(contact)

        def done(answer: Message | None, sender: Contact) -> None:
            if answer is None and not is_last:
                self._probe(probe, attempt + 1)
                return
            through = isinstance(answer, m.Relayed)
            self._context.emit(
                e.ProbeDone(token, contact if through else sender, answer is not None, through)
            )
            peer = self._members.peer(contact.id)
            if answer is None and peer is not None:
                self._detector.examine(peer, 1)

        if probe.others and is_last:
            self._detector.reach(contact, done)
        else:
            self._context.ping(contact, self._members.peer(contact.id), done)

    def _connection_lost(self, id: bytes) -> None:
        peer = self._members.peer(id)
        if peer is not None:
            self._detector.examine(peer, fast=True)
        self._router.hop_lost(id)

    def _leave(self) -> None:
        notified = {peer.n: peer for peer in self._table.siblings()}
        notified.update((peer.n, peer) for peer in self._members.watched.values())
        notified.update((peer.n, peer) for peer in self._table.entries.values() if peer.beaten >= 0)
        for peer in notified.values():
            self._context.send(peer.contact, m.Bye())
        self._left = True
        self._context.timers.clear()
        self._context.calls.clear()

    def _gone(self, peer: Peer) -> None:
        self._detector.gone(peer)
        self._heartbeats.gone(peer)
        self._router.hop_lost(peer.contact.id)

    def _received(self, event: Received) -> None:
        """Process a peer's request or answer. Never raises, whatever the fields contain."""
        context, sender, message = self._context, event.sender, event.message
        if not context.acceptable(sender):
            if not context.well_formed(sender):
                context.count("malformed")
                return
            self._from_own_id(sender, message)
            return
        if isinstance(message, _ANSWERS):
            match = context.calls.match(message.rid, sender, message)
            if match is None:
                self._late(sender, message)
                return
            self._members.received(sender, match[0], of_link=not isinstance(message, m.Relayed))
            match[1](message, sender)
            return
        accepted = self._members.received(sender)
        self._requested(sender, message, event.payload, accepted)

    def _late(self, sender: Contact, message: m.Pong | m.Found | m.BeatBack | m.Relayed) -> None:
        context = self._context
        trip = context.calls.late(message.rid, sender, message)
        if trip is None or isinstance(message, m.Relayed) or self._members.is_quarantined(sender):
            context.count("stray_answers")
            return
        context.count("late_answers")
        self._members.received(sender, trip)

    def _requested(self, sender: Contact, message: Message, payload: bytes, accepted: bool) -> None:
        context = self._context
        match message:
            case m.Ping(rid, obituaries):
                context.send(sender, m.Pong(rid, context.obituaries))
                if accepted:
                    self._members.hear_obituaries(obituaries)
            case m.Find(rid, key, k):
                self._find(sender, rid, key, k)
            case m.Rows(rid):
                known = {peer.n: peer.contact for peer in self._table.siblings()}
                known.update((peer.n, peer.contact) for peer in self._table.actives())
                context.send(sender, m.Found(rid, tuple(known.values())))
            case m.Beat():
                self._heartbeats.beaten(sender, message, accepted)
            case m.Relay():
                self._detector.relay(sender, message)
            case m.Hop():
                self._router.received(sender, message, payload)
            case m.HopTaken():
                self._router.taken(sender, message)
            case m.Bye():
                if accepted:
                    self._members.bury(sender, stopped=True)
            case _:
                context.count("malformed")

    def _find(self, sender: Contact, rid: int, key: bytes, k: int) -> None:
        if len(key) != ID_BYTES or k < 1:
            self._context.count("malformed")
            return
        known = self._table.closest(int.from_bytes(key), min(k, FIND_MAX) + 1)
        contacts = [peer.contact for peer in known if peer.contact.id != sender.id]
        self._context.send(sender, m.Found(rid, tuple(contacts[:k])))

    def _from_own_id(self, sender: Contact, message: Message) -> None:
        """Process a message with this agent's id, from itself as a seed or from another agent: pings only."""
        if isinstance(message, m.Ping):
            self._context.send(sender, m.Pong(message.rid))
        elif isinstance(message, m.Pong):
            match = self._context.calls.match(message.rid, sender, message)
            if match is not None:
                match[1](message, sender)
        if sender != self.me:
            self._context.count("id_clashes")

    def next_hop(self, key: bytes) -> Contact | None:
        """Return the active contact closest to `key`, if it is closer than this agent and not a suspect."""
        peer = self._table.next_hop(int.from_bytes(key))
        return None if peer is None else peer.contact

    def closest_since(self, key: bytes, now: float, within_s: float) -> float | None:
        """Return when a look-up of the last `within_s` has found that this agent is the closest to `key`.

        Returns None if none has. That time plus `within_s` is after `now` (see `Vicinity.around`).
        """
        found = self._lookups.vicinity.around(int.from_bytes(key), now, within_s)
        return found[0] if found is not None and found[1][0].id == self.me.id else None

    def closest(self, key: bytes, k: int) -> list[Contact]:
        """Return the `k` known contacts closest to `key`, closest first, without this agent."""
        return [peer.contact for peer in self._table.closest(int.from_bytes(key), k)]

    def contact(self, id: bytes) -> Contact | None:
        peer = self._members.peer(id)
        return None if peer is None else peer.contact

    def siblings(self) -> list[Contact]:
        return [peer.contact for peer in self._table.siblings()]

    def is_quarantined(self, id: bytes) -> bool:
        """Return whether this agent is believed dead, so that hearsay about it is ignored."""
        return self._members.is_quarantined(Contact(id, "", 0))

    def round_trips(self) -> dict[bytes, float]:
        """Return the smoothed round trip in seconds to each contact that was measured."""
        return {each.contact.id: each.rtt for each in self._table.entries.values() if each.rtt >= 0}

    @property
    def skew_s(self) -> float | None:
        """Return how far this agent's wall clock is ahead of its peers', None if unknown (D-13)."""
        return self._skew.seconds

    def peers_us(self, now: float) -> int | None:
        """Return the median of the peers' wall clocks, None if unknown. Thread-safe."""
        return self._skew.peers_us(now)

    def stats(self) -> dict[str, int | float | str]:
        context = self._context
        return {
            "stage": "left" if self._left else self._joiner.stage,
            "contacts": len(self._table),
            "active": len(self._table.actives()),
            "siblings": len(self._table.siblings()),
            "watched": len(self._members.watched),
            "examined": len(self._detector),
            "lookups": len(self._lookups),
            "routes": len(self._router),
            "requests": len(context.calls),
            "lag_s": context.lateness.usual,
            "skew_s": self._skew.seconds or 0.0,
            **context.counters,
        }
