"""Which messages are fenced, and by what (D-5).

Owns one line per fenced message: where it says its job and its epoch, what that epoch must be, and who learns
that it is outdated. A message that is not listed has no fence. What a fence does is `election.fencing`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_parts as parts
from elfmesh.control.protocol import messages_safety as safety
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.machine import Contact, Message

Handlers = dict[type[Message], Callable[[Contact, Any, bytes], None]]
"""What a part does with each of its messages: by type, of the sender, the message and its payload."""

Notified = Literal["sender", "master", "nobody"]
"""Who learns the newer epoch: the sender of the message (of a multicast, no agent), or the master it
names."""


class By(Enum):
    """What the epoch of a message must be."""

    EPOCH = "at least the highest seen of the job; a higher one ends an older term here"
    EACH = "the same for each job of the message; outdated ones are left out"
    LEARNED = "as for EPOCH, but the message is handled in any case"
    TERM = "the epoch of this agent's own term as the job's master"


class Fence(NamedTuple):
    """The fence of one message."""

    by: By
    job: Callable[[Any], bytes]
    epoch: Callable[[Any], int]
    notified: Notified = "nobody"


def _fence(by: By, job: str, epoch: str, notified: Notified = "nobody") -> Fence:
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
    safety.Verify: _fence(By.EPOCH, "manifest.job_id", "epoch", "sender"),
    safety.Surrender: _fence(By.EPOCH, "job", "epoch", "master"),
    versions.Rehearse: _fence(By.EPOCH, "manifest.job_id", "epoch"),
    succession.Replica: _fence(By.EPOCH, "terms.manifest.job_id", "terms.epoch", "sender"),
    succession.Handover: _fence(By.EPOCH, "terms.manifest.job_id", "terms.epoch", "sender"),
    succession.Known: _fence(By.LEARNED, "job", "epoch"),
    ctl.Announced: _fence(By.TERM, "job", "epoch"),
    ctl.RosterAck: _fence(By.TERM, "job", "epoch"),
    ctl.Waiting: _fence(By.TERM, "job", "epoch"),
    ctl.Rate: _fence(By.TERM, "job", "epoch"),
    parts.PartFault: _fence(By.TERM, "job", "epoch"),
    parts.Part: _fence(By.TERM, "job", "segment.epoch"),
    safety.KeptCopy: _fence(By.TERM, "copy.job", "epoch"),
}
