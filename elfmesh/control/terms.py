"""What a master, its members and its successor must agree on about a job: the roster and the marks.

Owns the shape of that knowledge; who may change it is the master's business.
"""

from __future__ import annotations

import msgspec

from elfmesh.control.manifest import Manifest
from elfmesh.control.records import FIRST
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


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a master and its successor must agree on; also what every member knows.

    Attributes:
        manifest: the version in force.
        master: who closes intervals in this epoch.
        epoch: the master's term.
        version: of the roster, grows with each change.
        start: first interval of this incarnation.
        closed: every interval below is closed.
        paused: members do not read.
        members: the roster.
        acceptors: who votes in the job's control register, as far as known.
    """

    manifest: Manifest
    master: Contact
    epoch: Count
    version: Count = 0
    start: Index = FIRST
    closed: Index = FIRST
    paused: bool = False
    members: tuple[RosterEntry, ...] = ()
    acceptors: tuple[Contact, ...] = ()
