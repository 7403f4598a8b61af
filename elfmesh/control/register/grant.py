"""Rules of grants: when votes of the acceptors close intervals without the master.

Owns the rules G1 to G7 of docs/adr/0049 and 0059 as pure functions. Sends, stores and times nothing. The
machines of the agent call them, and the model in tests/control/register explores them. The model alone calls
`may_announce`, `renewed`, `may_exclude`, `next_span`, `may_take` and `roster_epoch`, because agents end a
grant at a take-over and exclude no member (ADR 0070).

A *grant* in the register's value permits the acceptors to close complete intervals by votes. A vote is a
*chain* of records, which it has up to its end. The rules only compare the links of chains, which may be
records or their chained digests. A vote is made under the ballot of the value that holds the grant. A grant
has one group of acceptors, because there is none while they change.

Invariants: of two chains of one ballot, one is a prefix of the other, unless a frame was damaged. What a
majority has voted under one ballot is in every value that is chosen under a higher ballot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Governed, Group, Vote, is_quorum
from elfmesh.control.consensus.voting_grant import VotingGrant

L = TypeVar("L")


class Granting(Governed, Protocol):
    """Interface of a value that may hold a grant."""

    @property
    def grant(self) -> VotingGrant | None: ...


G = TypeVar("G", bound=Granting)


class RosterBasis(NamedTuple):
    """What members evaluate records by; contributions on two of these never meet in one interval."""

    version: int = 1
    numbering: int = 1
    partitions: int = 1
    bounds: int = 0


# -- the grant in a value (G1, G6) -------------------------------------------------------------------------


def may_grant(groups: tuple[Group, ...], *, paused: bool, permitted: bool) -> bool:
    """Return whether a value may hold a grant (G1); `permitted`: by the text of the job."""
    return len(groups) == 1 and not paused and permitted


def renewed(grant: VotingGrant, epoch: int) -> VotingGrant:
    """Return the grant of a value that closes an interval in an epoch (G1): epochs of records never fall."""
    return replace(grant, epoch=epoch)


def roster_epoch(held: int, epoch: int, before: RosterBasis, after: RosterBasis, *, granted: bool) -> int:
    """Return the roster epoch of a value with a new epoch.

    Args:
        held: roster epoch of the value before.
        epoch: the new epoch.
        before: basis of the value before.
        after: basis of the new value.
        granted: whether the value before holds a grant. Otherwise members may have received numbers that no
            value names.
    """
    return held if granted and before == after else epoch


def may_announce(known: VotingGrant | None, *, proposed: bool) -> bool:
    """Return whether a master may announce a roster number that no value names (G6).

    Args:
        known: grant of the last value that the master knows to be chosen.
        proposed: whether it has since proposed a value with a grant, which another master may find.
    """
    return known is None and not proposed


def may_exclude(first: int, kept: Iterable[int]) -> bool:
    """Return whether a grant may exclude a member.

    Args:
        first: the first interval that is open.
        kept: intervals of the member of which a copy store or a standby holds anything.
    """
    return all(interval < first for interval in kept)


# -- a site and its votes (G2, G3) -------------------------------------------------------------------------


def counts(grant: VotingGrant, fence: int) -> bool:
    """Return whether a contribution of a roster epoch is one of the grant's."""
    return fence == grant.roster_epoch


def is_complete(grant: VotingGrant, required: Collection[int], held: Collection[int]) -> bool:
    """Return whether a site has all members that an interval requires, except the excluded ones."""
    return all(number in held or number in grant.excluded for number in required)


def abstains(grant: VotingGrant, required: Collection[int], held: Mapping[int, int]) -> bool:
    """Return whether a site has anything that the record of a complete interval leaves out.

    Args:
        grant: the grant.
        required: numbers that the interval requires.
        held: revisions that the site has, by number.
    """
    return any(
        revision > 1 or number in grant.excluded or number not in required
        for number, revision in held.items()
    )


class RecordSpan(NamedTuple):
    """The intervals of one record: it ends with `last`."""

    since: int
    last: int


def next_span(
    grant: VotingGrant, begin: int, stop: int, complete: Callable[[int], bool], empty: Callable[[int], bool]
) -> RecordSpan | None:
    """Return the intervals of the next record that votes may close; None if it is not complete.

    A run of empty intervals needs a record if a member is excluded. It then belongs to the next record with
    rows, so that its end does not depend on when a site looks.

    Args:
        grant: the grant.
        begin: first interval that is in no record.
        stop: first interval that the site does not consider.
        complete: returns whether an interval is complete.
        empty: returns whether an interval has no rows.
    """
    since = begin
    for index in range(begin, stop):
        if not complete(index):
            return None
        if not empty(index):
            return RecordSpan(since, index)
        if not grant.excluded:
            since = index + 1
    return None


