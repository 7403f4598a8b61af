"""Values and changes of the model of grants.

The record of a complete interval is a function of the contributions and the grant (`made`). Everything that a
real record adds follows from these two, so the model leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from elfmesh.control.consensus.rules import Group
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.register.grant import RosterBasis
from elfmesh.machine import Contact
from tests.control.register.grants.grant_flaws import Rules


class GrantedRecord(NamedTuple):
    """A record. `grant`: under which it is complete; None: the master closed it as it was.

    `content` has (number, agent, variant, basis) of each contribution in it.
    """

    interval: int
    since: int
    epoch: int
    basis: RosterBasis
    grant: VotingGrant | None = None
    content: tuple[tuple[int, str, int, RosterBasis], ...] = ()


History = tuple[GrantedRecord, ...]


class GrantedValue(NamedTuple):
    """The value of a register: `history` stands for the closed watermark and the chained digest."""

    epoch: int
    master: int
    roster_epoch: int
    roster: tuple[str, ...]
    acceptors: tuple[Contact, ...]
    former: tuple[Contact, ...] = ()
    grant: VotingGrant | None = None
    history: History = ()
    basis: RosterBasis = RosterBasis()
    paused: bool = False

    @property
    def groups(self) -> tuple[Group, ...]:
        new = tuple(contact.id for contact in self.acceptors)
        return (tuple(contact.id for contact in self.former), new) if self.former else (new,)

    @property
    def voters(self) -> frozenset[bytes]:
        return frozenset(agent for group in self.groups for agent in group)

    @property
    def is_over(self) -> bool:
        return False

    @property
    def following_index(self) -> int:
        return following_index(self.history, self.basis)

    def member_since(self, agent: bytes) -> int:
        """Return the boot in which an agent became an acceptor of the value."""
        return max((c.incarnation for c in (*self.former, *self.acceptors) if c.id == agent), default=0)


class Delivery(NamedTuple):
    """A contribution at a site; `number` is the member's in the roster of `roster_epoch`."""

    roster_epoch: int
    number: int
    agent: str
    interval: int
    revision: int = 1
    variant: int = 0
    basis: RosterBasis = RosterBasis()


def following_index(history: History, basis: RosterBasis) -> int:
    """Return the first open interval of a numbering."""
    return history[-1].interval + 1 if history and history[-1].basis.numbering == basis.numbering else 0


def last_interval(history: History) -> int | None:
    return history[-1].interval if history else None


def made(
    held: frozenset[Delivery],
    value: GrantedValue,
    history: History,
    empty: frozenset[int],
    intervals: int,
    rules: Rules,
) -> list[GrantedRecord]:
    """Return the next record that a site can make by itself, whenever it looks: one, or none."""
    grant, begin = value.grant, following_index(history, value.basis)
    assert grant is not None
    required = range(grant.roster)
    counted = [each for each in held if rules.counts(grant, each.roster_epoch)]

    def is_complete(index: int) -> bool:
        return rules.is_complete(grant, required, {each.number for each in counted if each.interval == index})

    spans = [
        rules.next_span(grant, begin, stop, is_complete, empty.__contains__)
        for stop in range(begin + 1, intervals + 1)
    ]
    records = []
    for span in spans:
        if span is not None:
            content = tuple(
                (each.number, each.agent, each.variant, each.basis)
                for each in sorted(counted)
                if each.interval == span.last and each.number in required
                and each.number not in grant.excluded
            )  # fmt: skip
            records.append(GrantedRecord(span.last, span.since, grant.epoch, value.basis, grant, content))
    return list(dict.fromkeys(records))


def abstains(held: frozenset[Delivery], grant: VotingGrant, record: GrantedRecord, rules: Rules) -> bool:
    """Return whether a site has something that the record leaves out, and so must not vote on it."""
    for index in range(record.since, record.interval + 1):
        revisions: dict[int, int] = {}
        for each in held:
            if each.interval == index and rules.counts(grant, each.roster_epoch):
                revisions[each.number] = max(each.revision, revisions.get(each.number, 0))
        if rules.abstains(grant, range(grant.roster), revisions):
            return True
    return False


