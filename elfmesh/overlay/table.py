"""Routing table: cells by base-16 digits, and the siblings of this agent.

Owns which contacts are kept and which of them is preferred. Does not depend on how they were met or whether
they live; it sends nothing and reads no clock. Ids are stored as integers, because all costs are XOR and
sort.

    cell (row, digit)   contacts that share `row` digits with me and then have `digit`: 1 active, 2 spare
    siblings            the 16 known contacts closest to me

Invariants:
    - a contact is in `entries` exactly if it is in its cell or a sibling;
    - the siblings are the closest of `entries`, closest first;
    - no cell has room while a sibling belongs to it;
    - the first contact of a cell is of this agent's rack if any contact of the cell is.

Paper: ELF 2.3 (log16 N hops). Deviation: Kademlia's XOR metric over Pastry's digit table. One metric then
serves the table, the look-up and the order of a tree (parent strictly closer than child: no cycles).
"""

from __future__ import annotations

from bisect import bisect_left, insort

from elfmesh.ids import DIGIT_BITS, ID_BITS
from elfmesh.machine import Contact

CELL_CONTACTS = 3
"""One active contact and two spares, so that a cell survives two deaths between refreshes."""

SIBLINGS = 16
"""Number of siblings. With 16, a root stays known to its neighbours when half of them are lost."""

FASTER = 0.7
"""A spare replaces the active contact only if its round trip is shorter by this factor, to avoid flapping."""

_DIGIT_MASK = (1 << DIGIT_BITS) - 1


class Peer:
    """State of another agent.

    Attributes:
        contact: the peer's own contact, of its latest boot.
        n: its id as an integer.
        rtt: smoothed round trip in seconds, negative until measured.
        deviation: smoothed mean deviation of the round trip.
        received: when its last message came (monotonic), negative if never.
        beaten: when its last heartbeat came.
        suspect: suspected dead, so not chosen as a next hop.
    """

    __slots__ = ("beaten", "contact", "deviation", "n", "received", "rtt", "suspect")

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.n = int.from_bytes(contact.id)
        self.rtt = -1.0
        self.deviation = 0.0
        self.received = -1.0
        self.beaten = -1.0
        self.suspect = False


