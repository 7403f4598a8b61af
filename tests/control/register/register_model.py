"""A small world of acceptors and proposers for the register's rules, explored state by state.

The network is a set of everything that was ever said: what is never read was lost, what is read twice was
duplicated, and any order is possible. A proposer that begins again has crashed or was paused; an acceptor's
crash changes nothing as long as votes are durable. Rot takes all votes of an acceptor; from its next boot on
it follows the product's rule for an acceptor that has lost its votes (`lost_votes.py`). The rules are the
product's own (`register.py`, `changes.py`); `flaws` take single safeguards away.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec.structs import replace as with_fields

from elfmesh.control.consensus.rules import NONE, Ballot, Promise, Round, Vote
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.register.changes import Change, ChangeRefused, Close, Delete, Exchange, Settle, TakeOver
from elfmesh.control.register.lost_votes import begins_membership
from elfmesh.machine import Contact

JOB, INCARNATION = b"j" * 20, "i"


def contact(number: int, boot: int = 0) -> Contact:
    return Contact(bytes([number]) * 20, "sim", number, boot)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for acceptance: what was changed, and who has to accept."""

    ballot: Ballot
    cell: RegisterCell
    parent: Ballot
    groups: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True, slots=True)
class Proposer:
    """One agent that changes the register; `script` is what it still wants to do."""

    number: int
    script: tuple[str, ...]
    rounds: int
    epoch: int = 0
    counter: int = 0
    round: Round[RegisterCell] | None = None
    won: Round[RegisterCell] | None = None
    seen: RegisterCell | None = None


@dataclass(frozen=True, slots=True)
class State:
    votes: tuple[Vote[RegisterCell], ...]
    promises: frozenset[tuple[Ballot, Promise[RegisterCell]]]
    asked: frozenset[Asked]
    accepted: frozenset[tuple[Ballot, bytes]]
    proposers: tuple[Proposer, ...]
    published: frozenset[tuple[int, bytes]]
    crashes: int = 0
    boots: tuple[int, ...] = ()
    floors: tuple[Ballot, ...] = ()


class Broken(AssertionError):
    """A promise of the register was broken; the message says which.

    `steps`: length of the shortest history that breaks it, if every state is explored.
    """

    steps = 0


