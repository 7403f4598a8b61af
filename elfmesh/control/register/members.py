"""Who votes on a job: the acceptors of its register, changed one at a time.

Owns when an acceptor is added or replaced, seen from the job's master. The change itself, and that two never
overlap, is the register's.

Invariants: an acceptor is replaced only when look-ups have not found it for `GONE_S`, when it says that it
goes for good, or when it says that it has lost its votes; who shall come is first given what an acceptor must
hold, so that the change does not wait for it. A voter that goes is replaced if another agent can be found,
and left out otherwise as soon as nothing else holds it, unless it is the last. Who has lost its votes is left
out at once if no other can come, and comes again as any other agent does.

A fleet of one or two agents has a register of one; with a third agent it grows, one acceptor at a time.

Paper: CASPaxos (Rystsov 2018) 2.3.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.context import Context
from elfmesh.control.jobs.register_value import ChangeRefused, Exchange, RegisterCell, RegisterValue, Settle
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

GONE_S = 60.0
"""How long an acceptor is away before another votes for it: longer than a restart or a reboot's pause."""

READY_S = 3.0
"""How long who shall come has to complete its copy of the log."""


class Electorate:
    """Keeps the acceptors of one job's register at their number.

    Args:
        context: clock and look-ups.
        proposer: of the register.
        cell: its value as last chosen here.
        invite: gives an agent what an acceptor holds.
        changed: told of the value after a change.
        wanted: how many shall vote.
    """

    def __init__(
        self,
        context: Context,
        proposer: Proposer,
        cell: Callable[[], RegisterCell],
        invite: Callable[[Contact], None],
        changed: Callable[[RegisterCell | ChangeRefused], None],
        *,
        wanted: int,
        gone_s: float = GONE_S,
    ) -> None:
        self._context, self._proposer, self._cell = context, proposer, cell
        self._invite, self._changed, self._wanted, self._gone_s = invite, changed, wanted, gone_s
        self._invited: dict[bytes, float] = {}
        self._away: dict[bytes, float] = {}
        self._leaving: dict[bytes, bool] = {}
        self._members_due = False
        self._nearest: tuple[Contact, ...] = ()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def resign(self, voter: bytes, *, last: bool) -> bool:
        """An agent goes for good, now if it is its `last` word.

        Returns:
            Whether its vote is not counted on any more.
        """
        value = self._cell().value
        if value.deleted or voter not in {contact.id for contact in self._cell().contacts}:
            return True
        self._leaving[voter] = last
        if self._nearest:
            self.upkeep(self._nearest)
            return [contact.id for contact in self._nearest] == [voter]  # there is no other
        return False

    def upkeep(self, nearest: tuple[Contact, ...]) -> None:
        """Look who votes; `nearest`: the living agents closest to the job, this one too."""
        value = self._cell().value
        if self._stopped or not self._proposer.idle or value.deleted:
            return
        if value.former:
            self._settle()
            return
        voting = {contact.id for contact in value.acceptors}
        answered = {contact.id: contact for contact in nearest}
        for contact in value.acceptors:
            if contact.id in answered:
                self._there(answered[contact.id])  # what a look-up of its own would say
            elif contact.id != self._context.me.id:
                self._look(contact.id)
        self._nearest = nearest
        staying = [contact for contact in nearest if contact.id not in self._leaving]
        others = [contact for contact in staying if contact.id not in voting and self._may_vote(contact)]
        room = self._wanted - len(voting) if len(staying) >= self._wanted else 0
        gone = self._gone(voting)
        coming = others[: room if room > 0 else len(gone[:1])]
        self._forget(voting, coming)
        self._exchange(value, room, gone, coming)

    def _forget(self, voting: set[bytes], coming: list[Contact]) -> None:
        near = voting | {contact.id for contact in self._nearest}
        invited = {contact.id for contact in coming}
        self._away = {agent: since for agent, since in self._away.items() if agent in voting}
        self._leaving = {agent: last for agent, last in self._leaving.items() if agent in near}
        self._invited = {agent: at for agent, at in self._invited.items() if agent in invited}

    def _gone(self, voting: set[bytes]) -> list[bytes]:
        now = self._context.now
        lost = [agent for agent, since in self._away.items() if now - since >= self._gone_s]
        leaving = sorted(self._leaving, key=lambda agent: not self._leaving[agent])
        return [agent for agent in dict.fromkeys((*leaving, *self._proposer.lost, *lost)) if agent in voting]

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
            self._invite(contact)
            ready &= now - self._invited.setdefault(contact.id, now) >= READY_S
        if ready:
            change = Exchange(value.incarnation, value.epoch, coming[0], None if room > 0 else gone[0])
            self._proposer.submit(change, self._exchanged)
        elif coming and self._leaving and not self._members_due:
            self._members_due = True
            self._context.after(READY_S, self._look_again)

    def _look_again(self) -> None:
        self._members_due = False
        self.upkeep(self._nearest)

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
        """Whether something about who votes is to be done, or may have to be."""
        value = self._cell().value
        few = len(value.acceptors) < self._wanted
        lost = any(contact.id in self._proposer.lost for contact in value.acceptors)
        return few or lost or bool(value.former or self._away or self._leaving or self._invited)

    def _there(self, contact: Contact) -> None:
        self._away.pop(contact.id, None)
        self._proposer.met(contact)

    def _exchanged(self, outcome: RegisterCell | ChangeRefused) -> None:
        self._changed(outcome)
        if isinstance(outcome, RegisterCell) and not self._stopped:
            self._context.stats["control.acceptors_changed"] += 1
            self._settle()

    def _settle(self) -> None:
        value = self._cell().value
        self._proposer.submit(Settle(value.incarnation, value.epoch), self._settled)

    def _settled(self, outcome: RegisterCell | ChangeRefused) -> None:
        self._changed(outcome)
        if isinstance(outcome, RegisterCell) and outcome.value.former and not self._stopped:
            self._settle()  # the joint value is chosen now; it may be settled
        elif isinstance(outcome, RegisterCell):
            self.upkeep(self._nearest)