class Table:
    """Contacts of one agent.

    Args:
        me: this agent.
        cell_contacts: contacts per cell, including the active one.
        siblings: number of closest agents to keep.
    """

    def __init__(self, me: Contact, *, cell_contacts: int = CELL_CONTACTS, siblings: int = SIBLINGS) -> None:
        self.n = int.from_bytes(me.id)
        self.rack = me.rack
        self.entries: dict[int, Peer] = {}
        self.siblings_changed = False  # since the caller last cleared it
        self._cell_contacts = cell_contacts
        self._siblings = siblings
        self._cells: dict[int, list[Peer]] = {}  # row << 4 | digit; never an empty list
        self._near: list[int] = []  # distances of the siblings, ascending

    def _cell_of(self, n: int) -> int:
        row = (ID_BITS - (n ^ self.n).bit_length()) // DIGIT_BITS
        return row << DIGIT_BITS | n >> (ID_BITS - DIGIT_BITS * (row + 1)) & _DIGIT_MASK

    def _is_sibling(self, distance: int) -> bool:
        at = bisect_left(self._near, distance)
        return at < len(self._near) and self._near[at] == distance

    def _foreign(self, contact: Contact) -> bool:
        return contact.rack != self.rack

    def useful(self, contact: Contact) -> bool:
        """Return whether `add` would keep this contact if it were new. Cost: constant."""
        n = int.from_bytes(contact.id)
        if n == self.n or n in self.entries:
            return False
        cell = self._cells.get(self._cell_of(n), [])
        if len(cell) < self._cell_contacts or len(self._near) < self._siblings:
            return True
        return n ^ self.n < self._near[-1] or (not self._foreign(contact) and self._foreign(cell[-1].contact))

    def add(self, peer: Peer) -> bool:
        """Keep a contact if there is a place for it, possibly instead of others.

        Returns whether it was kept.
        """
        if peer.n == self.n or peer.n in self.entries:
            return False
        placed = self._place_in_cell(peer)
        distance = peer.n ^ self.n
        if len(self._near) < self._siblings or distance < self._near[-1]:
            insort(self._near, distance)
            self.entries[peer.n] = peer
            self.siblings_changed = True
            if len(self._near) > self._siblings:
                self._forget_if_homeless(self._near.pop() ^ self.n)
            placed = True
        return placed

    def _place_in_cell(self, peer: Peer) -> bool:
        cell = self._cells.setdefault(self._cell_of(peer.n), [])
        if len(cell) >= self._cell_contacts:
            if self._foreign(peer.contact) or not self._foreign(cell[-1].contact):
                return False
            self._forget_if_homeless(cell.pop().n)
        self.entries[peer.n] = peer
        cell.append(peer)
        self._sort(cell)
        return True

    def _forget_if_homeless(self, n: int) -> None:
        peer = self.entries[n]
        if not self._is_sibling(n ^ self.n) and peer not in self._cells.get(self._cell_of(n), ()):
            del self.entries[n]

    def _sort(self, cell: list[Peer]) -> None:
        """Order a cell: same rack first, then the active contact unless a spare is much faster. Stable."""
        if len(cell) < 2:
            return
        active = cell[0]

        def rank(peer: Peer) -> tuple[bool, float]:
            trip = peer.rtt if peer.rtt >= 0 else float("inf")
            return self._foreign(peer.contact), trip * FASTER if peer is active else trip

        cell.sort(key=rank)

    def measured(self, peer: Peer) -> None:
        """Reorder the cell of a contact whose round trip was measured; it may become active."""
        cell = self._cells.get(self._cell_of(peer.n))
        if cell is not None and cell[0] is not peer and peer in cell:
            self._sort(cell)

    def remove(self, n: int) -> Peer | None:
        """Remove a contact; the next closest known one becomes a sibling in its place."""
        peer = self.entries.pop(n, None)
        if peer is None:
            return None
        index = self._cell_of(n)
        cell = self._cells.get(index)
        if cell is not None and peer in cell:
            cell.remove(peer)
        if self._is_sibling(n ^ self.n):
            self._near = [other ^ self.n for other in sorted(self.entries, key=self.n.__xor__)]
            del self._near[self._siblings :]
            self.siblings_changed = True
        self._refill(index)
        return peer

    def _refill(self, index: int) -> None:
        cell = self._cells.setdefault(index, [])
        for distance in self._near:
            peer = self.entries[distance ^ self.n]
            if len(cell) >= self._cell_contacts:
                break
            if peer not in cell and self._cell_of(peer.n) == index:
                cell.append(peer)
        self._sort(cell)
        if not cell:
            del self._cells[index]

    def siblings(self) -> list[Peer]:
        entries, n = self.entries, self.n
        return [entries[distance ^ n] for distance in self._near]

    def actives(self) -> list[Peer]:
        """Return the contacts for routing: the best of every cell, and the siblings."""
        chosen: dict[int, Peer] = {}
        for cell in self._cells.values():
            best = next((peer for peer in cell if not peer.suspect), None)
            if best is not None:
                chosen[best.n] = best
        for peer in self.siblings():
            if not peer.suspect:
                chosen[peer.n] = peer
        return list(chosen.values())

    def next_hop(self, key: int, excluded: frozenset[int] = frozenset()) -> Peer | None:
        """Return the active contact closest to `key`, if it is strictly closer than this agent.

        Cost: the cell of `key` and the siblings; all active contacts only if that cell is empty.
        """
        mine = self.n ^ key
        if not mine:
            return None
        row = (ID_BITS - mine.bit_length()) // DIGIT_BITS
        index = row << DIGIT_BITS | key >> (ID_BITS - DIGIT_BITS * (row + 1)) & _DIGIT_MASK
        best, closest = None, mine
        for peer in self._cells.get(index, ()):
            if not peer.suspect and peer.n not in excluded:
                best, closest = peer, peer.n ^ key
                break
        for peer in self.siblings() if best is not None else self.actives():
            if peer.n ^ key < closest and not peer.suspect and peer.n not in excluded:
                best, closest = peer, peer.n ^ key
        return best

    def closest(self, key: int, k: int) -> list[Peer]:
        """Return the `k` known contacts closest to `key`, closest first. Cost: a sort of all contacts."""
        entries = self.entries
        found: list[Peer] = []
        for n in sorted(entries, key=key.__xor__):
            peer = entries[n]
            if not peer.suspect:
                found.append(peer)
                if len(found) >= k:
                    break
        return found

    def rows(self) -> int:
        """Return how many rows have contacts: the depth of the table."""
        return 1 + max((index >> DIGIT_BITS for index in self._cells), default=-1)

    def __len__(self) -> int:
        return len(self.entries)