class Asker(NamedTuple):
    """What a change needs of its proposer."""

    number: int
    epoch: int
    known_epoch: int
    roster: tuple[str, ...]
    known: GrantedValue


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the model restricts, and what an agent besides the sites holds of a dead member (`kept`)."""

    intervals: int
    boots: tuple[int, ...]
    kept: frozenset[tuple[str, int]]
    permitted: bool
    rules: Rules


def changed(
    word: str, found: GrantedValue, asker: Asker, bounds: Bounds, *, certain: bool
) -> GrantedValue | None:
    """Return the next value; None if the value found refuses the change."""
    value = _changed(word, found, asker, bounds, certain=certain)
    if value is None or value.grant is None:
        return value
    permitted = bounds.rules.may_grant(value.groups, paused=value.paused, permitted=bounds.permitted)
    return value if permitted else value._replace(grant=None)


def _changed(
    word: str, found: GrantedValue, asker: Asker, bounds: Bounds, *, certain: bool
) -> GrantedValue | None:
    if word == "take over":
        if found.epoch != asker.known_epoch:
            return None
        return _in_epoch(found, found.basis, bounds)._replace(master=asker.number)
    if found.epoch != asker.epoch:
        return None
    if word == "settle":
        return found._replace(former=()) if certain else found
    if ">" in word or word[0] in "+-":
        return _exchanged(word, found, bounds)
    return _CHANGES[word.split()[0]](word, found, asker, bounds)


def _in_epoch(found: GrantedValue, basis: RosterBasis, bounds: Bounds) -> GrantedValue:
    """Return the value in the next epoch."""
    epoch, granted = found.epoch + 1, found.grant is not None
    fence = bounds.rules.roster_epoch(found.roster_epoch, epoch, found.basis, basis, granted=granted)
    return found._replace(epoch=epoch, roster_epoch=fence, basis=basis)


def _exchanged(word: str, found: GrantedValue, bounds: Bounds) -> GrantedValue | None:
    comes, goes = word.split(">") if ">" in word else (word[1:], "") if word[0] == "+" else ("", word[1:])
    kept = tuple(each for each in found.acceptors if not goes or each.port != int(goes))
    new = [contact(int(comes), bounds.boots[int(comes) - 1])] if comes else []
    if found.former or any(one.id == other.id for one in kept for other in new):
        return None
    return found._replace(acceptors=(*kept, *new), former=found.acceptors)


def _grant(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    return _granted(found, asker, ())


def _granted(found: GrantedValue, asker: Asker, excluded: tuple[int, ...]) -> GrantedValue:
    version, first = len(asker.roster), found.following_index
    grant = VotingGrant(found.epoch, found.roster_epoch, version, first, excluded)
    return found._replace(roster=asker.roster, grant=grant)


def _pause(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    return found._replace(paused=True)


def _revoke(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    return found._replace(grant=None)


def _advance(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """A change of the version, the numbering, the partitions or the bounds; members need its terms first."""
    field = word.split()[1]
    basis = found.basis._replace(**{field: getattr(found.basis, field) + 1})
    return _in_epoch(found, basis, bounds)._replace(roster=asker.roster, grant=None)


def _roster(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    roster = (*found.roster, word.split()[1])
    grant = found.grant and with_fields(bounds.rules.renewed(found.grant, found.epoch), roster=len(roster))
    return found._replace(roster=roster, grant=grant)


def _close(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """The master closes the next interval as it is."""
    index = found.following_index
    if index >= bounds.intervals:
        return None
    grant = found.grant and bounds.rules.renewed(found.grant, found.epoch)
    record = GrantedRecord(index, index, found.epoch, found.basis)
    return found._replace(history=(*found.history, record), grant=grant)


def _exclude(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """The first closing without a dead member; the grant excludes it if no agent holds anything of it."""
    closed, agent = _close(word, found, asker, bounds), word.split()[1]
    if closed is None:
        return None
    kept = [index for name, index in bounds.kept if name == agent]
    if not bounds.rules.may_exclude(closed.following_index, kept):
        return closed._replace(grant=None)
    excluded = found.grant.excluded if found.grant else ()
    return _granted(closed, asker, (*excluded, asker.roster.index(agent)))


def _include(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    if found.grant is None:
        return found
    number = found.roster.index(word.split()[1])
    excluded = tuple(each for each in found.grant.excluded if each != number)
    grant = with_fields(bounds.rules.renewed(found.grant, found.epoch), excluded=excluded)
    return found._replace(grant=grant)


_CHANGES: dict[str, Callable[[str, GrantedValue, Asker, Bounds], GrantedValue | None]] = {
    "grant": _grant, "revoke": _revoke, "advance": _advance, "roster": _roster, "close": _close,
    "exclude": _exclude, "include": _include, "pause": _pause,
}  # fmt: skip


def contact(number: int, boot: int = 0) -> Contact:
    return Contact(bytes([number]) * 20, "sim", number, boot)
