"""The value of a job's control register: the agreed state of one job. `register.changes` changes it.

The *tail*, the records of the intervals that the last change closed, is part of the value, so that every
acceptor of the value can publish them. The acceptor's log has all earlier records (`register.acceptor`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

import msgspec

from elfmesh.control.consensus.rules import Group
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Count, Id, Index

GENERATION_BITS = 24
"""Number of low bits of an epoch; a job without a majority of its voters goes on in the next generation."""

Generation = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62 - GENERATION_BITS)]
"""The upper bits of an epoch."""

ACCEPTORS_MAX = 7
DIGEST_BYTES = 20


class RegisterValue(msgspec.Struct, frozen=True, kw_only=True):
    """The agreed state of one job.

    Attributes:
        job: id of the job.
        incarnation: name of the numbering of results.
        version: version of the manifest in force.
        plan: digest of that manifest, so that no agent leads the job with another text.
        epoch: term of the master.
        master: master of this epoch.
        roster: version of the roster with which intervals were closed last.
        closed: first interval that is not closed.
        latest: last interval that has a record; None if there is none.
        before: last interval with a record that is not in the tail.
        digest: digest of the tail; b"" if it is empty.
        acceptors: voters of this value.
        former: the voters before them, while that change is not settled.
        deleted: whether the job is deleted.
        grant: permission to close complete intervals by votes; None: only the master closes.
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
    grant: VotingGrant | None = None


@dataclass(frozen=True, slots=True)
class RegisterCell:
    """A value with its tail, which is a page of records."""

    value: RegisterValue
    tail: bytes = b""

    @property
    def groups(self) -> tuple[Group, ...]:
        new = tuple(contact.id for contact in self.value.acceptors)
        if not self.value.former:
            return (new,)
        return (tuple(contact.id for contact in self.value.former), new)

    @property
    def grant(self) -> VotingGrant | None:
        return self.value.grant

    @property
    def is_over(self) -> bool:
        return self.value.deleted

    def member_since(self, agent: bytes) -> int:
        """Return the boot in which an agent became an acceptor of the value; 0 if it is none."""
        boots = [each.incarnation for each in (*self.value.former, *self.value.acceptors) if each.id == agent]
        return max(boots, default=0)

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The voters, each once."""
        return tuple({each.id: each for each in (*self.value.former, *self.value.acceptors)}.values())


def generation(epoch: int) -> int:
    """Return how often a job has got other voters without a majority of the old ones (`recovery.py`)."""
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
    """Return the records of a tail.

    Raises:
        ProtocolError: the tail does not agree with the value.
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
    """Refuse a value that no correct proposer proposes.

    Raises:
        ProtocolError: the value is of another job or inconsistent.
    """
    value = cell.value
    for group in cell.groups:
        if not 0 < len(group) <= ACCEPTORS_MAX or len(set(group)) != len(group):
            raise ProtocolError("acceptors that cannot vote")
    if value.job != job or value.epoch < 1 or len(value.master.id) != len(job):
        raise ProtocolError("a value of another register")
    read_tail(cell)
