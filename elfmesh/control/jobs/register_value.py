"""The value of a job's control register, and the changes that can be made to it.

Owns the value and the comparisons that make each change a compare-and-set (D-4). Knows no message and no
acceptor.

Invariants: epochs only grow, and each has one master; within an incarnation `closed` and `latest` only grow,
and only the master of the epoch advances them; a tombstone remains until a new incarnation follows in a
higher epoch. A change that is already made has no effect, so a client can repeat it after a lost answer.

The records of the intervals that the last change closed, the *tail*, are part of the value, so every acceptor
of the value can publish them. The acceptor's log already has all earlier ones (see `register_acceptor.py`).

Paper: CASPaxos (Rystsov 2018) 2.2: a change is a function of the value found.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Group
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.errors import ProtocolError, RemoteError
from elfmesh.machine import Contact, Count, Id, Index
from elfmesh.safeguards import safeguard

GENERATION_BITS = 24
"""Epochs of one generation: a job that lost the majority of its voters for good goes on in the next one."""

Generation = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62 - GENERATION_BITS)]
"""The upper bits of an epoch: every epoch of a generation is a count."""

ACCEPTORS_MAX = 7
DIGEST_BYTES = 20


class RegisterValue(msgspec.Struct, frozen=True, kw_only=True):
    """The agreed state of one job.

    Attributes:
        job: id of the job.
        incarnation: which numbering of results.
        version: of the manifest in force.
        plan: digest of that manifest, so that no agent leads the job by another text.
        epoch: the master's term.
        master: who leads in this epoch.
        roster: version of the roster by which intervals were closed last.
        closed: every interval below is closed.
        latest: last interval that has a record, None if there is none.
        before: last record that is not in the tail.
        digest: of the tail, b"" if it is empty.
        acceptors: who votes on this value.
        former: the acceptors before them, while that change is not settled.
        deleted: the job is over.
    """

    job: Id
    incarnation: str
    version: Count
    plan: bytes
    epoch: Count
    master: Contact
    roster: Count = 0
    closed: Index = FIRST
    latest: Index | None = None
    before: Index | None = None
    digest: bytes = b""
    acceptors: tuple[Contact, ...] = ()
    former: tuple[Contact, ...] = ()
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class RegisterCell:
    """A value with the records closed last, as a page."""

    value: RegisterValue
    tail: bytes = b""

    @property
    def groups(self) -> tuple[Group, ...]:
        new = tuple(contact.id for contact in self.value.acceptors)
        if not self.value.former:
            return (new,)
        return (tuple(contact.id for contact in self.value.former), new)

    @property
    def is_over(self) -> bool:
        return self.value.deleted

    def member_since(self, agent: bytes) -> int:
        """The boot in which an agent became an acceptor of the value, 0 if it is none."""
        boots = [each.incarnation for each in (*self.value.former, *self.value.acceptors) if each.id == agent]
        return max(boots, default=0)

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """Who votes, each once."""
        both = {contact.id: contact for contact in (*self.value.former, *self.value.acceptors)}
        return tuple(both.values())


class ChangeRefused(RemoteError):
    """The value found, `cell`, does not allow the change; `over`: by it the incarnation is over."""

    def __init__(self, reason: str, cell: RegisterCell | None, *, over: bool = False) -> None:
        super().__init__(reason)
        self.cell, self.over = cell, over


class Change(Protocol):
    """A function of the value found. Raises Refused."""

    @property
    def generation(self) -> int:
        """Of the register that it is meant for: acceptors that know a later one refuse it."""
        ...

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """The value that shall follow; `certain`: the one found is known to be chosen."""
        ...


def generation(epoch: int) -> int:
    """How often a job was given other voters without a majority of the old ones.

    That is when it is recovered (`recovery.py`), or begun again after its end (`first_acceptors.py`).
    """
    return epoch >> GENERATION_BITS


def next_generation(epoch: int) -> int:
    return (generation(epoch) + 1) << GENERATION_BITS


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def plan_digest(manifest: Manifest, effective: int = FIRST, evaluated: int = 0) -> bytes:
    if effective == FIRST and not evaluated:
        return digest(manifest.canonical())
    return digest(b"%d %d " % (effective, evaluated) + manifest.canonical())


def read_tail(cell: RegisterCell) -> list[tuple[ResultRecord, bytes]]:
    """The records of a tail.

    Raises:
        ProtocolError: it is not what the value says.
    """
    value = cell.value
    if (digest(cell.tail) if cell.tail else b"") != value.digest:
        raise ProtocolError("a tail that is not the register's")
    records = decode_page(cell.tail)
    indices = [record.index for record, _ in records]
    if indices != sorted(set(indices)) or (indices and indices[-1] != value.latest):
        raise ProtocolError("a tail whose records are out of order")
    if indices and value.before is not None and indices[0] <= value.before:
        raise ProtocolError("a tail that begins before its end")
    return records


def check_cell(job: bytes, cell: RegisterCell) -> None:
    """Refuse what no proposer of ours would propose.

    Raises:
        ProtocolError: another job's, or a value that contradicts itself.
    """
    value = cell.value
    for group in cell.groups:
        if not 0 < len(group) <= ACCEPTORS_MAX or len(set(group)) != len(group):
            raise ProtocolError("acceptors that cannot vote")
    if value.job != job or value.epoch < 1 or len(value.master.id) != len(job):
        raise ProtocolError("a value of another register")
    read_tail(cell)


@safeguard("tombstone:voted")
def live(found: RegisterCell | None, incarnation: str) -> RegisterValue:
    """The value found, if the incarnation is not over. Raises Refused."""
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
    """Whether a client that wants a job to begin has seen the end of the last one."""
    return seen is None or over == seen


@dataclass(frozen=True, slots=True)
class Create:
    """A new job, or the next incarnation of one that is over; `value.epoch` is at least its epoch.

    `seen`: the incarnation that was over last when the client looked, "" if none was known; None: it did not.
    """

    value: RegisterValue
    seen: str | None = None

    @property
    def generation(self) -> int:
        return generation(self.value.epoch)

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """A live job is another's, unless it is this very one."""
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