def may_take(own: VotingGrant, of: VotingGrant | None) -> bool:
    """Return whether a site may vote on a record that it has received.

    Args:
        own: the grant.
        of: the grant under which the record was made; None if the master has closed it.
    """
    return own == of


def may_vote(vote: Vote[G]) -> bool:
    """Return whether an acceptor may vote under its accepted ballot (G2).

    It has the terms of the grant's roster, because it accepts no value without them.
    """
    value = vote.value
    return value is not None and value.grant is not None and vote.promised == vote.ballot


def accept(vote: Vote[G], ballot: Ballot, value: G) -> Vote[G] | None:
    """Return the vote after accepting a value; None if the acceptor must refuse it (G3).

    An acceptor of a grant does not promise the following ballot, because it could then never vote. A repeated
    request does not take a later promise back.
    """
    voted = vote.accept(ballot, value)
    if voted is None or voted is vote or value.grant is None:
        return voted
    return Vote(ballot, ballot, value)


def may_follow_at_once(value: Granting) -> bool:
    """Return whether a chosen value may be changed in one round trip (G3).

    Without new promises the proposer would not find the votes.
    """
    return value.grant is None


# -- votes of several acceptors (G4, G5, G7) ---------------------------------------------------------------


def is_prefix(short: tuple[L, ...], long: tuple[L, ...]) -> bool:
    return long[: len(short)] == short


def votes_under(
    ballot: Ballot, votes: Mapping[bytes, tuple[Ballot, tuple[L, ...]]]
) -> dict[bytes, tuple[L, ...]]:
    """Return the chain of each acceptor under a ballot; empty if it has voted under another one (G4)."""
    return {agent: chain if under == ballot else () for agent, (under, chain) in votes.items()}


def closed_by_votes(
    ballot: Ballot, votes: Iterable[tuple[bytes, Ballot, tuple[L, ...]]], voters: Group
) -> tuple[L, ...]:
    """Return what a majority of the voters has closed under a ballot (G5); empty if nothing.

    Args:
        ballot: ballot of a value with a grant.
        votes: voter, ballot and chain of each vote that was received.
        voters: acceptors of that value.
    """
    longest: dict[bytes, tuple[L, ...]] = {}
    for agent, under, chain in votes:
        if under == ballot and len(chain) > len(longest.get(agent, ())):
            longest[agent] = chain
    return _voted_alike(longest, voters)


def _voted_alike(votes: Mapping[bytes, tuple[L, ...]], voters: Group) -> tuple[L, ...]:
    longest: tuple[L, ...] = ()
    for chain in votes.values():
        for end in range(len(longest) + 1, len(chain) + 1):
            alike = tuple(agent for agent in votes if is_prefix(chain[:end], votes[agent]))
            if is_quorum((voters,), alike):
                longest = chain[:end]
    return longest


@dataclass(frozen=True, slots=True)
class Folded(Generic[L]):
    """What a proposer knows of closed records.

    Attributes:
        chain: the records of the value found, and those that its change has to add.
        conflict: whether two votes differ; then the change ends the grant.
        decided: whether the proposer may go on. Otherwise it needs the promises of all acceptors.
    """

    chain: tuple[L, ...]
    conflict: bool = False
    decided: bool = True


def fold(known: tuple[L, ...], votes: Mapping[bytes, tuple[L, ...]], voters: Group) -> Folded[L]:
    """Return the records that a value may not lose (G4, G7).

    Without a conflict these are all that were voted: a majority may have voted the longest chain, if the
    proposer has not asked all. After a conflict, only what a majority has voted alike counts.

    Args:
        known: chain of the value found, which has the highest ballot.
        votes: chains under that ballot, by acceptor that has promised.
        voters: acceptors of the value found.
    """
    longest = max(votes.values(), key=len, default=())
    if all(is_prefix(chain, longest) for chain in votes.values()):
        return Folded(longest if is_prefix(known, longest) else known)
    decided = all(voter in votes for voter in voters)
    return Folded(max(known, _voted_alike(votes, voters), key=len), conflict=True, decided=decided)
