"""Folding: a proposer adds to the value found the records on which its acceptors have voted (G4, G7).

Owns the step from promises to the value that a change starts from. `grant.fold` has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Round
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.register_value import RegisterCell, digest
from elfmesh.control.register import grant
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.safeguards import safeguard

Voted = Mapping[bytes, tuple[Ballot, VotedChain]]
"""By acceptor: the ballot that it had accepted, and the records on which it has voted under it."""


@dataclass(frozen=True, slots=True)
class FoundWithVotes:
    """What a change starts from.

    Attributes:
        cell: the value found with the folded records; None: the register has no value.
        settled: ballot of the value found, if the records before the tail are those of this value.
        conflict: whether two votes differ, so that the change ends the grant.
        links: the chained digests of the records of the tail, if it consists of folded records alone.
    """

    cell: RegisterCell | None
    settled: Ballot | None = None
    conflict: bool = False
    links: tuple[bytes, ...] = ()


@safeguard("votes-are-folded")
def found_with_votes(begun: Round[RegisterCell], voted: Voted) -> FoundWithVotes | None:
    """Return what a change starts from; None: the promises of all acceptors are needed first."""
    newest = begun.newest
    cell = begun.found
    if newest is None or cell is None:
        return FoundWithVotes(cell)
    chains = {agent: (ballot, chain.links) for agent, (ballot, chain) in voted.items()}
    under = grant.votes_under(newest.ballot, chains)
    result = grant.fold((), under, cell.groups[-1])
    if not result.decided:
        return None
    if not result.chain:
        return FoundWithVotes(cell, conflict=result.conflict)
    source = next(voted[agent][1] for agent in sorted(under) if grant.is_prefix(result.chain, under[agent]))
    records = source.records[: len(result.chain)]
    value, settles = cell.value, begun.finds_chosen
    before = value.latest if settles else value.before
    tail = encode_page(records if settles else (*decode_page(cell.tail), *records))
    last = records[-1][0].index
    value = replace(
        value, closed=max(value.closed, last + 1), latest=last, before=before, digest=digest(tail)
    )
    settled, links = (newest.ballot, result.chain) if settles else (None, ())
    return FoundWithVotes(RegisterCell(value, tail), settled, result.conflict, links)
