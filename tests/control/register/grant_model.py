"""A small world of acceptors, proposers and sites for the rules of grants, explored state by state.

Every agent of the model is an acceptor and a site. The network is a set of everything that was sent, as in
`register_model.py`: any message may be lost, repeated or late. `flaws` leave single rules out.

Checked in every state: all closings, by votes and by the register, are prefixes of one history; what votes
have closed is in every value that is chosen under a higher ballot; chosen values form one chain; an epoch has
one master, and the epochs of records never fall; a roster number has one agent within a roster epoch, and a
record counts no other; two votes of one ballot differ only after a frame was damaged; a record that votes
have closed lacks no member of which a voter, a copy store or a standby had anything.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import replace

from elfmesh.control.consensus.rules import NONE, Ballot, Promise, Round, Vote
from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.register.lost_votes import begins_membership
from tests.control.register.grant_checks import check
from tests.control.register.grant_rules import (
    Asker,
    Bounds,
    Delivery,
    GrantedValue,
    History,
    abstains,
    changed,
    completed,
    contact,
    fold,
    is_prefix,
)
from tests.control.register.grant_world import (
    MASTER,
    Announced,
    CastVote,
    Leader,
    Proposed,
    Reply,
    Site,
    World,
    at,
    forgetful,
    names_a_roster,
    put,
)
from tests.control.register.register_model import Broken


class GrantModel:
    """One configuration.

    Args:
        scripts: per proposer, words of "take over", "close", "grant", "revoke", "advance", "roster X",
            "exclude X", "include X", "settle", "+n", "-n", "n>m".
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
        rots: how often an acceptor loses its votes; `crashes`: how often one loses what was not on disk.
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
        rots: int = 0,
        flaws: Iterable[str] = (),
    ) -> None:
        self.flaws, self.rots, self.damaged = frozenset(flaws), rots, damaged
        self.intervals, self.empty, self.kept = intervals, frozenset(empty), frozenset(kept)
        self.pool, self.at_once = frozenset(pool), held is None
        self.agents = [contact(place + 1) for place in range(agents or acceptors)]
        self.states_closed_by_votes = 0
        voters = tuple(self.agents[:acceptors])
        self.guess = tuple(each.id for each in voters)
        value = GrantedValue(1, MASTER, 1, members, voters)
        first = Leader(MASTER, (), (), rounds, value, 1, roster=members)
        if granted:
            bounds = Bounds(intervals, (0,) * len(self.agents), self.kept, self.flaws)
            put = changed("grant", value, self._asker(first), bounds, certain=True)
            assert put is not None
            value = put
        self.first, ballot = value, Ballot(1, contact(MASTER).id)
        begun = self._accepted(Vote(), ballot, value)
        assert begun is not None
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
                Site(begun, begins[place], accepted=frozenset({ballot}))
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
            mark = place if place in named else (place < acceptors, begins[place])
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

    def proposes(self, world: World, place: int) -> Iterator[World]:
        """What one proposer may do."""
        leader = world.proposers[place]
        if leader.script and leader.rounds:
            counter = max(leader.counter, *(site.vote.promised.counter for site in world.sites)) + 1
            begun: Round[GrantedValue] = Round(Ballot(counter, contact(leader.number).id), self.guess)
            rounds = leader.rounds - 1
            yield forgetful(
                self._with(
                    world, place, leader._replace(counter=counter, round=begun, won=None, rounds=rounds)
                )
            )
        yield from self._propose(world, place, leader)
        yield from self._win(world, place, leader)
        yield from self._announce(world, place, leader)

    def _propose(self, world: World, place: int, leader: Leader) -> Iterator[World]:
        won = leader.won
        if won is not None and leader.script:  # in one round trip behind the last change
            assert won.proposal is not None
            if won.proposal.grant is None or "short cut" in self.flaws:
                yield from self._ask(world, place, leader._replace(won=None), won.following, {})
        begun = leader.round
        if begun is None or begun.proposal is not None:
            return
        received = [
            (agent.id, reply)
            for agent, site in zip(self.agents, world.sites, strict=True)
            for reply in site.promises
            if reply.to == begun.ballot
        ]
        for size in range(1, len(received) + 1):
            for some in itertools.combinations(received, size):
                notified = begun
                for agent, reply in (*some, *some):
                    notified = notified.promised(agent, reply.ballot, reply.value, reply.boot)
                if len(notified.promises) == size and notified.prepared:
                    casts = {agent: (reply.ballot, reply.cast) for agent, reply in some}
                    yield from self._ask(world, place, leader, notified, casts)

    def _ask(
        self,
        world: World,
        place: int,
        leader: Leader,
        notified: Round[GrantedValue],
        casts: dict[bytes, tuple[Ballot, History]],
    ) -> Iterator[World]:
        newest = notified.newest
        assert newest is not None
        assert newest.value is not None
        same = {
            agent: cast if ballot == newest.ballot or "votes of lower ballots" in self.flaws else ()
            for agent, (ballot, cast) in casts.items()
        }
        folded = fold(newest.value, same, self.flaws)
        if folded.conflict and not self.damaged:
            raise Broken("a proposer finds votes that differ, and nothing was damaged")
        if not folded.decided:
            return
        bounds = Bounds(self.intervals, tuple(site.boot for site in world.sites), self.kept, self.flaws)
        value = changed(leader.script[0], folded.value, self._asker(leader), bounds, certain=notified.certain)
        if value is None:
            stopped = leader._replace(script=(), announces=(), round=None, won=None)
            yield self._with(world, place, stopped)
            return
        if folded.conflict:
            value = value._replace(grant=None)
        proposing = notified.proposed(value)
        asker = Promise(b"", newest.ballot, newest.value)
        lean = Round(proposing.ballot, self.guess, (asker,), proposing.certain, value)
        after = leader._replace(
            round=lean,
            won=None,
            counter=max(leader.counter, proposing.ballot.counter),
            granting=leader.granting or value.grant is not None,
        )
        if len(leader.script) == 1 and not (
            leader.rounds or leader.announces or names_a_roster(leader.script[0])
        ):
            after = Leader(leader.number, (), (), 0, self.first)  # nothing that it learns changes the world
        asked = Proposed(proposing.ballot, value, newest.ballot, proposing.groups)
        yield forgetful(self._with(world, place, after)._replace(asked=world.asked | {asked}))

    def _win(self, world: World, place: int, leader: Leader) -> Iterator[World]:
        begun = leader.round
        if begun is None or begun.proposal is None:
            return
        for agent, site in zip(self.agents, world.sites, strict=True):
            if begun.ballot in site.accepted:
                begun = begun.accepting(agent.id)
        if not begun.chosen:
            return
        value, word = begun.proposal, leader.script[0]
        assert value is not None
        won = replace(begun, accepted=begun.asked)  # which quorum it is changes nothing
        epoch, roster, announced = leader.epoch, leader.roster, world.announced
        if names_a_roster(word):
            epoch, roster = value.epoch, value.roster
            named = (Announced(value.roster_epoch, number, each) for number, each in enumerate(roster))
            announced = announced | frozenset(named)
        script = leader.script if word == "settle" and value.former else leader.script[1:]
        after = leader._replace(
            script=script, round=None, won=won, known=value, epoch=epoch, roster=roster,
            granting=value.grant is not None and leader.granting,
        )  # fmt: skip
        yield self._with(world, place, after)._replace(announced=announced)

    def _announce(self, world: World, place: int, leader: Leader) -> Iterator[World]:
        """A master gives a number before a value names it, because no grant is or may come into force."""
        known = leader.known
        if not leader.announces or leader.epoch != known.epoch or known.master != leader.number:
            return
        if known.grant is not None and "announced under a grant" not in self.flaws:
            return
        if leader.granting and "announced while a grant is proposed" not in self.flaws:
            return
        agent, roster = leader.announces[0], (*leader.roster, leader.announces[0])
        given = Announced(known.roster_epoch, len(leader.roster), agent)
        after = leader._replace(announces=leader.announces[1:], roster=roster)
        yield self._with(world, place, after)._replace(announced=world.announced | {given})

    def votes(self, world: World, place: int, of: frozenset[bytes]) -> Iterator[World]:
        """What one agent may do as an acceptor and a site."""
        site = world.sites[place]
        for leader in world.proposers:
            begun = leader.round
            if begun is None or begun.proposal is not None or begun.ballot.agent not in of:
                continue
            voted = site.vote.promise(begun.ballot)
            if voted is None or self._refuses(site, place, None):
                continue
            reply = Reply(begun.ballot, site.vote.ballot, site.vote.value, site.boot, site.cast)
            if reply not in site.promises:
                yield at(world, place, site._replace(vote=voted, promises=site.promises | {reply}))
        for asked in world.asked:
            if asked.ballot in site.accepted or asked.ballot.agent not in of:
                continue
            if not any(self.agents[place].id in group for group in asked.groups):
                continue
            voted = self._accepted(site.vote, asked.ballot, asked.value)
            if voted is not None and not self._refuses(site, place, asked.value):
                accepted = site.accepted | {asked.ballot}
                yield at(world, place, site._replace(vote=voted, cast=(), accepted=accepted))
        yield from self._casts(world, place, site)
        for site_place, delivery in self.pool:
            given = Announced(delivery.roster_epoch, delivery.number, delivery.agent)
            if site_place == place and delivery not in site.held and given in world.announced:
                yield at(world, place, site._replace(held=site.held | {delivery}))

    def _accepted(
        self, vote: Vote[GrantedValue], ballot: Ballot, value: GrantedValue
    ) -> Vote[GrantedValue] | None:
        voted = vote.accept(ballot, value)
        if voted is None or value.grant is None or "accept promises more" in self.flaws:
            return voted
        return Vote(voted.ballot, voted.ballot, voted.value)

    def _casts(self, world: World, place: int, site: Site) -> Iterator[World]:
        """A vote on the next record, made here or received."""
        vote, value = site.vote, site.vote.value
        grant = None if value is None else value.grant
        if value is None or grant is None:
            return
        if vote.promised != vote.ballot and "promise" not in self.flaws:
            return
        history = site.cast or value.history
        held = self._held(world, site)
        records = completed(held, grant, history, self.empty, self.intervals, self.flaws)
        end = len(history)
        for cast in itertools.chain.from_iterable(each.sent for each in world.sites):
            if len(cast.history) > end and is_prefix(history, cast.history):
                record = cast.history[end]
                if record.grant == grant or "any record" in self.flaws:
                    records.append(record)
        for record in dict.fromkeys(records):
            if abstains(held, grant, record, self.flaws):
                continue
            had = frozenset(
                (each.agent, each.interval)
                for each in held
                if record.since <= each.interval <= record.interval and each.agent in grant.excluded
            )
            before = [each for each in site.sent if each.ballot == vote.ballot]
            longer = (*history, record)
            cast = CastVote(vote.ballot, longer, had.union(*(each.had for each in before)))
            stale = {each for each in before if is_prefix(each.history, longer)}
            sent = site.sent.difference(stale) | {cast}
            yield at(world, place, site._replace(cast=longer, sent=sent))

    def _held(self, world: World, site: Site) -> frozenset[Delivery]:
        if not self.at_once:
            return site.held
        return frozenset(
            Delivery(*given, index) for given in world.announced for index in range(self.intervals)
        )

    def loses(self, world: World) -> Iterator[World]:
        """Rot takes the votes of an acceptor; a crash takes what was sent before it was on disk."""
        for place, site in enumerate(world.sites):
            if sum(each.boot for each in world.sites) < self.rots:
                yield at(world, place, site._replace(vote=Vote(), cast=(), boot=site.boot + 1))
            if "sent before synced" in self.flaws and not world.crashes and site.cast:
                yield at(world, place, site._replace(cast=()))._replace(crashes=1)

    def _refuses(self, site: Site, place: int, value: GrantedValue | None) -> bool:
        """Whether an acceptor has lost its votes and must not vote for a value."""
        if not site.boot or site.vote != Vote() or "rot unnoticed" in self.flaws:
            return False
        return value is None or not begins_membership(
            typing.cast("RegisterValue", value), self.agents[place].id, site.boot
        )

    @staticmethod
    def _asker(leader: Leader) -> Asker:
        return Asker(leader.number, leader.epoch, leader.known.epoch, leader.roster)

    @staticmethod
    def _with(world: World, place: int, leader: Leader) -> World:
        return world._replace(proposers=put(world.proposers, place, leader))

    def check(self, world: World) -> None:
        """Raises Broken."""
        self.states_closed_by_votes += check(world, self.agents, self.flaws, self.kept, damaged=self.damaged)
