"""What a master, its members and its successor must agree on about a job: the roster and the marks.

Owns the shape of that knowledge; who may change it is the master's business.
"""

from __future__ import annotations

import msgspec

from elfmesh.control.jobs.manifest import Incarnation, Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.machine import Contact, Count, Index


class Participant(msgspec.Struct, frozen=True, array_like=True):
    """An agent that works on a job: how to reach it and what people call it."""

    contact: Contact
    name: str


class RosterEntry(msgspec.Struct, frozen=True, array_like=True):
    """One numbered member.

    Attributes:
        number: its bit in coverages; never used again for another.
        contact: where it is.
        name: what people call it.
        start: first interval it is expected in.
        until: first interval it is not expected in any more, None while it is a member.
    """

    number: Count
    contact: Contact
    name: str
    start: Index = FIRST
    until: Index | None = None


class Stage(msgspec.Struct, frozen=True, array_like=True):
    """One version of a job, and from where on it is in force (D-16).

    Attributes:
        start: its first interval; the next stage's is where it ends.
        manifest: the version.
        evaluated: the version by whose text agents evaluate records: an earlier one's where only the end of
            the query has changed, so that what they hold goes on.
    """

    start: Index
    manifest: Manifest
    evaluated: Count


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """How the last change of a job's version went.

    Attributes:
        version: the new one.
        replaces: the one before it.
        state: what became of the agents' state: "keep", "warm up" or "reset".
        effective: its first interval.
        halted: why it was taken back by itself, "" if it was not.
        bound: share of unusable records above which it is taken back.
        usual: the share that the version before it had.
        change: "undo" or "empty" if it was made by such a request, "" if by a text.
    """

    version: Count
    replaces: Count
    state: str
    effective: Index
    halted: str = ""
    bound: float = 0.0
    usual: float = 0.0
    change: str = ""


class Numbering(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier numbering of a job's intervals, ended by an update; readers may still be behind in it.

    Attributes:
        incarnation: its name.
        first: index of its first record, None if it is not known.
        latest: index of its last record.
    """

    incarnation: Incarnation
    first: Index | None
    latest: Index


EARLIER_MAX = 32
"""Earlier numberings that terms name; each is some 60 bytes in every copy of them."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a master and its successor must agree on; also what every member knows.

    Attributes:
        manifest: the newest version.
        master: who closes intervals in this epoch.
        epoch: the master's term.
        version: of the roster, grows with each change.
        start: first interval of this incarnation.
        closed: every interval below is closed.
        paused: members do not read.
        pauses: how often the job was paused or resumed.
        members: the roster.
        acceptors: who votes in the job's control register, as far as known.
        effective: first interval of the newest version.
        evaluated: see `Stage`; 0: its own text.
        older: the versions before it, as long as one of their intervals may be open or they may come back.
        rollout: how the last change of the version went, for people.
        earlier: the numberings before this one, oldest first, as far as they had records.
        given_in: (number, epoch): the roster's numbers from this one on were given in this epoch
            (`roster.has_number`). An earlier release leaves it empty.
    """

    manifest: Manifest
    master: Contact
    epoch: Count
    version: Count = 0
    start: Index = FIRST
    closed: Index = FIRST
    paused: bool = False
    pauses: Count = 0
    members: tuple[RosterEntry, ...] = ()
    acceptors: tuple[Contact, ...] = ()
    effective: Index = FIRST
    evaluated: Count = 0
    older: tuple[Stage, ...] = ()
    rollout: Rollout | None = None
    earlier: tuple[Numbering, ...] = ()
    given_in: tuple[tuple[Count, Count], ...] = ()

    def numberings(self, first: int | None, latest: int | None) -> tuple[Numbering, ...]:
        """What the next numbering of the results has before it.

        Args:
            first: index of the oldest record of the present numbering.
            latest: index of its newest record, None if it has none.
        """
        if latest is None:
            return self.earlier
        own = Numbering(incarnation=self.manifest.incarnation, first=first, latest=latest)
        return (*self.earlier, own)[-EARLIER_MAX:]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All versions that are known, oldest first."""
        newest = Stage(self.effective, self.manifest, self.evaluated or self.manifest.version)
        return (*self.older, newest)