class Model:
    """One configuration.

    Args:
        scripts: per proposer, words of "take over", "close", "settle", "delete", "+n", "-n",
            "n>m" (n comes for m).
        acceptors: how many vote at the beginning; agents beyond them may come.
        agents: how many there are.
        rounds: how often each proposer may begin again.
        rots: how often rot takes the votes of an acceptor.
        forgets: acceptors may forget their votes on what is over (`ended.py`).
        flaws: safeguards taken away: "lost votes", "unprepared", "epoch", "rot unnoticed", "old membership",
            "in the old group", "old promise", "no floor".
    """

    def __init__(
        self,
        scripts: tuple[tuple[str, ...], ...],
        *,
        acceptors: int = 3,
        agents: int = 3,
        rounds: int = 2,
        rots: int = 0,
        forgets: bool = False,
        flaws: frozenset[str] = frozenset(),
    ) -> None:
        self.flaws, self.rots, self.forgets = flaws, rots, forgets
        self.agents = [contact(number + 1) for number in range(agents)]
        voters = tuple(self.agents[:acceptors])
        value = RegisterValue(
            job=JOB,
            incarnation=INCARNATION,
            version=1,
            plan=b"",
            epoch=1,
            master=contact(101),
            acceptors=voters,
        )
        self.ids = tuple(agent.id for agent in voters)
        first, ballot = RegisterCell(value), Ballot(1, contact(101).id)
        self.first = ballot
        blank: Vote[RegisterCell] = Vote()
        begun = Vote(ballot.following, ballot, first)
        votes = tuple(begun if place < acceptors else blank for place in range(agents))
        proposers = tuple(
            Proposer(101 + place, script, rounds, epoch=1 if place == 0 else 0, counter=2, seen=first)
            for place, script in enumerate(scripts)
        )
        asked = frozenset({Asked(ballot, first, NONE, first.groups)})
        accepted = frozenset((ballot, agent) for agent in self.ids)
        self.durable = votes
        self.start = State(
            votes,
            frozenset(),
            asked,
            accepted,
            proposers,
            frozenset(),
            boots=(0,) * len(votes),
            floors=(NONE,) * len(votes),
        )

    # -- what may happen ---------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[State]:
        for place in range(len(state.proposers)):
            yield from self.proposes(state, place)
        all_agents = frozenset(contact(proposer.number).id for proposer in state.proposers)
        for place in range(len(state.votes)):
            yield from self.votes(state, place, all_agents)
        yield from self.loses(state)

    def loses(self, state: State) -> Iterator[State]:
        """What a crash takes from an acceptor whose votes were not durable."""
        if "lost votes" in self.flaws and state.crashes < 1:
            for place in range(len(state.votes)):
                votes = (*state.votes[:place], self.durable[place], *state.votes[place + 1 :])
                yield replace(state, votes=votes, crashes=state.crashes + 1)
        for place, vote in enumerate(state.votes):
            if self.forgets and vote.value is not None and vote.value.is_over:
                yield self._forgotten(state, place, vote)
        if sum(state.boots) < self.rots:
            for place in range(len(state.votes)):
                yield self.rotten(state, place)

    def _forgotten(self, state: State, place: int, vote: Vote[RegisterCell]) -> State:
        """An acceptor keeps its floor instead of its vote on what is over."""
        floor = max(state.floors[place], vote.promised) if "no floor" not in self.flaws else NONE
        floors = (*state.floors[:place], floor, *state.floors[place + 1 :])
        blank: Vote[RegisterCell] = Vote(floor)
        return replace(self._voted(state, place, blank), floors=floors)

    @staticmethod
    def rotten(state: State, place: int) -> State:
        """What rot leaves of an acceptor: its next boot has no votes."""
        boots = (*state.boots[:place], state.boots[place] + 1, *state.boots[place + 1 :])
        blank: Vote[RegisterCell] = Vote()
        return replace(Model._voted(state, place, blank), boots=boots)

    def _refuses(self, state: State, place: int, cell: RegisterCell | None) -> bool:
        """Whether an acceptor has lost its votes on this register and must not vote for a value."""
        boot = state.boots[place]
        if not boot or state.votes[place] != Vote() or "rot unnoticed" in self.flaws:
            return False
        if cell is None:
            return True
        value, agent = cell.value, self.agents[place].id
        if "old membership" in self.flaws:
            boot = 0
        if "in the old group" in self.flaws:
            value = with_fields(value, former=value.former and (contact(99),))
        return not begins_membership(value, agent, boot)

    def proposes(self, state: State, place: int) -> Iterator[State]:
        """What one proposer may do."""
        proposer = state.proposers[place]
        yield from self._begin(state, place, proposer)
        yield from self._propose(state, place, proposer)
        yield from self._win(state, place, proposer)

    def _begin(self, state: State, place: int, proposer: Proposer) -> Iterator[State]:
        if not proposer.script or not proposer.rounds:
            return
        counter = max(proposer.counter, *(vote.promised.counter for vote in state.votes)) + 1
        ballot = Ballot(counter, contact(proposer.number).id)
        begun: Round[RegisterCell] = Round(ballot, self.ids)
        changed = replace(proposer, counter=counter, round=begun, won=None, rounds=proposer.rounds - 1)
        if "unprepared" in self.flaws and proposer.seen is not None:
            forged = tuple(Promise(agent, self.first, proposer.seen) for agent in self.ids)
            yield from self._ask(state, place, changed, replace(begun, promises=forged))
        else:
            yield _forgetful(self._with(state, place, changed))

    def _propose(self, state: State, place: int, proposer: Proposer) -> Iterator[State]:
        if proposer.won is not None and proposer.script:  # in one round trip behind the last change
            yield from self._ask(state, place, replace(proposer, won=None), proposer.won.following)
        begun = proposer.round
        if begun is None or begun.proposal is not None:
            return
        received = sorted(
            (promise for ballot, promise in state.promises if ballot == begun.ballot),
            key=lambda promise: promise.agent,
        )
        for size in range(1, len(received) + 1):
            for some in itertools.combinations(received, size):
                notified = begun
                for promise in (*some, *some):  # who is asked may show only in what another said
                    notified = notified.promised(
                        promise.agent, promise.ballot, promise.value, promise.boot, promise.floor
                    )
                if len(notified.promises) == size and notified.prepared:
                    yield from self._ask(state, place, proposer, notified)

    def _ask(
        self, state: State, place: int, proposer: Proposer, notified: Round[RegisterCell]
    ) -> Iterator[State]:
        change = self._change(proposer, state)
        try:
            cell = change.apply(notified.found, certain=notified.certain)
        except ChangeRefused as refused:
            seen = refused.cell
            stopped = replace(proposer, script=(), round=None, won=None, seen=seen)
            yield self._with(state, place, stopped)
            return
        proposing = notified.proposed(cell)
        newest = proposing.newest
        assert newest is not None
        asked = Asked(proposing.ballot, cell, newest.ballot, proposing.groups)
        counter = max(proposer.counter, proposing.ballot.counter)
        lean = replace(proposing, promises=(newest,))  # the others decide nothing any more
        changed = replace(proposer, round=lean, won=None, counter=counter)
        after = replace(self._with(state, place, changed), asked=state.asked | {asked})
        yield _forgetful(after)

    def _win(self, state: State, place: int, proposer: Proposer) -> Iterator[State]:
        begun = proposer.round
        if begun is None or begun.proposal is None:
            return
        notified = begun
        for agent in sorted(agent for ballot, agent in state.accepted if ballot == begun.ballot):
            notified = notified.accepting(agent)
        if not notified.chosen:
            return
        cell, word = begun.proposal, proposer.script[0]
        value, published, epoch, script = cell.value, state.published, proposer.epoch, proposer.script[1:]
        if word == "take over":
            epoch = value.epoch
        elif word == "close":
            published = published | {(value.closed, cell.tail)}
        elif word == "settle" and value.former:
            script = proposer.script  # the joint value is chosen now; the next round may settle it
        changed = replace(proposer, script=script, round=None, won=notified, seen=cell, epoch=epoch)
        yield replace(self._with(state, place, changed), published=published)

    def votes(self, state: State, place: int, of: frozenset[bytes]) -> Iterator[State]:
        """What one acceptor may do with what these proposers said."""
        agent, vote = self.agents[place].id, state.votes[place]
        for proposer in state.proposers:
            begun = proposer.round
            if begun is None or begun.proposal is not None or begun.ballot.agent not in of:
                continue
            voted = vote.promise(begun.ballot)
            boot = 0 if "old promise" not in self.flaws else 99
            floor = NONE if vote.value is not None else state.floors[place]
            reported = Promise(agent, vote.ballot, vote.value, boot or state.boots[place], floor)
            promise = (begun.ballot, reported)
            if self._refuses(state, place, None):
                continue
            if voted is not None and promise not in state.promises:
                yield replace(self._voted(state, place, voted), promises=state.promises | {promise})
        for asked in state.asked:
            reply = (asked.ballot, agent)
            if reply in state.accepted or asked.ballot.agent not in of:
                continue
            if not any(agent in group for group in asked.groups):
                continue
            if self._refuses(state, place, asked.cell):
                continue
            voted = vote.accept(asked.ballot, asked.cell)
            if voted is not None:
                after = replace(self._voted(state, place, voted), accepted=state.accepted | {reply})
                yield after

    def _change(self, proposer: Proposer, state: State) -> Change:
        word, me, seen = proposer.script[0], contact(proposer.number), proposer.seen
        assert seen is not None
        if word == "take over":
            return TakeOver(INCARNATION, me, seen.value.epoch)
        if word == "settle":
            return Settle(INCARNATION, seen.value.epoch)
        if word == "delete":
            return Delete(INCARNATION, proposer.epoch)
        if word == "close":
            last = seen.value.latest or 0
            tail = b"%d of %d" % (last + 1, proposer.epoch)
            close = Close(INCARNATION, proposer.epoch, 0, last + 1, seen.value.latest, last + 1, tail)
            return _Unfenced(close) if "epoch" in self.flaws else close
        comes, goes = word.split(">") if ">" in word else (word[1:], "") if word[0] == "+" else ("", word[1:])
        return Exchange(
            INCARNATION,
            seen.value.epoch,
            contact(int(comes), state.boots[int(comes) - 1]) if comes else None,
            contact(int(goes)).id if goes else None,
        )

    @staticmethod
    def _with(state: State, place: int, proposer: Proposer) -> State:
        proposers = (*state.proposers[:place], proposer, *state.proposers[place + 1 :])
        return replace(state, proposers=proposers)

    @staticmethod
    def _voted(state: State, place: int, vote: Vote[RegisterCell]) -> State:
        return replace(state, votes=(*state.votes[:place], vote, *state.votes[place + 1 :]))

    # -- what must hold ----------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        """Raises Broken."""
        by_ballot = {asked.ballot: asked for asked in state.asked}
        chosen = [asked for asked in state.asked if is_majority(asked, state.accepted)]
        chosen.sort(key=lambda each: each.ballot)
        chain = [chosen[-1]]
        while chain[-1].parent != NONE:
            chain.append(by_ballot[chain[-1].parent])
        decided = {asked.ballot for asked in chain}
        if any(asked.ballot not in decided for asked in chosen):
            raise Broken("a value was chosen beside the chain of the others")
        masters: dict[int, Contact] = {}
        for later, earlier in itertools.pairwise(chain):
            old, new = earlier.cell.value, later.cell.value
            if masters.setdefault(new.epoch, new.master) != new.master:
                raise Broken("two masters of one epoch")
            if new.epoch < old.epoch or new.closed < old.closed:
                raise Broken("an epoch or the closed mark went back")
            if old.deleted and not new.deleted:
                raise Broken("a job that was over runs again")
            if (
                later.cell.tail not in (b"", earlier.cell.tail)
                and int(later.cell.tail.split()[2]) != new.epoch
            ):
                raise Broken("an interval was closed by a master of another epoch")
        intervals = [interval for interval, _ in state.published]
        if len(intervals) != len(set(intervals)):
            raise Broken("an interval was published twice")


def _forgetful(state: State) -> State:
    """Without promises that no proposer counts any more: fewer states that differ in nothing."""
    rounds = [each.round for each in state.proposers]
    counted = {begun.ballot for begun in rounds if begun is not None and begun.proposal is None}
    return replace(state, promises=frozenset(each for each in state.promises if each[0] in counted))


def is_majority(asked: Asked, accepted: frozenset[tuple[Ballot, bytes]]) -> bool:
    """Counted here again, so that a flaw in the rules does not hide itself."""
    by = [agent for ballot, agent in accepted if ballot == asked.ballot]
    return all(2 * sum(agent in by for agent in group) > len(group) for group in asked.groups)


@dataclass(frozen=True, slots=True)
class _Unfenced:
    """A close that compares no epoch."""

    close: Close

    @property
    def generation(self) -> int:
        return self.close.generation

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        assert found is not None
        return with_fields(self.close, epoch=found.value.epoch).apply(found, certain=certain)
