"""The roster of one job: who is numbered how, from which interval on, and who has acknowledged it.

Owns the numbers, and which of them an interval needs. Sends nothing.

Invariants: a number is given once; a change raises `version`; what is expected of an interval that is closed
never changes any more (a new member starts above every frontier seen, an evicted one ends at the first open
interval).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from elfmesh.control.jobs.terms import Participant, RosterEntry
from elfmesh.interval_map import END, numbers
from elfmesh.safeguards import safeguard

ID_DIGITS = 6
"""Of an agent's id, in hex, where its name alone does not tell it apart."""


def called(entry: RosterEntry, shared: set[str]) -> str:
    """What people call a member: its name, and the beginning of its id where others share the name."""
    return f"{entry.name} ({entry.contact.id.hex()[:ID_DIGITS]})" if entry.name in shared else entry.name


class RosterBook:
    """Members of one job. Entries are kept in the order of their numbers.

    Args:
        members: entries of an earlier term.
        version: of the roster they are from.
    """

    def __init__(self, members: tuple[RosterEntry, ...] = (), version: int = 0) -> None:
        self.version = version
        self._entries = {entry.number: entry for entry in sorted(members, key=lambda each: each.number)}
        self._numbers = {entry.contact.id: entry.number for entry in members if entry.until is None}
        self._acked: dict[int, int] = {}

    @property
    def entries(self) -> tuple[RosterEntry, ...]:
        """All entries by number, also of former members whose intervals are not all closed."""
        return tuple(self._entries.values())

    @property
    def active(self) -> list[RosterEntry]:
        return [entry for entry in self._entries.values() if entry.until is None]

    @property
    def given(self) -> int:
        """The bit set of all numbers that were ever given."""
        return (1 << (next(reversed(self._entries), -1) + 1)) - 1

    def of(self, agent: bytes) -> RosterEntry | None:
        number = self._numbers.get(agent)
        return None if number is None else self._entries[number]

    def entry(self, number: int) -> RosterEntry | None:
        return self._entries.get(number)

    def add(
        self, participants: tuple[Participant, ...], start: int, begun: Mapping[bytes, int] | None = None
    ) -> bool:
        """Number those that are not members yet, in the order of their ids; say whether anything changed.

        They start at interval `start`, or at a later one that their worker has `begun` with (by their ids):
        what lies before that will never be said.
        """
        changed = False
        for participant in sorted(participants, key=lambda each: each.contact.id):
            known = self.of(participant.contact.id)
            if known is None:
                number = next(reversed(self._entries), -1) + 1
                self._numbers[participant.contact.id] = number
                first = max(start, (begun or {}).get(participant.contact.id, start))
                self._entries[number] = RosterEntry(number, participant.contact, participant.name, first)
                changed = True
            elif known.contact != participant.contact or known.name != participant.name:
                self._entries[known.number] = replace(
                    known, contact=participant.contact, name=participant.name
                )
                changed = True
        self.version += changed
        return changed

    def evict(self, number: int, until: int) -> None:
        """Expect nothing of a member from interval `until` on."""
        entry = self._entries[number] = replace(self._entries[number], until=until)
        self._numbers.pop(entry.contact.id, None)
        self.version += 1

    def expects(self, number: int, interval: int) -> bool:
        entry = self._entries.get(number)
        return entry is not None and (entry.until is None or entry.until > interval)

    def forget_below(self, closed: int) -> None:
        """Drop former members none of whose intervals is open; their numbers stay used."""
        last = next(reversed(self._entries), -1)
        for entry in list(self._entries.values()):
            if entry.until is not None and entry.until <= closed and entry.number != last:
                del self._entries[entry.number]

    @safeguard("completeness")
    def required(self, interval: int) -> int:
        """The bit set of members that interval needs."""
        mask = 0
        for entry in self._entries.values():
            if entry.start <= interval and (entry.until is None or interval < entry.until):
                mask |= 1 << entry.number
        return mask

    def changes_after(self, interval: int) -> int:
        edges = [entry.start for entry in self._entries.values()]
        edges += [entry.until for entry in self._entries.values() if entry.until is not None]
        return min((edge for edge in edges if edge > interval), default=END)

    def names(self, mask: int) -> list[str]:
        """What people call the numbers in a bit set, sorted."""
        shared = self.shared_names()
        entries = [self._entries[number] for number in numbers(mask) if number in self._entries]
        return sorted(called(entry, shared) for entry in entries)

    def shared_names(self) -> set[str]:
        """Names that several agents have. Each has to be named with the beginning of its id."""
        first: dict[str, bytes] = {}
        entries = self._entries.values()
        return {
            entry.name
            for entry in entries
            if first.setdefault(entry.name, entry.contact.id) != entry.contact.id
        }

    def acknowledge(self, number: int, version: int) -> None:
        self._acked[number] = max(version, self._acked.get(number, 0))

    @property
    def unacknowledged(self) -> list[RosterEntry]:
        """Members that have not taken the newest version."""
        return [entry for entry in self.active if self._acked.get(entry.number, 0) < self.version]

    def new_term(self) -> None:
        """Another master speaks now: everyone has to acknowledge again."""
        self.version += 1
        self._acked.clear()
