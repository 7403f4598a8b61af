"""A small world of acceptors and proposers for the register's rules, explored state by state.

The network is a set of everything that was ever said: what is never read was lost, what is read twice was
duplicated, and any order is possible. A proposer that begins anew has crashed or was paused; an acceptor's
crash changes nothing as long as votes are durable. The rules are the product's own (`register.py`,
`register_value.py`); `flaws` take single safeguards away.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from elfmesh.control.register.rules import NONE, Ballot, Promise, Round, Vote
from elfmesh.control.register.value import (
    Cell,
    Change,
    Close,
    Exchange,
    Refused,
    RegisterValue,
    Settle,
    TakeOver,
)
from elfmesh.machine import Contact

JOB, INCARNATION = b"j" * 20, "i"


def contact(number: int) -> Contact:
    return Contact(bytes([number]) * 20, "sim", number)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for acceptance: what was changed, and who has to accept."""

    ballot: Ballot
    cell: Cell
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
    round: Round[Cell] | None = None
    won: Round[Cell] | None = None
    seen: Cell | None = None


@dataclass(frozen=True, slots=True)
class State:
    votes: tuple[Vote[Cell], ...]
    promises: frozenset[tuple[Ballot, Promise[Cell]]]
    asked: frozenset[Asked]
    accepted: frozenset[tuple[Ballot, bytes]]
    proposers: tuple[Proposer, ...]
    published: frozenset[tuple[int, bytes]]
    crashes: int = 0


class Broken(AssertionError):
    """A promise of the register was broken; the message says which."""


