"""The control register's rules: what an acceptor may promise and accept, when a proposer has won.

Owns the protocol of one register as pure functions and values: no message, no timer, no disk. What is stored
in it is opaque here but for one thing: it names the agents that vote on it (`groups`).

Invariants: a ballot is used for one value; an acceptor accepts nothing below what it has promised; a proposer
proposes a change of the newest value that a quorum of *that value's own* groups has told it; a change counts
once quorums of the groups before and after it have accepted it. So all values that were ever chosen form one
chain. A quorum is a majority in every group: there is one group, or two while the acceptors change.

The acceptors change one at a time in two steps. A *joint* value names the old and the new group; only who has
seen that joint value chosen may drop the old one. Until then no second change begins.

Accepting ballot b also promises the ballot that follows b to the same proposer, which therefore changes the
value again in one round trip as long as no other proposer interferes.

Paper: CASPaxos (Rystsov 2018) 2.2 and 2.3.1. Deviation: the acceptors are part of the value and change
jointly (Raft 6) instead of by two phases that an administrator brings to every proposer. An acceptor that
has lost its votes may become one again (`lost_votes.py`): a promise that it gave before counts no more then.
Votes on what is over are forgotten (`ended.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import msgspec

from elfmesh.machine import Count

COUNTER_MAX = 1 << 62
LEAP_MAX = 1 << 40
"""How far beyond its promise an acceptor lets a ballot count: garbage must not use up all ballots."""

Group = tuple[bytes, ...]


class Governed(Protocol):
    """What the protocol knows of a value."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Ids of the agents that vote: one group, or the old and the new one."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the register's votes on this value may be forgotten (`ended.py`)."""
        ...

    def member_since(self, agent: bytes) -> int: ...


V = TypeVar("V", bound=Governed)


