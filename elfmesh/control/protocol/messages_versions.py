"""Messages before a change of a job's version (D-16).

The master then sends the change in rosters.
"""

from __future__ import annotations

from typing import ClassVar

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


class Coming(Message, frozen=True, tag="ctl.coming"):
    """A client submits a job over `stream`: routed to the stream's rendezvous, multicast to the member hosts.

    The agents load the engine if they have not, all at the same time.
    """

    since: ClassVar[int] = 2

    stream: str


MESSAGES: tuple[type[Message], ...] = (Coming, Rehearse, Rehearsed)
"""For the codec."""