class Model:
    """One configuration.

    Args:
        scripts: per proposer, words of "take over", "close", "settle", "+n", "-n", "n>m" (n comes for m).
        acceptors: how many vote at the beginning; agents beyond them may come.
        agents: how many there are.
        rounds: how often each proposer may begin anew.
        flaws: safeguards taken away: "lost votes", "unprepared", "epoch".
    """

    def __init__(
        self,
        scripts: tuple[tuple[str, ...], ...],
        *,
        acceptors: int = 3,
        agents: int = 3,
        rounds: int = 2,
        flaws: frozenset[str] = frozenset(),
    ) -> None:
        self.flaws = flaws
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
        first, ballot = Cell(value), Ballot(1, contact(101).id)
        self.first = ballot
        blank: Vote[Cell] = Vote()
        begun = Vote(ballot.following, ballot, first)
        votes = tuple(begun if place < acceptors else blank for place in range(agents))
        proposers = tuple(
            Proposer(101 + place, script, rounds, epoch=1 if place == 0 else 0, counter=2, seen=first)
            for place, script in enumerate(scripts)
        )
        asked = frozenset({Asked(ballot, first, NONE, first.groups)})
        accepted = frozenset((ballot, agent) for agent in self.ids)
        self.durable = votes
        self.start = State(votes, frozenset(), asked, accepted, proposers, frozenset())

    # -- what may happen ---------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[State]:
        for place in range(len(state.proposers)):
            yield from self.proposes(state, place)
        everybody = frozenset(contact(proposer.number).id for proposer in state.proposers)
        for place in range(len(state.votes)):
            yield from self.votes(state, place, everybody)
        yield from self.loses(state)

    def loses(self, state: State) -> Iterator[State]:
        """What a crash takes from an acceptor whose votes were not durable."""
        if "lost votes" in self.flaws and state.crashes < 1:
            for place in range(len(state.votes)):
                votes = (*state.votes[:place], self.durable[place], *state.votes[place + 1 :])
                yield replace(state, votes=votes, crashes=state.crashes + 1)

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
        begun: Round[Cell] = Round(ballot, self.ids)
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
        heard = sorted(
            (promise for ballot, promise in state.promises if ballot == begun.ballot),
            key=lambda promise: promise.agent,
        )
        for size in range(1, len(heard) + 1):
            for some in itertools.combinations(heard, size):
                told = begun
                for promise in some:
                    told = told.promised(promise.agent, promise.ballot, promise.value)
                for promise in some:  # who is asked may show only in what another said
                    told = told.promised(promise.agent, promise.ballot, promise.value)
                if len(told.promises) == size and told.prepared:
                    yield from self._ask(state, place, proposer, told)

    def _ask(self, state: State, place: int, proposer: Proposer, told: Round[Cell]) -> Iterator[State]:
        change = self._change(proposer)
        try:
            cell = change.apply(told.found, certain=told.certain)
        except Refused as refused:
            seen = refused.cell
            stopped = replace(proposer, script=(), round=None, won=None, seen=seen)
            yield self._with(state, place, stopped)
            return
        asking = told.proposed(cell)
        newest = asking.newest
        assert newest is not None
        asked = Asked(asking.ballot, cell, newest.ballot, asking.groups)
        counter = max(proposer.counter, asking.ballot.counter)
        lean = replace(asking, promises=(newest,))  # the others decide nothing any more
        changed = replace(proposer, round=lean, won=None, counter=counter)
        after = replace(self._with(state, place, changed), asked=state.asked | {asked})
        yield _forgetful(after)

    def _win(self, state: State, place: int, proposer: Proposer) -> Iterator[State]:
        begun = proposer.round
        if begun is None or begun.proposal is None:
            return
        told = begun
        for agent in sorted(agent for ballot, agent in state.accepted if ballot == begun.ballot):
            told = told.accepting(agent)
        if not told.chosen:
            return
        cell, word = begun.proposal, proposer.script[0]
        value, published, epoch, script = cell.value, state.published, proposer.epoch, proposer.script[1:]
        if word == "take over":
            epoch = value.epoch
        elif word == "close":
            published = published | {(value.closed, cell.tail)}
        elif word == "settle" and value.former:
            script = proposer.script  # the joint value is chosen now; the next round may settle it
        changed = replace(proposer, script=script, round=None, won=told, seen=cell, epoch=epoch)
        yield replace(self._with(state, place, changed), published=published)

    def votes(self, state: State, place: int, of: frozenset[bytes]) -> Iterator[State]:
        """What one acceptor may do with what these proposers said."""
        agent, vote = self.agents[place].id, state.votes[place]
        for proposer in state.proposers:
            begun = proposer.round
            if begun is None or begun.proposal is not None or begun.ballot.agent not in of:
                continue
            voted = vote.promise(begun.ballot)
            promise = (begun.ballot, Promise(agent, vote.ballot, vote.value))
            if voted is not None and promise not in state.promises:
                yield replace(self._voted(state, place, voted), promises=state.promises | {promise})
        for asked in state.asked:
            reply = (asked.ballot, agent)
            if reply in state.accepted or asked.ballot.agent not in of:
                continue
            if not any(agent in group for group in asked.groups):
                continue
            voted = vote.accept(asked.ballot, asked.cell)
            if voted is not None:
                after = replace(self._voted(state, place, voted), accepted=state.accepted | {reply})
                yield after

    def _change(self, proposer: Proposer) -> Change:
        word, me, seen = proposer.script[0], contact(proposer.number), proposer.seen
        assert seen is not None
        if word == "take over":
            return TakeOver(INCARNATION, me, seen.value.epoch)
        if word == "settle":
            return Settle(INCARNATION)
        if word == "close":
            last = seen.value.latest or 0
            tail = b"%d of %d" % (last + 1, proposer.epoch)
            close = Close(INCARNATION, proposer.epoch, 0, last + 1, seen.value.latest, last + 1, tail)
            return _Unfenced(close) if "epoch" in self.flaws else close
        comes, goes = word.split(">") if ">" in word else (word[1:], "") if word[0] == "+" else ("", word[1:])
        return Exchange(
            INCARNATION,
            seen.value.epoch,
            contact(int(comes)) if comes else None,
            contact(int(goes)).id if goes else None,
        )

    @staticmethod
    def _with(state: State, place: int, proposer: Proposer) -> State:
        proposers = (*state.proposers[:place], proposer, *state.proposers[place + 1 :])
        return replace(state, proposers=proposers)

    @staticmethod
    def _voted(state: State, place: int, vote: Vote[Cell]) -> State:
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
            if later.cell.tail != earlier.cell.tail and int(later.cell.tail.split()[2]) != new.epoch:
                raise Broken("an interval was closed by a master of another epoch")
        intervals = [interval for interval, _ in state.published]
        if len(intervals) != len(set(intervals)):
            raise Broken("an interval was published twice")