class Ballot(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The name of one attempt to change the value.

    Attributes:
        counter: decides which of two is higher.
        agent: id of who attempts.
        boot: drawn again whenever that agent starts, so that it never repeats a ballot of an earlier boot.
    """

    counter: Count = 0
    agent: bytes = b""
    boot: Count = 0

    @property
    def following(self) -> Ballot:
        return Ballot(self.counter + 1, self.agent, self.boot)


NONE = Ballot()


@dataclass(frozen=True, slots=True)
class Vote(Generic[V]):
    """All that an acceptor remembers of one register; it must be on disk before any agent learns of it.

    Attributes:
        promised: nothing below is accepted.
        ballot: of `value`, NONE if nothing was accepted.
        value: accepted last.
    """

    promised: Ballot = NONE
    ballot: Ballot = NONE
    value: V | None = None

    def permits(self, ballot: Ballot) -> bool:
        """Whether a ballot is one that this acceptor may still take part in."""
        return self.promised <= ballot and self.promised.counter + LEAP_MAX >= ballot.counter <= COUNTER_MAX

    def promise(self, ballot: Ballot) -> Vote[V] | None:
        """The vote after promising a ballot, None if it must be refused."""
        return replace(self, promised=ballot) if self.permits(ballot) else None

    def accept(self, ballot: Ballot, value: V) -> Vote[V] | None:
        """The vote after accepting, None if it must be refused; what was accepted already stays accepted."""
        if ballot == self.ballot:
            return self
        return Vote(ballot.following, ballot, value) if self.permits(ballot) else None


@dataclass(frozen=True, slots=True)
class Promise(Generic[V]):
    """What one acceptor had accepted when it promised, in which boot; `floor`: see `ended.py`."""

    agent: bytes
    ballot: Ballot
    value: V | None
    boot: int = 0
    floor: Ballot = NONE

    def hides(self, found: Promise[V]) -> bool:
        """Whether this acceptor may have forgotten that what another has accepted is over."""
        live = found.value is not None and not found.value.is_over
        return live and self.value is None and found.ballot <= self.floor


@dataclass(frozen=True, slots=True)
class Round(Generic[V]):
    """One attempt of one proposer: collects promises, then acceptances.

    Attributes:
        ballot: of the attempt.
        guess: whom to ask while no value is known.
        promises: one an agent.
        certain: the newest value among the promises is known to be chosen.
        proposal: what acceptance is asked for.
        accepted: ids of the agents that accepted it.
        refused: ids of the agents that refused.
    """

    ballot: Ballot
    guess: Group
    promises: tuple[Promise[V], ...] = ()
    certain: bool = False
    proposal: V | None = None
    accepted: Group = ()
    refused: Group = ()

    @property
    def newest(self) -> Promise[V] | None:
        """The promise with the value that was accepted last, None if no acceptor has accepted any.

        A value whose end a majority of its voters may have forgotten is over, or was never chosen.
        """
        found = [
            promise for promise in self.promises if promise.value is not None and not self._is_hidden(promise)
        ]
        return max(found, key=lambda promise: promise.ballot, default=None)

    def _is_hidden(self, found: Promise[V]) -> bool:
        hiding = tuple(promise.agent for promise in self.promises if promise.hides(found))
        groups = () if found.value is None else found.value.groups
        return bool(hiding) and any(is_quorum((group,), hiding) for group in groups)

    @property
    def found(self) -> V | None:
        newest = self.newest
        return None if newest is None else newest.value

    @property
    def groups(self) -> tuple[Group, ...]:
        """Who has to agree now: the groups of the value found, and of the proposal."""
        found = self.found
        before = (self.guess,) if found is None else found.groups
        after = () if self.proposal is None else self.proposal.groups
        return before + tuple(group for group in after if group not in before)

    @property
    def asked(self) -> Group:
        """All agents that may be asked, each once."""
        wider = self.groups if self.proposal is not None else (self.guess, *self.groups)
        return tuple(dict.fromkeys(agent for group in wider for agent in group))

    @property
    def prepared(self) -> bool:
        """Enough have promised: the value found is the newest that can have been chosen.

        A promise counts only if its agent was an acceptor already, or may have lost what it promised; and not
        for a value of which the agent may have forgotten the end.
        """
        newest, found = self.newest, self.found
        return is_quorum(
            self.groups,
            tuple(
                promise.agent
                for promise in self.promises
                if found is None
                or newest is None
                or (promise.boot >= found.member_since(promise.agent) and not promise.hides(newest))
            ),
        )

    @property
    def finds_chosen(self) -> bool:
        """Whether the value found is known to be chosen: a quorum has it, or it is followed."""
        newest = self.newest
        if self.certain or newest is None:
            return self.certain
        return is_quorum(
            self.groups, tuple(each.agent for each in self.promises if each.ballot == newest.ballot)
        )

    @property
    def chosen(self) -> bool:
        """Enough have accepted: the proposal is the register's value."""
        return self.proposal is not None and is_quorum(self.groups, self.accepted)

    @property
    def hopeless(self) -> bool:
        """So many have refused that the rest is no quorum."""
        left = tuple(agent for agent in self.asked if agent not in self.refused)
        return not is_quorum(self.groups, left)

    def promised(
        self, agent: bytes, ballot: Ballot, value: V | None, boot: int = 0, floor: Ballot = NONE
    ) -> Round[V]:
        """An acceptor promised; what comes from others, again or too late changes nothing."""
        known = any(promise.agent == agent for promise in self.promises)
        if self.proposal is not None or known or agent not in self.asked or ballot >= self.ballot:
            return self
        return replace(self, promises=(*self.promises, Promise(agent, ballot, value, boot, floor)))

    def proposed(self, value: V) -> Round[V]:
        """Ask for acceptance of a change of the value found.

        Raises:
            ValueError: not prepared, proposed already, or the acceptors would change unsafely.
        """
        if self.proposal is not None or not self.prepared:
            raise ValueError("a value is proposed once, after a quorum has promised")
        found = self.found
        before = (self.guess,) if found is None else found.groups
        if not may_follow(before, value.groups, certain=self.certain):
            raise ValueError("acceptors change one at a time, and settle only what is chosen")
        return replace(self, proposal=value, refused=())

    def accepting(self, agent: bytes) -> Round[V]:
        if self.proposal is None or agent in self.accepted or agent not in self.asked:
            return self
        return replace(self, accepted=(*self.accepted, agent))

    def refusing(self, agent: bytes) -> Round[V]:
        if agent in self.refused or agent not in self.asked:
            return self
        return replace(self, refused=(*self.refused, agent))

    @property
    def following(self) -> Round[V]:
        """The round after a won one: its acceptors have promised it already."""
        if not self.chosen:
            raise ValueError("only a won round is followed at once")
        promises = tuple(Promise(agent, self.ballot, self.proposal, COUNTER_MAX) for agent in self.accepted)
        return Round(self.ballot.following, self.guess, promises, certain=True)


def is_quorum(groups: tuple[Group, ...], agents: Group) -> bool:
    return all(2 * sum(agent in agents for agent in group) > len(group) for group in groups)


def may_follow(before: tuple[Group, ...], after: tuple[Group, ...], *, certain: bool) -> bool:
    """Whether a value with the groups `after` may follow one with the groups `before`.

    Args:
        before: groups of the value that is changed.
        after: groups of the value proposed.
        certain: that value is known to be chosen.
    """
    if before == after:
        return True
    if len(before) == 2:
        return certain and after == (before[1],)
    if len(after) != 2 or after[0] != before[0]:
        return False
    old, new = set(before[0]), set(after[1])
    return bool(new) and len(new) == len(after[1]) and len(old - new) <= 1 and len(new - old) <= 1
