"""A small world of acceptors, proposers and sites for the rules of grants, explored state by state.

Every agent of the model is an acceptor and a site. The network is a set of everything that was sent, as in
`register_model.py`: any message may be lost, repeated or late. `flaws` leave single rules out.

Checked in every state: all closings, by votes and by the register, are prefixes of one history; what votes
have closed is in every value that is chosen under a higher ballot; chosen values form one chain; an epoch has
one master, and the epochs of records never fall; a roster number has one agent within a roster epoch; a
record that votes have closed has exactly one contribution of each member that the roster requires, made for
the same version, numbering, partitions and bounds; two votes of one ballot differ only after a frame was
damaged; such a record lacks no member of which a voter, a copy store or a standby had anything; votes close
nothing while a job is paused; a proposer gets the records that it folds from the acceptors that have
promised; a founder that asks the agents near the job finds its voters.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Iterable, Iterator, Sequence

from elfmesh.control.consensus.rules import NONE, Ballot, Vote
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.register.grant import is_prefix
from elfmesh.control.register.lost_votes import begins_membership
from tests.control.register.grants.grant_checks import check, check_founder
from tests.control.register.grants.grant_flaws import rules_without
from tests.control.register.grants.grant_proposers import GrantProposers
from tests.control.register.grants.grant_rules import (
    Bounds,
    Delivery,
    GrantedRecord,
    GrantedValue,
    History,
    abstains,
    changed,
    contact,
    made,
)
from tests.control.register.grants.grant_world import (
    MASTER,
    Announced,
    CastVote,
    Leader,
    Proposed,
    Reply,
    Site,
    World,
    at,
)


class GrantModel(GrantProposers):
    """One configuration.

    Args:
        scripts: per proposer, words of "take over", "close", "grant", "revoke", "pause", "roster X",
            "exclude X", "include X", "settle", "+n", "-n", "n>m", "advance F" (a field of `RosterBasis`), and
            those of `grant_changes.py`, which are the product's own changes.
        announces: per proposer, members to which it gives a number before a value names them.
        granted: whether the first value holds a grant.
        members: roster of the first value.
        acceptors: how many vote at the beginning; `agents`: how many there are.
        intervals: how many there are; `empty`: those without rows.
        pool: what may arrive at a site, and when is open: (place of the site, contribution).
        rounds: how often each proposer may begin; 0: once for each word.
        held: what sites have at the beginning; None: all sites have what was announced, at once.
        kept: intervals of a dead member that a copy store or standby holds.
        damaged: a contribution was made again after its frame was damaged.
        permitted: whether the text of the job may have a grant.
        near: places of agents in the order of their distance from the job's id; () if founders are left out.
        near_max: how many of them a founder asks.
        leavers: places of agents that leave for good when no vote of theirs is needed any more.
        rots: how often an acceptor loses its votes.
        flaws: names of `FLAWS`.
    """

    def __init__(
        self,
        *scripts: tuple[str, ...],
        announces: tuple[tuple[str, ...], ...] = (),
        granted: bool = True,
        members: tuple[str, ...] = ("a",),
        acceptors: int = 3,
        agents: int | None = None,
        intervals: int = 2,
        rounds: int = 0,
        empty: Iterable[int] = (),
        pool: Iterable[tuple[int, Delivery]] = (),
        held: tuple[frozenset[Delivery], ...] | None = None,
        kept: Iterable[tuple[str, int]] = (),
        damaged: bool = False,
        permitted: bool = True,
        near: Sequence[int] = (),
        near_max: int = 0,
        leavers: Iterable[int] = (),
        rots: int = 0,
        flaws: Iterable[str] = (),
    ) -> None:
        self.flaws, self.rots, self.damaged = frozenset(flaws), rots, damaged
        self.rules, self.permitted = rules_without(self.flaws), permitted
        self.near, self.near_max, self.leavers = near, near_max, frozenset(leavers)
        self.founders = acceptors
        self.intervals, self.empty, self.kept = intervals, frozenset(empty), frozenset(kept)
        self.pool, self.at_once = frozenset(pool), held is None
        self.agents = [contact(place + 1) for place in range(agents or acceptors)]
        self.states_closed_by_votes = 0
        voters = tuple(self.agents[:acceptors])
        self.guess = tuple(each.id for each in voters)
        value = GrantedValue(1, MASTER, 1, members, voters)
        first = Leader(MASTER, (), (), rounds, value, 1, roster=members)
        if granted:
            bounds = Bounds(intervals, (0,) * len(self.agents), self.kept, permitted, self.rules)
            granting = changed("grant", value, self.asker(first), bounds, certain=True)
            assert granting is not None
            value = granting
        self.first, ballot = value, Ballot(1, contact(MASTER).id)
        blank: Vote[GrantedValue] = Vote()
        begun = self.rules.accept(blank, ballot, value)
        given = tuple(announces) + ((),) * (len(scripts) - len(announces))
        leaders = tuple(
            Leader(
                MASTER + place,
                script,
                given[place],
                rounds or len(script),
                value,
                1 - min(place, 1),
                1,
                members,
            )
            for place, script in enumerate(scripts)
        )
        begins = held or (frozenset(),) * len(self.agents)
        self.start = World(
            sites=tuple(
                Site(begun, begins[place], accepted=frozenset({ballot}), named=value.voters)
                if place < acceptors
                else Site(Vote(), begins[place])
                for place in range(len(self.agents))
            ),
            asked=frozenset({Proposed(ballot, value, NONE, value.groups)}),
            proposers=leaders,
            announced=frozenset(Announced(1, number, agent) for number, agent in enumerate(members)),
        )
        named = {place for place, _ in self.pool}
        named |= {int(each) - 1 for word in itertools.chain(*scripts) for each in re.findall(r"\d", word)}
        alike: dict[object, list[int]] = {}
        for place in range(len(self.agents)):
            apart = place in named or place in near
            mark = place if apart else (place < acceptors, begins[place])
            alike.setdefault(mark, []).append(place)
        self.alike = [places for places in alike.values() if len(places) > 1]

    # -- what may happen ---------------------------------------------------------------------------------

    def successors(self, world: World) -> Iterator[World]:
        for following in self._successors(world):
            yield self._canonical(following)

    def _canonical(self, world: World) -> World:
        """The same state for all states that differ only in which of several like sites is which."""
        sites = list(world.sites)
        for places in self.alike:
            for place, site in zip(places, sorted((sites[each] for each in places), key=hash), strict=True):
                sites[place] = site
        return world._replace(sites=tuple(sites))

    def _successors(self, world: World) -> Iterator[World]:
        for place in range(len(world.proposers)):
            yield from self.proposes(world, place)
        speakers = frozenset(contact(leader.number).id for leader in world.proposers)
        for place in range(len(self.agents)):
            yield from self.votes(world, place, speakers)
        yield from self.loses(world)
        yield from self.shares(world)

    def votes(self, world: World, place: int, of: frozenset[bytes]) -> Iterator[World]:
        """What one agent may do as an acceptor and a site."""
        site = world.sites[place]
        if site.gone:
            return
        for leader in world.proposers:
            begun = leader.round
            if begun is None or begun.proposal is not None or begun.ballot.agent not in of:
                continue
            voted = site.vote.promise(begun.ballot)
            if voted is None or self._refuses(site, place, None):
                continue
            reply = Reply(begun.ballot, site.vote.ballot, site.vote.value, site.boot, site.cast, site.lacks)
            if reply not in site.promises:
                yield at(world, place, site._replace(vote=voted, promises=site.promises | {reply}))
        for asked in world.asked:
            votes = any(self.agents[place].id in group for group in asked.groups)
            if votes and asked.ballot.agent in of and not self._refuses(site, place, asked.value):
                yield from self._accepts(world, place, asked)
        yield from self._casts(world, place, site)
        for site_place, delivery in self.pool:
            given = Announced(delivery.roster_epoch, delivery.number, delivery.agent, delivery.basis)
            if site_place == place and delivery not in site.held and given in world.announced:
                yield at(world, place, site._replace(held=site.held | {delivery}))

    def _accepts(self, world: World, place: int, asked: Proposed) -> Iterator[World]:
        """A request for acceptance arrives, the first time or again."""
        site = world.sites[place]
        voted = self.rules.accept(site.vote, asked.ballot, asked.value)
        if voted is None:
            return
        after = site._replace(vote=voted, accepted=site.accepted | {asked.ballot})
        if asked.ballot != site.vote.ballot:
            after = after._replace(cast=(), lacks=frozenset(), named=asked.value.voters)
        if after != site:
            yield at(world, place, after)

    def _casts(self, world: World, place: int, site: Site) -> Iterator[World]:
        """A vote on the next record, made here or received."""
        vote, value = site.vote, site.vote.value
        grant = None if value is None else value.grant
        if value is None or grant is None or not self.rules.may_vote(vote):
            return
        history, held = site.cast or value.history, self._held(world, site)
        here = made(held, value, history, self.empty, self.intervals, self.rules)
        for record in dict.fromkeys((*here, *self._received(world, history, grant))):
            if abstains(held, grant, record, self.rules):
                continue
            numbers = {value.roster[number] for number in grant.excluded}
            had = frozenset(
                (each.agent, each.interval)
                for each in held
                if record.since <= each.interval <= record.interval and each.agent in numbers
            )
            before = [each for each in site.sent if each.ballot == vote.ballot]
            longer = (*history, record)
            cast = CastVote(vote.ballot, longer, had.union(*(each.had for each in before)))
            stale = {each for each in before if is_prefix(each.history, longer)}
            after = site._replace(cast=longer, sent=site.sent.difference(stale) | {cast})
            yield at(world, place, after)
            if "votes without records" in self.flaws and record not in here:
                yield at(world, place, after._replace(lacks=site.lacks | {len(history)}))

    def _received(self, world: World, history: History, grant: VotingGrant) -> Iterator[GrantedRecord]:
        """The next record as other sites have sent it."""
        end = len(history)
        for cast in itertools.chain.from_iterable(each.sent for each in world.sites):
            if len(cast.history) > end and is_prefix(history, cast.history):
                record = cast.history[end]
                if self.rules.may_take(grant, record.grant):
                    yield record

    def _held(self, world: World, site: Site) -> frozenset[Delivery]:
        if not self.at_once:
            return site.held
        return frozenset(
            Delivery(given.roster_epoch, given.number, given.agent, index, basis=given.basis)
            for given in world.announced
            for index in range(self.intervals)
        )

    def loses(self, world: World) -> Iterator[World]:
        """Rot takes the votes of an acceptor; a crash takes what was sent before it was on disk."""
        for place, site in enumerate(world.sites):
            if sum(each.boot for each in world.sites) < self.rots:
                blank = site._replace(vote=Vote(), cast=(), lacks=frozenset(), boot=site.boot + 1)
                yield at(world, place, blank)
            if "sent before synced" in self.flaws and not world.crashes and site.cast:
                yield at(world, place, site._replace(cast=(), lacks=frozenset()))._replace(crashes=1)

    def _refuses(self, site: Site, place: int, value: GrantedValue | None) -> bool:
        """Whether an acceptor has lost its votes and must not vote for a value."""
        if not site.boot or site.vote != Vote() or "rot unnoticed" in self.flaws:
            return False
        return value is None or not begins_membership(
            typing.cast("RegisterValue", value), self.agents[place].id, site.boot
        )

    def check(self, world: World) -> None:
        """Raises Broken."""
        self.states_closed_by_votes += check(world, self.agents, self.rules, self.kept, damaged=self.damaged)
        if self.near:
            check_founder(world, self.near_now(world), self.founders)
