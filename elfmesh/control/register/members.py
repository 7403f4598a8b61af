"""Electorate: the acceptors of a job's register, which its master changes one at a time.

Owns the decision to add, replace or move an acceptor. The register executes the change and prevents
overlapping changes.

Invariants: the master replaces an acceptor only if lookups have not found it for `GONE_S`, if it leaves for
good, if it has lost its votes, or, while all of them answer, if another agent spreads the acceptors better
over failure domains, or should be a site, or satisfies rules of members that the acceptor does not. The
register is founded by ids alone, because founders may know different labels of one agent. Labels are those
that an agent itself has reported in a look-up. A new acceptor first gets the data that an acceptor must have,
so that the change does not wait for it. If no agent can replace a voter that leaves, the register continues
without it as soon as the voter waits only for this, unless it is the last voter. If no agent can replace an
acceptor that has lost its votes, the register continues without it at once; it may become an acceptor again
later.

A founder asks the agents nearest to the job's id. If an acceptor is not one of these, a change of the
acceptors is settled only after a majority of them holds the terms that name the new ones. A voter that leaves
for good is not counted, because no founder will reach it.

A fleet of one or two agents has a register with one acceptor, which grows one acceptor at a time from the
third agent on.

Paper: CASPaxos (Rystsov 2018) 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.failure_domains import best_addition, best_exchange, crowding
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.register.changes import ChangeRefused, Exchange, Settle
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone
from elfmesh.safeguards import safeguard
from elfmesh.srt.residency import ANYWHERE, Rule, allows

GONE_S = 60.0
"""Time after which an acceptor that is away is replaced; a restart or reboot takes less."""

READY_S = 3.0
"""Time for a new acceptor to complete its copy of the log."""


def is_known_near(near: int, holders: int) -> bool:
    """Return whether a majority of the agents that a founder asks holds the terms with the new voters."""
    return 2 * holders > near


class Voting(Protocol):
    """What a change of the acceptors needs of the master around it."""

    @property
    def cell(self) -> RegisterCell:
        """The register's value, as the master knows it."""
        ...

    def invite(self, contact: Contact) -> None:
        """Give an agent what an acceptor holds."""
        ...

    def count_holders(self, near: tuple[Contact, ...], then: Callable[[int], None]) -> None:
        """Count the agents of `near` that hold the terms with the present acceptors."""
        ...

    def elected(self, outcome: RegisterCell | ChangeRefused) -> None:
        """The register has another value after a change of the acceptors, or has refused the change."""
        ...


class Wishes(Protocol):
    """Where the voters should be: the sites of a job vote."""

    @property
    def agents(self) -> Collection[bytes]:
        """Agents that should vote, if the voters are spread as well with them."""
        ...

    @property
    def rule(self) -> Rule:
        """A rule that the voters should satisfy, however they are spread."""
        ...


class NoWishes:
    """The voters may be anywhere."""

    agents: frozenset[bytes] = frozenset()
    rule: Rule = ANYWHERE


