"""What a master and its members say to each other before a job changes its version (D-16).

Owns the messages of the rehearsal; what follows travels in rosters.
"""

from __future__ import annotations

from typing import ClassVar

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Count, Id, Index, Message


class Rehearse(Message, frozen=True, tag="ctl.rehearse"):
    """The master to the members, multicast: check this version, which may follow (D-16's prepare)."""

    manifest: Manifest
    epoch: Count


class Rehearsed(Message, frozen=True, tag="ctl.rehearsed"):
    """The answer: how far this member has sealed, whether it would take part, why it cannot (`error`)."""

    member: Id
    frontier: Index | None
    takes_part: bool = True
    error: str = ""


class Coming(Message, frozen=True, tag="ctl.coming"):
    """A job over `stream` is about to be submitted: routed to its rendezvous, multicast to its stream hosts.

    Agents that have not loaded the engine begin to: all at a time, not one behind the other.
    """

    since: ClassVar[int] = 2

    stream: str


MESSAGES: tuple[type[Message], ...] = (Coming, Rehearse, Rehearsed)
"""For the codec."""
