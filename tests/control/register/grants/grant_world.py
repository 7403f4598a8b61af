"""States of the model of grants (`grant_model.py`): proposers, sites and what was sent."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from elfmesh.control.consensus.rules import Ballot, Group, Round, Vote
from elfmesh.control.register.grant import RosterBasis
from tests.control.register.grants.grant_rules import Delivery, GrantedValue, History

MASTER = 101
T = TypeVar("T")


class Leader(NamedTuple):
    """One agent that changes the register; `script` is what it still wants to do.

    `known`: the last value that it knows to be chosen. `granting`: whether it has proposed a grant since, of
    which it does not know the outcome. `roster`: the numbers that it has given.
    """

    number: int
    script: tuple[str, ...]
    announces: tuple[str, ...]
    rounds: int
    known: GrantedValue
    epoch: int = 0
    counter: int = 1
    roster: tuple[str, ...] = ()
    granting: bool = False
    round: Round[GrantedValue] | None = None
    won: Round[GrantedValue] | None = None


class Proposed(NamedTuple):
    """A request for acceptance."""

    ballot: Ballot
    value: GrantedValue
    parent: Ballot
    groups: tuple[Group, ...]


class CastVote(NamedTuple):
    """A cumulative vote. `had`: members that its records leave out, and of which its site had anything."""

    ballot: Ballot
    history: History
    had: frozenset[tuple[str, int]] = frozenset()


class Announced(NamedTuple):
    """A roster number that a master has announced, and what its agent evaluates records by."""

    roster_epoch: int
    number: int
    agent: str
    basis: RosterBasis = RosterBasis()


class Reply(NamedTuple):
    """A promise: what its agent had accepted before, and had voted under that ballot."""

    to: Ballot
    ballot: Ballot
    value: GrantedValue | None
    boot: int
    cast: History
    lacks: frozenset[int]


class Site(NamedTuple):
    """One agent: what it knows, and what it has sent.

    `lacks`: places in its vote of records that it does not have. `named`: voters in the terms that it holds.
    `gone`: it has left for good.
    """

    vote: Vote[GrantedValue]
    held: frozenset[Delivery] = frozenset()
    cast: History = ()
    boot: int = 0
    promises: frozenset[Reply] = frozenset()
    accepted: frozenset[Ballot] = frozenset()
    sent: frozenset[CastVote] = frozenset()
    lacks: frozenset[int] = frozenset()
    named: frozenset[bytes] = frozenset()
    gone: bool = False


class World(NamedTuple):
    sites: tuple[Site, ...]
    asked: frozenset[Proposed]
    proposers: tuple[Leader, ...]
    announced: frozenset[Announced]
    crashes: int = 0


def put(each: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*each[:place], value, *each[place + 1 :])


def at(world: World, place: int, site: Site) -> World:
    return world._replace(sites=put(world.sites, place, site))


def with_leader(world: World, place: int, leader: Leader) -> World:
    return world._replace(proposers=put(world.proposers, place, leader))


def names_a_roster(word: str) -> bool:
    """Whether a master announces a roster once this change is chosen."""
    return word in ("take over", "succeed") or word.startswith(("roster", "advance"))


def forgetful(world: World) -> World:
    """Without promises that no proposer counts any more: fewer states that differ in nothing."""
    rounds = [each.round for each in world.proposers]
    counted = {begun.ballot for begun in rounds if begun is not None and begun.proposal is None}
    sites = (
        each._replace(promises=frozenset(reply for reply in each.promises if reply.to in counted))
        for each in world.sites
    )
    return world._replace(sites=tuple(sites))