class Electorate:
    """Keeps the acceptors of one job's register at their number.

    Args:
        context: clock and lookups.
        proposer: proposer of the register.
        master: master of the job.
        wanted: number of voters.
        wishes: returns where the voters should be.
        gone_s: time after which an acceptor that is away is replaced.
    """

    def __init__(
        self,
        context: Context,
        proposer: Proposer,
        master: Voting,
        *,
        wanted: int,
        wishes: Callable[[], Wishes] = NoWishes,
        gone_s: float = GONE_S,
    ) -> None:
        self._wishes = wishes
        self._context, self._proposer, self._master = context, proposer, master
        self._wanted, self._gone_s = wanted, gone_s
        self._invited: dict[bytes, float] = {}
        self._away: dict[bytes, float] = {}
        self._leaving: dict[bytes, bool] = {}
        self._members_due = False
        self._nearest: tuple[Contact, ...] = ()
        self._members: tuple[Contact, ...] = ()
        self._met: dict[bytes, tuple[float, Contact]] = {}
        self._counting = False
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def resign(self, voter: bytes, *, last: bool) -> bool:
        """Replace a voter that leaves for good; `last`: it waits only for this.

        Returns:
            Whether the register does not need its vote any more.
        """
        value = self._master.cell.value
        if value.deleted or voter not in {contact.id for contact in self._master.cell.contacts}:
            return True
        self._leaving[voter] = last
        if self._nearest:
            self.upkeep(self._nearest, self._members)
            return [contact.id for contact in self._nearest] == [voter]  # there is no other
        return False

    def upkeep(self, nearest: tuple[Contact, ...], members: tuple[Contact, ...] = ()) -> None:
        """Check the voters.

        Args:
            nearest: the living agents closest to the job, including this one.
            members: of the job; they may become voters too.
        """
        value = self._master.cell.value
        if self._stopped or not self._proposer.idle or value.deleted:
            return
        self._nearest, self._members = nearest, members
        if value.former:
            self._settle()
            return
        voting = {contact.id for contact in value.acceptors}
        answered = {contact.id: contact for contact in nearest}
        for contact in value.acceptors:
            if contact.id in answered:
                self._there(answered[contact.id])  # a lookup of the voter would find the same
            elif contact.id != self._context.me.id:
                self._look(contact.id)
        staying = [contact for contact in nearest if contact.id not in self._leaving]
        others = [contact for contact in staying if contact.id not in voting and self._may_vote(contact)]
        room = self._wanted - len(voting) if len(staying) >= self._wanted else 0
        gone = self._gone(voting)
        kept = [contact for contact in value.acceptors if contact.id not in gone[:1]]
        coming = best_addition(kept, others)[: room if room > 0 else len(gone[:1])]
        if room <= 0 and not gone:
            gone, coming = self._spread(value)
        self._forget(voting, coming)
        self._exchange(value, room, gone, coming)

    def _forget(self, voting: set[bytes], coming: list[Contact]) -> None:
        near = voting | {contact.id for contact in self._nearest}
        invited = {contact.id for contact in coming}
        recent = self._context.now - self._gone_s
        self._away = {
            agent: since for agent, since in self._away.items() if agent in voting or since > recent
        }
        self._met = {agent: met for agent, met in self._met.items() if agent in voting | invited}
        self._leaving = {agent: last for agent, last in self._leaving.items() if agent in near}
        self._invited = {agent: at for agent, at in self._invited.items() if agent in invited}

    def _gone(self, voting: set[bytes]) -> list[bytes]:
        now = self._context.now
        lost = [agent for agent, since in self._away.items() if now - since >= self._gone_s]
        leaving = sorted(self._leaving, key=lambda agent: not self._leaving[agent])
        return [agent for agent in dict.fromkeys((*leaving, *self._proposer.lost, *lost)) if agent in voting]

    @safeguard("voters-by-domain")
    def _spread(self, value: RegisterValue) -> tuple[list[bytes], list[Contact]]:
        """Return the voter and the agent whose exchange spreads the voters best, if all of them answer."""
        voters = [self._answered(contact) for contact in value.acceptors]
        if None in voters:
            return [], []
        voting = {contact.id for contact in value.acceptors}
        others = {contact.id: contact for contact in (*self._members, *self._nearest)}
        candidates = [
            contact
            for contact in sorted(others.values(), key=lambda each: ids.distance(each.id, value.job))
            if contact.id not in voting | self._away.keys() | self._leaving.keys() and self._may_vote(contact)
        ]
        ordered = sorted(filter(None, voters), key=lambda each: ids.distance(each.id, value.job))
        inside = [contact for contact in candidates if allows(self._wishes().rule, contact)]
        if not inside:
            return [], []
        found = self._inwards(ordered, inside) or best_exchange(ordered, inside)
        found = found or self._wished(ordered, inside)
        return ([], []) if found is None else ([found[0].id], [found[1]])

    def _inwards(self, voters: list[Contact], inside: list[Contact]) -> tuple[Contact, Contact] | None:
        """Return the exchange of a voter that may be no site because of the members' rules."""
        rule, me = self._wishes().rule, self._context.me.id
        outside = [each for each in voters if not allows(rule, each) and each.id != me]
        if not outside:
            return None
        rest = [each for each in voters if each is not outside[-1]]
        return outside[-1], best_addition(rest, inside)[0]

    def _wished(self, voters: list[Contact], inside: list[Contact]) -> tuple[Contact, Contact] | None:
        """Return the exchange for a wished agent that spreads the voters as well."""
        wished, me = self._wishes().agents, self._context.me.id
        coming = [each for each in inside if each.id in wished]
        going = [each for each in reversed(voters) if each.id not in wished and each.id != me]
        pairs = ((one, other) for other in coming for one in going)
        spread = crowding(voters)
        return next(
            (
                (one, other)
                for one, other in pairs
                if crowding([*(each for each in voters if each is not one), other]) <= spread
            ),
            None,
        )

    def _answered(self, contact: Contact) -> Contact | None:
        """Return a voter as it has reported itself; None if it is away, or has not answered yet."""
        if contact.id == self._context.me.id:
            return self._context.me
        met = None if contact.id in self._away else self._met.get(contact.id)
        return None if met is None else met[1]

    def _may_vote(self, contact: Contact) -> bool:
        return contact.incarnation >= self._proposer.lost.get(contact.id, 0)

    def _exchange(self, value: RegisterValue, room: int, gone: list[bytes], coming: list[Contact]) -> None:
        now = self._context.now
        at_once = bool(gone) and (self._leaving.get(gone[0]) or gone[0] in self._proposer.lost)
        if not coming and at_once and len(value.acceptors) > 1:
            change = Exchange(value.incarnation, value.epoch, None, gone[0])
            self._proposer.submit(change, self._exchanged)
            return
        ready = bool(coming)
        for contact in coming:
            self._master.invite(contact)
            since = self._invited.setdefault(contact.id, now)
            ready &= self._is_there(contact, since) and now - since >= READY_S
        if ready:
            change = Exchange(value.incarnation, value.epoch, coming[0], None if room > 0 else gone[0])
            self._proposer.submit(change, self._exchanged)
        elif coming and self._leaving and not self._members_due:
            self._members_due = True
            self._context.after(READY_S, self._look_again)

    def _is_there(self, contact: Contact, since: float) -> bool:
        """Return whether an agent has answered since a time; one that is not near is looked up."""
        if contact in self._nearest:
            return True
        if self._met.get(contact.id, (float("-inf"),))[0] >= since:
            return True
        self._look(contact.id)
        return False

    def _look_again(self) -> None:
        self._members_due = False
        self.upkeep(self._nearest, self._members)

    def _look(self, agent: bytes) -> None:
        def found(done: LookupDone | None) -> None:
            if done is None:
                return
            if done.contacts and done.contacts[0].id == agent:
                self._there(done.contacts[0])
            else:
                self._away.setdefault(agent, self._context.now)

        self._context.lookup(agent, found)

    @property
    def restless(self) -> bool:
        """Whether the acceptors have to be changed, or may have to be soon.

        In a fleet with fewer agents than wanted voters they cannot be, until an agent comes.
        """
        value = self._master.cell.value
        can_grow = not self._nearest or len(self._nearest) >= self._wanted
        few = can_grow and len(value.acceptors) < self._wanted
        lost = any(contact.id in self._proposer.lost for contact in value.acceptors)
        away = any(contact.id in self._away for contact in value.acceptors)
        return few or lost or away or bool(value.former or self._leaving or self._invited)

    def _there(self, contact: Contact) -> None:
        self._away.pop(contact.id, None)
        self._met[contact.id] = self._context.now, contact
        self._proposer.met(contact)

    def _exchanged(self, outcome: RegisterCell | ChangeRefused) -> None:
        self._master.elected(outcome)
        if isinstance(outcome, RegisterCell) and not self._stopped:
            self._context.stats["control.acceptors_changed"] += 1
            self._settle()

    def _settle(self) -> None:
        if not self._is_far(self._master.cell.value):
            self._submit_settle()
        elif not self._counting:
            self._counting = True
            near = tuple(contact for contact in self._nearest if contact.id not in self._leaving)
            self._master.count_holders(near, lambda count: self._counted(near, count))

    @safeguard("settled-when-the-terms-are-known")
    def _is_far(self, value: RegisterValue) -> bool:
        """Return whether a voter is not among the agents that a founder asks."""
        near = {contact.id for contact in self._nearest}
        return any(contact.id not in near for contact in value.acceptors)

    def _counted(self, near: tuple[Contact, ...], count: int) -> None:
        self._counting = False
        joint = bool(self._master.cell.value.former)
        if joint and is_known_near(len(near), count) and self._proposer.idle and not self._stopped:
            self._submit_settle()

    def _submit_settle(self) -> None:
        value = self._master.cell.value
        self._proposer.submit(Settle(value.incarnation, value.epoch), self._settled)

    def _settled(self, outcome: RegisterCell | ChangeRefused) -> None:
        self._master.elected(outcome)
        if isinstance(outcome, RegisterCell) and outcome.value.former and not self._stopped:
            self._settle()  # the joint value is chosen now; it may be settled
        elif isinstance(outcome, RegisterCell):
            self.upkeep(self._nearest, self._members)
