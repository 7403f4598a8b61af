"""Rules of grants, as the model explores them before the product has them.

Owns the value that a grant is part of, the changes of that value, complete records, votes and folding. The
rounds, ballots and groups are the product's (`control/consensus/rules.py`). Terms are those of the design of
several sites: a *grant* in the register's value lets a majority of the acceptors close intervals by votes.

The record of a complete interval is a function of the contributions and the grant (`completed`). Everything
that a real record adds follows from these two, so the model leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from elfmesh.control.consensus.rules import Group
from elfmesh.machine import Contact


class Grant(NamedTuple):
    """Permission to close complete intervals by votes; `excluded` members are not waited for."""

    epoch: int
    roster_epoch: int
    roster: tuple[str, ...]
    excluded: tuple[str, ...] = ()


class GrantedRecord(NamedTuple):
    """A record. `grant`: under which it is complete; None: the master closed it as it was.

    `content` has (number, agent, variant) of each contribution in it.
    """

    interval: int
    since: int
    epoch: int
    grant: Grant | None = None
    content: tuple[tuple[int, str, int], ...] = ()


History = tuple[GrantedRecord, ...]


class GrantedValue(NamedTuple):
    """The value of a register: `history` stands for the closed watermark and the chained digest."""

    epoch: int
    master: int
    roster_epoch: int
    roster: tuple[str, ...]
    acceptors: tuple[Contact, ...]
    former: tuple[Contact, ...] = ()
    grant: Grant | None = None
    history: History = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        new = tuple(contact.id for contact in self.acceptors)
        return (tuple(contact.id for contact in self.former), new) if self.former else (new,)

    @property
    def is_over(self) -> bool:
        return False

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


def following_index(history: History) -> int:
    return history[-1].interval + 1 if history else 0


def is_prefix(short: History, long: History) -> bool:
    return long[: len(short)] == short


def completed(
    held: frozenset[Delivery],
    grant: Grant,
    history: History,
    empty: frozenset[int],
    intervals: int,
    flaws: frozenset[str],
) -> list[GrantedRecord]:
    """Return the next record that a site can make by itself: none or one, without flaws."""
    since = index = following_index(history)
    made: list[GrantedRecord] = []
    while index < intervals:
        counted = [
            each
            for each in held
            if each.interval == index and ("no fence" in flaws or each.roster_epoch == grant.roster_epoch)
        ]
        content = []
        for number, agent in enumerate(grant.roster):
            if agent in grant.excluded:
                continue
            mine = [each for each in counted if each.number == number]
            if not mine and "incomplete" not in flaws:
                return made
            content += [(number, each.agent, each.variant) for each in mine]
        if index not in empty:
            return [*made, GrantedRecord(index, since, grant.epoch, grant, tuple(sorted(content)))]
        if not grant.excluded:
            since = index + 1  # a complete and empty interval has no record where all members are in
        elif "runs by time" in flaws:
            made.append(GrantedRecord(index, since, grant.epoch, grant))
        index += 1
    return made


def abstains(held: frozenset[Delivery], grant: Grant, record: GrantedRecord, flaws: frozenset[str]) -> bool:
    """Return whether a site has something that the record leaves out, and so must not vote on it."""
    for each in held:
        if each.roster_epoch != grant.roster_epoch or not record.since <= each.interval <= record.interval:
            continue
        left_out = each.agent in grant.excluded or each.number >= len(grant.roster)
        if left_out and "no abstaining" not in flaws:
            return True
        if each.revision > 1 and "revision" not in flaws:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Folded:
    """What a proposer knows behind the promises: the value with the votes in it.

    `conflict`: two votes of one ballot differ. `decided`: no vote that is not known can change the result.
    """

    value: GrantedValue
    conflict: bool = False
    decided: bool = True


def fold(found: GrantedValue, votes: dict[bytes, History], flaws: frozenset[str]) -> Folded:
    """Fold the votes under the ballot of the value found into it (G4, G7).

    Args:
        found: value of the highest ballot.
        votes: by acceptor that has promised, what it has voted under that ballot; () if nothing.
        flaws: rules that are left out.
    """
    cast = sorted((each for each in votes.values() if each), key=len)
    if not cast or "no fold" in flaws:
        return Folded(found)
    longest = cast[-1]
    if all(is_prefix(each, longest) for each in cast):
        return Folded(found._replace(history=longest) if is_prefix(found.history, longest) else found)
    voters = [contact.id for contact in found.acceptors]
    decided = "conflict by a majority" in flaws or all(voter in votes for voter in voters)
    kept = found.history
    for each in cast:
        for end in range(len(kept) + 1, len(each) + 1):
            same = sum(is_prefix(each[:end], votes.get(voter, ())) for voter in voters)
            if 2 * same > len(voters):
                kept = each[:end]
    return Folded(found._replace(history=kept, grant=None), conflict=True, decided=decided)


class Asker(NamedTuple):
    """What a change needs of its proposer."""

    number: int
    epoch: int
    known_epoch: int
    roster: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the model restricts, and what an agent besides the sites holds of a dead member (`kept`)."""

    intervals: int
    boots: tuple[int, ...]
    kept: frozenset[tuple[str, int]]
    flaws: frozenset[str]


