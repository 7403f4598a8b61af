"""Whom this agent has met: also those that are away now, and those of earlier lives.

Owns a bounded memory, on disk, of agents and since when they are away. Sends nothing.

Invariant: an agent that was met is remembered for `FORGOTTEN_S` after it went away, or was last heard of
meanwhile: a side of a partition, or an agent that was restarted alone, must not take itself for the whole
fleet (D-4, D-15). Only who says itself that it has left for good is forgotten at once, until it begins
another boot. Two sides never both have a majority by that: each leaves out only agents that are on neither.
That an agent is there is the overlay's word alone, since no other source says when that ends.
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
"""Of what is kept on disk."""

FORGOTTEN_S = 300.0
"""How long an agent that is away counts as one of the fleet: longer than a reboot."""

MET_MAX = 1024
"""Agents remembered; those that have been away for longest make room."""

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Contact)


class KnownPeers:
    """The agents this one knows of.

    Args:
        context: clock and disk.
    """

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
        """A message came from an agent. One that is away is not there by that, but counts from now on.

        It may have been on its way, or waited here, since before its sender's end: the overlay has lost that
        one, and loses no agent twice.
        """
        if agent in self._away:
            self._away[agent] = self._context.now
            self._away.move_to_end(agent)

    def answered(self, contact: Contact) -> None:
        """An agent has answered that the overlay may not know: it counts from now on."""
        if contact.id not in self._met:
            self.met(contact)
            self.lost(contact.id)
        self.received(contact.id)

    def lost(self, agent: bytes) -> Contact | None:
        """An agent is away; None: it has left for good, or was not met."""
        if agent in self._met:
            self._away.setdefault(agent, self._context.now)
        return self._met.get(agent)

    @safeguard("farewells")
    def departed(self, contact: Contact) -> None:
        """An agent says that this was its last boot for now; said late, it is nothing to a later boot."""
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
        """Met in an earlier boot; away until it is met again. What cannot be read is left out and counted."""
        try:
            self._met[agent] = _UNPACK.decode(data)
        except msgspec.MsgspecError:
            self._context.stats["control.malformed"] += 1
            return
        self._away[agent] = self._context.now

    def away(self) -> list[Contact]:
        return [self._met[agent] for agent in self._away]

    def away_s(self, agent: bytes) -> float:
        """For how long an agent has been away, 0.0 while it is there."""
        since = self._away.get(agent)
        return 0.0 if since is None else self._context.now - since

    def nearest(self, key: bytes, count: int) -> list[Contact]:
        """The agents closest to `key`, this one and those that are away included; O(n log n)."""
        for agent in [agent for agent in self._away if self.away_s(agent) >= FORGOTTEN_S]:
            self._forget(agent)
        known = (self._context.me, *self._met.values())
        return sorted(known, key=lambda contact: ids.distance(contact.id, key))[:count]

    def _forget(self, agent: bytes) -> None:
        del self._met[agent]
        self._away.pop(agent, None)
        self._context.emit(Persist(KIND, agent, b""))