@dataclass(frozen=True, slots=True)
class Look(Create):
    """What there is of a job that shall begin: it changes nothing, and is refused with the value found."""

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        raise ChangeRefused("nothing was changed", found)


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A new term. `expected`: the epoch that is over; `floor`: the new one is above it in any case.

    Never in another generation: its epochs are those of the register that a recovery has founded.
    """

    incarnation: str
    master: Contact
    expected: int
    floor: int = 0

    @property
    def generation(self) -> int:
        return generation(self.expected)

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Only from the epoch that the new master has judged to be over."""
        old = live(found, self.incarnation)
        assert found is not None
        if old.master == self.master and old.epoch > self.expected:
            return found
        if old.epoch != self.expected:
            raise ChangeRefused("another took over", found)
        epoch = max(old.epoch, self.floor) + 1
        if generation(epoch) != generation(old.epoch):
            raise ChangeRefused("the job has gone on with other voters", found)
        return RegisterCell(replace(old, master=self.master, epoch=epoch), found.tail)


@dataclass(frozen=True, slots=True)
class Close(_InTerm):
    """Intervals below `closed` are closed, with the records of `tail` behind `before`, by this epoch."""

    incarnation: str
    epoch: int
    roster: int
    closed: int
    before: int | None
    latest: int | None
    tail: bytes = b""

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Only by the epoch's master, only behind the interval that was closed last."""
        old = live(found, self.incarnation)
        assert found is not None
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        roster, closed = max(old.roster, self.roster), max(old.closed, self.closed)
        if not self.tail:
            return RegisterCell(replace(old, roster=roster, closed=closed), found.tail)
        watermark = digest(self.tail)
        if (old.latest, old.before, old.digest) == (self.latest, self.before, watermark):
            return found
        if old.latest != self.before:
            raise ChangeRefused("another interval was closed last", found)
        value = replace(
            old, roster=roster, closed=closed, before=self.before, latest=self.latest, digest=watermark
        )
        return RegisterCell(value, self.tail)


@dataclass(frozen=True, slots=True)
class Advance(_InTerm):
    """The next version of the job: a new term of the same master, so that no contribution crosses (D-16)."""

    incarnation: str
    epoch: int
    roster: int
    version: int
    plan: bytes

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """By the master of the epoch; `roster` is that of the terms in which the version stands."""
        old = live(found, self.incarnation)
        assert found is not None
        if (old.epoch, old.version, old.plan) == (self.epoch + 1, self.version, self.plan):
            return found
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        roster, epoch = max(old.roster, self.roster), old.epoch + 1
        value = replace(old, epoch=epoch, roster=roster, version=self.version, plan=self.plan)
        return RegisterCell(value, found.tail)


@dataclass(frozen=True, slots=True)
class Delete(_InTerm):
    """The job is over."""

    incarnation: str
    epoch: int

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        if found is not None and found.value.deleted and found.value.incarnation == self.incarnation:
            return found
        old = live(found, self.incarnation)
        if old.epoch != self.epoch:
            raise ChangeRefused("another epoch", found)
        return RegisterCell(replace(old, deleted=True, before=old.latest, digest=b""))


@dataclass(frozen=True, slots=True)
class Exchange(_InTerm):
    """One acceptor comes, goes, or comes for another: the first, joint step."""

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
        return RegisterCell(replace(old, acceptors=acceptors, former=old.acceptors), found.tail)


@dataclass(frozen=True, slots=True)
class Settle(_InTerm):
    """The second step: the old acceptors need not be asked any more."""

    incarnation: str
    epoch: int

    def apply(self, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        """Only of a joint value that is chosen; until then it is proposed as it is, which makes it so."""
        old = live(found, self.incarnation)
        assert found is not None
        return RegisterCell(replace(old, former=()), found.tail) if certain else found
