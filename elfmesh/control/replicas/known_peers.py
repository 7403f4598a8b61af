"""Known peers: the agents that this agent has met, including those that are away, over all boots.

Owns a bounded memory, on disk, of agents and the times since when they are away. Sends nothing.

Invariants: a known agent is kept for `FORGOTTEN_S` after it went away or after its last message, because a
side of a partition, or an agent that restarted alone, must not assume that it is the whole fleet (D-4, D-15).
Only an agent that has sent `Departed` is forgotten at once, until it starts again. This never gives both
sides of a partition a majority, because the departed agents are on neither side. Only the overlay reports
that an agent is alive, because no other source reports when that ends.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Persist
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

KIND = "met"
"""Kind of the stored contacts."""

FORGOTTEN_S = 300.0
"""Time for which an agent that is away counts as part of the fleet; a reboot takes less."""

MET_MAX = 1024
"""Maximum number of known agents; those that have been away for the longest time are forgotten first."""

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Contact)


class KnownPeers:
    """The known peers of one agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._met: OrderedDict[bytes, Contact] = OrderedDict()
        self._away: OrderedDict[bytes, float] = OrderedDict()
        self._departed: OrderedDict[bytes, int] = OrderedDict()

    def met(self, contact: Contact) -> None:
        if self._departed.get(contact.id, -1) >= contact.incarnation:
            return
        self._away.pop(contact.id, None)
        if self._met.get(contact.id) == contact or contact.id == self._context.me.id:
            return
        self._met[contact.id] = contact
        self._context.emit(Persist(KIND, contact.id, _PACK.encode(contact)))
        while len(self._met) > MET_MAX:
            self._forget(next(iter(self._away or self._met)))

    def received(self, agent: bytes) -> None:
        """Handle a message of an agent; an agent that is away stays away, and its time starts again.

        The agent does not count as alive, because it may have sent the message before it failed, and the
        overlay reports the loss of an agent only once.
        """
        if agent in self._away:
            self._away[agent] = self._context.now
            self._away.move_to_end(agent)

    def answered(self, contact: Contact) -> None:
        """Add an agent that has answered and that the overlay may not know."""
        if contact.id not in self._met:
            self.met(contact)
            self.lost(contact.id)
        self.received(contact.id)

    def lost(self, agent: bytes) -> Contact | None:
        """Mark an agent as away and return its contact; None: it has left for good, or is not known."""
        if agent in self._met:
            self._away.setdefault(agent, self._context.now)
        return self._met.get(agent)

    @safeguard("farewells")
    def on_departed(self, contact: Contact) -> None:
        """Forget an agent that has left for good; a later boot of it is met again."""
        self._departed[contact.id] = max(contact.incarnation, self._departed.pop(contact.id, -1))
        while len(self._departed) > MET_MAX:
            self._departed.popitem(last=False)
        known = self._met.get(contact.id)
        if known is not None and known.incarnation <= contact.incarnation:
            self._forget(contact.id)

    @safeguard("met-before")
    def known(self) -> tuple[Contact, ...]:
        return tuple(self._met.values())

    def there(self) -> list[Contact]:
        return [contact for contact in self._met.values() if contact.id not in self._away]

    def restored(self, agent: bytes, data: bytes) -> None:
        """Restore an agent, which is away until it is met again; a damaged contact is ignored and counted."""
        try:
            self._met[agent] = _UNPACK.decode(data)
        except msgspec.MsgspecError:
            self._context.stats["control.malformed"] += 1
            return
        self._away[agent] = self._context.now

    def away(self) -> list[Contact]:
        return [self._met[agent] for agent in self._away]

    def away_s(self, agent: bytes) -> float:
        """Return the seconds for which an agent has been away; 0.0 while it is alive."""
        since = self._away.get(agent)
        return 0.0 if since is None else self._context.now - since

    def nearest(self, key: bytes, count: int) -> list[Contact]:
        """Return the agents closest to `key`, including this one and those away. Cost: O(n log n)."""
        for agent in [agent for agent in self._away if self.away_s(agent) >= FORGOTTEN_S]:
            self._forget(agent)
        known = (self._context.me, *self._met.values())
        return sorted(known, key=lambda contact: ids.distance(contact.id, key))[:count]

    def _forget(self, agent: bytes) -> None:
        del self._met[agent]
        self._away.pop(agent, None)
        self._context.emit(Persist(KIND, agent, b""))
