"""Messages before a change of a job's version (D-16).

The master then sends the change in rosters.
"""

from __future__ import annotations

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Count, Id, Index, Message


class Rehearse(Message, frozen=True, tag="ctl.rehearse"):
    """Master to the members, multicast: check this version, which may follow (D-16's prepare)."""

    manifest: Manifest
    epoch: Count


class Rehearsed(Message, frozen=True, tag="ctl.rehearsed"):
    """The answer: the member's frontier, whether it takes part in the version, or why it cannot (`error`)."""

    member: Id
    frontier: Index | None
    takes_part: bool = True
    error: str = ""


MESSAGES: tuple[type[Message], ...] = (Rehearse, Rehearsed)
"""For the codec."""
