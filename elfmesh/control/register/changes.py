"""The changes of a job's control register.

Owns the comparisons that make each change a compare-and-set (D-4).

Invariants: epochs only grow, and each has one master. Within an incarnation `closed` and `latest` only grow,
and only the master of the epoch advances them. A tombstone remains until a new incarnation follows in a
higher epoch. A repeated change has no effect, so that a client can repeat a request after a lost answer.

Paper: CASPaxos (Rystsov 2018) 2.2: a change is a function of the value found.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, digest, generation
from elfmesh.errors import RemoteError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard


class ChangeRefused(RemoteError):
    """The value found, `cell`, does not allow the change; `over`: whether the incarnation has ended."""

    def __init__(self, reason: str, cell: RegisterCell | None, *, over: bool = False) -> None:
        super().__init__(reason)
        self.cell, self.over = cell, over


class Change(Protocol):
    """A change of the value."""

    @property
    def generation(self) -> int:
        """Generation of the register; acceptors that know a later one refuse the change."""
        ...

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Return the next value. `certain`: whether the value found is known to be chosen.

        Raises:
            ChangeRefused: the value found does not allow the change.
        """
        ...


@safeguard("tombstone:voted")
def live(found: RegisterCell | None, incarnation: str) -> RegisterValue:
    """Return the value found; raises `ChangeRefused` if the incarnation has ended."""
    if found is None:
        raise ChangeRefused("there is no such job", None)
    if found.value.deleted or found.value.incarnation != incarnation:
        raise ChangeRefused("this incarnation of the job is over", found, over=True)
    return found.value


class _InTerm:
    """A change by the master of an epoch."""

    __slots__ = ()
    epoch: int

    @property
    def generation(self) -> int:
        return generation(self.epoch)


ENDED_SINCE = "another job of that name has ended since the client looked, and the outcome is unknown"


@safeguard("as-it-was-seen:tombstone")
def ends_as_seen(over: str, seen: str | None) -> bool:
    """Return whether a client that creates a job has seen the end of the last incarnation."""
    return seen is None or over == seen


class Create(Struct, frozen=True):
    """Creation of a job, or of the next incarnation of a deleted one; `value.epoch` is its minimum epoch.

    `seen` is the last ended incarnation that the client has seen, "" if it saw none; None: it did not look.
    """

    value: RegisterValue
    seen: str | None = None

    @property
    def generation(self) -> int:
        return generation(self.value.epoch)

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Refuse a job that exists, unless it is this incarnation."""
        if found is None:
            return RegisterCell(self.value)
        old = found.value
        if old.incarnation == self.value.incarnation and not old.deleted:
            return found
        if not old.deleted:
            raise ChangeRefused("the job exists", found)
        if old.incarnation == self.value.incarnation:
            raise ChangeRefused("this incarnation of the job is over", found, over=True)
        if not ends_as_seen(old.incarnation, self.seen):
            raise ChangeRefused(ENDED_SINCE, found)
        epoch = max(self.value.epoch, old.epoch + 1)
        return RegisterCell(replace(self.value, epoch=epoch, acceptors=old.acceptors, former=old.former))


class Look(Create, frozen=True):
    """A read of the register before a creation: it is always refused with the value found."""

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        raise ChangeRefused("nothing was changed", found)


class TakeOver(Struct, frozen=True):
    """A new term. `expected`: the epoch that has ended; `floor`: a lower bound of the new epoch, exclusive.

    A take-over never begins another generation, because its epochs belong to the register that a recovery
    creates.
    """

    incarnation: str
    master: Contact
    expected: int
    floor: int = 0

    @property
    def generation(self) -> int:
        return generation(self.expected)

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Refuse the change in any epoch except `expected`."""
        old = live(found, self.incarnation)
        assert found is not None
        same = (old.master.id, old.master.incarnation) == (self.master.id, self.master.incarnation)
        if same and old.epoch > self.expected:  # an acceptor of an earlier version keeps no region
            return found
        if old.epoch != self.expected:
            raise ChangeRefused("another took over", found)
        epoch = max(old.epoch, self.floor) + 1
        if generation(epoch) != generation(old.epoch):
            raise ChangeRefused("the job has gone on with other voters", found)
        return RegisterCell(replace(old, master=self.master, epoch=epoch, grant=None), found.tail)


class Close(_InTerm, Struct, frozen=True):
    """Closes the intervals below `closed`; `tail` follows the record `before`. `grant`: of the new value."""

    incarnation: str
    epoch: int
    roster: int
    closed: int
    before: int | None
    latest: int | None
    tail: bytes = b""
    grant: VotingGrant | None = None

    @safeguard("no-grant-while-joint")
    def _grant(self, old: RegisterValue) -> VotingGrant | None:
        return None if old.former else self.grant

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Refuse another epoch, and a `before` that is not the last record."""
        old = live(found, self.incarnation)
        assert found is not None
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        roster, closed = max(old.roster, self.roster), max(old.closed, self.closed)
        value = replace(old, roster=roster, closed=closed, grant=self._grant(old))
        watermark = digest(self.tail)
        is_made = (old.latest, old.before, old.digest) == (self.latest, self.before, watermark)
        is_made |= self.grant is not None and old.grant == self.grant  # and votes have closed more
        if not self.tail or is_made:
            return RegisterCell(value, found.tail)
        if old.latest != self.before:
            raise ChangeRefused("another interval was closed last", found)
        value = replace(value, before=self.before, latest=self.latest, digest=watermark)
        return RegisterCell(value, self.tail)


class Advance(_InTerm, Struct, frozen=True):
    """The next version of the job: a new term of the same master, so that contributions do not mix (D-16)."""

    incarnation: str
    epoch: int
    roster: int
    version: int
    plan: bytes

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Refuse another epoch; `roster` is that of the terms with the new version."""
        old = live(found, self.incarnation)
        assert found is not None
        if (old.epoch, old.version, old.plan) == (self.epoch + 1, self.version, self.plan):
            return found
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        roster, epoch = max(old.roster, self.roster), old.epoch + 1
        value = replace(old, epoch=epoch, roster=roster, version=self.version, plan=self.plan, grant=None)
        return RegisterCell(value, found.tail)


class Delete(_InTerm, Struct, frozen=True):
    """Deletion of the job."""

    incarnation: str
    epoch: int

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        if found is not None and found.value.deleted and found.value.incarnation == self.incarnation:
            return found
        old = live(found, self.incarnation)
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        return RegisterCell(replace(old, deleted=True, before=old.latest, digest=b"", grant=None))


class Exchange(_InTerm, Struct, frozen=True):
    """Addition, removal or replacement of one acceptor: the first, joint step."""

    incarnation: str
    epoch: int
    comes: Contact | None = None
    goes: bytes | None = None

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        old = live(found, self.incarnation)
        assert found is not None
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        kept = tuple(contact for contact in old.acceptors if contact.id != self.goes)
        come = () if self.comes is None or self.comes.id in {c.id for c in kept} else (self.comes,)
        acceptors = (*kept, *come)
        if old.former or not acceptors or acceptors == old.acceptors:
            raise ChangeRefused("the acceptors are these already, or are changing", found)
        return RegisterCell(replace(old, acceptors=acceptors, former=old.acceptors, grant=None), found.tail)


class Settle(_InTerm, Struct, frozen=True):
    """The second step, after which the old acceptors do not vote any more."""

    incarnation: str
    epoch: int

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Settle a joint value that is chosen; otherwise propose it unchanged, so that it is chosen."""
        old = live(found, self.incarnation)
        assert found is not None
        return RegisterCell(replace(old, former=(), grant=None), found.tail) if certain else found
