"""Who votes on a job: the acceptors of its register, changed one at a time.

Owns when an acceptor is added or replaced, seen from the job's master. The change itself, and that two never
overlap, is the register's.

Invariants: an acceptor is replaced only when look-ups have not found it for `GONE_S`; who shall come is first
given what an acceptor must hold, so that the change does not wait for it.

A fleet of one or two agents has a register of one; with a third agent it grows, one acceptor at a time.

Paper: CASPaxos (Rystsov 2018) 2.3.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.office import Office
from elfmesh.control.register_proposer import Proposer
from elfmesh.control.register_value import Cell, Exchange, Refused, Settle
from elfmesh.machine import Contact
from elfmesh.overlay.events import LookupDone

GONE_S = 60.0
"""How long an acceptor is away before another votes for it: longer than a restart or a reboot's pause."""

READY_S = 3.0
"""How long who shall come has to complete its copy of the log."""


class Electorate:
    """Keeps the acceptors of one job's register at their number.

    Args:
        office: clock and look-ups.
        proposer: of the register.
        cell: its value as last chosen here.
        invite: gives an agent what an acceptor holds.
        changed: told of the value after a change.
        wanted: how many shall vote.
    """

    def __init__(
        self,
        office: Office,
        proposer: Proposer,
        cell: Callable[[], Cell],
        invite: Callable[[Contact], None],
        changed: Callable[[Cell | Refused], None],
        *,
        wanted: int,
        gone_s: float = GONE_S,
    ) -> None:
        self._office, self._proposer, self._cell = office, proposer, cell
        self._invite, self._changed, self._wanted, self._gone_s = invite, changed, wanted, gone_s
        self._invited: dict[bytes, float] = {}
        self._away: dict[bytes, float] = {}
        self._nearest: tuple[Contact, ...] = ()
        self._stopped = False

    def stop(self) -> None:
        """Not the master any more."""
        self._stopped = True

    def upkeep(self, nearest: tuple[Contact, ...]) -> None:
        """Look who votes; `nearest`: the living agents closest to the job, this one too."""
        value = self._cell().value
        if self._stopped or not self._proposer.idle or value.deleted:
            return
        if value.former:
            self._settle()
            return
        voting = {contact.id for contact in value.acceptors}
        for contact in value.acceptors:
            if contact.id != self._office.me.id:
                self._look(contact.id)
        self._nearest = nearest
        others = [contact for contact in nearest if contact.id not in voting]
        room = self._wanted - len(voting) if len(nearest) >= self._wanted else 0
        now = self._office.now
        gone = [
            agent for agent, since in self._away.items() if agent in voting and now - since >= self._gone_s
        ]
        coming = others[: room if room > 0 else len(gone[:1])]
        ready = bool(coming)
        for contact in coming:
            self._invite(contact)
            ready &= now - self._invited.setdefault(contact.id, now) >= READY_S
        if ready:
            change = Exchange(value.incarnation, value.epoch, coming[0], None if room > 0 else gone[0])
            self._proposer.submit(change, self._exchanged)

    def _look(self, agent: bytes) -> None:
        def found(done: LookupDone | None) -> None:
            if done is None:
                return
            if done.contacts and done.contacts[0].id == agent:
                self._away.pop(agent, None)
                self._proposer.met(done.contacts[0])
            else:
                self._away.setdefault(agent, self._office.now)

        self._office.lookup(agent, found)

    def _exchanged(self, outcome: Cell | Refused) -> None:
        self._changed(outcome)
        if isinstance(outcome, Cell) and not self._stopped:
            self._office.stats["control.acceptors_changed"] += 1
            self._settle()

    def _settle(self) -> None:
        self._proposer.submit(Settle(self._cell().value.incarnation), self._settled)

    def _settled(self, outcome: Cell | Refused) -> None:
        self._changed(outcome)
        if isinstance(outcome, Cell) and outcome.value.former and not self._stopped:
            self._settle()  # the joint value is chosen now; it may be settled
        elif isinstance(outcome, Cell):
            self.upkeep(self._nearest)
