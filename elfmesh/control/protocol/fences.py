"""Table of the fenced messages (D-5).

Owns one line per fenced message: its fields with the job and the epoch, what that epoch must be, and the
agent that receives a newer epoch. A message that is not listed has no fence. `election.fencing` evaluates the
table.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_early as early
from elfmesh.control.protocol import messages_parts as parts
from elfmesh.control.protocol import messages_safety as safety
from elfmesh.control.protocol import messages_standby as standby
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.machine import Contact, Message

Handlers = dict[type[Message], Callable[[Contact, Any, bytes], None]]
"""Handlers of a component's messages by type; their arguments are the sender, the message and its payload."""

Notified = Literal["sender", "master", "none"]
"""Agent that receives the newer epoch: the sender of the message (none for a multicast), or the master that
the message names."""


class By(Enum):
    """Condition on the epoch of a message."""

    EPOCH = "at least the highest known one of the job; a higher one ends an earlier term here"
    EACH = "EPOCH for each job of the message; outdated ones are removed"
    LEARNED = "as EPOCH, but the message is handled in any case"
    TERM = "the epoch of this agent's own term as the job's master"
    ROSTER = "the roster epoch of this agent's own term as the job's master"


class Fence(NamedTuple):
    """The fence of one message."""

    by: By
    job: Callable[[Any], bytes]
    epoch: Callable[[Any], int]
    notified: Notified = "none"


def _fence(by: By, job: str, epoch: str, notified: Notified = "none") -> Fence:
    return Fence(by, attrgetter(job), attrgetter(epoch), notified)


FENCES: dict[type[Message], Fence] = {
    ctl.Announce: _fence(By.EPOCH, "manifest.job_id", "epoch", "master"),
    ctl.Roster: _fence(By.EPOCH, "terms.manifest.job_id", "terms.epoch", "sender"),
    ctl.Mark: _fence(By.EPOCH, "job", "epoch"),
    ctl.Stop: _fence(By.EPOCH, "job", "epoch", "sender"),
    ctl.Fenced: _fence(By.EPOCH, "job", "epoch"),
    ctl.Running: _fence(By.EACH, "manifest.job_id", "epoch"),
    parts.PartRoot: _fence(By.EPOCH, "job", "epoch", "master"),
    parts.TreeOrder: _fence(By.EPOCH, "job", "epoch", "sender"),
    parts.PartRequest: _fence(By.EPOCH, "job", "epoch", "sender"),
    safety.Verify: _fence(By.EPOCH, "manifest.job_id", "epoch", "sender"),
    safety.Surrender: _fence(By.EPOCH, "job", "epoch", "master"),
    standby.ContributionRequest: _fence(By.EPOCH, "job", "epoch", "sender"),
    versions.Rehearse: _fence(By.EPOCH, "manifest.job_id", "epoch"),
    succession.Replica: _fence(By.EPOCH, "terms.manifest.job_id", "terms.epoch", "sender"),
    succession.Handover: _fence(By.EPOCH, "terms.manifest.job_id", "terms.epoch", "sender"),
    succession.Known: _fence(By.LEARNED, "job", "epoch"),
    ctl.Announced: _fence(By.TERM, "job", "epoch"),
    ctl.RosterAck: _fence(By.TERM, "job", "epoch"),
    ctl.Waiting: _fence(By.TERM, "job", "epoch"),
    ctl.Rate: _fence(By.TERM, "job", "epoch"),
    early.Early: _fence(By.TERM, "job", "epoch"),
    standby.Prefix: _fence(By.TERM, "job", "epoch"),
    standby.Shipping: _fence(By.TERM, "job", "epoch"),
    parts.PartFault: _fence(By.ROSTER, "job", "roster_epoch"),
    parts.Part: _fence(By.ROSTER, "job", "segment.epoch"),
    parts.SitePart: _fence(By.TERM, "job", "epoch"),
    safety.KeptCopy: _fence(By.TERM, "copy.job", "epoch"),
}
