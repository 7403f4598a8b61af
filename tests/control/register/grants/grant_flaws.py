"""The product's rules of grants, and the flaws that replace one of them in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as with_fields

from elfmesh.control.consensus.rules import Group, Vote
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.register import grant as product
from elfmesh.control.register.changes import Change, Close, TakeOver
from elfmesh.control.register.grant import RecordSpan, RosterBasis
from elfmesh.control.register.members import is_known_near


def _apply(change: Change, found: RegisterCell) -> RegisterCell:
    return change.apply(found, certain=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """The product's rules, under their names. `apply`: its changes of the register's value."""

    apply: Callable[[Change, RegisterCell], RegisterCell] = _apply

    may_grant: Callable[..., bool] = product.may_grant
    renewed: Callable[..., VotingGrant] = product.renewed
    roster_epoch: Callable[..., int] = product.roster_epoch
    may_announce: Callable[..., bool] = product.may_announce
    may_exclude: Callable[..., bool] = product.may_exclude
    counts: Callable[..., bool] = product.counts
    is_complete: Callable[..., bool] = product.is_complete
    abstains: Callable[..., bool] = product.abstains
    next_span: Callable[..., RecordSpan | None] = product.next_span
    may_take: Callable[..., bool] = product.may_take
    may_vote: Callable[..., bool] = product.may_vote
    accept: Callable[..., Any] = product.accept
    may_follow_at_once: Callable[..., bool] = product.may_follow_at_once
    votes_under: Callable[..., dict[bytes, Any]] = product.votes_under
    closed_by_votes: Callable[..., Any] = product.closed_by_votes
    fold: Callable[..., product.Folded[Any]] = product.fold
    is_known_near: Callable[..., bool] = is_known_near


def _without(field: str) -> Callable[..., int]:
    """The rule of roster epochs without one of the reasons for a new one."""

    def kept(held: int, epoch: int, before: RosterBasis, after: RosterBasis, *, granted: bool) -> int:
        alike = after._replace(**{field: getattr(before, field)})
        return product.roster_epoch(held, epoch, before, alike, granted=granted)

    return kept


def _cut_by_time(
    grant: VotingGrant, begin: int, stop: int, complete: Callable[[int], bool], empty: Callable[[int], bool]
) -> RecordSpan | None:
    span = product.next_span(grant, begin, stop, complete, empty)
    waits = span is None and stop > begin and all(map(complete, range(begin, stop)))
    return RecordSpan(begin, stop - 1) if waits and grant.excluded else span


def _accepts_again(vote: Vote[Any], ballot: Any, value: Any) -> Vote[Any] | None:
    voted = vote.accept(ballot, value)
    return voted if voted is None or value.grant is None else Vote(ballot, ballot, value)


def _any_ballot(ballot: Any, votes: Iterable[tuple[bytes, Any, Any]], voters: Group) -> Any:
    return product.closed_by_votes(ballot, [(agent, ballot, chain) for agent, _, chain in votes], voters)


def _keeps_the_grant(change: Change, found: RegisterCell) -> RegisterCell:
    after = _apply(change, found)
    kept = isinstance(change, TakeOver) and after.value.epoch > found.value.epoch
    return RegisterCell(with_fields(after.value, grant=found.grant), after.tail) if kept else after


def _compares_no_record(change: Change, found: RegisterCell) -> RegisterCell:
    return _apply(
        with_fields(change, before=found.value.latest) if isinstance(change, Close) else change, found
    )


def _compares_no_grant(change: Change, found: RegisterCell) -> RegisterCell:
    """A `Close` that is made already is known by its records only, and votes have closed more."""
    if not isinstance(change, Close) or change.grant is None or not change.tail:
        return _apply(change, found)
    after = _apply(with_fields(change, grant=None), found)
    return RegisterCell(with_fields(after.value, grant=change.grant), after.tail)


FLAWS: dict[str, dict[str, Callable[..., Any]]] = {
    "grant while joint": {
        "may_grant": lambda groups, *, paused, permitted: product.may_grant(
            groups[:1], paused=paused, permitted=permitted
        )
    },
    "grant while paused": {
        "may_grant": lambda groups, *, paused, permitted: product.may_grant(
            groups, paused=False, permitted=permitted
        )
    },
    "grant for any text": {
        "may_grant": lambda groups, *, paused, permitted: product.may_grant(
            groups, paused=paused, permitted=True
        )
    },
    "grant not renewed": {"renewed": lambda grant, epoch: grant},
    "roster epoch kept by a take-over": {
        "roster_epoch": lambda held, epoch, before, after, *, granted: product.roster_epoch(
            held, epoch, before, after, granted=True
        )
    },
    **{f"roster epoch kept: {field}": {"roster_epoch": _without(field)} for field in RosterBasis._fields},
    "announced under a grant": {"may_announce": lambda known, *, proposed: not proposed},
    "announced while a grant is proposed": {"may_announce": lambda known, *, proposed: known is None},
    "copies left out": {"may_exclude": lambda first, kept: True},
    "no fence": {"counts": lambda grant, fence: True},
    "incomplete": {"is_complete": lambda grant, required, held: True},
    "no abstaining": {
        "abstains": lambda grant, required, held: any(revision > 1 for revision in held.values())
    },
    "revision": {
        "abstains": lambda grant, required, held: product.abstains(grant, required, dict.fromkeys(held, 1))
    },
    "runs by time": {"next_span": _cut_by_time},
    "any record": {"may_take": lambda own, of: True},
    "promise": {"may_vote": lambda vote: vote.value is not None and vote.value.grant is not None},
    "accept promises more": {"accept": lambda vote, ballot, value: vote.accept(ballot, value)},
    "accept takes a promise back": {"accept": _accepts_again},
    "short cut": {"may_follow_at_once": lambda value: True},
    "no fold": {"fold": lambda known, votes, voters: product.Folded(known)},
    "votes of lower ballots": {
        "votes_under": lambda ballot, votes: {agent: chain for agent, (_, chain) in votes.items()}
    },
    "votes of several ballots": {"closed_by_votes": _any_ballot},
    "conflict by a majority": {
        "fold": lambda known, votes, voters: replace(product.fold(known, votes, voters), decided=True)
    },
    "settled before the near agents know": {"is_known_near": lambda near, holders: True},
    "sent before synced": {},
    "votes without records": {},
    "rot unnoticed": {},
    "leaving agents count": {},
}
"""What each flaw replaces; those of the agents around the rules replace none of them."""


CHANGES = {
    "a take-over keeps the grant": _keeps_the_grant,
    "a closing compares no record": _compares_no_record,
    "a closing that is made compares no grant": _compares_no_grant,
}
"""Flaws of the product's changes of the register's value."""


def rules_without(flaws: Iterable[str]) -> Rules:
    known = FLAWS | {name: {"apply": change} for name, change in CHANGES.items()}
    replaced = {name: rule for flaw in flaws for name, rule in known[flaw].items()}
    return replace(Rules(), **replaced)