def _forgetful(state: State) -> State:
    """Without promises that nobody counts any more: fewer states that differ in nothing."""
    rounds = [each.round for each in state.proposers]
    counted = {begun.ballot for begun in rounds if begun is not None and begun.proposal is None}
    return replace(state, promises=frozenset(each for each in state.promises if each[0] in counted))


def is_majority(asked: Asked, accepted: frozenset[tuple[Ballot, bytes]]) -> bool:
    """Counted here anew, so that a flaw in the rules does not hide itself."""
    by = [agent for ballot, agent in accepted if ballot == asked.ballot]
    return all(2 * sum(agent in by for agent in group) > len(group) for group in asked.groups)


@dataclass(frozen=True, slots=True)
class _Unfenced:
    """A close that compares no epoch."""

    close: Close

    def apply(self, found: Cell | None, *, certain: bool) -> Cell:
        assert found is not None
        return replace(self.close, epoch=found.value.epoch).apply(found, certain=certain)


def explore(model: Model, states_max: int) -> tuple[int, bool]:
    """Breadth first; how many states were seen, and whether these are all. Raises Broken."""
    seen = {model.start}
    queue = deque([model.start])
    while queue:
        state = queue.popleft()
        for following in model.successors(state):
            if following not in seen:
                if len(seen) >= states_max:
                    return len(seen), False
                model.check(following)
                seen.add(following)
                queue.append(following)
    return len(seen), True


def wander(model: Model, rng: random.Random, walks: int, steps: int) -> int:
    """Random walks, deeper than breadth first comes; how many steps were taken. Raises Broken.

    For a while one proposer speaks and only some agents hear it, then another: so rounds come far and meet.
    """
    taken = 0
    for _ in range(walks):
        state, place, hearing = model.start, 0, list(range(len(model.agents)))
        for _ in range(steps):
            if rng.random() < 0.2:
                place = rng.randrange(len(state.proposers))
                hearing = rng.sample(range(len(model.agents)), rng.randrange(1, len(model.agents) + 1))
            speaker = frozenset({contact(state.proposers[place].number).id})
            following = list(model.proposes(state, place))
            for agent in hearing:
                following += model.votes(state, agent, speaker)
            if rng.random() < 0.1:
                following += model.loses(state)
            if following:
                state = rng.choice(following)
                model.check(state)
                taken += 1
    return taken


Phase = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A proposer's place, the numbers of who hears its preparation, and of who hears its proposal."""


def follow(model: Model, phases: tuple[Phase, ...]) -> State:
    """One history, told phase by phase. Raises Broken."""
    state = model.start
    for place, prepared, proposed in phases:
        speaker = frozenset({contact(state.proposers[place].number).id})
        for hearing in (prepared, proposed):
            state = next(model.proposes(state, place), state)
            for number in hearing:
                voted = next(model.votes(state, number - 1, speaker), None)
                if voted is not None:
                    state = voted
                    model.check(state)
        state = next(model.proposes(state, place), state)
        model.check(state)
    return state


def is_caught(model: Model, rng: random.Random, *, walks: int, steps: int) -> bool:
    """Whether walks break a promise."""
    try:
        wander(model, rng, walks, steps)
    except Broken:
        return True
    return False
