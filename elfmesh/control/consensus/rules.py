"""Rules of the control register: which ballots an acceptor promises and accepts, and when a proposer has won.

Owns the protocol of one register as pure functions and values, without messages, timers and disk. The value
is opaque except for the agents that vote on it (`groups`).

Invariants: a ballot is used for one value. An acceptor accepts no ballot below its promise. A proposer
proposes a change of the newest value that a quorum of *that value's own* groups has reported. A change is
chosen when quorums of the groups before and after it have accepted it. Therefore all chosen values form one
chain. A quorum is a majority in every group; there is one group, or two while the acceptors change.

The acceptors change one at a time in two steps. A *joint* value names the old and the new group. Only a
proposer that knows that the joint value was chosen may drop the old group. No second change begins before.

An acceptor that accepts ballot b also promises the ballot that follows b to the same proposer. The proposer
therefore changes the value again in one round trip, as long as no other proposer interferes.

Paper: CASPaxos (Rystsov 2018) 2.2 and 2.3.1. Deviation: the acceptors are part of the value and change
jointly (Raft 6), not in two phases that an administrator brings to every proposer. An acceptor that has lost
its votes may become an acceptor again (`lost_votes.py`); its earlier promises do not count any more.
Acceptors forget votes on deleted jobs (`ended.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import msgspec

from elfmesh.machine import Count

COUNTER_MAX = 1 << 62
LEAP_MAX = 1 << 40
"""Maximum step of a counter beyond the promise, because a malformed ballot must not use up all counters."""

Group = tuple[bytes, ...]


class Governed(Protocol):
    """Interface of a value to the protocol."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Ids of the voters: one group, or the old and the new one."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether acceptors may forget their votes on this value (`ended.py`)."""
        ...

    def member_since(self, agent: bytes) -> int:
        """Return the first boot of an agent whose promises count."""
        ...


V = TypeVar("V", bound=Governed)


class Ballot(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The name of one attempt to change the value.

    Attributes:
        counter: orders the ballots.
        agent: id of the proposer.
        boot: boot of the proposer, so that no ballot repeats one of an earlier boot.
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
    """State of one acceptor for one register; it must be on disk before the acceptor answers.

    Attributes:
        promised: lowest ballot that the acceptor may accept.
        ballot: ballot of `value`; NONE if the acceptor has accepted none.
        value: value that was accepted last.
    """

    promised: Ballot = NONE
    ballot: Ballot = NONE
    value: V | None = None

    def permits(self, ballot: Ballot) -> bool:
        """Return whether this acceptor may take part in a ballot."""
        return self.promised <= ballot and self.promised.counter + LEAP_MAX >= ballot.counter <= COUNTER_MAX

    def promise(self, ballot: Ballot) -> Vote[V] | None:
        """Return the vote after the promise of a ballot; None if the acceptor must refuse it."""
        return replace(self, promised=ballot) if self.permits(ballot) else None

    def accept(self, ballot: Ballot, value: V) -> Vote[V] | None:
        """Return the vote after accepting a value; None if the acceptor must refuse it.

        The acceptor accepts a ballot again that it has accepted before.
        """
        if ballot == self.ballot:
            return self
        return Vote(ballot.following, ballot, value) if self.permits(ballot) else None


@dataclass(frozen=True, slots=True)
class Promise(Generic[V]):
    """Promise of one acceptor: `ballot` and `value` that it had accepted; for `floor` see `ended.py`."""

    agent: bytes
    ballot: Ballot
    value: V | None
    boot: int = 0
    floor: Ballot = NONE

    def hides(self, found: Promise[V]) -> bool:
        """Return whether this acceptor may have forgotten the end of a value that another has accepted."""
        live = found.value is not None and not found.value.is_over
        return live and self.value is None and found.ballot <= self.floor


@dataclass(frozen=True, slots=True)
class Round(Generic[V]):
    """One attempt of one proposer: collects promises, then acceptances.

    Attributes:
        ballot: ballot of the attempt.
        guess: agents to ask while no value is known.
        promises: at most one per agent.
        certain: whether the newest value among the promises is known to be chosen.
        proposal: value that the proposer asks the acceptors to accept.
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
        """The promise with the value that was accepted last; None if no acceptor has accepted one.

        A value is ignored if a majority of its voters may have forgotten its end, because it is then over or
        was never chosen.
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
        """Groups of which a quorum is needed: those of the value found, and those of the proposal."""
        found = self.found
        before = (self.guess,) if found is None else found.groups
        after = () if self.proposal is None else self.proposal.groups
        return before + tuple(group for group in after if group not in before)

    @property
    def asked(self) -> Group:
        """All agents to ask, each once."""
        wider = self.groups if self.proposal is not None else (self.guess, *self.groups)
        return tuple(dict.fromkeys(agent for group in wider for agent in group))

    @property
    def prepared(self) -> bool:
        """Whether a quorum has promised, so that no newer value than the one found can have been chosen.

        A promise counts only from the boot in which its agent became an acceptor of the value, and not if the
        agent may have forgotten the end of the value.
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
        """Whether the value found is known to be chosen, because a quorum has it or the round follows it."""
        newest = self.newest
        if self.certain or newest is None:
            return self.certain
        return is_quorum(
            self.groups, tuple(each.agent for each in self.promises if each.ballot == newest.ballot)
        )

    @property
    def chosen(self) -> bool:
        """Whether a quorum has accepted the proposal, which is then the register's value."""
        return self.proposal is not None and is_quorum(self.groups, self.accepted)

    @property
    def hopeless(self) -> bool:
        """Whether the agents that have not refused are no quorum."""
        left = tuple(agent for agent in self.asked if agent not in self.refused)
        return not is_quorum(self.groups, left)

    def promised(
        self, agent: bytes, ballot: Ballot, value: V | None, boot: int = 0, floor: Ballot = NONE
    ) -> Round[V]:
        """Add a promise; one of another agent, a repeated or a late one changes nothing."""
        known = any(promise.agent == agent for promise in self.promises)
        if self.proposal is not None or known or agent not in self.asked or ballot >= self.ballot:
            return self
        return replace(self, promises=(*self.promises, Promise(agent, ballot, value, boot, floor)))

    def proposed(self, value: V) -> Round[V]:
        """Propose a change of the value found.

        Raises:
            ValueError: the round is not prepared or has a proposal, or the change of acceptors is unsafe.
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
        """The round after a won one, which the acceptors have already promised."""
        if not self.chosen:
            raise ValueError("only a won round is followed at once")
        promises = tuple(Promise(agent, self.ballot, self.proposal, COUNTER_MAX) for agent in self.accepted)
        return Round(self.ballot.following, self.guess, promises, certain=True)


def is_quorum(groups: tuple[Group, ...], agents: Group) -> bool:
    return all(2 * sum(agent in agents for agent in group) > len(group) for group in groups)


def may_follow(before: tuple[Group, ...], after: tuple[Group, ...], *, certain: bool) -> bool:
    """Return whether a value with the groups `after` may follow one with the groups `before`.

    Args:
        before: groups of the value that is changed.
        after: groups of the proposed value.
        certain: whether the changed value is known to be chosen.
    """
    if before == after:
        return True
    if len(before) == 2:
        return certain and after == (before[1],)
    if len(after) != 2 or after[0] != before[0]:
        return False
    old, new = set(before[0]), set(after[1])
    return bool(new) and len(new) == len(after[1]) and len(old - new) <= 1 and len(new - old) <= 1
