"""What proposers do in the model of grants (`grant_model.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from elfmesh.control.consensus.rules import Ballot, Promise, Round
from elfmesh.machine import Contact
from tests.control.register.grants.grant_changes import WORDS, applied
from tests.control.register.grants.grant_flaws import Rules
from tests.control.register.grants.grant_rules import Asker, Bounds, GrantedValue, History, changed, contact
from tests.control.register.grants.grant_world import (
    Announced,
    Leader,
    Proposed,
    Reply,
    World,
    at,
    forgetful,
    names_a_roster,
    with_leader,
)
from tests.control.register.register_model import Broken


class GrantProposers:
    """The proposers of one configuration; its parameters are those of `GrantModel`."""

    rules: Rules
    flaws: frozenset[str]
    agents: list[Contact]
    first: GrantedValue
    guess: tuple[bytes, ...]
    near: Sequence[int]
    near_max: int
    leavers: frozenset[int]
    intervals: int
    kept: frozenset[tuple[str, int]]
    permitted: bool
    damaged: bool

    def proposes(self, world: World, place: int) -> Iterator[World]:
        """What one proposer may do."""
        leader = world.proposers[place]
        if leader.script and leader.rounds:
            counter = max(leader.counter, *(site.vote.promised.counter for site in world.sites)) + 1
            begun: Round[GrantedValue] = Round(Ballot(counter, contact(leader.number).id), self.guess)
            rounds = leader.rounds - 1
            after = leader._replace(counter=counter, round=begun, won=None, rounds=rounds)
            yield forgetful(with_leader(world, place, after))
        yield from self._propose(world, place, leader)
        yield from self._win(world, place, leader)
        yield from self._announce(world, place, leader)

    def _propose(self, world: World, place: int, leader: Leader) -> Iterator[World]:
        won = leader.won
        if won is not None and leader.script:  # in one round trip behind the last change
            assert won.proposal is not None
            if self.rules.may_follow_at_once(won.proposal):
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
                    yield from self._ask(world, place, leader, notified, dict(some))

    def _ask(
        self,
        world: World,
        place: int,
        leader: Leader,
        notified: Round[GrantedValue],
        replies: dict[bytes, Reply],
    ) -> Iterator[World]:
        newest, word = notified.newest, leader.script[0]
        assert newest is not None
        assert newest.value is not None
        if word == "settle" and self.near and not self._is_known_near(world, leader):
            return
        found = self._folded(newest, replies)
        if found is None:
            return
        conflict = found.grant is None and newest.value.grant is not None
        boots = tuple(site.boot for site in world.sites)
        bounds = Bounds(self.intervals, boots, self.kept, self.permitted, self.rules)
        asker = self.asker(leader)
        if word.split()[0] in WORDS:
            value = applied(word, found, asker, bounds)
        else:
            value = changed(word, found, asker, bounds, certain=notified.certain)
        if value is None:
            stopped = leader._replace(script=(), announces=(), round=None, won=None)
            yield with_leader(world, place, stopped)
            return
        if conflict:
            value = value._replace(grant=None)
        proposing = notified.proposed(value)
        basis = Promise(b"", newest.ballot, newest.value)
        lean = Round(proposing.ballot, self.guess, (basis,), proposing.certain, value)
        after = leader._replace(
            round=lean,
            won=None,
            counter=max(leader.counter, proposing.ballot.counter),
            granting=leader.granting or value.grant is not None,
        )
        last = len(leader.script) == 1 and not (leader.rounds or leader.announces or names_a_roster(word))
        if last and not self.near:
            after = Leader(leader.number, (), (), 0, self.first)  # nothing that it learns changes the world
        asked = Proposed(proposing.ballot, value, newest.ballot, proposing.groups)
        yield forgetful(with_leader(world, place, after)._replace(asked=world.asked | {asked}))

    def _folded(self, newest: Promise[GrantedValue], replies: dict[bytes, Reply]) -> GrantedValue | None:
        """The value found with the votes in it; None while the proposer needs further promises."""
        found = newest.value
        assert found is not None
        casts = {agent: (reply.ballot, reply.cast) for agent, reply in replies.items()}
        votes: dict[bytes, History] = self.rules.votes_under(newest.ballot, casts)
        voters = tuple(each.id for each in found.acceptors)
        folded = self.rules.fold(found.history, votes, voters)
        if folded.conflict and not self.damaged:
            raise Broken("a proposer finds votes that differ, and nothing was damaged")
        if not folded.decided:
            return None
        for end in range(len(found.history), len(folded.chain)):
            voted = [agent for agent, cast in votes.items() if len(cast) > end]
            if all(end in replies[agent].lacks for agent in voted):
                raise Broken("a proposer folds a record that no acceptor that has promised has")
        return found._replace(history=folded.chain, grant=None if folded.conflict else found.grant)

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
            announced = announced | {
                Announced(value.roster_epoch, number, agent, value.basis)
                for number, agent in enumerate(roster)
            }
        script = leader.script if word == "settle" and value.former else leader.script[1:]
        after = leader._replace(
            script=script, round=None, won=won, known=value, epoch=epoch, roster=roster,
            granting=value.grant is not None and leader.granting,
        )  # fmt: skip
        yield with_leader(world, place, after)._replace(announced=announced)

    def _announce(self, world: World, place: int, leader: Leader) -> Iterator[World]:
        """A master gives a number before a value names it, because no grant is or may come into force."""
        known = leader.known
        if not leader.announces or leader.epoch != known.epoch or known.master != leader.number:
            return
        if not self.rules.may_announce(known.grant, proposed=leader.granting):
            return
        agent, roster = leader.announces[0], (*leader.roster, leader.announces[0])
        given = Announced(known.roster_epoch, len(leader.roster), agent, known.basis)
        after = leader._replace(announces=leader.announces[1:], roster=roster)
        yield with_leader(world, place, after)._replace(announced=world.announced | {given})

    # -- the agents near the job, which founders ask -----------------------------------------------------

    def near_now(self, world: World) -> list[int]:
        """The living agents nearest to the job, whom a founder asks."""
        return [place for place in self.near if not world.sites[place].gone][: self.near_max]

    def _is_known_near(self, world: World, leader: Leader) -> bool:
        """Whether a majority of the near agents, without those that leave, holds the terms of a master."""
        asked = [
            place
            for place in self.near_now(world)
            if place not in self.leavers or "leaving agents count" in self.flaws
        ]
        holders = sum(world.sites[place].named == leader.known.voters for place in asked)
        return self.rules.is_known_near(len(asked), holders)

    def shares(self, world: World) -> Iterator[World]:
        """A master gives its terms to the near agents; an agent that is no voter any more may leave."""
        for leader in world.proposers:
            if not self.near or leader.known.epoch != leader.epoch:
                continue
            for place in self.near_now(world):
                site = world.sites[place]
                if leader.known.former and site.named != leader.known.voters:
                    yield at(world, place, site._replace(named=leader.known.voters))
            for place in sorted(self.leavers):
                site = world.sites[place]
                if not site.gone and self.agents[place].id not in leader.known.voters:
                    yield at(world, place, site._replace(gone=True))

    @staticmethod
    def asker(leader: Leader) -> Asker:
        return Asker(leader.number, leader.epoch, leader.known.epoch, leader.roster, leader.known)