def changed(
    word: str, found: GrantedValue, asker: Asker, bounds: Bounds, *, certain: bool
) -> GrantedValue | None:
    """Return the next value; None if the value found refuses the change."""
    if word == "take over":
        if found.epoch != asker.known_epoch:
            return None
        epoch = found.epoch + 1
        kept = found.grant is not None or "roster epoch kept" in bounds.flaws
        return found._replace(
            epoch=epoch, master=asker.number, roster_epoch=found.roster_epoch if kept else epoch
        )
    if found.epoch != asker.epoch:
        return None
    if word == "settle":
        return found._replace(former=()) if certain else found
    if ">" in word or word[0] in "+-":
        return _exchanged(word, found, bounds)
    return _CHANGES[word.split()[0]](word, found, asker, bounds)


def _exchanged(word: str, found: GrantedValue, bounds: Bounds) -> GrantedValue | None:
    comes, goes = word.split(">") if ">" in word else (word[1:], "") if word[0] == "+" else ("", word[1:])
    kept = tuple(each for each in found.acceptors if not goes or each.port != int(goes))
    new = [contact(int(comes), bounds.boots[int(comes) - 1])] if comes else []
    if found.former or any(one.id == other.id for one in kept for other in new):
        return None
    joint = found._replace(acceptors=(*kept, *new), former=found.acceptors)
    return joint if "grant while joint" in bounds.flaws else joint._replace(grant=None)


def _grant(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    if found.former:
        return None
    grant = Grant(found.epoch, found.roster_epoch, asker.roster)
    return found._replace(roster=asker.roster, grant=grant)


def _revoke(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    return found._replace(grant=None)


def _advance(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    epoch = found.epoch + 1
    return found._replace(epoch=epoch, roster_epoch=epoch, roster=asker.roster, grant=None)


def _roster(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    roster = (*found.roster, word.split()[1])
    grant = found.grant and found.grant._replace(epoch=found.epoch, roster=roster)
    return found._replace(roster=roster, grant=grant)


def _close(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """The master closes the next interval as it is."""
    index = following_index(found.history)
    if index >= bounds.intervals:
        return None
    grant = found.grant
    if grant is not None and "grant not renewed" not in bounds.flaws:
        grant = grant._replace(epoch=found.epoch)
    record = GrantedRecord(index, index, found.epoch)
    return found._replace(history=(*found.history, record), grant=grant)


def _exclude(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    """The first closing without a dead member; the grant excludes it if no agent holds anything of it."""
    closed, agent = _close(word, found, asker, bounds), word.split()[1]
    if closed is None or found.former:
        return None
    first = following_index(closed.history)
    held = any(name == agent and index >= first for name, index in bounds.kept)
    if held and "copies left out" not in bounds.flaws:
        return closed._replace(grant=None)
    excluded = (found.grant.excluded if found.grant else ()) + (agent,)
    grant = Grant(found.epoch, found.roster_epoch, asker.roster, excluded)
    return closed._replace(roster=asker.roster, grant=grant)


def _include(word: str, found: GrantedValue, asker: Asker, bounds: Bounds) -> GrantedValue | None:
    grant = found.grant
    if grant is None:
        return found
    excluded = tuple(each for each in grant.excluded if each != word.split()[1])
    return found._replace(grant=grant._replace(epoch=found.epoch, excluded=excluded))


_CHANGES: dict[str, Callable[[str, GrantedValue, Asker, Bounds], GrantedValue | None]] = {
    "grant": _grant, "revoke": _revoke, "advance": _advance, "roster": _roster, "close": _close,
    "exclude": _exclude, "include": _include,
}  # fmt: skip


def contact(number: int, boot: int = 0) -> Contact:
    return Contact(bytes([number]) * 20, "sim", number, boot)
