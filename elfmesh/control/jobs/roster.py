"""The roster of one job: the numbers of its members, their intervals and their acknowledgements.

Owns the numbers, and which members an interval expects. Sends nothing.

Invariants: a roster gives a number once. A change raises `version`. The expected members of a closed interval
never change, because a new member starts above every reported frontier, and an evicted one ends at the first
open interval. No interval expects an agent by two numbers.

A master that lacks the roster of its predecessor gives numbers of that roster again. A number therefore names
an agent only together with the epoch in which it was given. The register makes sure that a successor has the
roster by which intervals were closed, so all records of an incarnation mean the same agent by a number, and
every roster states the epochs of its numbers (`has_number`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Participant, RosterEntry
from elfmesh.interval_map import END, numbers
from elfmesh.safeguards import safeguard

ID_DIGITS = 6
"""Number of hexadecimal digits of an agent's id after a name that several agents have."""

EPOCHS_MAX = 32
"""Epochs of numbers that a roster names; the epochs of earlier numbers are not known any more."""

GivenIn = tuple[tuple[int, int], ...]
"""(number, epoch): the numbers from this one on were given in this epoch. Ordered by both."""

UNKNOWN = 0
"""No epoch: an earlier release gave the number, or too many epochs have followed."""


@safeguard("number-of-its-epoch:given")
def has_number(given_in: GivenIn, number: int, epoch: int) -> bool:
    """Whether a number that was given in this epoch is one of the roster's, or was until it was dropped.

    Args:
        given_in: epochs of the numbers of the roster.
        number: number of an agent.
        epoch: epoch in which the agent got it.
    """
    known = epoch_of(given_in, number)
    return UNKNOWN in (known, epoch) or known == epoch


def epoch_of(given_in: GivenIn, number: int) -> int:
    """The epoch in which a roster's number was given, or will be; `UNKNOWN` if the roster does not say it."""
    return next((epoch for first, epoch in reversed(given_in) if first <= number), UNKNOWN)


@safeguard("number-of-its-epoch:outcomes")
def is_of_epoch(roster: int, outcome: int) -> bool:
    """Whether a member with the roster of one epoch understands outcomes that name numbers of the other.

    On the roster of a later epoch, another agent may have the number.
    """
    return roster == outcome


def called(entry: RosterEntry, shared: set[str]) -> str:
    """Return the name of a member to show, with the beginning of its id if other members share the name."""
    return f"{entry.name} ({entry.contact.id.hex()[:ID_DIGITS]})" if entry.name in shared else entry.name


class RosterBook:
    """Members of one job, in the order of their numbers.

    Args:
        members: entries of an earlier term.
        version: version of their roster.
        given_in: the epochs of their numbers, as in `Terms`.
        epoch: the epoch in which this roster gives numbers.
    """

    def __init__(
        self,
        members: tuple[RosterEntry, ...] = (),
        version: int = 0,
        given_in: GivenIn = (),
        epoch: int = UNKNOWN,
    ) -> None:
        self.version = version
        self._entries = {entry.number: entry for entry in sorted(members, key=lambda each: each.number)}
        self._numbers = {entry.contact.id: entry.number for entry in members if entry.until is None}
        self._acked: dict[int, int] = {}
        free = self._free
        before = tuple(each for each in given_in if each[0] < free)
        self.given_in = (*before, (free, epoch))[-EPOCHS_MAX:]

    @property
    def _free(self) -> int:
        """The next number. The last entry stays, so the numbers below it were given."""
        return next(reversed(self._entries), -1) + 1

    @property
    def entries(self) -> tuple[RosterEntry, ...]:
        """All entries by number, including former members with open intervals."""
        return tuple(self._entries.values())

    @property
    def active(self) -> list[RosterEntry]:
        return [entry for entry in self._entries.values() if entry.until is None]

    @property
    def given(self) -> int:
        """Bit set of all numbers that were ever given."""
        return (1 << self._free) - 1

    def of(self, agent: bytes) -> RosterEntry | None:
        number = self._numbers.get(agent)
        return None if number is None else self._entries[number]

    def entry(self, number: int) -> RosterEntry | None:
        return self._entries.get(number)

    def add(
        self, participants: tuple[Participant, ...], start: int, begun: Mapping[bytes, int] | None = None
    ) -> bool:
        """Give numbers to new members, in the order of their ids; returns whether the roster has changed.

        They start at interval `start`, or at the later one with which their worker has `begun` (by id),
        because it sends no contribution to earlier intervals. A former member starts where its last number
        ends, or later.
        """
        changed = False
        for participant in sorted(participants, key=lambda each: each.contact.id):
            known = self.of(participant.contact.id)
            if known is None:
                number = self._free
                self._numbers[participant.contact.id] = number
                first = max(start, (begun or {}).get(participant.contact.id, start))
                first = self._behind_earlier(participant.contact.id, first)
                known = RosterEntry(number, participant.contact, participant.name, first)
                changed = True
            if known.participant != participant:
                known = replace(known, **asdict(participant))
                changed = True
            self._entries[known.number] = known
        self.version += changed
        return changed

    @safeguard("one-number-at-a-time")
    def _behind_earlier(self, agent: bytes, first: int) -> int:
        """The first interval from this one on that expects an agent by none of its earlier numbers.

        An agent that leaves names its own frontier, which may be above all that a new master has seen.
        """
        untils = (each.until for each in self._entries.values() if each.contact.id == agent)
        return max(first, *(each for each in untils if each is not None), FIRST)

    def evict(self, number: int, until: int, *, ahead: bool = False) -> None:
        """Do not expect a member from interval `until` on; `ahead`: see `RosterEntry`."""
        entry = self._entries[number] = replace(self._entries[number], until=until, ahead=ahead)
        self._numbers.pop(entry.contact.id, None)
        self.version += 1

    @property
    def ahead(self) -> int:
        """Return the bit set of the members that have left at once."""
        return sum(1 << entry.number for entry in self._entries.values() if entry.ahead)

    def expects(self, number: int, interval: int) -> bool:
        entry = self._entries.get(number)
        return entry is not None and (entry.until is None or entry.until > interval)

    def forget_below(self, closed: int) -> None:
        """Drop former members without open intervals; their numbers are not used again."""
        last = next(reversed(self._entries), -1)
        for entry in list(self._entries.values()):
            if entry.until is not None and entry.until <= closed and entry.number != last:
                del self._entries[entry.number]

    @safeguard("completeness")
    def required(self, interval: int) -> int:
        """Return the bit set of the members that an interval expects."""
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
        """Return the names to show of the members in a bit set, sorted."""
        shared = self.shared_names()
        entries = [self._entries[number] for number in numbers(mask) if number in self._entries]
        return sorted(called(entry, shared) for entry in entries)

    def ids(self, mask: int) -> tuple[str, ...]:
        """Return the ids of the members in a bit set, as text, by number."""
        entries = (self._entries[number] for number in numbers(mask) if number in self._entries)
        return tuple(entry.contact.id.hex() for entry in entries)

    def shared_names(self) -> set[str]:
        """Return the names that several agents have."""
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
        """Members that have not acknowledged the newest version."""
        return [entry for entry in self.active if self._acked.get(entry.number, 0) < self.version]

    def new_term(self) -> None:
        """Require acknowledgements of all members again, because another master sends the roster."""
        self.version += 1
        self._acked.clear()
