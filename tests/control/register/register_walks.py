"""Ways through the register's model: every state, random walks, and single histories."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from tests.control.register.register_model import Broken, Model, State, contact

S = TypeVar("S", bound=Hashable)


class Explored(Protocol[S]):
    """What a model offers to those that explore it."""

    start: S

    def successors(self, state: S, /) -> Iterable[S]:
        """What may happen next."""
        ...

    def check(self, state: S, /) -> None:
        """Raises Broken."""
        ...


class Wandered(Explored[Any], Protocol):
    """What a model offers to random walks; its states have `proposers`."""

    @property
    def agents(self) -> Sequence[object]:
        """The acceptors, those that may come included."""
        ...

    def proposes(self, state: Any, place: int, /) -> Iterable[Any]:
        """What one proposer may do."""
        ...

    def votes(self, state: Any, place: int, of: frozenset[bytes], /) -> Iterable[Any]:
        """What one acceptor may do with what these proposers said."""
        ...

    def loses(self, state: Any, /) -> Iterable[Any]:
        """What an acceptor may lose."""
        ...


def explore(model: Explored[S], states_max: int) -> tuple[int, bool]:
    """Breadth first; how many states were seen, and whether these are all. Raises Broken."""
    seen = {model.start: 0}
    queue = deque([model.start])
    while queue:
        state = queue.popleft()
        try:
            for following in model.successors(state):
                if following not in seen:
                    if len(seen) >= states_max:
                        return len(seen), False
                    model.check(following)
                    seen[following] = seen[state] + 1
                    queue.append(following)
        except Broken as broken:
            broken.steps = seen[state] + 1
            raise
    return len(seen), True


def wander(model: Wandered, rng: random.Random, walks: int, steps: int) -> int:
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


Phase = tuple[int, tuple[int, ...], tuple[int, ...] | None] | int
"""A proposer's place, the numbers of who hears its preparation, and of who hears its proposal (None: it makes
none yet); or the number of an acceptor that loses its votes."""


def follow(model: Model, phases: tuple[Phase, ...]) -> State:
    """One history, told phase by phase. Raises Broken."""
    state = model.start
    for phase in phases:
        if isinstance(phase, int):
            state = model.rotten(state, phase - 1)
            continue
        place, prepared, proposed = phase
        for hearing in (prepared, proposed):
            if hearing is None:
                break
            state = next(model.proposes(state, place), state)
            for number in hearing:
                state = hears(model, state, place, number)
        else:
            state = next(model.proposes(state, place), state)
            model.check(state)
    return state


def hears(model: Model, state: State, place: int, number: int, *, late: bool = False) -> State:
    """An acceptor hears the newest that a proposer has said; `late`: the oldest. Raises Broken."""
    speaker = frozenset({contact(state.proposers[place].number).id})
    voted = sorted(model.votes(state, number - 1, speaker), key=lambda each: each.votes[number - 1].promised)
    if not voted:
        return state
    model.check(voted[0 if late else -1])
    return voted[0 if late else -1]


def is_caught(model: Wandered, rng: random.Random, *, walks: int, steps: int) -> bool:
    """Whether walks break a promise."""
    try:
        wander(model, rng, walks, steps)
    except Broken:
        return True
    return False
